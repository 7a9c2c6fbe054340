//! The keys of one file, read by their name behind the architecture's prefix.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::irrelevant;
use super::wire::{Entry, Metadata, Scalar, Value};
use crate::config::{Unread, listed};
use crate::fact::{Fact, Source};
use crate::{Error, Result};

/// Lists whose last entries are of draft layers that the file leaves out (DeepSeek-V4).
const LISTS_DRAFTS: [&str; 1] = ["attention.compress_ratios"];

/// Keys whose values say yes or no for each layer. A flag in any other is no number: llama.cpp compares the types.
const FLAGS: [&str; 3] =
    ["attention.indexer.types", "attention.recurrent_layers", "attention.sliding_window_pattern"];

/// Larger than any real width, head count or length, and small enough that products of a few stay in 64 bits.
const LARGEST: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct Keys<'m> {
    metadata: &'m Metadata,
    architecture: &'m str,
    used: RefCell<BTreeSet<&'m str>>,
}

/// One value for all layers, or one for each.
#[derive(Clone, Debug)]
pub(super) struct PerLayer {
    key: String,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    All(u64),
    Each(Vec<u64>),
}

impl PerLayer {
    /// The value of layer `index`, which is below the layer count that the list was checked against.
    pub(super) fn at(&self, index: usize) -> Fact {
        match &self.values {
            Values::All(value) => Fact::new(*value, Source::field(self.key.clone())),
            Values::Each(values) => Fact::new(values[index], Source::field(format!("{}[{index}]", self.key))),
        }
    }

    /// Whether each layer has its own value.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.values, Values::Each(_))
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }
}

impl<'m> Keys<'m> {
    pub(super) fn new(metadata: &'m Metadata) -> Result<Self> {
        let architecture = match metadata.entries.get("general.architecture") {
            None => {
                return Err(Error::field(
                    "general.architecture",
                    "missing; without it no key of the model can be found",
                ));
            }
            Some(Entry { value: Value::Text(name), .. }) => name.as_str(),
            Some(entry) => return Err(wrong("general.architecture", entry, "a short text")),
        };
        Ok(Self { metadata, architecture, used: RefCell::default() })
    }

    pub(super) fn architecture(&self) -> &'m str {
        self.architecture
    }

    /// `qwen3.block_count` for `block_count`.
    pub(super) fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// The keys behind the architecture's prefix that no rule has asked for and that are not known to leave the state alone.
    pub(super) fn unread(&self) -> Vec<Unread> {
        let used = self.used.borrow();
        let mut unread = Vec::new();
        for path in self.metadata.entries.keys().filter(|path| !used.contains(path.as_str())) {
            let Some(name) = path.strip_prefix(self.architecture).and_then(|rest| rest.strip_prefix('.'))
            else {
                continue;
            };
            if !irrelevant::is_known(name) {
                unread.push(Unread { path: path.clone(), name: name.to_owned() });
            }
        }
        unread
    }

    /// A whole number, where zero has a meaning of its own.
    pub(super) fn number(&self, key: &str) -> Result<Option<Fact>> {
        let Some((name, entry)) = self.find(key) else { return Ok(None) };
        let Value::One(scalar) = &entry.value else { return Err(wrong(name, entry, "one whole number")) };
        let value = whole(name, entry, *scalar)?;
        Ok(Some(Fact::new(value, Source::field(name))))
    }

    /// A whole number of at least one; zero means missing.
    pub(super) fn count(&self, key: &str) -> Result<Option<Fact>> {
        Ok(self.number(key)?.filter(|fact| fact.get() > 0))
    }

    /// A count without which nothing can be computed.
    pub(super) fn require(&self, key: &str, needed_for: &str) -> Result<Fact> {
        self.count(key)?.ok_or_else(|| {
            let (place, state) = match self.find(key) {
                Some((name, entry)) => (place(name, entry), "0"),
                None => (self.name(key), "missing"),
            };
            Error::field(place, format!("{state}, and {needed_for} needs it; no default is defined"))
        })
    }

    /// Layers of the file, draft layers among them.
    fn blocks(&self) -> Result<usize> {
        let blocks = self.number("block_count")?.map_or(0, |fact| fact.get());
        Ok(usize::try_from(blocks).unwrap_or(usize::MAX))
    }

    /// One number for all layers, or a list with at least `layers` numbers or flags and none beyond the file's layers:
    /// llama.cpp refuses a file whose lists are of another length (`get_key_or_arr` in `llama-model-loader.cpp`).
    pub(super) fn per_layer(&self, key: &str, layers: usize) -> Result<Option<PerLayer>> {
        let Some((name, entry)) = self.find(key) else { return Ok(None) };
        let values = match &entry.value {
            Value::One(scalar) => Values::All(entry_of_layers(key, name, entry, *scalar)?),
            Value::List(list) if list.len() < layers => {
                return Err(Error::field(
                    place(name, entry),
                    format!("{} ({})", listed(list.len(), layers), self.name("block_count")),
                ));
            }
            Value::List(list) if list.len() > self.blocks()?.max(layers) && !LISTS_DRAFTS.contains(&key) => {
                let what = format!("{} ({})", listed(list.len(), self.blocks()?), self.name("block_count"));
                return Err(Error::field(place(name, entry), what));
            }
            Value::List(list) => {
                let numbers = list
                    .iter()
                    .enumerate()
                    .map(|(index, scalar)| entry_of_layers(key, &format!("{name}[{index}]"), entry, *scalar));
                Values::Each(numbers.collect::<Result<_>>()?)
            }
            _ => return Err(wrong(name, entry, "a whole number or a list of them")),
        };
        Ok(Some(PerLayer { key: name.to_owned(), values }))
    }

    /// A list of whole numbers that is not one value a layer.
    pub(super) fn numbers(&self, key: &str) -> Result<Vec<u64>> {
        let Some((name, entry)) = self.find(key) else { return Ok(Vec::new()) };
        let Value::List(list) = &entry.value else {
            return Err(wrong(name, entry, "a list of whole numbers"));
        };
        let at = |(index, scalar): (usize, &Scalar)| whole(&format!("{name}[{index}]"), entry, *scalar);
        list.iter().enumerate().map(at).collect()
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some((name, entry)) = self.find(key) else { return Ok(None) };
        match entry.value {
            Value::One(Scalar::Flag(flag)) => Ok(Some(flag)),
            _ => Err(wrong(name, entry, "true or false")),
        }
    }

    /// A text outside the architecture's prefix.
    pub(super) fn general_text(&self, name: &str) -> Option<&'m str> {
        match &self.metadata.entries.get(name)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number outside the architecture's prefix.
    pub(super) fn general_number(&self, name: &str) -> Result<Option<u64>> {
        let Some(entry) = self.metadata.entries.get(name) else { return Ok(None) };
        match entry.value {
            Value::One(scalar) => whole(name, entry, scalar).map(Some),
            _ => Err(wrong(name, entry, "one whole number")),
        }
    }

    fn find(&self, key: &str) -> Option<(&'m str, &'m Entry)> {
        let (name, entry) = self.metadata.entries.get_key_value(&self.name(key))?;
        self.used.borrow_mut().insert(name);
        Some((name, entry))
    }
}

fn entry_of_layers(key: &str, name: &str, entry: &Entry, scalar: Scalar) -> Result<u64> {
    match scalar {
        Scalar::Flag(flag) if FLAGS.contains(&key) => Ok(u64::from(flag)),
        _ => whole(name, entry, scalar),
    }
}

fn whole(name: &str, entry: &Entry, scalar: Scalar) -> Result<u64> {
    let number = match scalar {
        Scalar::Unsigned(value) => Some(value),
        Scalar::Signed(value) => u64::try_from(value).ok(),
        // Gemma 3n's files have `shared_kv_layers` as a float.
        Scalar::Float(value) => whole_of(value),
        Scalar::Flag(_) => None,
    };
    number.filter(|value| *value <= LARGEST).ok_or_else(|| {
        let shown = match scalar {
            Scalar::Unsigned(value) => value.to_string(),
            Scalar::Signed(value) => value.to_string(),
            Scalar::Float(value) => value.to_string(),
            Scalar::Flag(flag) => flag.to_string(),
        };
        Error::field(
            place(name, entry),
            format!("expected a whole number from 0 to 4,294,967,296, found {shown}"),
        )
    })
}

/// A float that is a whole number, which formatting shows without a loss.
fn whole_of(value: f64) -> Option<u64> {
    format!("{value}").parse().ok()
}

/// A key with the offset of its value: where to look in the file.
fn place(name: &str, entry: &Entry) -> String {
    format!("{name} (byte {})", entry.offset)
}

fn wrong(name: &str, entry: &Entry, expected: &str) -> Error {
    let found = match &entry.value {
        Value::One(Scalar::Flag(_)) => "a flag".to_owned(),
        Value::One(Scalar::Float(_)) => "a fraction".to_owned(),
        Value::One(_) => "a number".to_owned(),
        Value::List(list) => format!("a list of {}", list.len()),
        Value::Text(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        Value::Skipped(what) => what.clone(),
    };
    Error::field(place(name, entry), format!("expected {expected}, found {found}"))
}
