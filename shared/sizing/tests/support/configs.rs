//! Configs that tests write, and what is read of them.

use kvscope_sizing::{Settings, StateModel, read_config};
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
