//! What a config says outside its text model's own fields.

use serde_json::Value;

use super::{Fields, wrong_type};
use crate::Result;

impl<'a> Fields<'a> {
    /// The class of the model as a whole, where a text model inside has one of its own.
    pub(in crate::config) fn outer_model_type(&self) -> Option<&'a str> {
        self.levels.iter().rev().find_map(|(_, map)| map.get("model_type")?.as_str())
    }

    /// Whether a switch is on at any level, or by its class where none has it: a pair's outer config says it of its decoder.
    pub(in crate::config) fn is_on_at_any_level(&self, key: &str) -> Result<bool> {
        let mut stated = self.levels.iter().filter_map(|(_, map)| map.get(key));
        let on =
            stated.find(|value| value.as_bool() == Some(true)).inspect(|value| self.count_as_read(value));
        Ok(on.is_some() || self.flag(key)?.is_some_and(|(_, is_on)| is_on))
    }

    /// A list at the outermost level that has it.
    pub(in crate::config) fn outer_list(&self, key: &str) -> Result<Option<(String, &'a [Value])>> {
        let found = self.levels.iter().rev().find_map(|(prefix, map)| {
            let value = map.get(key).filter(|value| !value.is_null())?;
            Some((format!("{prefix}{key}"), value))
        });
        let Some((path, value)) = found else { return Ok(None) };
        let list = value.as_array().ok_or_else(|| wrong_type(&path, "a list", value))?;
        Ok(Some((path, list)))
    }
}
