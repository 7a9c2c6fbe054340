//! The fields of a config one by one: listed by their paths, and changed by what is typed.

use kvscope_sizing::record::read_json;
use serde_json::Value;

/// Between the names of a path.
const INSIDE: char = '.';

/// The path of every field that holds no further ones.
pub(super) fn paths(config: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    collect(config, "", &mut paths);
    paths
}

fn collect(value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() || path.is_empty() => {
            for (name, inner) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}{INSIDE}{name}") };
                collect(inner, &path, paths);
            }
        }
        _ => paths.push(path.to_owned()),
    }
}

/// A field as it is typed: text without quotes, anything else as JSON has it; empty where it is not there.
pub(super) fn text(config: &Value, path: &str) -> String {
    match path.split(INSIDE).try_fold(config, |value, name| value.get(name)) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The config with a field as it was typed: a number, a list and the like by JSON's rules, else text. Nothing typed takes the
/// field away.
///
/// # Errors
///
/// A sentence, where the field holds no text and what was typed is none of JSON's values, or where the path leads through a
/// field that holds no others.
pub(super) fn with(config: &Value, path: &str, typed: &str) -> Result<Value, String> {
    let typed = typed.trim();
    let mut config = config.clone();
    let (holders, name) =
        path.rsplit_once(INSIDE).map_or((None, path), |(holders, name)| (Some(holders), name));
    let mut fields = config.as_object_mut();
    for holder in holders.into_iter().flat_map(|holders| holders.split(INSIDE)) {
        fields = fields.and_then(|fields| fields.get_mut(holder)?.as_object_mut());
    }
    let fields = fields.ok_or_else(|| format!("{path}: no field of the config holds it"))?;
    if name.trim().is_empty() {
        return Err("a field has a name: write it before the colon".to_owned());
    }
    if typed.is_empty() {
        fields.remove(name);
        return Ok(config);
    }
    let value = match (fields.get(name), read_json(typed)) {
        (Some(Value::String(_)), _) | (None | Some(Value::Null), Err(_)) => Value::String(typed.to_owned()),
        (_, Ok(value)) => value,
        (Some(_), Err(_)) => {
            return Err(format!("{path}: {typed:?} is no number, true, false, null or list"));
        }
    };
    fields.insert(name.to_owned(), value);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config() -> Value {
        json!({"model_type": "llama", "num_hidden_layers": 2, "layer_types": ["a", "b"], "sliding_window": null,
            "rope_scaling": {"factor": 8.0}})
    }

    #[test]
    fn every_field_has_a_path_and_a_text_that_gives_it_back() {
        let config = config();
        let paths = paths(&config);
        assert!(paths.contains(&"rope_scaling.factor".to_owned()) && paths.len() == 5, "{paths:?}");
        for path in &paths {
            assert_eq!(with(&config, path, &text(&config, path)).unwrap(), config, "{path}");
        }
        assert_eq!(
            (text(&config, "model_type").as_str(), text(&config, "layer_types").as_str()),
            ("llama", "[\"a\",\"b\"]")
        );
    }

    #[test]
    fn what_is_typed_has_the_fields_own_kind() {
        let changed = |path: &str, typed: &str| with(&config(), path, typed);
        assert_eq!(changed("num_hidden_layers", " 4 ").unwrap()["num_hidden_layers"], 4);
        assert_eq!(changed("model_type", "12").unwrap()["model_type"], "12");
        assert_eq!(changed("sliding_window", "4096").unwrap()["sliding_window"], 4096);
        assert_eq!(changed("rope_scaling.factor", "4").unwrap()["rope_scaling"]["factor"], 4);
        assert_eq!(changed("head_dim", "64").unwrap()["head_dim"], 64);
        assert!(changed("sliding_window", "").unwrap().get("sliding_window").is_none());
        assert!(changed("num_hidden_layers", "many").unwrap_err().starts_with("num_hidden_layers: \"many\""));
        assert!(changed("model_type.inner", "1").is_err());
        assert!(changed("", "1").is_err());
    }
}
