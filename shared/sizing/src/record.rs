//! Records from JSON values: the one reader of runs, calibrations and catalogue files.
//!
//! A derived reader is written by the compiler once for each record and each source of JSON, which the page cannot
//! carry. Here a record is a list of its keys, and an error names the path of what is wrong.

use serde_json::{Map, Value};

use crate::config::read_value;
use crate::{Bytes, Error, Result, Tokens};

/// What is read from a JSON value. Keys that a record does not list are left unread.
pub trait FromJson: Sized {
    /// Reads one value.
    ///
    /// # Errors
    ///
    /// The path and what was expected there.
    fn from_json(value: &Value) -> Result<Self>;

    /// What a key that is absent stands for; none where it must be there.
    fn absent() -> Option<Self> {
        None
    }
}

/// Reads a text that holds one record.
///
/// # Errors
///
/// The line and column of what is no JSON, or the path of what the record does not allow.
pub fn read_record<T: FromJson>(text: &str) -> Result<T> {
    T::from_json(&read_json(text)?)
}

/// Reads a text that holds one JSON value.
///
/// # Errors
///
/// The line and column of what is no JSON.
pub fn read_json(text: &str) -> Result<Value> {
    read_value(text).map_err(|error| Error::syntax(error.to_string()))
}

/// Implements [`FromJson`] for a struct by its keys, and serde's `Deserialize` by it. Keys after `or default` may be
/// absent; fields after `flat` read their own keys from the same object. A field that is left out does not compile.
#[macro_export]
macro_rules! record {
    ($name:ident { $($key:ident),* $(; or default $($open:ident),+)? $(; flat $($flat:ident),+)? $(,)? }) => {
        impl $crate::record::FromJson for $name {
            fn from_json(value: &::serde_json::Value) -> $crate::Result<Self> {
                let object = $crate::record::object(value)?;
                Ok(Self {
                    $($key: $crate::record::field(object, stringify!($key))?,)*
                    $($($open: $crate::record::field_or_default(object, stringify!($open))?,)+)?
                    $($($flat: $crate::record::FromJson::from_json(value)?,)+)?
                })
            }
        }

        $crate::deserialize_record!($name);
    };
}

/// Implements [`FromJson`] for an enum of words, given the function that names a variant.
#[macro_export]
macro_rules! word_record {
    ($name:ident, $word:ident, [$($variant:ident),+]) => {
        impl $crate::record::FromJson for $name {
            fn from_json(value: &::serde_json::Value) -> $crate::Result<Self> {
                let words = &[$(Self::$variant.$word()),+];
                Ok([$(Self::$variant),+][$crate::record::place_of_word(value, words)?])
            }
        }

        $crate::deserialize_record!($name);
    };
}

/// Serde's `Deserialize` by [`FromJson`], for whoever reads other records around it.
#[doc(hidden)]
#[macro_export]
macro_rules! deserialize_record {
    ($name:ident) => {
        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = <::serde_json::Value as ::serde::Deserialize>::deserialize(deserializer)?;
                $crate::record::FromJson::from_json(&value).map_err(::serde::de::Error::custom)
            }
        }
    };
}

/// The object that a value is.
///
/// # Errors
///
/// A value of another kind.
pub fn object(value: &Value) -> Result<&Map<String, Value>> {
    value.as_object().ok_or_else(|| expected("an object", value))
}

/// One field of an object.
///
/// # Errors
///
/// A key that is missing, or what its value's reader says, with the path.
pub fn field<T: FromJson>(object: &Map<String, Value>, key: &str) -> Result<T> {
    match object.get(key) {
        Some(value) => T::from_json(value).map_err(|error| error.below(key)),
        None => T::absent().ok_or_else(|| Error::field(key, "missing")),
    }
}

/// One field of an object that may lack it.
///
/// # Errors
///
/// What its value's reader says, with the path.
pub fn field_or_default<T: FromJson + Default>(object: &Map<String, Value>, key: &str) -> Result<T> {
    match object.get(key) {
        Some(value) => T::from_json(value).map_err(|error| error.below(key)),
        None => Ok(T::default()),
    }
}

/// Which of several words a value is.
///
/// # Errors
///
/// A value that is none of them.
pub fn place_of_word(value: &Value, words: &[&str]) -> Result<usize> {
    let place = value.as_str().and_then(|word| words.iter().position(|known| *known == word));
    place.ok_or_else(|| expected(&format!("one of {}", words.join(", ")), value))
}

#[cold]
fn expected(what: &str, found: &Value) -> Error {
    let found = match found {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        plain => plain.to_string(),
    };
    Error::field("", format!("expected {what}, found {found}"))
}

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(value: &Value) -> Result<Self> {
        if value.is_null() { Ok(None) } else { T::from_json(value).map(Some) }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(value: &Value) -> Result<Self> {
        let values = value.as_array().ok_or_else(|| expected("a list", value))?;
        let mut list = Self::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            list.push(T::from_json(value).map_err(|error| error.below(&format!("[{index}]")))?);
        }
        Ok(list)
    }
}

impl<T: FromJson> FromJson for Box<T> {
    fn from_json(value: &Value) -> Result<Self> {
        T::from_json(value).map(Self::new)
    }
}

impl FromJson for Value {
    fn from_json(value: &Value) -> Result<Self> {
        Ok(value.clone())
    }
}

impl FromJson for String {
    fn from_json(value: &Value) -> Result<Self> {
        value.as_str().map(str::to_owned).ok_or_else(|| expected("a text", value))
    }
}

impl FromJson for bool {
    fn from_json(value: &Value) -> Result<Self> {
        value.as_bool().ok_or_else(|| expected("true or false", value))
    }
}

impl FromJson for f64 {
    fn from_json(value: &Value) -> Result<Self> {
        value.as_f64().ok_or_else(|| expected("a number", value))
    }
}

impl FromJson for u64 {
    fn from_json(value: &Value) -> Result<Self> {
        value.as_u64().ok_or_else(|| expected("a whole number", value))
    }
}

impl FromJson for u32 {
    fn from_json(value: &Value) -> Result<Self> {
        let number = value.as_u64().and_then(|number| Self::try_from(number).ok());
        number.ok_or_else(|| expected("a whole number below 2^32", value))
    }
}

impl FromJson for usize {
    fn from_json(value: &Value) -> Result<Self> {
        let number = value.as_u64().and_then(|number| Self::try_from(number).ok());
        number.ok_or_else(|| expected("a count", value))
    }
}

impl FromJson for Bytes {
    fn from_json(value: &Value) -> Result<Self> {
        u64::from_json(value).map(Self::new)
    }
}

impl FromJson for Tokens {
    fn from_json(value: &Value) -> Result<Self> {
        u64::from_json(value).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Inner {
        size: Bytes,
        share: Option<f64>,
    }

    #[derive(Debug, PartialEq)]
    struct Outer {
        name: String,
        parts: Vec<Inner>,
        notes: Vec<String>,
        place: Place,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Place {
        Near,
        Far,
    }

    #[derive(Debug, PartialEq)]
    struct Around {
        year: u32,
        inner: Inner,
    }

    impl Place {
        const fn word(self) -> &'static str {
            match self {
                Self::Near => "near",
                Self::Far => "far",
            }
        }
    }

    record!(Inner { size, share });
    record!(Outer { name, parts, place; or default notes });
    record!(Around { year; flat inner });
    word_record!(Place, word, [Near, Far]);

    #[test]
    fn a_record_is_read_by_its_keys_through_either_door() {
        let text =
            r#"{"name": "a", "parts": [{"size": 7}, {"size": 8, "share": 1}], "place": "far", "more": 1}"#;
        let right = Outer {
            name: "a".to_owned(),
            parts: vec![
                Inner { size: Bytes::new(7), share: None },
                Inner { size: Bytes::new(8), share: Some(1.0) },
            ],
            notes: Vec::new(),
            place: Place::Far,
        };
        assert_eq!(read_record::<Outer>(text).unwrap(), right);
        assert_eq!(serde_json::from_str::<Outer>(text).unwrap(), right);
        let around = read_record::<Around>(r#"{"year": 1, "size": 2, "share": null}"#).unwrap();
        assert_eq!(around, Around { year: 1, inner: Inner { size: Bytes::new(2), share: None } });
    }

    #[test]
    fn an_error_names_the_path_and_what_was_expected() {
        for (text, sentence) in [
            (r#"{"name": 1}"#, "name: expected a text, found 1"),
            (r#"{"name": "a"}"#, "parts: missing"),
            (r#"{"name": "a", "parts": {}}"#, "parts: expected a list, found an object"),
            (r#"{"name": "a", "parts": [{"size": 1}, {}]}"#, "parts[1].size: missing"),
            (r#"{"name": "a", "parts": [{"size": -1}]}"#, "parts[0].size: expected a whole number, found -1"),
            (r#"{"name": "a", "parts": [[]]}"#, "parts[0]: expected an object, found a list"),
            (
                r#"{"name": "a", "parts": [], "place": "here"}"#,
                "place: expected one of near, far, found \"here\"",
            ),
            (
                r#"{"name": "a", "parts": [], "place": "far", "notes": null}"#,
                "notes: expected a list, found null",
            ),
        ] {
            assert_eq!(read_record::<Outer>(text).unwrap_err().to_string(), sentence);
            let through_serde = serde_json::from_str::<Outer>(text).unwrap_err().to_string();
            assert!(through_serde.starts_with(sentence), "{through_serde}");
        }
        let broken = read_record::<Outer>("{\"name\"\n 1}").unwrap_err().to_string();
        assert!(broken.contains("line 2"), "{broken}");
    }
}
