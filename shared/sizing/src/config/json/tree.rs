use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

/// A key that stands twice in one object, with different values.
#[derive(Debug, PartialEq)]
pub(in crate::config) struct Twice {
    /// The JSON path of its value.
    pub(in crate::config) path: String,
    /// The value that is dropped.
    pub(in crate::config) dropped: Value,
    /// The value that is taken: the later one.
    pub(in crate::config) taken: Value,
}

/// A special number where JSON has none.
#[derive(Debug, PartialEq)]
pub(in crate::config) struct Special {
    /// The JSON path of its value.
    pub(in crate::config) path: String,
    /// As it stands in the text.
    pub(in crate::config) word: &'static str,
}

/// What a text holds.
#[derive(Debug)]
pub(in crate::config) struct Text {
    pub(in crate::config) value: Value,
    pub(in crate::config) twice: Vec<Twice>,
    pub(in crate::config) special: Vec<Special>,
}

/// The special numbers of Python's `json`.
pub(super) const SPECIAL: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Before the word of a special number that stands as a string. No field of a config begins so.
pub(super) const MARK: &str = "\0";

/// Reads one value that takes up the whole text.
pub(super) fn read(text: &str) -> serde_json::Result<Text> {
    let found = Found::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Node { place: &Place::Root, found: &found }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(Text { value, twice: found.twice.into_inner(), special: found.special.into_inner() })
}

/// What is found on the way.
#[derive(Default)]
struct Found {
    twice: RefCell<Vec<Twice>>,
    special: RefCell<Vec<Special>>,
}

/// Where a value stands, written out only for the keys that stand twice.
enum Place<'a> {
    Root,
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(outer, key) => write!(f, "{outer}.{key}"),
            Self::Index(outer, index) => write!(f, "{outer}[{index}]"),
        }
    }
}

/// One value that is about to be read.
#[derive(Clone, Copy)]
struct Node<'a> {
    place: &'a Place<'a>,
    found: &'a Found,
}

impl Node<'_> {
    /// A special number's word is null, and taken down.
    fn of_text(self, text: &str) -> Option<Value> {
        let word = text.strip_prefix(MARK)?;
        let word = SPECIAL.into_iter().find(|known| *known == word)?;
        self.found.special.borrow_mut().push(Special { path: self.place.to_string(), word });
        Some(Value::Null)
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(self.of_text(value).unwrap_or_else(|| value.into()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        loop {
            let place = Place::Index(self.place, values.len());
            let Some(value) = list.next_element_seed(Node { place: &place, ..self })? else {
                return Ok(values.into());
            };
            values.push(value);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            let place = Place::Key(self.place, &key);
            let value = object.next_value_seed(Node { place: &place, ..self })?;
            let path = || place.to_string();
            if let Some(known) = map.get(&key).filter(|known| **known != value) {
                let (dropped, taken) = (known.clone(), value.clone());
                self.found.twice.borrow_mut().push(Twice { path: path(), dropped, taken });
            }
            match map.entry(key) {
                Entry::Vacant(free) => drop(free.insert(value)),
                Entry::Occupied(mut known) => drop(known.insert(value)),
            }
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_read_is_what_the_library_reads() {
        let text =
            r#"{"a": [1, -2, 2.5, 1e3, true, null, "é\n", {"b": {}}], "c": 18446744073709551616, "d": []}"#;
        let Text { value, twice, special } = read(text).unwrap();
        assert_eq!((value, special), (serde_json::from_str::<Value>(text).unwrap(), Vec::new()));
        assert_eq!(twice, []);
        for broken in ["{", "[1,]", "{} {}", "{\"a\" 1}", "", "1e999"] {
            let ours = read(broken).unwrap_err();
            let theirs = serde_json::from_str::<Value>(broken).unwrap_err();
            assert_eq!((ours.line(), ours.column()), (theirs.line(), theirs.column()), "{broken}");
        }
        assert!(read(&"[".repeat(100_000)).unwrap_err().to_string().starts_with("recursion limit"));
    }

    #[test]
    fn a_key_that_stands_twice_is_named_by_its_path_and_the_last_value_is_taken() {
        let text = r#"{"a": 1, "b": [{"c": 2, "c": 3}], "a": 1, "d": {"e": 1}, "d": {"e": 2}}"#;
        let Text { value, twice, .. } = read(text).unwrap();
        assert_eq!(value, json!({"a": 1, "b": [{"c": 3}], "d": {"e": 2}}));
        let paths: Vec<&str> = twice.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["b[0].c", "d"]);
        assert_eq!((&twice[0].dropped, &twice[0].taken), (&json!(2), &json!(3)));
    }
}
