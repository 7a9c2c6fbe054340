mod aliases;
mod outer;
mod special;
mod unread;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::class_defaults;
use super::json::Special;
use super::strict::Unread;
use crate::fact::{Fact, Source};
use crate::state::counted;
use crate::warning::Warning;
use crate::{Error, Result};

pub(super) use aliases::{
    CONTEXTS, DTYPES, ENCODER_TOKENS, HEAD_WIDTHS, HIDDEN, KV_HEADS, LATENT_NOPES, LATENT_RANKS,
    LATENT_ROPES, LATENT_VALUES, LAYERS, QUERY_HEADS, RECURRENT_DTYPES, SLIDING_KV_HEADS,
    SLIDING_QUERY_HEADS, SSM_EXPANSIONS, SSM_GROUPS, SSM_HEAD_WIDTHS, SSM_HEADS, SSM_KERNELS, SSM_STATES,
    SSM_WIDTHS, WINDOWS, is_of_heads, of_mamba,
};
use aliases::{ONE_MEANING, differ, is_silent};
use unread::collect_unread;

/// Where the text model's fields are nested in multimodal configs.
const NESTED: [&str; 6] =
    ["text_config", "language_config", "llm_config", "thinker_config", "decoder_config", "decoder"];

/// Objects about weights, and the fields in them by which a checkpoint asks for a K/V format after all.
pub(super) const WEIGHT_FORMATS: [&str; 2] = ["quantization_config", "compression_config"];
pub(super) const CACHE_FORMATS: [&str; 3] = ["kv_cache_scheme", "kv_cache_quant_algo", "kv_cache_group"];

/// Counts of heads and layers, of which there is at least one where the field is read. For widths and the rest, 0 means
/// missing, as engines read it.
const AT_LEAST_ONE: [&str; 34] = [
    "cross_num_attention_heads",
    "cross_num_key_value_heads",
    "decoder_attention_heads",
    "decoder_layers",
    "decoder_num_attention_heads",
    "decoder_num_hidden_layers",
    "decoder_num_key_value_heads",
    "kv_n_heads",
    "loop_num",
    "loop_num_passes",
    "n_head",
    "n_head_kv",
    "n_heads",
    "n_kv_heads",
    "n_layer",
    "n_layers",
    "n_recurrent_loops",
    "num_attention_groups",
    "num_attention_heads",
    "num_decoder_attention_heads",
    "num_decoder_layers",
    "num_global_key_value_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "num_kv_heads",
    "num_layers",
    "num_loops",
    "num_passes",
    "num_query_heads",
    "num_swa_attention_heads",
    "num_swa_key_value_heads",
    "swa_num_attention_heads",
    "swa_num_key_value_heads",
    "total_ut_steps",
];

/// Larger than any real width, head count or length, and small enough that products of a few stay in 64 bits.
const LARGEST: u64 = 1 << 32;
const WHOLE_NUMBER: &str = "a whole number from 0 to 4,294,967,296";

/// The fields of a config: the nested text model's first, then the outer ones.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// Innermost first, with the prefix of their paths.
    levels: Vec<(String, &'a Map<String, Value>)>,
    /// Every value that a rule has found, here or in an object inside, so that the others can be reported.
    read: Rc<RefCell<Vec<&'a Value>>>,
    /// Fields that rules have found to contradict each other.
    doubts: Rc<RefCell<Vec<Warning>>>,
    /// Where the text has numbers that JSON does not know.
    special: Rc<[Special]>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(root: &'a Map<String, Value>) -> Result<Self> {
        let mut levels = vec![(String::new(), root)];
        let (mut prefix, mut map) = (String::new(), root);
        while let Some(name) = nested_name(&prefix, map)? {
            let path = format!("{prefix}{name}");
            map = map[name].as_object().ok_or_else(|| {
                Error::field(path.clone(), "expected an object with the text model's fields")
            })?;
            prefix = format!("{path}.");
            levels.insert(0, (prefix.clone(), map));
        }
        Ok(Self { levels, read: Rc::default(), doubts: Rc::default(), special: Rc::default() })
    }

    /// The fields of an object inside this config, such as `linear_attn_config`.
    pub(super) fn object(&self, key: &str) -> Result<Option<Self>> {
        let Some((path, value)) = self.find(key) else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| Error::field(path.clone(), "expected an object"))?;
        Ok(Some(Self {
            levels: vec![(format!("{path}."), map)],
            read: Rc::clone(&self.read),
            doubts: Rc::clone(&self.doubts),
            special: Rc::clone(&self.special),
        }))
    }

    /// The value and path of a field that is present and not null.
    pub(super) fn find(&self, key: &str) -> Option<(String, &'a Value)> {
        let (path, value) = self.peek(key)?;
        self.count_as_read(value);
        Some((path, value))
    }

    /// The same, without counting it as read by a rule.
    pub(super) fn peek(&self, key: &str) -> Option<(String, &'a Value)> {
        self.levels.iter().find_map(|(prefix, map)| {
            let value = map.get(key).filter(|value| !value.is_null())?;
            Some((format!("{prefix}{key}"), value))
        })
    }

    pub(super) fn count_as_read(&self, value: &'a Value) {
        self.read.borrow_mut().push(value);
    }

    /// Takes down that a field contradicts another; once, however many layers say so.
    pub(super) fn doubt(&self, path: impl Into<String>, message: impl Into<String>) {
        let doubt = Warning::new(path, message);
        let mut doubts = self.doubts.borrow_mut();
        if !doubts.contains(&doubt) {
            doubts.push(doubt);
        }
    }

    /// Looks at fields for a comparison, without counting them as read.
    pub(super) fn without_reading<T>(&self, look: impl FnOnce() -> T) -> T {
        let read = self.read.borrow().len();
        let doubts = self.doubts.borrow().len();
        let seen = look();
        self.read.borrow_mut().truncate(read);
        self.doubts.borrow_mut().truncate(doubts);
        seen
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Whether the text model's own fields name the field and say null, and no outer one has a value. What an outer
    /// level alone says is null never reaches the text model's class.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.levels[0].1.get(key).is_some_and(Value::is_null) && self.peek(key).is_none()
    }

    /// Lists of nothing but texts, with their paths, at every level.
    pub(super) fn lists_of_words(&self) -> impl Iterator<Item = (String, &'a [Value])> {
        self.levels.iter().flat_map(|(prefix, map)| {
            map.iter().filter_map(move |(key, value)| {
                let list =
                    value.as_array().filter(|list| !list.is_empty() && list.iter().all(Value::is_string))?;
                Some((format!("{prefix}{key}"), list.as_slice()))
            })
        })
    }

    /// The path that an absent field would have, for messages.
    pub(super) fn path_of(&self, key: &str) -> String {
        let (prefix, _) = &self.levels[0];
        format!("{prefix}{key}")
    }

    /// The field that a number is of: the one that says it, or the absent one whose default it is.
    pub(super) fn place_of(&self, fact: &Fact) -> String {
        match fact.source() {
            // Of a class's default the field's name is known, of a rule's its path.
            Source::Default { field, .. } if !field.starts_with(&self.levels[0].0) => self.path_of(field),
            other => other.place(),
        }
    }

    pub(super) fn model_type(&self) -> Option<&'a str> {
        self.levels.iter().find_map(|(_, map)| map.get("model_type")?.as_str())
    }

    /// A whole number of at least one. Where it is absent the class's default steps in; null and a window of zero say that
    /// there is none. For a count of heads or layers zero is an error, and so are null and zero where the class has a
    /// default and can do nothing with them.
    pub(super) fn count(&self, key: &str) -> Result<Option<Fact>> {
        match self.stated(key)? {
            Some(fact) => Ok(Some(fact)),
            None => self.class_default(key),
        }
    }

    /// What the config itself says, where that is at least one.
    pub(super) fn stated(&self, key: &str) -> Result<Option<Fact>> {
        // The width of all heads divided by their number, as where the field is absent (`FalconH1Config`, `BambaConfig`).
        if key == "mamba_d_head" && matches!(self.find(key), Some((_, value)) if value == "auto") {
            return Ok(None);
        }
        let Some(fact) = self.number(key)? else { return Ok(None) };
        if fact.get() == 0 && AT_LEAST_ONE.contains(&key) {
            let what = "0; a model has at least one, so give the real count or leave the field out";
            return Err(Error::field(self.place_of(&fact), what));
        }
        Ok(Some(fact).filter(|fact| fact.get() > 0))
    }

    /// What the class says where the config has no value.
    pub(super) fn class_default(&self, key: &str) -> Result<Option<Fact>> {
        let nested =
            || class_defaults::nested_count(self.model_type(), key).filter(|_| self.levels.len() > 1);
        let Some(default) = class_defaults::count(self.model_type(), key).or_else(nested) else {
            return Ok(None);
        };
        let unusable = |path: String, found: &str| {
            let value = default.get();
            let what =
                format!("{found}, which its class cannot use; leave the field out for its default, {value}");
            Err(Error::field(path, what))
        };
        if self.is_null(key) {
            return if class_defaults::may_be_none(self.model_type(), key) {
                Ok(None)
            } else {
                unusable(self.path_of(key), "null")
            };
        }
        let Some(zero) = self.zero(&[key]) else { return Ok(Some(default)) };
        if class_defaults::is_none_at_zero(key) {
            return Ok(None);
        }
        if !class_defaults::is_missing_at_zero(key) {
            return unusable(zero, "0");
        }
        let rule = match default.source() {
            Source::Default { rule, .. } => rule.to_string(),
            other => other.to_string(),
        };
        Ok(Some(Fact::derived(default.get(), format!("{zero} is 0: {rule}"))))
    }

    /// The path of the first of these fields that says 0.
    pub(super) fn zero(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| {
            self.find(key).filter(|(_, value)| value.as_f64() == Some(0.0)).map(|(path, _)| path)
        })
    }

    /// A whole number where zero has a meaning of its own.
    pub(super) fn number(&self, key: &str) -> Result<Option<Fact>> {
        self.refuse_special(key)?;
        let Some((path, value)) = self.find(key) else { return Ok(None) };
        let value = whole_number(&path, value)?;
        Ok(Some(Fact::new(value, Source::field(path))))
    }

    /// The first of several names of one field; a class's default counts where none of them has a value.
    pub(super) fn count_any(&self, keys: &[&str]) -> Result<Option<Fact>> {
        for key in keys {
            if let Some(fact) = self.stated(key)? {
                return Ok(Some(fact));
            }
        }
        for key in keys {
            if let Some(fact) = self.class_default(key)? {
                return Ok(Some(fact));
            }
        }
        Ok(None)
    }

    /// A count without which nothing can be computed; the error shows the name that is there without a value, else the
    /// first one, of which a decoder's own is for configs with `decoder_layers`.
    pub(super) fn require(&self, keys: &[&str], needed_for: &str) -> Result<Fact> {
        self.count_any(keys)?.ok_or_else(|| {
            let has_decoder = self.peek("decoder_layers").is_some();
            let mut usual = keys.iter().filter(|key| has_decoder || !key.contains("decoder_"));
            let null = keys.iter().find(|key| self.is_null(key));
            let (path, state) = match (self.zero(keys), null) {
                (Some(path), _) => (path, "0"),
                (None, Some(key)) => (self.path_of(key), "null"),
                (None, None) => (self.path_of(usual.next().unwrap_or(&keys[0])), "missing"),
            };
            Error::field(path, format!("{state}, and {needed_for} needs it; no default is defined"))
        })
    }

    /// A switch. Null is off whatever the class's default is, as in Python.
    pub(super) fn flag(&self, key: &str) -> Result<Option<(String, bool)>> {
        if let Some((path, value)) = self.find(key) {
            let flag = value.as_bool().ok_or_else(|| wrong_type(&path, "true or false", value))?;
            return Ok(Some((path, flag)));
        }
        if self.is_null(key) {
            return Ok(None);
        }
        Ok(class_defaults::flag(self.model_type(), key).map(|flag| (self.path_of(key), flag)))
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<(String, &'a str)>> {
        let Some((path, value)) = self.find(key) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| wrong_type(&path, "a text", value))?;
        Ok(Some((path, text)))
    }

    pub(super) fn list(&self, key: &str) -> Result<Option<(String, &'a [Value])>> {
        let Some((path, value)) = self.find(key) else { return Ok(None) };
        let list = value.as_array().ok_or_else(|| wrong_type(&path, "a list", value))?;
        Ok(Some((path, list)))
    }

    /// Fields that contradict what a rule has read: by another name, at an outer level, or by a rule of their own.
    pub(super) fn contradictions(&self) -> Vec<Warning> {
        let found_by_rules = self.found();
        let is_read = |value: &Value| found_by_rules.binary_search(&std::ptr::from_ref(value)).is_ok();
        let mut found = self.doubts.borrow().clone();
        // LongCat counts blocks and attentions apart; its own rule compares them.
        let counts_apart = class_defaults::count(self.model_type(), "attention_blocks_per_layer").is_some();
        for names in ONE_MEANING.iter().filter(|names| !(counts_apart && names.contains(&"num_layers"))) {
            let mut stated = names.iter().filter_map(|name| self.peek(name));
            let Some((taken, value)) = stated.find(|(_, value)| is_read(value) && !is_silent(value)) else {
                continue;
            };
            for (path, other) in names.iter().filter_map(|name| self.peek(name)) {
                self.count_as_read(other);
                if path != taken && !is_silent(other) && differ(value, other) {
                    let message =
                        format!("{}, but {path} says {}; the first is taken", shown(value), shown(other));
                    found.push(Warning::new(taken.clone(), message));
                }
            }
        }
        for (index, (prefix, map)) in self.levels.iter().enumerate() {
            for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                let outer = self.levels[index + 1..].iter().find_map(|(prefix, outer)| {
                    Some((prefix, outer.get(key).filter(|value| !value.is_null())?))
                });
                let Some((outer_prefix, other)) = outer else { continue };
                if differ(value, other) && is_read(value) {
                    let message = format!(
                        "{}, but {outer_prefix}{key} says {}; the inner one is taken",
                        shown(value),
                        shown(other)
                    );
                    found.push(Warning::new(format!("{prefix}{key}"), message));
                }
            }
        }
        found
    }

    /// The addresses of the values that rules have found, in order.
    fn found(&self) -> Vec<*const Value> {
        let read = self.read.borrow();
        let mut found: Vec<*const Value> = read.iter().map(|value| std::ptr::from_ref(*value)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The fields that no rule has found and that are not known to leave the state alone.
    pub(super) fn unread(&self) -> Vec<Unread> {
        let found = self.found();
        let is_read = |value: &Value| found.binary_search(&std::ptr::from_ref(value)).is_ok();
        let mut unread = Vec::new();
        let mut inner: Vec<&Map<String, Value>> = Vec::new();
        for (prefix, map) in &self.levels {
            collect_unread(prefix, map, &inner, &is_read, &mut unread);
            inner.push(map);
        }
        unread
    }

    /// A list of whole numbers.
    pub(super) fn numbers(&self, key: &str) -> Result<Option<(String, Vec<u64>)>> {
        let Some((path, list)) = self.list(key)? else { return Ok(None) };
        let numbers = list
            .iter()
            .enumerate()
            .map(|(index, value)| whole_number(format_args!("{path}[{index}]"), value))
            .collect::<Result<_>>()?;
        Ok(Some((path, numbers)))
    }
}

/// The name under which a text model is nested in `map`. Which of two different ones is meant cannot be told.
fn nested_name(prefix: &str, map: &Map<String, Value>) -> Result<Option<&'static str>> {
    let says_something = |value: &&Value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let mut nested = NESTED.iter().filter_map(|name| Some((*name, map.get(*name).filter(says_something)?)));
    let Some((name, taken)) = nested.next() else { return Ok(None) };
    if let Some((other, _)) = nested.find(|(_, value)| *value != taken) {
        let what =
            format!("a text model of its own beside {prefix}{other}; leave out the one that is not meant");
        return Err(Error::field(format!("{prefix}{name}"), what));
    }
    Ok(Some(name))
}

pub(super) fn whole_number(path: impl fmt::Display, value: &Value) -> Result<u64> {
    let expected = || wrong_type(&path.to_string(), WHOLE_NUMBER, value);
    let number = match value {
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => whole,
            // Some exporters write 128.0.
            (None, Some(float)) if float.fract() == 0.0 && (0.0..=LARGEST as f64).contains(&float) => {
                format!("{float:.0}").parse().map_err(|_| expected())?
            }
            _ => return Err(expected()),
        },
        _ => return Err(expected()),
    };
    if number > LARGEST {
        return Err(expected());
    }
    Ok(number)
}

/// How many entries a list has, for how many layers.
pub(crate) fn listed(entries: usize, layers: usize) -> String {
    format!(
        "{} for {}",
        counted(entries as u64, "entry", "entries"),
        counted(layers as u64, "layer", "layers")
    )
}

pub(super) fn wrong_type(path: &str, expected: &str, found: &Value) -> Error {
    Error::field(path, format!("expected {expected}, found {}", shown(found)))
}

/// A value for a message, cut where it is long.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
