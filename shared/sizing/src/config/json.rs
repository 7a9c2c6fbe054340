//! JSON as Python's `json` module reads and writes it: with `NaN`, `Infinity` and `-Infinity`, which are not JSON, and
//! the last of several values where a key stands twice.

mod tree;

use serde_json::Value;

use crate::{Error, Result};
pub(super) use tree::{Special, Text, Twice};

/// A config's text as a value, the keys that stand in it twice with different values, and the special numbers, which are
/// null in the value.
pub(super) fn parse(text: &str) -> Result<Text> {
    let whole = text.len();
    let text = text.trim_start_matches('\u{feff}');
    let mark = whole - text.len();
    if text.trim().is_empty() {
        return Err(Error::syntax("the file is empty; expected a config.json"));
    }
    let first = match tree::read(text) {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    if let Some(plain) = with_marked_numbers(text)
        && let Ok(read) = tree::read(&plain)
    {
        return Ok(read);
    }
    let place = format!("byte {}, line {}", mark + offset(text, &first), first.line());
    if first.to_string().starts_with("recursion limit") {
        return Err(Error::syntax(format!("nested too deeply at {place}; expected a config.json")));
    }
    Err(Error::syntax(format!("not valid JSON at {place}; expected a config.json")))
}

/// Where the reader stopped, in bytes from 0; the end of the text where that came too early.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let before = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    before + error.column().saturating_sub(1)
}

/// A text that is JSON to the letter. Other files than configs come through the same reader, so that the page carries one.
pub(crate) fn read_value(text: &str) -> serde_json::Result<Value> {
    tree::read(text).map(|read| read.value)
}

/// The text with a marked string for every special number outside strings; `None` where there is none.
fn with_marked_numbers(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut changed = false;
    while let Some(start) = rest.find(['"', 'N', 'I', '-']) {
        plain.push_str(&rest[..start]);
        rest = &rest[start..];
        let special = tree::SPECIAL.into_iter().find(|word| rest.starts_with(word));
        let taken = match (special, rest.starts_with('"')) {
            (Some(word), _) => {
                plain.push_str(&Value::from(format!("{}{word}", tree::MARK)).to_string());
                changed = true;
                rest = &rest[word.len()..];
                continue;
            }
            (None, true) => end_of_string(rest)?,
            (None, false) => 1,
        };
        plain.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    plain.push_str(rest);
    changed.then_some(plain)
}

/// Bytes of the string literal that `text` starts with, quotes included.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(index + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_numbers_outside_strings_read_as_null() {
        let read =
            parse(r#"{"a": [0.0, Infinity, -Infinity], "b": NaN, "NaN": "-Infinity \" NaN", "c": -3}"#)
                .unwrap();
        let right =
            serde_json::json!({"a": [0.0, null, null], "b": null, "NaN": "-Infinity \" NaN", "c": -3});
        assert_eq!(read.value, right);
        let found: Vec<(&str, &str)> =
            read.special.iter().map(|special| (special.path.as_str(), special.word)).collect();
        assert_eq!(found, [("a[1]", "Infinity"), ("a[2]", "-Infinity"), ("b", "NaN")]);
    }

    #[test]
    fn what_is_no_json_stays_refused() {
        for text in ["{\"a\": Infinit}", "NaN}", "{\"a", "{\"a\": \"NaN"] {
            assert!(parse(text).unwrap_err().to_string().contains("not valid JSON"), "{text}");
        }
        assert!(parse("\u{feff}{}").is_ok());
    }

    /// Offsets counted by hand; a byte order mark is three bytes.
    #[test]
    fn an_error_names_the_byte() {
        for (text, place) in [
            ("{\"a\": 1,\n", "byte 9, line 2"),
            ("{\"a\": x}", "byte 6, line 1"),
            ("{\n\"a\" 1}", "byte 6, line 2"),
            ("\u{feff}[x]", "byte 4, line 1"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("at {place};")), "{text:?}: {error}");
        }
    }
}
