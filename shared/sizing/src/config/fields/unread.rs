//! Fields that no rule has read.

use serde_json::{Map, Value};

use super::{CACHE_FORMATS, NESTED, WEIGHT_FORMATS};
use crate::config::strict::{Unread, is_known};

/// Fields of `map` and of the objects that rules have looked into. What an inner level names too is shadowed.
pub(super) fn collect_unread(
    prefix: &str,
    map: &Map<String, Value>,
    inner: &[&Map<String, Value>],
    is_read: &dyn Fn(&Value) -> bool,
    unread: &mut Vec<Unread>,
) {
    for (name, value) in map {
        if NESTED.contains(&name.as_str()) || inner.iter().any(|map| map.contains_key(name)) {
            continue;
        }
        let path = format!("{prefix}{name}");
        match value {
            Value::Object(object) if is_read(value) => {
                collect_unread(&format!("{path}."), object, &[], is_read, unread);
            }
            Value::Object(object) if WEIGHT_FORMATS.contains(&name.as_str()) => {
                // Quark names the projections whose output is stored in a format of its own; mostly there are none.
                let is_none = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
                let stated = CACHE_FORMATS
                    .iter()
                    .filter(|key| object.get(**key).is_some_and(|value| !is_none(value) && !is_read(value)));
                unread.extend(
                    stated.map(|key| Unread { path: format!("{path}.{key}"), name: (*key).to_owned() }),
                );
            }
            _ if is_read(value) || is_known(name, value) => {}
            _ => unread.push(Unread { path, name: name.clone() }),
        }
    }
}
