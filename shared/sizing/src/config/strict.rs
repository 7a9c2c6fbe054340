//! What becomes of fields that no rule has read.
//!
//! A field is passed over in silence only where a reason is known: it is in a list below, or a rule reads it in other
//! configs and another field took precedence in this one. Of the rest, those whose names speak of state are a doubt that
//! travels with the figure, and an error where doubts are refused.

mod known;

use serde_json::Value;

use super::fields::{CACHE_FORMATS, is_of_heads};
use crate::warning::Warning;
use crate::{Error, Result};
use known::{reason, suggests_state};

/// What to do about a field that could change the state and that no rule knows, that stands twice, or that contradicts
/// another.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Unknown {
    /// Warn: the figure holds if the field does not matter.
    #[default]
    Warn,
    /// Refuse to size the model.
    Refuse,
}

/// A field that no rule has read.
#[derive(Debug)]
pub(crate) struct Unread {
    /// Where it stands: `text_config.memory_heads`.
    pub(crate) path: String,
    /// Its name, by which it is judged.
    pub(crate) name: String,
}

/// Whether a config field is known to leave the state alone: by its name, or because it switches nothing on.
pub(super) fn is_known(name: &str, value: &Value) -> bool {
    let is_off = match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    is_off || is_of_heads(name) || reason(name).is_some()
}

/// Whether the field asks for a K/V format in words that no rule reads.
fn is_cache_format(field: &Unread) -> bool {
    CACHE_FORMATS.contains(&field.name.as_str())
}

/// What becomes of a doubt about one field.
///
/// # Errors
///
/// The doubt itself, where doubts are refused.
pub(crate) fn report_doubt(doubt: Warning, unknown: Unknown, warnings: &mut Vec<Warning>) -> Result<()> {
    match unknown {
        Unknown::Warn => warnings.push(doubt),
        Unknown::Refuse => {
            let what = format!("{}; without --strict this is a warning", doubt.message);
            return Err(Error::field(doubt.field, what));
        }
    }
    Ok(())
}

/// Reports fields that no rule has read and that `unread` does not know to be irrelevant.
///
/// # Errors
///
/// With [`Unknown::Refuse`]: a field whose name speaks of state. The error names all of them.
pub(crate) fn report_unread(
    unread: Vec<Unread>,
    unknown: Unknown,
    warnings: &mut Vec<Warning>,
) -> Result<()> {
    let (doubtful, others): (Vec<_>, Vec<_>) =
        unread.into_iter().partition(|field| suggests_state(&field.name));
    if unknown == Unknown::Refuse
        && let Some((first, more)) = doubtful.split_first()
    {
        let also: Vec<&str> = more.iter().map(|field| field.path.as_str()).collect();
        let more = if also.is_empty() { String::new() } else { format!(" (also {})", also.join(", ")) };
        let what = if is_cache_format(first) {
            "asks for a K/V format, which is left to the engine"
        } else {
            "no rule knows this field, and it could change the state"
        };
        return Err(Error::field(&first.path, format!("{what}{more}; without --strict this is a warning")));
    }
    for field in doubtful {
        let what = if is_cache_format(&field) {
            "asks for a K/V format; whether K and V have it is left to the engine, and logical bytes follow kv_dtype alone"
        } else {
            "no rule knows this field, and its name speaks of state; the figure holds only if it does not matter"
        };
        warnings.push(Warning::new(field.path, what));
    }
    if unknown == Unknown::Refuse {
        for field in others {
            warnings.push(Warning::new(
                field.path,
                "no rule knows this field; its name does not speak of state, so it is taken not to matter",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_what_they_say() {
        for name in ["rope_theta", "moe_intermediate_size", "rms_norm_eps", "vision_config", "bos_token_id"] {
            assert!(reason(name).is_some(), "{name}");
        }
        for name in ["memory_heads", "kv_mixing_stride", "attention_sparsity_blocks", "cla_share_factor"] {
            assert!(reason(name).is_none() && suggests_state(name), "{name}");
        }
        // Looped models keep K and V of every pass (llama.cpp pull request 25994), ZAYA's convolutions their last inputs.
        for name in ["num_loops", "total_ut_steps", "loop_num", "is_encoder_decoder", "cca_time0"] {
            assert!(reason(name).is_none() && suggests_state(name), "{name}");
        }
        assert!(reason("favourite_colour").is_none() && !suggests_state("favourite_colour"));
    }
}
