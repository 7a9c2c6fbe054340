//! Defaults that a configuration class defines for fields that a `config.json` may leave out.
//!
//! Source of each row: the class of that `model_type` in transformers 4.57 and 5, as read by vLLM 0.33.

use crate::fact::Fact;

/// `(model types, field, value)`
const COUNTS: &[(&[&str], &str, u64)] = &[
    (&["gemma2"], "sliding_window_pattern", 2),
    (&["gemma2"], "sliding_window", 4096),
    (&["gemma3_text", "gemma3"], "sliding_window_pattern", 6),
    (&["gemma3_text", "gemma3"], "sliding_window", 4096),
    (&["gemma3_text", "gemma3"], "num_attention_heads", 8),
    (&["gemma3_text", "gemma3"], "num_key_value_heads", 4),
    (&["gemma3_text", "gemma3"], "head_dim", 256),
    (&["cohere2"], "sliding_window_pattern", 4),
    (&["exaone4"], "sliding_window_pattern", 4),
    (&["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"], "full_attention_interval", 4),
    (&["llama4_text"], "attention_chunk_size", 8192),
    (&["llama4_text"], "no_rope_layer_interval", 4),
    (&["jamba"], "attn_layer_period", 8),
    (&["jamba"], "mamba_expand", 2),
    (&["jamba"], "mamba_d_state", 16),
    (&["jamba"], "mamba_d_conv", 4),
    (&["mamba", "falcon_mamba", "mamba2"], "expand", 2),
    (&["mamba", "falcon_mamba", "mamba2"], "conv_kernel", 4),
    (&["mamba", "falcon_mamba"], "state_size", 16),
    (&["mamba2"], "state_size", 128),
    (&["mamba2"], "n_groups", 8),
    (&["zamba2"], "mamba_ngroups", 1),
    (&["zamba2"], "mamba_expand", 2),
    (&["zamba2"], "mamba_d_state", 64),
    (&["zamba2"], "mamba_d_conv", 4),
    (&["granitemoehybrid", "falcon_h1"], "mamba_d_conv", 4),
    (&["granitemoehybrid"], "mamba_n_groups", 1),
    (&["nemotron_h"], "conv_kernel", 4),
    (&["lfm2", "lfm2_moe"], "conv_L_cache", 3),
    (&["longcat_flash"], "attention_blocks_per_layer", 2),
    (&["deepseek_v2", "deepseek_v3", "longcat_flash"], "kv_lora_rank", 512),
];

const FLAGS: &[(&[&str], &str, bool)] = &[
    (&["qwen2", "qwen2_moe", "qwen3", "qwen3_moe"], "use_sliding_window", false),
    (&["falcon_h1"], "parallel_attention_and_mamba", true),
    (&["falcon", "RefinedWebModel", "gpt_bigcode"], "multi_query", true),
    // The class of Falcon-40B's first checkpoints, which have no field for it (vLLM's `RWConfig`).
    (&["RefinedWeb"], "new_decoder_architecture", true),
    // `ChatGLMConfig` of the model's own repository.
    (&["chatglm"], "multi_query_attention", false),
];

/// Classes whose layers all have the window where the config has one and no field says which.
const WINDOW_ON_EVERY_LAYER: &[&str] = &["mistral", "mixtral", "phi3", "starcoder2", "ministral"];

/// Classes whose `multi_query` is read before any count of K/V heads.
pub(super) fn shares_one_head(model_type: Option<&str>) -> bool {
    matches!(model_type, Some("falcon" | "RefinedWebModel" | "gpt_bigcode"))
}

pub(super) fn windows_every_layer(model_type: Option<&str>) -> bool {
    model_type.is_some_and(|class| WINDOW_ON_EVERY_LAYER.contains(&class))
}

/// Classes of encoders, which see the whole text at once and keep nothing of it (`layers/attention/attention.py` of vLLM
/// 0.33: no cache for encoder attention).
const ENCODERS: &[&str] = &[
    "albert",
    "bert",
    "camembert",
    "deberta-v2",
    "distilbert",
    "electra",
    "modernbert",
    "mpnet",
    "nomic_bert",
    "roberta",
    "xlm-roberta",
];

pub(super) fn is_encoder(model_type: Option<&str>) -> bool {
    model_type.is_some_and(|class| ENCODERS.contains(&class))
}

/// Classes of Mamba-2 alone, whose heads have no prefix in their names.
pub(super) fn plain_mamba2(model_type: Option<&str>) -> bool {
    model_type == Some("mamba2")
}

/// Classes of Mamba-1 alone, where `intermediate_size` is the width of the block and not of an MLP.
pub(super) fn plain_mamba1(model_type: Option<&str>) -> bool {
    matches!(model_type, Some("mamba" | "falcon_mamba"))
}

pub(super) fn count(model_type: Option<&str>, field: &str) -> Option<Fact> {
    let (class, value) = find(COUNTS, model_type, field)?;
    Some(Fact::default(value, field, format!("{value}, the default of the {class} configuration class")))
}

pub(super) fn flag(model_type: Option<&str>, field: &str) -> Option<bool> {
    find(FLAGS, model_type, field).map(|(_, value)| value)
}

fn find<'m, T: Copy>(
    rows: &[(&[&str], &str, T)],
    model_type: Option<&'m str>,
    field: &str,
) -> Option<(&'m str, T)> {
    let class = model_type?;
    let (.., value) = rows.iter().find(|(types, name, _)| *name == field && types.contains(&class))?;
    Some((class, *value))
}
