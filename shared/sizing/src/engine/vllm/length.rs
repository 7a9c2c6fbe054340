//! The longest request where no setting names one: what the config says, as its `RoPE` scaling changes it.

use super::rules::Rules;
use crate::architecture::Architecture;
use crate::config::RopeRule;
use crate::engine::Engine;
use crate::engine::length::{stretched, taken};
use crate::warning::Warning;
use crate::{Fact, group_digits};

/// Names of a longest length that vLLM does not look for: `OpenELM`'s.
const NOT_LOOKED_FOR: [&str; 1] = ["max_context_length"];
/// The longest request of a config that names none.
const WITHOUT_FIELD: u64 = 2048;
/// Rules that leave the length as it is: its field counts the scaled positions already.
const LEAVES: [&str; 3] = ["longrope", "su", "llama3"];
/// The same since 0.30, which stretched by these too before.
const LEAVES_SINCE_0_30: [&str; 4] = ["yarn", "telechat3-yarn", "deepseek_yarn", "deepseek_llama_scaling"];
/// Rules that stretch by a factor, or that have none.
const STRETCHES: [&str; 4] = ["default", "mrope", "linear", "dynamic"];
/// `original_max_position_embeddings` of Phi-3 where the config leaves it out (transformers, `Phi3Config`).
const PHI3_ORIGINAL: u64 = 4096;

/// The longest request, and how it comes about where the config's own field says another length.
#[derive(Debug)]
pub(in crate::engine) struct DefaultLength {
    pub(in crate::engine) tokens: u64,
    how: Option<String>,
}

/// Source: vLLM 0.9 to 0.33, `_get_and_verify_max_len` of `config/model.py`, `derive_max_model_len_and_key` and
/// `patch_rope_parameters` of `transformers_utils`.
pub(in crate::engine) fn default_length(architecture: &Architecture, engine: &Engine) -> DefaultLength {
    let Some(stated) = stated(architecture) else {
        return DefaultLength {
            tokens: WITHOUT_FIELD,
            how: Some("of a config without a length, whose class is not known to have one".to_owned()),
        };
    };
    let is_own = architecture.max_context().is_some_and(|known| known.get() == stated.get());
    let how = (!is_own).then(|| stated.source().to_string());
    let mut found = DefaultLength { tokens: stated.get(), how };
    let is_scaled_already = architecture.model_type().is_some_and(|class| class.contains("gemma3"));
    let Some(rope) = architecture.rope_scaling().filter(|_| !is_scaled_already) else { return found };
    let rules = Rules::of(engine);
    let (mut factor, mut by) = (1.0, None);
    for rule in rope.rules.iter().filter(|rule| stretches(rule, rules)) {
        factor = rule.factor.unwrap_or(factor);
        if rule.kind == "yarn" {
            found.tokens = rope.original.or(rule.original).unwrap_or(stated.get());
        }
        by = Some(rule);
    }
    if let Some(rule) = by {
        let words = format!("{} of {}: {} × {factor}", rule.kind, rule.path, group_digits(found.tokens));
        found = DefaultLength { tokens: stretched(found.tokens, factor), how: Some(words) };
    }
    let class_default = || (architecture.model_type() == Some("phi3")).then_some(PHI3_ORIGINAL);
    if let Some(rule) = rope.rules.iter().find(|rule| ["longrope", "su"].contains(&rule.kind.as_str()))
        && let Some(original) = rope.original.or_else(class_default).filter(|_| rules.longrope_unscaled)
    {
        let how = Some(format!("{}: original_max_position_embeddings", rule.path));
        found = DefaultLength { tokens: original, how };
    }
    found
}

/// The shortest of the lengths that the config states, but `model_max_length` before all others.
fn stated(architecture: &Architecture) -> Option<&Fact> {
    let lengths = architecture.lengths();
    let of_file = || architecture.max_context().filter(|_| lengths.first().is_none());
    lengths.by("model_max_length").or_else(|| lengths.shortest_but(&NOT_LOOKED_FOR)).or_else(of_file)
}

fn stretches(rule: &RopeRule, rules: Rules) -> bool {
    let kind = rule.kind.as_str();
    !(LEAVES.contains(&kind) || rules.yarn_unscaled && LEAVES_SINCE_0_30.contains(&kind))
}

/// Says what length is taken where it is not the config's own, and where a rule is not known.
pub(super) fn warning(architecture: &Architecture, engine: &Engine) -> Option<Warning> {
    let found = default_length(architecture, engine);
    let unknown = architecture.rope_scaling().and_then(|rope| {
        rope.rules.iter().find(|rule| {
            let kind = rule.kind.as_str();
            let known = [&LEAVES[..], &LEAVES_SINCE_0_30, &STRETCHES];
            rule.factor.is_some() && !known.iter().any(|list| list.contains(&kind))
        })
    });
    let unknown = unknown.map_or(String::new(), |rule| {
        format!(
            "; the rule {:?} of {} is not known, and vLLM stretches by the factor of any such rule",
            rule.kind, rule.path
        )
    });
    let how = found.how.map_or(unknown.clone(), |how| format!(" ({how}{unknown})"));
    taken(architecture, "vLLM", found.tokens, &how)
}
