//! Names that different classes give to one field, in the order in which the reader prefers them.

use serde_json::Value;

use crate::format::StateFormat;

/// `n_kv_heads` and `dim` are of Mistral's own `params.json` (vLLM 0.33, `transformers_utils/configs/mistral.py`).
pub(in crate::config) const KV_HEADS: [&str; 6] = [
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "num_attention_groups",
    "n_kv_heads",
    "decoder_num_key_value_heads",
];
/// The first are a decoder's own where there is an encoder too (Whisper, Moonshine, `ProphetNet`), so the plain ones may differ
/// from them.
pub(in crate::config) const QUERY_HEADS: [&str; 9] = [
    "decoder_attention_heads",
    "decoder_num_attention_heads",
    "num_decoder_attention_heads",
    "num_attention_heads",
    "num_query_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "attention_heads",
];
/// Query heads of sliding layers, where they have their own.
pub(in crate::config) const SLIDING_QUERY_HEADS: [&str; 3] =
    ["swa_num_attention_heads", "num_swa_attention_heads", "num_sliding_attention_heads"];
pub(in crate::config) const SLIDING_KV_HEADS: [&str; 2] =
    ["swa_num_key_value_heads", "num_swa_key_value_heads"];
/// `n_embed` is of BLOOM (transformers, `BloomConfig.attribute_map`).
pub(in crate::config) const HIDDEN: [&str; 6] =
    ["hidden_size", "model_dim", "n_embd", "n_embed", "d_model", "dim"];
pub(in crate::config) const HEAD_WIDTHS: [&str; 5] =
    ["head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels", "d_kv"];
/// The first two as the first of [`QUERY_HEADS`].
pub(in crate::config) const LAYERS: [&str; 8] = [
    "decoder_layers",
    "num_decoder_layers",
    "decoder_num_hidden_layers",
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "n_layers",
    "num_transformer_layers",
];
/// MLA's fields, and openPangu's names for them; `v_channels` is of its models with heads.
pub(in crate::config) const LATENT_RANKS: [&str; 2] = ["kv_lora_rank", "attention_kv_lora_dim"];
pub(in crate::config) const LATENT_ROPES: [&str; 2] = ["qk_rope_head_dim", "attention_qk_rope_dim"];
pub(in crate::config) const LATENT_NOPES: [&str; 2] = ["qk_nope_head_dim", "attention_qk_dim"];
pub(in crate::config) const LATENT_VALUES: [&str; 3] = ["v_head_dim", "attention_v_dim", "v_channels"];
/// `model_max_length` goes first: Command-R states it beside a shorter `max_position_embeddings`. `max_context_length` is of
/// `OpenELM` (`OpenELMConfig`).
pub(in crate::config) const CONTEXTS: [&str; 10] = [
    "model_max_length",
    "max_position_embeddings",
    "max_target_positions",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
    "max_context_length",
];
pub(in crate::config) const DTYPES: [&str; 2] = ["dtype", "torch_dtype"];
pub(in crate::config) const RECURRENT_DTYPES: [&str; 2] = ["mamba_ssm_dtype", "mamba_ssm_cache_dtype"];
pub(in crate::config) const WINDOWS: [&str; 3] =
    ["sliding_window", "sliding_window_size", "interleaved_sliding_window"];
pub(in crate::config) const ENCODER_TOKENS: [&str; 2] = ["max_source_positions", "encoder_tokens"];
pub(in crate::config) const SSM_STATES: [&str; 3] = ["ssm_state_size", "mamba_d_state", "state_size"];
pub(in crate::config) const SSM_KERNELS: [&str; 2] = ["conv_kernel", "mamba_d_conv"];
pub(in crate::config) const SSM_HEADS: [&str; 3] = ["mamba_num_heads", "mamba_n_heads", "n_mamba_heads"];
pub(in crate::config) const SSM_HEAD_WIDTHS: [&str; 3] = ["mamba_head_dim", "mamba_d_head", "mamba_headdim"];
pub(in crate::config) const SSM_GROUPS: [&str; 3] = ["n_groups", "mamba_n_groups", "mamba_ngroups"];
pub(in crate::config) const SSM_WIDTHS: [&str; 2] = ["mamba_d_ssm", "d_inner"];
pub(in crate::config) const SSM_EXPANSIONS: [&str; 2] = ["mamba_expand", "expand"];

/// Fields of which all but one are idle, so that two with different values are a contradiction.
pub(super) const ONE_MEANING: &[&[&str]] = &[
    // ChatGLM's group count is a count of K/V heads too.
    &[
        "num_key_value_heads",
        "num_kv_heads",
        "n_head_kv",
        "num_attention_groups",
        "n_kv_heads",
        "multi_query_group_num",
    ],
    // The last ones are names of other things too: heads of a recurrence, a width of any part.
    QUERY_HEADS.split_at(7).0.split_at(3).1,
    HIDDEN.split_at(5).0,
    // Zamba2 states `kv_channels` beside `attention_head_dim`, which is wider and the one that is kept.
    HEAD_WIDTHS.split_at(3).0,
    &["head_dim", "kv_channels"],
    LAYERS.split_at(3).1,
    &LATENT_RANKS,
    &LATENT_ROPES,
    &LATENT_NOPES,
    &LATENT_VALUES,
    &CONTEXTS,
    &DTYPES,
    &RECURRENT_DTYPES,
    &WINDOWS,
    &ENCODER_TOKENS,
    &SSM_STATES,
    &SSM_KERNELS,
    &SSM_HEADS,
    &SSM_HEAD_WIDTHS,
    &SSM_GROUPS,
    &SSM_WIDTHS,
    &SSM_EXPANSIONS,
];

/// Whether a name says how heads of attention are shaped. Where no layer has attention, no rule reads it.
pub(in crate::config) fn is_of_heads(name: &str) -> bool {
    [&KV_HEADS[..], &QUERY_HEADS, &HEAD_WIDTHS].iter().any(|names| names.contains(&name))
}

/// Every name of a Mamba block's shape.
pub(in crate::config) fn of_mamba() -> impl Iterator<Item = &'static str> {
    let lists: [&[&str]; 7] =
        [&SSM_STATES, &SSM_KERNELS, &SSM_HEADS, &SSM_HEAD_WIDTHS, &SSM_GROUPS, &SSM_WIDTHS, &SSM_EXPANSIONS];
    lists.into_iter().flatten().copied()
}

/// Whether two values of one meaning differ. Formats have several names.
pub(super) fn differ(a: &Value, b: &Value) -> bool {
    if let (Value::String(a), Value::String(b)) = (a, b)
        && let (Ok(a), Ok(b)) = (a.parse::<StateFormat>(), b.parse::<StateFormat>())
    {
        return a != b;
    }
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_ne(),
        _ => a != b,
    }
}

/// Whether a value says nothing: 0 means missing, and `auto` leaves a format to another field.
pub(super) fn is_silent(value: &Value) -> bool {
    value.as_f64() == Some(0.0) || value.as_str() == Some("auto")
}
