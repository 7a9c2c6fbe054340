//! The longest request where no setting names one: what the config says, as its `RoPE` scaling changes it.

use crate::architecture::Architecture;
use crate::config::RopeRule;
use crate::warning::Warning;
use crate::{Fact, group_digits};

/// Rules that leave the length as it is: its field counts the scaled positions already.
const LEAVES: [&str; 3] = ["longrope", "su", "llama3"];
/// Rules that stretch by a factor, or that have none.
const STRETCHES: [&str; 5] = ["default", "mrope", "linear", "dynamic", "yarn"];

/// The longest request, and how it comes about where the config's own field says another length.
///
/// Source: vLLM 0.33, `_get_and_verify_max_len` of `config/model.py` and `patch_rope_parameters` of
/// `transformers_utils/config.py`.
pub(in crate::engine) fn default_length(architecture: &Architecture) -> Option<(u64, Option<String>)> {
    let stated = architecture.max_context().map(Fact::get)?;
    let is_scaled_already = architecture.model_type().is_some_and(|class| class.contains("gemma3"));
    let Some(rope) = architecture.rope_scaling().filter(|_| !is_scaled_already) else {
        return Some((stated, None));
    };
    let original = |rule: &RopeRule| rope.original.or(rule.original).unwrap_or(stated);
    let (mut length, mut factor, mut how) = (stated, 1.0, None);
    for rule in rope.rules.iter().filter(|rule| !LEAVES.contains(&rule.kind.as_str())) {
        factor = rule.factor.unwrap_or(factor);
        if rule.kind == "yarn" {
            length = original(rule);
        }
        how = Some(rule);
    }
    let own =
        || how.map(|rule| format!("{} of {}: {} × {factor}", rule.kind, rule.path, group_digits(length)));
    let (length, how) = (stretched(length, factor), own());
    let found = match rope.rules.iter().find(|rule| ["longrope", "su"].contains(&rule.kind.as_str())) {
        Some(rule) if rope.original.is_some() => (
            rope.original.unwrap_or(length),
            Some(format!("{}: original_max_position_embeddings", rule.path)),
        ),
        _ => (length, how),
    };
    Some((found.0, found.1.filter(|_| found.0 != stated)))
}

/// Says what length is taken where it is not the config's own, and where a rule is not known.
pub(super) fn warning(architecture: &Architecture) -> Option<Warning> {
    let (length, how) = default_length(architecture)?;
    let stated = architecture.max_context()?;
    let unknown = architecture.rope_scaling().and_then(|rope| {
        rope.rules.iter().find(|rule| {
            let kind = rule.kind.as_str();
            rule.factor.is_some() && !LEAVES.contains(&kind) && !STRETCHES.contains(&kind)
        })
    });
    let unknown = unknown.map_or(String::new(), |rule| {
        format!(
            "; the rule {:?} of {} is not known, and vLLM stretches by the factor of any such rule",
            rule.kind, rule.path
        )
    });
    let how = how?;
    let message = format!(
        "not given; vLLM takes {} ({how}), where {} is {}{unknown}",
        group_digits(length),
        stated.source(),
        group_digits(stated.get())
    );
    Some(Warning::new("max_model_len", message))
}

/// `int(length * factor)`
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a product that no length has saturates, and a negative one is 0"
)]
fn stretched(length: u64, factor: f64) -> u64 {
    (length as f64 * factor) as u64
}
