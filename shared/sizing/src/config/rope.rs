//! How a config scales its rotary positions, which engines follow where they derive the longest length.

use serde_json::{Map, Value};

use super::fields::Fields;

/// Where the rules stand: transformers 5 writes `rope_parameters`, all before it `rope_scaling`, which goes before where both are
/// there (`convert_rope_params_to_dict` of transformers 5.19).
const HOLDERS: [&str; 2] = ["rope_scaling", "rope_parameters"];

/// The scaling rules of a config: one, or one for each kind of layer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RopeScaling {
    /// The rules, in the order of the config.
    pub(crate) rules: Vec<RopeRule>,
    /// `original_max_position_embeddings` beside them, which goes before that of a rule.
    pub(crate) original: Option<u64>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RopeRule {
    /// Where it stands.
    pub(crate) path: String,
    /// `rope_type`, or `type` in older configs; `default` where neither is there.
    pub(crate) kind: String,
    /// By how much positions are stretched.
    pub(crate) factor: Option<f64>,
    /// Positions that the model was trained on first.
    pub(crate) original: Option<u64>,
}

/// The rules that are there. What is written otherwise than transformers does is left out: no state depends on it.
pub(super) fn rope_scaling(fields: &Fields<'_>) -> Option<RopeScaling> {
    let (path, map) = HOLDERS.iter().find_map(|key| {
        let (path, value) = fields.peek(key)?;
        value.as_object().filter(|map| !map.is_empty()).map(|map| (path, map))
    })?;
    let nested: Vec<RopeRule> = map
        .iter()
        .filter_map(|(layers, value)| Some(rule(format!("{path}.{layers}"), value.as_object()?)))
        .collect();
    let rules = if nested.is_empty() { vec![rule(path, map)] } else { nested };
    let original = fields.peek("original_max_position_embeddings").and_then(|(_, value)| value.as_u64());
    Some(RopeScaling { rules, original })
}

fn rule(path: String, map: &Map<String, Value>) -> RopeRule {
    let kind = ["rope_type", "type"].iter().find_map(|key| map.get(*key)?.as_str());
    RopeRule {
        path,
        kind: kind.unwrap_or("default").to_owned(),
        factor: map.get("factor").and_then(Value::as_f64),
        original: map.get("original_max_position_embeddings").and_then(Value::as_u64),
    }
}
