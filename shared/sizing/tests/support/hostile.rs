//! Configs whose values are of the right kind and of a size that no model has.

use serde_json::{Value, json};

/// Counts where sums, products and allocations go wrong.
const COUNTS: [u64; 6] = [0, 1, 1 << 31, 1 << 62, 1 << 63, u64::MAX];
/// Entries of a list, letters of a text, groups of a pattern.
const MANY: usize = 60_000;

/// `config` with each of its values changed in turn, nested ones too: a number to every one of the counts, a text to patterns and long
/// names, a list to a longer one.
pub(crate) fn variants(config: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for path in paths(config) {
        let own = config.pointer(&path).expect("the path was found in it");
        found.extend(hostile(own).into_iter().map(|value| replaced(config, &path, value)));
    }
    found
}

/// Fields beside a config's own whose texts are patterns and whose names are of matrices.
pub(crate) fn quantised(config: &Value) -> Vec<String> {
    let names: serde_json::Map<String, Value> =
        (0..MANY).map(|index| (format!("model.layers.{index}.mlp.up_proj"), json!({"bits": 16}))).collect();
    let nested = format!("{}x{}", "(".repeat(MANY), ")".repeat(MANY));
    let alternatives = format!("re:.*({}).*", vec!["q"; MANY].join("|"));
    let patterns =
        [nested.clone(), format!("+:{nested}"), alternatives, "a*".repeat(MANY), "\\".repeat(MANY)];
    let mut found = vec![with_quantisation(
        config,
        &json!({"quant_method": "auto-round", "bits": 4, "extra_config": names}),
    )];
    for pattern in patterns {
        let by_key = json!({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {pattern.clone(): {"bits": 8}}});
        let by_list = json!({"quant_method": "compressed-tensors", "ignore": [pattern.clone()], "config_groups":
            {"group_0": {"targets": [pattern.clone()], "weights": {"num_bits": 4, "type": "int"}}}});
        let skipped = json!({"quant_method": "fp8", "modules_to_not_convert": [pattern]});
        found.extend([by_key, by_list, skipped].map(|of| with_quantisation(config, &of)));
    }
    found
}

fn with_quantisation(config: &Value, of: &Value) -> String {
    let mut changed = config.clone();
    changed["quantization_config"] = of.clone();
    changed.to_string()
}

fn hostile(own: &Value) -> Vec<Value> {
    match own {
        Value::Number(_) => {
            COUNTS.into_iter().map(Value::from).chain([json!(-1), json!(1e308), json!(0.5)]).collect()
        }
        Value::String(_) => vec![json!("("), json!("L".repeat(MANY)), json!("(".repeat(MANY))],
        Value::Array(list) => {
            let one = list.first().cloned().unwrap_or(Value::Null);
            vec![json!([]), Value::Array(vec![one.clone(); 3]), Value::Array(vec![one; MANY])]
        }
        Value::Bool(on) => vec![json!(!on)],
        Value::Null | Value::Object(_) => vec![json!({}), json!(7)],
    }
}

fn replaced(config: &Value, path: &str, value: Value) -> String {
    let mut changed = config.clone();
    *changed.pointer_mut(path).expect("the path was found in it") = value;
    changed.to_string()
}

/// Pointers of all values; of a list's, the first and the last.
fn paths(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (escaped(key), value)).collect(),
        Value::Array(list) => {
            let last = list.len().saturating_sub(1);
            let ends = list.iter().enumerate().filter(|(index, _)| *index == 0 || *index == last);
            ends.map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let mut found = Vec::new();
    for (key, child) in children {
        found.push(format!("/{key}"));
        found.extend(paths(child).into_iter().map(|rest| format!("/{key}{rest}")));
    }
    found
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
