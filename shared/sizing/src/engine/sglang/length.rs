//! The longest request where no setting names one.

use crate::Fact;
use crate::architecture::Architecture;
use crate::engine::length::{stretched, taken};
use crate::warning::Warning;

/// Fields in the order in which the first one counts.
const FIELDS: [&str; 5] =
    ["max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings"];
/// The longest request of a config that has none of them.
const WITHOUT_FIELD: u64 = 2048;
/// Rules whose original length transformers 5 fills in, which switches the factor off.
const LEAVES: [&str; 4] = ["llama3", "yarn", "longrope", "su"];

/// Classes whose rules transformers 5 keeps by kind of layer, where the factor is not looked for (their
/// `convert_rope_params_to_dict`).
const BY_KIND_OF_LAYER: [&str; 9] = [
    "cohere_compass",
    "diffusion_gemma",
    "embedding_gemma",
    "gemma3",
    "gemma4",
    "laguna",
    "mellum",
    "mimo_v2_flash",
    "olmo3",
];

/// The first field that is there, times the factor of a rule that names no original length.
///
/// Source: SGLang 0.5.23, `get_context_length` of `srt/utils/hf_transformers/common.py`.
pub(in crate::engine) fn default_length(architecture: &Architecture) -> u64 {
    let lengths = architecture.lengths();
    // GPT-2's class answers for `max_position_embeddings` with `n_positions`.
    let stated = FIELDS.iter().find_map(|name| lengths.by(name)).or_else(|| lengths.by("n_positions"));
    let of_file = || architecture.max_context().filter(|_| lengths.first().is_none());
    let Some(stated) = stated.or_else(of_file).map(Fact::get) else { return WITHOUT_FIELD };
    let is_by_kind = architecture
        .model_type()
        .is_some_and(|class| BY_KIND_OF_LAYER.iter().any(|start| class.starts_with(start)));
    let rule = architecture.rope_scaling().filter(|_| !is_by_kind).and_then(|rope| match &rope.rules[..] {
        // Rules of several kinds of layers have no factor of their own.
        [rule] if rope.original.or(rule.original).is_none() => Some(rule),
        _ => None,
    });
    let factor = rule.filter(|rule| !LEAVES.contains(&rule.kind.as_str())).and_then(|rule| rule.factor);
    factor.map_or(stated, |factor| stretched(stated, factor))
}

/// Says what length is taken where it is not the config's own.
pub(super) fn warning(architecture: &Architecture) -> Option<Warning> {
    let of_class = architecture.lengths().first().filter(|_| architecture.max_context().is_none());
    let how = of_class.map_or(String::new(), |length| format!(" ({})", length.source()));
    taken(architecture, "SGLang", default_length(architecture), &how)
}
