//! What becomes of fields that no rule has read.
//!
//! A field is passed over in silence only where a reason is known: it is in a list below, or a rule reads it in other
//! configs and another field took precedence in this one. Of the rest, those whose names speak of state are a doubt that
//! travels with the figure, and an error where doubts are refused.

use serde_json::Value;

use super::fields::is_of_heads;
use crate::warning::Warning;
use crate::{Error, Result};

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

/// Why a field does not change the state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reason {
    /// Another field that a rule reads says the same, and took precedence or switched it off.
    ReadByRule,
    /// How positions enter attention, not what is kept.
    Positions,
    /// The width or routing of MLPs and experts.
    Mlp,
    /// What happens on the query's or the output's side of attention.
    QuerySide,
    /// Norms, scales, activations, dropout, initial values.
    Arithmetic,
    /// Vocabulary, embeddings, special tokens.
    Vocabulary,
    /// Draft layers, which are left out.
    Drafts,
    /// Vision, audio and other parts beside the text model.
    OtherParts,
    /// How weights are stored; K/V formats are read elsewhere.
    Weights,
    /// The library, training and generation.
    Library,
    /// The inside of a recurrent block beyond its state's shape.
    RecurrentInside,
}

use Reason::{
    Arithmetic, Drafts, Library, Mlp, OtherParts, Positions, QuerySide, ReadByRule, RecurrentInside,
    Vocabulary, Weights,
};

/// Names that do not change the state, in full.
const EXACT: &[(Reason, &[&str])] = &[
    (
        ReadByRule,
        &[
            "attention_chunk_size",
            "attn_layer_offset",
            "attn_layer_period",
            "attn_type_list",
            "compress_ratios",
            "conv_dim",
            "conv_kernel",
            "cross_attention_layers",
            "d_inner",
            "decoder_attention_heads",
            "decoder_layers",
            "expand",
            "full_attention_interval",
            "full_attn_idxs",
            "global_head_dim",
            "head_dim",
            "hidden_size",
            "index_n_heads",
            "index_topk",
            "index_topk_freq",
            "indexer_n_heads",
            "index_source_layer_ids",
            "is_hybrid_swa",
            "kv_channels",
            "layer_types",
            "layers_block_type",
            "mamba_d_ssm",
            "mamba_expand",
            "mamba_ssm_cache_dtype",
            "mamba_ssm_dtype",
            "max_seq_len",
            "max_position_embeddings",
            "max_source_positions",
            "max_target_positions",
            "max_window_layers",
            "model_max_length",
            "multi_query",
            "new_decoder_architecture",
            "no_rope_layer_interval",
            "no_rope_layers",
            "num_attention_heads",
            "num_global_key_value_heads",
            "num_key_value_heads",
            "num_hidden_layers",
            "num_kv_shared_layers",
            "num_layers",
            "qk_nope_head_dim",
            "qk_rope_head_dim",
            "sliding_window",
            "sliding_window_pattern",
            "sliding_window_size",
            "_sliding_window_pattern",
            "order_of_interleaved_layers",
            "swa_head_dim",
            "swa_num_key_value_heads",
            "swa_v_head_dim",
            "use_sliding_window",
            "v_head_dim",
        ],
    ),
    (
        Positions,
        &[
            "alibi",
            "llama_4_scaling",
            "max_sequence_length",
            "mla_use_nope",
            "partial_rotary_factor",
            "position_embedding_type",
            "use_rope",
        ],
    ),
    (
        Mlp,
        &[
            "decoder_sparse_step",
            "enable_moe_block",
            "expert_layer_offset",
            "expert_layer_period",
            "first_k_dense_replace",
            "interleave_moe_layer_step",
            "intermediate_size",
            "mlp_only_layers",
            "moe_layer_freq",
            "moe_layer_interval",
            "moe_layers",
            "moe_layers_enum",
            "n_group",
            "num_hash_layers",
            "num_shared_expert",
            "routed_expert_hidden_size",
            "share_expert_dim",
            "topk_group",
        ],
    ),
    (
        QuerySide,
        &[
            "attention_k_eq_v",
            "attention_method",
            "attn_output_gate",
            "head_wise_attn_gate",
            "index_skip_topk_offset",
            "indexer_rope_interleave",
            "mla_use_output_gate",
            "num_sliding_attention_heads",
            "o_groups",
            "o_lora_rank",
            "q_lora_rank",
            "qk_head_dim",
            "query_pre_attn_scalar",
            "swa_num_attention_heads",
            "use_head_wise_attn_gate",
            "use_qk_norm",
        ],
    ),
    (
        Arithmetic,
        &[
            "attention_bias",
            "attention_multiplier",
            "attention_other_setting",
            "attention_value_scale",
            "attn_logit_softcapping",
            "attn_scale",
            "attn_temperature_tuning",
            "attn_temperature_tuning_scale",
            "attention_out_bias",
            "attention_projection_layout",
            "floor_scale",
            "mla_scale_kv_lora",
            "mla_scale_q_lora",
            "hidden_act",
            "hidden_activation",
            "hidden_activations",
            "use_bidirectional_attention",
        ],
    ),
    (Vocabulary, &["lm_head_bias", "tie_word_embeddings", "use_tied_lm_head", "vocab_size"]),
    (Drafts, &["index_share_for_mtp_iteration", "num_mtp_modules", "num_nextn_predict_layers", "use_mtp"]),
    (
        Library,
        &[
            "architectures",
            "auto_map",
            "cache_implementation",
            "dtype",
            "ep_size",
            "id2label",
            "label2id",
            "model_type",
            "pretraining_tp",
            "torch_dtype",
            "transformers_version",
            "use_cache",
        ],
    ),
    (Weights, &["quantization", "quantization_config", "compression_config"]),
    (
        RecurrentInside,
        &[
            "chunk_size",
            "conv_dim_out",
            "conv_use_xavier_init",
            "mamba_use_mlp",
            "mamba_chunk_size",
            "mamba_conv_bias",
            "mamba_hidden_act",
            "mamba_norm_before_gate",
            "mamba_proj_bias",
            "mamba_rms_norm",
            "conv_bias",
            "use_conv_bias",
            "use_mamba_kernels",
            "mamba_dt_rank",
            "linear_conv_bias",
        ],
    ),
];

/// Beginnings and ends of names that do not change the state.
const PATTERNS: &[(Reason, &[&str], &[&str])] = &[
    (Positions, &["rope_", "rotary_", "mrope_", "yarn_"], &["_rope_theta", "_rope_dim", "rope_parameters"]),
    (
        Mlp,
        &[
            "moe_",
            "num_expert",
            "num_local_expert",
            "router_",
            "shared_expert",
            "ffn_",
            "mlp_",
            "n_routed_",
            "n_shared_",
            "expert_",
            "laurel_",
            "block_auto",
            "block_dim",
            "block_ff",
            "block_mlp",
            "block_multiple",
            "block_use_swiglu",
            "altup_",
        ],
        &["_intermediate_size", "_experts", "_experts_per_tok"],
    ),
    (QuerySide, &["add_swa_attention_sink", "add_full_attention_sink"], &[]),
    (
        Arithmetic,
        &[
            "layernorm_",
            "layer_norm_",
            "norm_",
            "init_",
            "hc_",
            "block_norm",
            "block_use_xavier",
            "embedding_multiplier",
            "ssm_multipliers",
        ],
        &[
            "_activation",
            "_alpha_factor",
            "_beta_factor",
            "_bias",
            "_dropout",
            "_eps",
            "_epsilon",
            "_init",
            "_layerdrop",
            "_initializer_range",
            "_layernorm",
            "_multiplier",
            "_multipliers",
            "_norm",
            "_pdrop",
            "_prob",
            "_scale",
            "_softcapping",
            "dropout",
        ],
    ),
    (
        Vocabulary,
        &["vocab_size_", "embedding_", "hidden_size_per_layer_input"],
        &["_token_id", "_token_ids", "_token_index"],
    ),
    (Drafts, &["mtp_", "nextn_", "eagle_"], &[]),
    (
        OtherParts,
        &[
            "vision_",
            "vit_",
            "encoder_",
            "audio_",
            "image_",
            "video_",
            "mm_",
            "projector_",
            "talker_",
            "code2wav_",
            "spatial_",
            "speech_",
        ],
        &["_projector_type"],
    ),
    (
        Library,
        &[
            "_attn_implementation",
            "_commit",
            "_flash_attn",
            "_from_model",
            "_name_or_path",
            "gradient_",
            "output_",
            "return_",
            "torch_",
        ],
        &["_implementation"],
    ),
    (RecurrentInside, &["time_step_", "mamba_dt_", "dt_"], &["_hidden_act"]),
];

/// Parts of names that speak of what layers keep.
const STATE_WORDS: &[&str] = &[
    "attn",
    "attention",
    "block",
    "cache",
    "cca_",
    "chunk",
    "cla_",
    "compress",
    "conv",
    "cross",
    "delta",
    "encoder_decoder",
    "head",
    "hybrid",
    "index",
    "kda",
    "kv",
    "latent",
    "layer",
    "linear",
    "loop",
    "lora_rank",
    "mamba",
    "mem",
    "mla",
    "pool",
    "recurrent",
    "retention",
    "rnn",
    "rwkv",
    "share",
    "sink",
    "sliding",
    "sparse",
    "ssm",
    "state",
    "stride",
    "swa",
    "ut_steps",
    "wkv",
    "window",
];

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

fn reason(name: &str) -> Option<Reason> {
    let exact = EXACT.iter().find(|(_, names)| names.contains(&name)).map(|(reason, _)| *reason);
    exact.or_else(|| {
        let fits = |(_, starts, ends): &&(Reason, &[&str], &[&str])| {
            starts.iter().any(|start| name.starts_with(start)) || ends.iter().any(|end| name.ends_with(end))
        };
        PATTERNS.iter().find(fits).map(|(reason, ..)| *reason)
    })
}

/// Whether a name speaks of state.
fn suggests_state(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    STATE_WORDS.iter().any(|word| name.contains(word))
}

/// What becomes of a doubt about one field.
///
/// # Errors
///
/// The doubt itself, where doubts are refused.
pub(super) fn report_doubt(doubt: Warning, unknown: Unknown, warnings: &mut Vec<Warning>) -> Result<()> {
    match unknown {
        Unknown::Warn => warnings.push(doubt),
        Unknown::Refuse => return Err(Error::field(doubt.field, doubt.message)),
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
        return Err(Error::field(
            &first.path,
            format!(
                "no rule knows this field, and it could change the state{more}; without --strict this is a warning"
            ),
        ));
    }
    for field in doubtful {
        warnings.push(Warning::new(
            field.path,
            "no rule knows this field, and its name speaks of state; the figure holds only if it does not matter",
        ));
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
