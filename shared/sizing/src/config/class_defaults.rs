//! Defaults that a configuration class defines for fields that a `config.json` may leave out.
//!
//! Source of each row: the class of that `model_type` in transformers 4.57 and 5.24 (`models/*/configuration_*.py`), as
//! read by vLLM 0.33.

mod encoders;
mod lengths;
mod widths;
mod windows;

use crate::fact::Fact;

pub(super) use encoders::is_encoder;
pub(super) use windows::{
    full_layer, max_window_layers, pattern_after_dense, pattern_goes_with_window, window_not_taken,
    windows_by_list_alone, windows_every_layer, windows_without_rope,
};

/// `(model types, field, value)`
const COUNTS: &[(&[&str], &str, u64)] = &[
    (&["gemma2", "gpt_oss", "t5_gemma_module", "vaultgemma"], "sliding_window_pattern", 2),
    (&["cohere2", "cohere2_moe", "dory", "exaone4", "exaone_moe", "olmo3"], "sliding_window_pattern", 4),
    (&["gemma3n_text", "kolibri1"], "sliding_window_pattern", 5),
    (&["gemma3_text", "gemma3", "t5gemma2_decoder", "t5gemma2_text"], "sliding_window_pattern", 6),
    (&["inkling_text", "inkling2_text", "inkling2_loop_text"], "sliding_window_pattern", 6),
    (&["afmoe"], "global_attn_every_n_layers", 4),
    (&["modernbert-decoder"], "global_attn_every_n_layers", 3),
    (&["modernbert-decoder"], "local_attention", 128),
    (&["qwen2", "qwen2_5_omni_text", "qwen2_moe", "qwen3"], "max_window_layers", 28),
    (&["qwen2_5_vl_text", "qwen2_vl_text"], "max_window_layers", 80),
    (&["dots1"], "max_window_layers", 62),
    (&["gpt_oss", "granite_swa", "granitemoe_swa", "mimo_v2_flash"], "sliding_window", 128),
    (&["beam", "gemma3n_text", "gemma4_text"], "sliding_window", 512),
    (&["kolibri1"], "sliding_window", 513),
    (&["afmoe", "dory", "gemma4_unified_text"], "sliding_window", 1024),
    (&["muse_glimmer_text", "muse_spark_text"], "sliding_window", 2048),
    (
        &[
            "gemma2",
            "gemma3_text",
            "gemma3",
            "vaultgemma",
            "cohere2",
            "cohere2_moe",
            "exaone4",
            "exaone_moe",
            "olmo3",
            "ministral",
        ],
        "sliding_window",
        4096,
    ),
    (&["dots1", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"], "sliding_window", 4096),
    (&["cwm"], "sliding_window", 8192),
    (&["gpt_neo"], "window_size", 256),
    (
        &[
            "gemma4",
            "gemma4_text",
            "gemma4_unified",
            "gemma4_unified_text",
            "diffusion_gemma",
            "diffusion_gemma_text",
        ],
        "global_head_dim",
        512,
    ),
    (&["gemma3_text", "gemma3"], "num_attention_heads", 8),
    (
        &[
            "dory",
            "ernie4_5_moe",
            "ernie4_5_vl_moe_text",
            "flint",
            "gemma2",
            "gemma3_text",
            "gemma3",
            "gemma4_text",
            "gemma4_unified_text",
            "granite_docling_text",
            "granite_swa",
            "kolibri1",
            "lfm3",
            "mellum",
            "mimo_v2_flash",
            "minimax_m3_vl_text",
            "qwen2_5_omni_text",
            "qwen3_5_text",
            "qwen3_moe",
            "qwen3_omni_moe_text",
            "sarvam_moe",
            "smollm3",
            "vaultgemma",
        ],
        "num_key_value_heads",
        4,
    ),
    (
        &[
            "bamba",
            "beam",
            "cosmos3_edge_text",
            "cwm",
            "emu3_text_model",
            "exaone",
            "falcon_h1",
            "glm4_moe",
            "glm4v_moe_text",
            "glm_ocr_text",
            "gpt_oss",
            "hy_v3",
            "inkling_text",
            "inkling2_text",
            "inkling2_loop_text",
            "iquestcoder",
            "jamba",
            "laguna",
            "lfm2",
            "lfm2_moe",
            "llama4_text",
            "minimax",
            "minimax_m2",
            "ministral",
            "ministral3",
            "mistral",
            "mixtral",
            "mllama_text_model",
            "molmo2_text",
            "nemotron_h",
            "phi4_multimodal",
            "phimoe",
            "qwen2_5_vl_text",
            "qwen2_vl_text",
            "seed_oss",
            "solar_open",
            "step3p5",
            "voxtral_realtime_text",
        ],
        "num_key_value_heads",
        8,
    ),
    (
        &[
            "embedding_gemma2_text",
            "ernie4_5",
            "gemma3n_text",
            "glm",
            "glm4",
            "glm4v_text",
            "glm_image_text",
            "internlm3",
            "muse_glimmer_text",
            "openai_privacy_filter",
            "paddleocr_vl_text",
            "qwen3_5_moe_text",
            "qwen3_next",
            "qwen4_exp_text",
            "starcoder2",
            "zaya",
        ],
        "num_key_value_heads",
        2,
    ),
    (&["bitnet"], "num_key_value_heads", 5),
    (&["muse_spark_text"], "num_key_value_heads", 16),
    (&["gemma3n_text"], "num_kv_shared_layers", 15),
    // vLLM's readers of these two classes, which come with their models.
    (&["ouro"], "total_ut_steps", 4),
    (&["iquestloopcoder"], "loop_num", 2),
    (&["iquestloopcoder"], "loop_window_size", 64),
    (&["dory"], "n_recurrent_loops", 2),
    (&["dory"], "n_input_layers", 8),
    (&["dory"], "n_output_layers", 8),
    (&["inkling2_loop_text"], "loop_num_passes", 3),
    (&["inkling2_loop_text"], "loop_layer_index_start", 6),
    (&["inkling2_loop_text"], "loop_layer_index_end", 18),
    (&["hrm_text"], "H_cycles", 2),
    (&["hrm_text"], "L_cycles", 3),
    (&["bailing_hybrid"], "short_conv_kernel_size", 4),
    (&["zaya"], "cca_time0", 2),
    (&["zaya"], "cca_time1", 2),
    (&["inkling_text", "inkling2_text", "inkling2_loop_text"], "conv_kernel_size", 4),
    (&["inkling_text"], "sliding_window_size", 512),
    (&["inkling2_text", "inkling2_loop_text"], "sliding_window_size", 1024),
    (&["mimo_v2_flash"], "v_head_dim", 128),
    (&["hy_v4"], "index_topk", 2048),
    (&["hy_v4"], "index_head_dim", 128),
    (&["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"], "full_attention_interval", 4),
    (&["llama4_text"], "attention_chunk_size", 8192),
    (&["llama4_text", "smollm3"], "no_rope_layer_interval", 4),
    (&["jamba"], "attn_layer_period", 8),
    (&["zamba"], "attn_layer_period", 6),
    (&["zamba"], "attn_layer_offset", 4),
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

/// What text models inside another model's config leave to their class (`LLaVA`). A config that is of no other model says
/// these itself, and one that does not is cut.
const NESTED_COUNTS: &[(&[&str], &str, u64)] = &[
    (&["llama", "mistral"], "num_hidden_layers", 32),
    (&["llama", "mistral"], "num_attention_heads", 32),
    (&["llama", "mistral"], "hidden_size", 4096),
];

const FLAGS: &[(&[&str], &str, bool)] = &[
    (&["cohere_asr", "moonshine", "moonshine_streaming", "pop2piano"], "is_encoder_decoder", true),
    (
        &[
            "qwen2",
            "qwen2_5_omni_text",
            "qwen2_5_vl_text",
            "qwen2_moe",
            "qwen2_vl_text",
            "qwen3",
            "qwen3_moe",
            "smollm3",
        ],
        "use_sliding_window",
        false,
    ),
    (&["falcon_h1"], "parallel_attention_and_mamba", true),
    (&["falcon", "RefinedWebModel", "gpt_bigcode"], "multi_query", true),
    // The class of Falcon-40B's first checkpoints, which have no field for it (vLLM's `RWConfig`).
    (&["RefinedWeb"], "new_decoder_architecture", true),
    // `ChatGLMConfig` of the model's own repository.
    (&["chatglm"], "multi_query_attention", false),
];

/// Fields for which null is a value of its own, none, in the classes that have a default; for others these classes have no
/// use of null and fail.
const MAY_BE_NONE: &[&str] =
    &["attention_chunk_size", "kv_lora_rank", "max_window_layers", "sliding_window", "sliding_window_size"];

/// Classes that take null for as many K/V heads as query heads, though they have a number where the field is absent.
const NULL_IS_EVERY_HEAD: &[&str] = &[
    "bamba",
    "bitnet",
    "cosmos3_edge_text",
    "cwm",
    "ernie4_5",
    "exaone",
    "falcon_h1",
    "glm4v_text",
    "glm_image_text",
    "glm_ocr_text",
    "gpt_oss",
    "granite_docling_text",
    "granite_swa",
    "internlm3",
    "iquestcoder",
    "jamba",
    "llama4_text",
    "minimax",
    "ministral",
    "ministral3",
    "mistral",
    "mixtral",
    "nemotron_h",
    "openai_privacy_filter",
    "paddleocr_vl_text",
    "phi4_multimodal",
    "phimoe",
    "qwen2_5_omni_text",
    "qwen2_5_vl_text",
    "qwen2_vl_text",
    "seed_oss",
    "smollm3",
    "voxtral_realtime_text",
];

pub(super) fn may_be_none(model_type: Option<&str>, field: &str) -> bool {
    let is_every_head = || model_type.is_some_and(|class| NULL_IS_EVERY_HEAD.contains(&class));
    MAY_BE_NONE.contains(&field) || (field == "num_key_value_heads" && is_every_head())
}

/// Fields for which 0 says none, too, so that a class's default does not step in.
pub(super) fn is_none_at_zero(field: &str) -> bool {
    matches!(
        field,
        "attention_chunk_size" | "num_kv_shared_layers" | "sliding_window" | "sliding_window_size"
    )
}

/// Fields whose zero a class reads as left out (`head_dim or hidden_size // num_attention_heads`, `if kv_lora_rank`); with
/// a zero period or width it fails.
pub(super) fn is_missing_at_zero(field: &str) -> bool {
    matches!(field, "head_dim" | "kv_lora_rank" | "max_window_layers")
}

/// Classes whose `linear_attention` is lightning attention (`MiniMaxConfig`). Without a list every second layer is, and
/// the first one is not.
pub(super) fn linear_is_lightning(model_type: Option<&str>) -> bool {
    model_type == Some("minimax")
}

/// Classes whose `linear_attention` is Mamba: transformers 5.19 writes their old layer name `mamba` so
/// (`_LEGACY_LAYER_TYPE_REMAP` in `configuration_utils.py`).
pub(super) fn linear_is_mamba(model_type: Option<&str>) -> bool {
    matches!(
        model_type,
        Some(
            "bamba"
                | "falcon_mamba"
                | "granitemoehybrid"
                | "jamba"
                | "mamba"
                | "mamba2"
                | "nemotron_h"
                | "zamba"
                | "zamba2"
        )
    )
}

/// The field in which these classes name their attention layers. Where it is absent or null every layer is Mamba
/// (`BambaConfig.layers_block_type`, `GraniteMoeHybridConfig.__post_init__`).
pub(super) fn mamba_unless_listed(model_type: Option<&str>) -> Option<&'static str> {
    match model_type? {
        "bamba" => Some("attn_layer_indices"),
        "granitemoehybrid" => Some("layer_types"),
        _ => None,
    }
}

/// How many times as many K/V heads as `num_key_value_heads` layers with a window have where no field gives them their
/// own (`MiMoV2FlashAttention` in transformers 5.19).
pub(super) fn window_heads_factor(model_type: Option<&str>) -> Option<u64> {
    model_type?.starts_with("mimo_v2").then_some(2)
}

/// Encoder-decoder classes whose decoder is counted by `num_decoder_layers`, or as the encoder is (`T5Config`).
const T5_FAMILY: &[&str] = &["longt5", "mt5", "switch_transformers", "t5", "udop", "umt5"];

pub(super) fn is_t5(model_type: Option<&str>) -> bool {
    model_type.is_some_and(|class| T5_FAMILY.contains(&class))
}

/// Classes whose state no mixer here describes.
pub(super) fn is_unmodelled(model_type: Option<&str>) -> Option<&'static str> {
    match model_type? {
        "rwkv" | "rwkv5" | "rwkv6" | "rwkv6qwen2" | "rwkv7" | "rwkv_hybrid" | "arwkv" => {
            Some("the state of an RWKV model")
        }
        "recurrent_gemma" => Some("a linear recurrent unit (RG-LRU)"),
        "xlstm" => Some("the state of an xLSTM"),
        "blt" => Some("a byte model of three stacks of layers"),
        "abc" | "based" | "comba" | "delta_net" | "gated_deltanet" | "gated_deltaproduct" | "gla" | "gsa"
        | "hgrn" | "hgrn2" | "kda" | "lightnet" | "linear_attn" | "log_linear_mamba2" | "mesa_net"
        | "mom" | "retnet" | "rodimus" | "samba" | "ttt" => {
            Some("a recurrent state as the flash-linear-attention library shapes it")
        }
        _ => None,
    }
}

/// Classes whose `multi_query` is read before any count of K/V heads.
pub(super) fn shares_one_head(model_type: Option<&str>) -> bool {
    matches!(model_type, Some("falcon" | "RefinedWebModel" | "gpt_bigcode"))
}

pub(super) fn is_modernbert_decoder(model_type: Option<&str>) -> bool {
    model_type == Some("modernbert-decoder")
}

/// The class whose layers are local or global by lists of its own.
pub(super) fn is_gpt_neo(model_type: Option<&str>) -> bool {
    model_type == Some("gpt_neo")
}

/// Classes whose `layer_types` name kinds of compressed attention.
pub(super) fn compresses_by_names(model_type: Option<&str>) -> bool {
    model_type == Some("deepseek_v4")
}

/// Classes of Mamba-2 alone, whose heads have no prefix in their names.
pub(super) fn plain_mamba2(model_type: Option<&str>) -> bool {
    model_type == Some("mamba2")
}

/// Classes whose layers with attention have Mamba, too (`ZambaConfig`, which calls them `hybrid`).
pub(super) fn attends_beside_mamba(model_type: Option<&str>) -> bool {
    model_type == Some("zamba")
}

/// Classes of Mamba-1 whose count of heads splits the same state (`ZambaConfig`, `n_mamba_heads`).
pub(super) fn splits_mamba1(model_type: Option<&str>) -> bool {
    model_type == Some("zamba")
}

/// Classes whose attention takes two hidden states at once, so that its heads share twice their width
/// (`attention_hidden_size` of `ZambaConfig` and `Zamba2Config`).
pub(super) fn attends_to_two(model_type: Option<&str>) -> bool {
    matches!(model_type, Some("zamba" | "zamba2"))
}

/// Classes of Mamba-1 alone, where `intermediate_size` is the width of the block and not of an MLP.
pub(super) fn plain_mamba1(model_type: Option<&str>) -> bool {
    matches!(model_type, Some("mamba" | "falcon_mamba"))
}

pub(super) fn count(model_type: Option<&str>, field: &str) -> Option<Fact> {
    [COUNTS, lengths::LENGTHS, widths::WIDTHS]
        .into_iter()
        .find_map(|rows| default_of(rows, model_type, field))
}

/// The default of a text model's class inside another model's config.
pub(super) fn nested_count(model_type: Option<&str>, field: &str) -> Option<Fact> {
    default_of(NESTED_COUNTS, model_type, field)
}

fn default_of(rows: &[(&[&str], &str, u64)], model_type: Option<&str>, field: &str) -> Option<Fact> {
    let (class, value) = find(rows, model_type, field)?;
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
