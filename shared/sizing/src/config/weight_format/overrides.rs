//! Modules whose integers differ from the rest, by the maps that GPTQ's and Intel's exporters write.
//!
//! Sources: `dynamic` as vLLM 0.33 reads it (`quantization/utils/gptq_utils.py`, `get_dynamic_override`), `extra_config`
//! (`quantization/inc/inc.py`).

use serde_json::{Map, Value};

/// A name or pattern of modules, as lists of module names have it, and what is stated for them.
pub(super) struct Override<'a> {
    pub(super) name: String,
    /// The settings that replace the general ones; none where the modules keep the model's own type.
    pub(super) settings: Option<&'a Map<String, Value>>,
}

/// Signs that make a key of `extra_config` a pattern.
const SIGNS: &str = "*+?^$()[]{}|\\";
/// Integers as wide as the model's own type are none.
const WIDE_BITS: u64 = 16;

/// Every override of a `quantization_config`, first come first.
pub(super) fn overrides(config: &Map<String, Value>) -> Vec<Override<'_>> {
    let entries = |key: &str| config.get(key).and_then(Value::as_object).into_iter().flatten();
    let dynamic = entries("dynamic").map(|(key, value)| {
        let pattern = |text: &str| format!("re:{text}");
        match key.strip_prefix("-:") {
            Some(excluded) => Override { name: pattern(excluded), settings: None },
            None => {
                Override { name: pattern(key.strip_prefix("+:").unwrap_or(key)), settings: value.as_object() }
            }
        }
    });
    let extra = entries("extra_config").filter_map(|(key, value)| {
        let settings = value.as_object()?;
        let bits = settings.get("bits").and_then(Value::as_u64).unwrap_or(WIDE_BITS);
        let name = if key.contains(|sign| SIGNS.contains(sign)) { format!("re:{key}") } else { key.clone() };
        Some(Override { name, settings: Some(settings).filter(|_| bits < WIDE_BITS) })
    });
    dynamic.chain(extra).collect()
}
