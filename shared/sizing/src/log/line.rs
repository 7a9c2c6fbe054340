//! The lines of a log without colours, with the rank that printed each, and a small reader for what stands in them.

use super::grams::Grams;
use super::printed::Decimal;

/// Bytes of a line that are looked at: argument lists have some tens of thousands; no known line is longer.
const LONGEST_LINE: usize = 256 << 10;

/// One line of a log.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Its number in the file, from 1.
    pub(super) number: usize,
    /// The text without colours.
    pub(super) text: String,
    /// Which short pieces the text has.
    grams: Grams,
    /// Whether it has lost its end: the last line of a file without a line break may have, and one that is too long has.
    cut: bool,
    /// Whether it is too long to be looked at in full.
    pub(super) is_shortened: bool,
}

/// A place in a line, to read on from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan<'l> {
    text: &'l str,
    at: usize,
    cut: bool,
}

/// Splits a log into lines. Progress bars return to the start of their line, so a carriage return ends one too; it
/// does not count in the numbering, which is that of an editor.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let ends_open = !text.ends_with(['\n', '\r']);
    let mut found = Vec::new();
    for (index, raw) in text.split('\n').enumerate() {
        for part in raw.split('\r').filter(|part| !part.trim().is_empty()) {
            found.push(Line::new(index + 1, part));
        }
    }
    if ends_open && let Some(last) = found.last_mut() {
        last.cut = true;
    }
    found
}

/// What a program printed, where a collector of logs keeps each line as a JSON object (Docker's `json-file` driver: `log`).
fn printed_in_json(line: &str) -> Option<String> {
    let line = line.trim();
    if !line.starts_with('{') || !line.ends_with('}') {
        return None;
    }
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let text = ["log", "message", "msg"].into_iter().find_map(|key| match object.remove(key) {
        Some(serde_json::Value::String(text)) => Some(text),
        _ => None,
    })?;
    Some(text.trim_end().to_owned())
}

impl Line {
    fn new(number: usize, printed: &str) -> Self {
        let seen = &printed[..printed.floor_char_boundary(LONGEST_LINE)];
        let is_shortened = seen.len() < printed.len();
        let text = match printed_in_json(seen) {
            Some(printed) => without_colours(&printed),
            None => without_colours(seen),
        };
        Self { number, grams: Grams::of(&text), text, cut: is_shortened, is_shortened }
    }

    /// Behind the first `marker`.
    pub(super) fn after(&self, marker: &str) -> Option<Scan<'_>> {
        if !self.has(marker) {
            return None;
        }
        let at = self.text.find(marker)? + marker.len();
        Some(Scan { text: &self.text, at, cut: self.cut })
    }

    /// The number that ends where `marker` begins, spaces between them apart, and where it begins.
    pub(super) fn number_before(&self, marker: &str) -> Option<(Decimal, usize)> {
        let at = self.after(marker)?.at - marker.len();
        let head = self.text[..at].trim_end();
        let start =
            head.rfind(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ','))).map_or(0, |at| at + 1);
        // A sign or a bracket in front is one byte; anything longer is no place to cut at.
        let text = head.get(start..)?;
        // Where a log begins, a number may have lost its first digits.
        if start == 0 && self.number == 1 {
            return None;
        }
        let mut scan = Scan { text, at: 0, cut: false };
        let number = scan.number()?;
        (scan.at == text.len()).then_some((number, start))
    }

    pub(super) fn has(&self, words: &str) -> bool {
        self.grams.may_have(words) && self.text.contains(words)
    }

    /// The value of `key` in an argument list: `key=value`, `'key': value`, `key = value`, `--key value`. Quotes are
    /// taken off; nothing is returned for a value that the end of the file may have cut.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        let dashed = key.replace('_', "-");
        self.value_of(key).or_else(|| self.value_of(&dashed).filter(|_| dashed != key))
    }

    fn value_of(&self, key: &str) -> Option<&str> {
        if !self.grams.may_have(key) {
            return None;
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for (at, _) in self.text.match_indices(key) {
            let before = &self.text[..at];
            if before.ends_with(is_name) || (before.ends_with('-') && !before.ends_with("--")) {
                continue;
            }
            let rest = &self.text[at + key.len()..];
            let quoted = rest.strip_prefix(['\'', '"']).unwrap_or(rest);
            let trimmed = quoted.trim_start();
            let value = match trimmed.strip_prefix(['=', ':']) {
                Some(value) => value.trim_start(),
                None if before.ends_with("--") && trimmed.len() < quoted.len() => trimmed,
                None => continue,
            };
            return self.unquoted(value);
        }
        None
    }

    /// A quoted text, or a word up to the next separator.
    pub(super) fn unquoted<'v>(&self, value: &'v str) -> Option<&'v str> {
        if let Some(quote) = value.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            return value[1..].split_once(quote).map(|(inside, _)| inside);
        }
        let end = value.find(|c: char| c.is_whitespace() || matches!(c, ',' | ')' | '}' | ']' | ';'));
        match end {
            Some(end) => Some(&value[..end]),
            None if self.cut => None,
            None => Some(value),
        }
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.is_empty())
    }

    /// The process that printed the line, from what stands before `end`: 120 of `(EngineCore pid=120)`.
    pub(super) fn process(&self, end: usize) -> Option<u64> {
        let (_, behind) = self.text.get(..end)?.split_once(" pid=")?;
        behind.split_once(')')?.0.parse().ok()
    }

    /// The rank that printed the line, from what stands before `end`: `TP3`, `DP1 TP0`, `PP0 TP1`, `rank 2`; empty
    /// where nothing tells ranks apart.
    pub(super) fn rank(&self, end: usize) -> String {
        let head = self.text.get(..end).unwrap_or("");
        let mut names: Vec<String> = Vec::new();
        for kind in ["DP", "PP", "TP", "EP", "rank=", "rank"] {
            for (at, _) in head.match_indices(kind) {
                let free = !head[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
                let digits: String =
                    head[at + kind.len()..].chars().take_while(char::is_ascii_digit).take(6).collect();
                if !free || digits.is_empty() {
                    continue;
                }
                let name = format!("{}{digits}", if kind.len() == 2 { kind } else { "rank " });
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names.join(" ")
    }
}

impl<'l> Scan<'l> {
    /// Where it stands in the line.
    pub(super) fn at(self) -> usize {
        self.at
    }

    fn rest(self) -> &'l str {
        &self.text[self.at..]
    }

    pub(super) fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Steps over `word`, spaces in front of it apart.
    pub(super) fn expect(&mut self, word: &str) -> Option<()> {
        self.skip_spaces();
        if !self.rest().starts_with(word) {
            return None;
        }
        self.at += word.len();
        Some(())
    }

    /// Steps behind the next `word`.
    pub(super) fn seek(&mut self, word: &str) -> Option<()> {
        self.at += self.rest().find(word)? + word.len();
        Some(())
    }

    /// The text up to the next `end`, which is stepped over.
    pub(super) fn up_to(&mut self, end: &str) -> Option<&'l str> {
        let (text, _) = self.rest().split_once(end)?;
        self.at += text.len() + end.len();
        Some(text)
    }

    /// Whether a figure stands here that [`Self::number`] and `after` do not read: another sign, too many digits, another
    /// unit. Words are no figure, and what the end of the file may have cut is none that went wrong.
    pub(super) fn is_unreadable(mut self, after: &str) -> bool {
        self.skip_spaces();
        let rest = self.rest();
        let unsigned = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        let word = unsigned.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        let is_special = word.eq_ignore_ascii_case("nan") || word.eq_ignore_ascii_case("inf");
        let fraction = unsigned.strip_prefix('.').unwrap_or(unsigned);
        if !fraction.starts_with(|c: char| c.is_ascii_digit()) && !is_special {
            return false;
        }
        let is_part_of_one = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
        if self.cut && rest.trim_start_matches(is_part_of_one).is_empty() {
            return false;
        }
        if self.number().is_none() {
            return true;
        }
        self.skip_spaces();
        let unit = self.rest();
        !(unit.starts_with(after) || self.cut && after.starts_with(unit))
    }

    /// The word that begins here, shortened, for messages.
    pub(super) fn word(mut self) -> String {
        const LONGEST: usize = 24;
        self.skip_spaces();
        let word = self.rest().split_whitespace().next().unwrap_or_default();
        if word.chars().count() <= LONGEST {
            return word.to_owned();
        }
        word.chars().take(LONGEST).chain(['…']).collect()
    }

    /// A number without sign; commas may stand between groups of three digits. A number that the end of the file may
    /// have cut is none.
    pub(super) fn number(&mut self) -> Option<Decimal> {
        self.skip_spaces();
        let bytes = self.rest().as_bytes();
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let group = |at: usize| (1..=3).all(|step| is_digit(at + step)) && !is_digit(at + 4);
        let (mut at, mut digits, mut decimals, mut point) = (0, 0_u64, 0_u32, false);
        loop {
            match bytes.get(at) {
                Some(digit) if digit.is_ascii_digit() => {
                    digits = digits.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
                    decimals += u32::from(point);
                }
                Some(b',') if at > 0 && !point && group(at) => {}
                Some(b'.') if at > 0 && !point && is_digit(at + 1) => point = true,
                end => {
                    if at == 0 || (end.is_none() && self.cut) {
                        return None;
                    }
                    break;
                }
            }
            at += 1;
        }
        self.at += at;
        Decimal::new(digits, decimals)
    }
}

/// The text without escape sequences, also where the escape character itself was lost (`[0;36m`).
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\u{1b}', '[']) {
        plain.push_str(&rest[..at]);
        let found = &rest[at..];
        let length = if found.starts_with('\u{1b}') { escape(found) } else { bare_colour(found) };
        if length == 0 {
            plain.push('[');
        }
        rest = &found[length.max(1)..];
    }
    plain.push_str(rest);
    plain
}

/// Bytes of an escape sequence: `ESC [ … letter`, `ESC ] … BEL`, or `ESC` and one character.
fn escape(text: &str) -> usize {
    let body = &text[1..];
    let length = match body.as_bytes().first() {
        Some(b'[') => body[1..].find(|c: char| ('\u{40}'..='\u{7e}').contains(&c)).map(|end| end + 2),
        Some(b']') => body.find('\u{7}').map(|end| end + 1),
        _ => body.chars().next().map(char::len_utf8),
    };
    1 + length.unwrap_or(body.len())
}

fn bare_colour(text: &str) -> usize {
    let digits = text[1..].bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if digits > 0 && text[1 + digits..].starts_with('m') { digits + 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        lines(text).into_iter().next_back().unwrap()
    }

    #[test]
    fn numbers_are_read_as_engines_print_them() {
        let read = |text: &str| line(text).after("n:").unwrap().number().map(|number| number.to_string());
        assert_eq!(read("n: 290,864 tokens").as_deref(), Some("290,864"));
        assert_eq!(read("n:8.23GB").as_deref(), Some("8.23"));
        assert_eq!(read("n: 300288, K size").as_deref(), Some("300,288"));
        assert_eq!(read("n: 7,1234 x").as_deref(), Some("7"));
        assert_eq!(read("n: 2.\n").as_deref(), Some("2"));
        assert_eq!(read("n: -3\n"), None);
        assert_eq!(read("n: 99999999999999999999999 x"), None);
    }

    /// As Docker's `json-file` driver keeps a line, escapes and colours among them.
    #[test]
    fn lines_that_a_collector_keeps_as_json_are_what_was_printed() {
        let kept = r#"{"log":"\u001b[32mINFO\u001b[0m args: 'dtype': \"bf16\", max_num_batched_tokens=8192.\n","stream":"stderr"}"#;
        let printed = line(kept);
        assert_eq!(printed.text, r#"INFO args: 'dtype': "bf16", max_num_batched_tokens=8192."#);
        let whole = format!("{kept}\n");
        assert_eq!(line(&whole).value("max_num_batched_tokens"), Some("8192"));
        for plain in ["{'log': 1}", r#"{"log": 1}"#, r#"{"level": "info"}"#, r#"{"log":"cut"#] {
            assert_eq!(line(plain).text, plain);
        }
    }

    #[test]
    fn figures_that_cannot_be_read_are_told_from_words_and_cut_ends() {
        let unreadable = |text: &str| line(text).after("n:").unwrap().is_unreadable("GiB");
        for text in ["n: -3 GiB\n", "n: .5 GiB\n", "n: nan GiB\n", "n: 2 GB\n", "n: 1e9 GiB\n", "n: -3"] {
            assert!(unreadable(text), "{text}");
        }
        assert!(unreadable(&format!("n: {} GiB\n", "9".repeat(400))));
        for text in ["n: 3 GiB\n", "n: None\n", "n: - \n", "n: auto", "n: 2", "n: 2 G", "n: 2.", "n:\n"] {
            assert!(!unreadable(text), "{text}");
        }
    }

    #[test]
    fn of_an_endless_line_the_begin_is_read() {
        let endless = line(&format!("n=7, {}m=8\n", "é".repeat(LONGEST_LINE)));
        assert!(endless.is_shortened);
        assert_eq!(endless.value("n"), Some("7"));
        assert_eq!(endless.value("m"), None);
        assert!(!line(&"x".repeat(LONGEST_LINE)).is_shortened);
    }

    #[test]
    fn a_number_at_a_cut_end_is_none() {
        let read = |text: &str| line(text).after("n=").unwrap().number().is_some();
        assert!(!read("n=29086"));
        assert!(read("n=290864\n"));
        assert!(read("n=290864,"));
    }

    #[test]
    fn colours_go_and_brackets_stay() {
        let plain = |text: &str| line(text).text;
        assert_eq!(
            plain("\u{1b}[1;36m(EngineCore pid=1)\u{1b}[0;0m INFO [core.py:1] 3\n"),
            "(EngineCore pid=1) INFO [core.py:1] 3"
        );
        assert_eq!(plain("[0;36m(Worker)[0m [a] [12]\n"), "(Worker) [a] [12]");
        assert_eq!(plain("\u{1b}]0;title\u{7}x\u{1b}"), "x");
    }

    #[test]
    fn values_of_argument_lists() {
        let config = line(
            "config: model='Qwen/Qwen3-8B', max_seq_len=2048, 'tensor_parallel_size': 2, --block-size 32)\n",
        );
        assert_eq!(config.value("model"), Some("Qwen/Qwen3-8B"));
        assert_eq!(config.value("max_seq_len"), Some("2048"));
        assert_eq!(config.value("seq_len"), None);
        assert_eq!(config.value("tensor_parallel_size"), Some("2"));
        assert_eq!(config.value("block_size"), Some("32"));
        assert_eq!(line("tp_size=1").value("tp_size"), None, "the end may be cut");
        assert_eq!(line("a kv_unified    = true\n").value("kv_unified"), Some("true"));
    }

    #[test]
    fn ranks_by_their_prefix() {
        let rank = |text: &str| line(text).rank(text.len());
        assert_eq!(rank("(EngineCore_DP1 pid=120) (Worker_DP1_TP3 pid=9) INFO"), "DP1 TP3");
        assert_eq!(rank("[2026-01-31 13:50:39 DP0 TP2]"), "DP0 TP2");
        assert_eq!(rank("(VllmWorker rank=3 pid=5)"), "rank 3");
        assert_eq!(rank("(EngineCore pid=120) INFO"), "");
        assert_eq!(rank("HTTP1.1 STEP3"), "");
    }
}
