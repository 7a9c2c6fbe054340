//! Classes that SGLang has a model for.

use crate::architecture::Architecture;
use crate::sorted_lines::has_line;
use crate::warning::Warning;

/// One class a line, sorted: every `EntryClass` of SGLang 0.5.23 (`srt/models`).
const OF_SGLANG: &str = include_str!("known_classes.txt");

/// Says where none of a checkpoint's classes is among them: such a launch goes on with transformers' model (`_normalize_archs` of
/// `models/registry.py`), or ends where that names no attention back end (`resolve_transformers_arch` of `model_loader/utils.py`), and
/// its pools know of no states.
pub(super) fn warning(architecture: &Architecture) -> Option<Warning> {
    let classes = architecture.architectures();
    if classes.is_empty() || classes.iter().any(|class| has_line(OF_SGLANG, class)) {
        return None;
    }
    let what = format!(
        "SGLang 0.5.23 has no model for {}; where it starts at all it runs transformers', whose pools keep every layer's K/V \
         in full; these figures are of its rules for such layers",
        classes.join(", ")
    );
    Some(Warning::new("architectures", what))
}

#[cfg(test)]
mod tests {
    use crate::engine::{Query, report};
    use crate::{Settings, read_config};

    /// SGLang 0.5.23 has `LlamaForCausalLM` and no `Zamba2ForCausalLM`.
    #[test]
    fn a_class_that_is_not_served_is_told() {
        let told = |class: &str| {
            let config = format!(
                r#"{{"architectures": [{class:?}], "num_hidden_layers": 2, "num_attention_heads": 8,
                "num_key_value_heads": 2, "head_dim": 64, "dtype": "bfloat16"}}"#
            );
            let (architecture, settings) = (read_config(&config).unwrap(), Settings::default());
            let query = Query::new(&architecture, "sglang".parse().unwrap(), &settings).unwrap();
            report(&query).unwrap().warnings.iter().any(|warning| warning.field == "architectures")
        };
        assert!(told("Zamba2ForCausalLM"));
        assert!(!told("LlamaForCausalLM"));
    }
}
