//! Configs that tests write, and what is read of them.

use kvscope_sizing::{Settings, StateFormat, StateModel, Unknown, read_config, read_config_text};
use serde_json::Value;

/// Bytes a token beyond every window, and the text of all warnings.
pub(crate) fn slope(config: &Value) -> (u64, String) {
    let architecture = read_config(&config.to_string()).unwrap_or_else(|error| panic!("{config}: {error}"));
    let state = StateModel::new(&architecture, &Settings::default()).unwrap();
    let warnings: Vec<String> = architecture.warnings().iter().map(ToString::to_string).collect();
    (state.slope(None).unwrap().whole().unwrap(), warnings.join("\n"))
}

/// A config with fields added or replaced.
#[allow(dead_code, reason = "not every test changes a config")]
pub(crate) fn with(base: &Value, changes: &Value) -> Value {
    let mut config = base.clone();
    config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    config
}

/// A config without a field.
pub(crate) fn without(config: &Value, key: &str) -> Value {
    let mut other = config.clone();
    other.as_object_mut().unwrap().remove(key);
    other
}

/// Bytes that do not grow, with recurrent state in this format.
pub(crate) fn fixed(config: &Value, state_dtype: Option<StateFormat>) -> u64 {
    let settings = Settings { state_dtype, ..Settings::default() };
    let architecture = read_config(&config.to_string()).unwrap();
    StateModel::new(&architecture, &settings).unwrap().fixed(None).unwrap().get()
}

/// A strict reader has no doubt about it.
pub(crate) fn is_certain(config: &Value) {
    let read = read_config_text(&config.to_string(), Unknown::Refuse);
    assert!(read.is_ok(), "{:?}", read.err());
}
