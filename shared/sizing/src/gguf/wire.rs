//! The bytes of a GGUF header: magic, version, counts, then keys with typed values.
//!
//! Source: the GGUF specification in ggml's documentation, versions 2 and 3, little endian. Nothing is allocated before the
//! bytes behind it are there; what the reader does not need (tokens, merges, templates) is walked and not kept.

use std::collections::BTreeMap;

use crate::{Error, Result};

/// The first four bytes of every GGUF file.
pub(super) const MAGIC: &[u8; 4] = b"GGUF";

/// Metadata beyond it is a mistake: the largest real vocabularies take a tenth of it.
const LARGEST_METADATA: u64 = 256 << 20;

/// Real files have some dozens of keys.
const MOST_KEYS: u64 = 10_000;

/// A length that the specification sets.
const LONGEST_KEY: u64 = 65_535;

/// Longer numeric lists are about tokens, not layers.
const LONGEST_LIST: u64 = 10_000;

/// Longer texts are templates.
const LONGEST_TEXT: usize = 4096;

/// The metadata of a file, by key.
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) entries: BTreeMap<String, Entry>,
}

/// One value and where it stands.
#[derive(Debug)]
pub(super) struct Entry {
    /// Byte offset of the value in the file.
    pub(super) offset: u64,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    One(Scalar),
    List(Vec<Scalar>),
    Text(String),
    /// Walked and not kept; what it was.
    Skipped(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Flag(bool),
}

/// Why parsing stopped before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// The prefix is too short; the file's first `n` bytes are needed at least.
    Needs(u64),
    Bad(Error),
}

type Parsed<T> = std::result::Result<T, Stop>;

/// Reads the metadata from the first bytes of a file. `file_bytes` is the length of the whole file, where it is known.
pub(super) fn parse(prefix: &[u8], file_bytes: Option<u64>) -> Parsed<Metadata> {
    let mut cursor = Cursor { bytes: prefix, at: 0, file_bytes, key: String::new() };
    if cursor.take(4, "the magic")? != MAGIC {
        return Err(Stop::Bad(Error::syntax("byte 0: not a GGUF file; it does not begin with \"GGUF\"")));
    }
    check_version(cursor.u32("the version")?).map_err(Stop::Bad)?;
    cursor.u64("the tensor count")?;
    let keys = cursor.u64("the key count")?;
    if keys > MOST_KEYS {
        return Err(cursor.bad(format!("{keys} keys are more than the {MOST_KEYS} that are accepted")));
    }
    let mut entries = BTreeMap::new();
    for _ in 0..keys {
        let key = cursor.key()?;
        cursor.key.clone_from(&key);
        let kind = Kind::of(cursor.u32("the type of the value")?).map_err(|what| cursor.bad(what))?;
        let offset = cursor.at;
        let value = cursor.value(kind, &key)?;
        if entries.insert(key, Entry { offset, value }).is_some() {
            return Err(cursor.bad("the key stands twice in the file".to_owned()));
        }
        cursor.key.clear();
    }
    Ok(Metadata { entries })
}

fn check_version(version: u32) -> Result<()> {
    match version {
        2 | 3 => Ok(()),
        1 => Err(Error::syntax(
            "byte 4: GGUF version 1 (of August 2023) is not read; convert the model again to version 3",
        )),
        0x0200_0000 | 0x0300_0000 => Err(Error::syntax(
            "byte 4: a big-endian GGUF file is not read; convert the model for a little-endian machine",
        )),
        other => {
            Err(Error::syntax(format!("byte 4: GGUF version {other} is unknown; versions 2 and 3 are read")))
        }
    }
}

/// The types of values, by their numbers in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Unsigned(u64),
    Signed(u64),
    Float(u64),
    Flag,
    Text,
    List,
}

impl Kind {
    fn of(number: u32) -> std::result::Result<Self, String> {
        Ok(match number {
            0 => Self::Unsigned(1),
            1 => Self::Signed(1),
            2 => Self::Unsigned(2),
            3 => Self::Signed(2),
            4 => Self::Unsigned(4),
            5 => Self::Signed(4),
            6 => Self::Float(4),
            7 => Self::Flag,
            8 => Self::Text,
            9 => Self::List,
            10 => Self::Unsigned(8),
            11 => Self::Signed(8),
            12 => Self::Float(8),
            other => return Err(format!("value type {other} is unknown; types 0 to 12 are defined")),
        })
    }

    /// Bytes of one value, where all have the same.
    fn width(self) -> Option<u64> {
        match self {
            Self::Unsigned(width) | Self::Signed(width) | Self::Float(width) => Some(width),
            Self::Flag => Some(1),
            Self::Text | Self::List => None,
        }
    }
}

struct Cursor<'b> {
    bytes: &'b [u8],
    at: u64,
    file_bytes: Option<u64>,
    /// The key whose value is being read, for messages.
    key: String,
}

impl<'b> Cursor<'b> {
    fn bad(&self, what: String) -> Stop {
        let place = format!("byte {}", self.at);
        Stop::Bad(match self.key.as_str() {
            "" => Error::field(place, what),
            key => Error::field(format!("{key} ({place})"), what),
        })
    }

    /// The next `count` bytes. Asks for more of the file only where the file can have them.
    fn take(&mut self, count: u64, what: &str) -> Parsed<&'b [u8]> {
        let end = self
            .at
            .checked_add(count)
            .ok_or_else(|| self.bad(format!("{what} claims {count} bytes, beyond any file")))?;
        if let Some(length) = self.file_bytes.filter(|length| end > *length) {
            return Err(self.bad(format!(
                "the file is cut short: {what} needs {count} bytes, and {} are left",
                length.saturating_sub(self.at)
            )));
        }
        if end > LARGEST_METADATA {
            return Err(self.bad(format!(
                "{what} would end beyond the {} MiB that are read of metadata",
                LARGEST_METADATA >> 20
            )));
        }
        let (Ok(from), Ok(to)) = (usize::try_from(self.at), usize::try_from(end)) else {
            return Err(self.bad(format!("{what} is beyond what this machine can address")));
        };
        let taken = self.bytes.get(from..to).ok_or(Stop::Needs(end))?;
        self.at = end;
        Ok(taken)
    }

    fn u32(&mut self, what: &str) -> Parsed<u32> {
        let bytes = self.take(4, what)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were taken")))
    }

    fn u64(&mut self, what: &str) -> Parsed<u64> {
        let bytes = self.take(8, what)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
    }

    fn key(&mut self) -> Parsed<String> {
        let length = self.u64("the length of a key")?;
        if length == 0 || length > LONGEST_KEY {
            return Err(self.bad(format!("a key of {length} bytes; keys have 1 to {LONGEST_KEY}")));
        }
        let start = self.at;
        let bytes = self.take(length, "a key")?;
        if let Ok(key) = std::str::from_utf8(bytes) {
            return Ok(key.to_owned());
        }
        self.at = start;
        Err(self.bad("a key that is not UTF-8".to_owned()))
    }

    fn value(&mut self, kind: Kind, key: &str) -> Parsed<Value> {
        match kind {
            Kind::Text => self.text(),
            Kind::List => self.list(key),
            _ => Ok(Value::One(self.scalar(kind)?)),
        }
    }

    fn text(&mut self) -> Parsed<Value> {
        let length = self.u64("the length of a text")?;
        let bytes = self.take(length, "a text")?;
        if bytes.len() > LONGEST_TEXT {
            return Ok(Value::Skipped(format!("a text of {length} bytes")));
        }
        Ok(match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Skipped("a text that is not UTF-8".to_owned()),
        })
    }

    fn list(&mut self, key: &str) -> Parsed<Value> {
        let kind = Kind::of(self.u32("the type of a list")?).map_err(|what| self.bad(what))?;
        let count = self.u64("the length of a list")?;
        let Some(width) = kind.width() else {
            if kind == Kind::List {
                return Err(self.bad("a list of lists; only lists of plain values are read".to_owned()));
            }
            return self.skip_texts(count);
        };
        let bytes = count
            .checked_mul(width)
            .ok_or_else(|| self.bad(format!("a list of {count} values is beyond any file")))?;
        if count > LONGEST_LIST || key.starts_with("tokenizer.") {
            self.take(bytes, "a list")?;
            return Ok(Value::Skipped(format!("a list of {count} values")));
        }
        // Asks for the bytes first, so that the list is no larger than what is there.
        let start = self.at;
        self.take(bytes, "a list")?;
        self.at = start;
        (0..count).map(|_| self.scalar(kind)).collect::<Parsed<Vec<_>>>().map(Value::List)
    }

    fn skip_texts(&mut self, count: u64) -> Parsed<Value> {
        // Each has at least its length, so a false count is found before it is walked.
        let start = self.at;
        let least = count
            .checked_mul(8)
            .ok_or_else(|| self.bad(format!("a list of {count} texts is beyond any file")))?;
        self.take(least, "a list of texts")?;
        self.at = start;
        for _ in 0..count {
            let length = self.u64("the length of a text")?;
            self.take(length, "a text")?;
        }
        Ok(Value::Skipped(format!("a list of {count} texts")))
    }

    fn scalar(&mut self, kind: Kind) -> Parsed<Scalar> {
        let start = self.at;
        let width = kind.width().expect("texts and lists are read elsewhere");
        let raw = self.take(width, "a value")?;
        let mut wide = [0_u8; 8];
        wide[..raw.len()].copy_from_slice(raw);
        let bits = u64::from_le_bytes(wide);
        Ok(match kind {
            Kind::Unsigned(_) => Scalar::Unsigned(bits),
            Kind::Signed(width) => {
                let unused = 64 - 8 * width;
                Scalar::Signed(bits.cast_signed() << unused >> unused)
            }
            Kind::Float(4) => {
                Scalar::Float(f64::from(f32::from_le_bytes(raw.try_into().expect("four bytes were taken"))))
            }
            Kind::Float(_) => Scalar::Float(f64::from_bits(bits)),
            Kind::Flag if bits > 1 => {
                self.at = start;
                return Err(self.bad(format!("{bits} is neither false (0) nor true (1)")));
            }
            Kind::Flag => Scalar::Flag(bits == 1),
            Kind::Text | Kind::List => unreachable!("they have no fixed width"),
        })
    }
}
