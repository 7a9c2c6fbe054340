//! Rules that SGLang chooses by the model's class.

use super::launch::Launch;
use super::v4_layout::{PageLayout, index_format};
use crate::Result;
use crate::architecture::{Architecture, Exporter, LayerClass};
use crate::engine::{Query, needed};
use crate::fact::Fact;
use crate::format::KvFormat;
use crate::mixer::{Generation, Mixer};
use crate::settings::{MambaRadixStrategy, Settings};
use crate::warning::Warning;

/// Classes whose window layers have a pool of their own, with the `model_type` that stands for them where a config
/// names no class (`is_hybrid_swa_model`).
const WINDOW_POOL: &[(&str, &str)] = &[
    ("GptOssForCausalLM", "gpt_oss"),
    ("GraniteSWAForCausalLM", "granite_swa"),
    ("GraniteMoeSWAForCausalLM", "granitemoe_swa"),
    ("IQuestQ1ForCausalLM", "iquest_q1"),
    ("MiMoV2ForCausalLM", "mimo_v2"),
    ("MiMoV2FlashForCausalLM", "mimo_v2_flash"),
    ("Llama4ForConditionalGeneration", "llama4_text"),
    ("DeepseekV4ForCausalLM", "deepseek_v4"),
    ("Step3p5ForCausalLM", "step3p5"),
    ("Step3p7ForConditionalGeneration", "step3p7"),
    ("Gemma4ForCausalLM", "gemma4_text"),
    ("Gemma4ForConditionalGeneration", "gemma4"),
    ("Gemma4UnifiedForConditionalGeneration", "gemma4_unified"),
    ("DiffusionGemmaForBlockDiffusion", "diffusion_gemma"),
    ("EmbeddingGemma2Model", "embedding_gemma2"),
    ("BeamForCausalLM", "beam"),
    ("LagunaForCausalLM", "laguna"),
    ("MellumForCausalLM", "mellum"),
    ("MuseGlimmerForCausalLM", "muse_glimmer"),
    ("MuseGlimmerForConditionalGeneration", "muse_glimmer_text"),
    ("InklingForConditionalGeneration", "inkling"),
    ("UnlimitedOCRForCausalLM", "unlimited_ocr"),
];

/// Classes whose own draft layer is a window layer (`MiMoV2MTP` and `Step3p5MTP`).
const WINDOW_DRAFTS: &[(&str, &str)] = &[
    ("MiMoV2ForCausalLM", "mimo_v2"),
    ("MiMoV2FlashForCausalLM", "mimo_v2_flash"),
    ("Step3p5ForCausalLM", "step3p5"),
    ("Step3p7ForConditionalGeneration", "step3p7"),
];

/// Classes whose window pool is a tenth of the full one where nothing is set (`model_overrides/inkling.py`).
const SMALL_WINDOW_POOL: &[(&str, &str)] = &[("InklingForConditionalGeneration", "inkling")];

/// Classes whose states can be snapshot into an extra buffer (`_MAMBA_EXTRA_BUFFER_ARCHS`, `overrides.py`).
const EXTRA_BUFFER: &[(&str, &str)] = &[
    ("KimiLinearForCausalLM", "kimi_linear"),
    ("KimiK3ForConditionalGeneration", "kimi_k3"),
    ("Qwen3_5ForConditionalGeneration", "qwen3_5"),
    ("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"),
    ("Qwen3_5ForCausalLM", "qwen3_5_text"),
    ("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text"),
    ("Qwen3NextForCausalLM", "qwen3_next"),
    ("Qwen4ExpForConditionalGeneration", "qwen4_exp"),
    ("InternS2PreviewForConditionalGeneration", "interns2_preview"),
    ("MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6"),
    ("MiniCPMV4_7ForConditionalGeneration", "minicpmv4_7"),
    ("BailingMoeV2_5ForCausalLM", "bailing_hybrid"),
    ("BailingMoeV3ForCausalLM", "bailing_moe_v3"),
    ("BailingMoeV3VLForConditionalGeneration", "bailing_moe_v3_vl"),
    ("FalconH1ForCausalLM", "falcon_h1"),
    ("GraniteMoeHybridForCausalLM", "granitemoehybrid"),
    ("Glm5NextForConditionalGeneration", "glm5_next"),
    ("NemotronHForCausalLM", "nemotron_h"),
    ("NemotronHPuzzleForCausalLM", "nemotron_h_puzzle"),
    ("NemotronH_Omni_Reasoning_V3", "nemotron_h_omni"),
    ("InklingForConditionalGeneration", "inkling"),
];

/// Encoders with a decoder, and decoders that attend to an encoder's output in layers of their own, that SGLang has
/// (`models/whisper.py`, `models/mllama.py`).
const WITH_ENCODER: &[(&str, &str)] = &[
    ("WhisperForConditionalGeneration", "whisper"),
    ("MllamaForConditionalGeneration", "mllama_text_model"),
];

/// Classes whose layers run several times that have a cache for each pass (`num_attention_layers` of `model_config.py`).
const LOOPS: &[(&str, &str)] = &[("IQuestLoopCoderForCausalLM", "iquestloopcoder")];

/// Pages that TRT-LLM's back ends of latents and of heads take (`_mla_backend_page_constraints` of `overrides.py`); others become
/// pages of 64 tokens.
const LATENT_PAGES: (&str, &[u64]) = ("trtllm_mla", &[32, 64]);
const HEAD_PAGES: (&str, &[u64]) = ("trtllm_mha", &[16, 32, 64, 128]);

/// Tokens of the window pool over those of the full pool, where nothing is set.
const DEFAULT_RATIO: f64 = 0.8;
const SMALL_RATIO: f64 = 0.1;

/// Which pools a model's layers share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PoolKind {
    /// One pool: every layer costs full length.
    Uniform,
    /// A pool for window layers beside the one for full layers.
    Windowed,
    /// DeepSeek-V4's compressed pools.
    V4,
}

/// Which pools the model has.
pub(super) fn pool_kind(architecture: &Architecture) -> PoolKind {
    let has = |wanted: fn(&Mixer) -> bool| architecture.mixers().any(wanted);
    if has(|mixer| matches!(mixer, Mixer::Compressed(_))) {
        return PoolKind::V4;
    }
    let windows = has(|mixer| matches!(mixer, Mixer::Sliding { .. } | Mixer::Chunked { .. }));
    let listed = architecture.hints().asks_for_window_pool || is_listed(architecture, WINDOW_POOL);
    if windows && listed { PoolKind::Windowed } else { PoolKind::Uniform }
}

/// Cross-attention as a layer of the one pool: an encoder's tokens take slots before those of the text
/// (`prepare_encoder_info_extend`), and every layer has room for both.
pub(super) fn as_kept(mixer: Mixer) -> Mixer {
    match mixer {
        Mixer::Cross { heads, .. } => Mixer::Full(heads),
        other => other,
    }
}

/// Slots that a request's encoder takes.
///
/// # Errors
///
/// Neither a setting nor the config says how many tokens it has.
pub(super) fn encoder_tokens(architecture: &Architecture, settings: &Settings) -> Result<u64> {
    let mut mixers = architecture.mixers();
    let limit = mixers.find_map(|mixer| match mixer {
        Mixer::Cross { encoder_tokens, .. } => Some(encoder_tokens.as_ref().map(Fact::get)),
        _ => None,
    });
    match limit {
        None => Ok(0),
        Some(limit) => settings.encoder_tokens.or(limit).ok_or_else(|| needed("encoder_tokens")),
    }
}

/// Layers of an encoder that the pool has room for though they keep nothing: Whisper's own numbering counts them
/// (`num_attention_layers` of `model_config.py`).
pub(super) fn unused_layers(architecture: &Architecture) -> u64 {
    let beside = |class: &LayerClass| {
        let is_cross = |mixer: &Mixer| matches!(mixer, Mixer::Cross { .. });
        class.mixers.iter().any(is_cross) && !class.mixers.iter().all(is_cross)
    };
    let numbered = architecture.classes().iter().any(beside);
    architecture.encoder_layers().filter(|_| numbered).map_or(0, Fact::get)
}

/// What SGLang's own sources do not say of a class.
pub(super) fn warnings(architecture: &Architecture) -> Vec<Warning> {
    let class = architecture.architectures().first().map(String::as_str).or(architecture.model_type());
    let class = class.unwrap_or("this class");
    let mut found = Vec::new();
    let has_cross = architecture.mixers().any(|mixer| matches!(mixer, Mixer::Cross { .. }));
    if has_cross && !is_listed(architecture, WITH_ENCODER) {
        let message = format!("SGLang has no class for {class}; the figures follow its rules for Whisper");
        found.push(Warning::new("architectures", message));
    }
    if architecture.loops().is_some() && !is_listed(architecture, LOOPS) {
        let message = format!(
            "SGLang has no rule for the passes of {class}; a cache for each pass is assumed, as it has for its loop coder"
        );
        found.push(Warning::new("architectures", message));
    }
    found
}

/// Whether the draft layers of the model are window layers.
pub(super) fn drafts_with_windows(architecture: &Architecture) -> bool {
    is_listed(architecture, WINDOW_DRAFTS)
}

/// The default ratio of window tokens to full tokens, DeepSeek-V4 aside.
pub(super) fn default_ratio(architecture: &Architecture) -> f64 {
    if is_listed(architecture, SMALL_WINDOW_POOL) { SMALL_RATIO } else { DEFAULT_RATIO }
}

/// Where nothing is set: the extra buffer, for classes that have it, wherever batches overlap or pages hold several tokens
/// (`_mamba_radix_cache_resolution`, 0.5.14 and later; before, no buffer).
pub(super) fn radix_strategy(query: &Query<'_>, launch: &Launch) -> Option<MambaRadixStrategy> {
    let buffers = query.engine.at_least(&[0, 5, 14])
        && query.settings.radix_cache != Some(false)
        && (query.settings.async_scheduling != Some(false) || launch.page > 1)
        && is_listed(query.architecture, EXTRA_BUFFER);
    buffers.then_some(MambaRadixStrategy::ExtraBuffer)
}

fn is_listed(architecture: &Architecture, list: &[(&str, &str)]) -> bool {
    if architecture.architectures().is_empty() {
        return architecture.model_type().is_some_and(|own| list.iter().any(|(_, class)| *class == own));
    }
    architecture.architectures().iter().any(|own| list.iter().any(|(class, _)| class == own))
}

/// Whether the class's states can be snapshot into an extra buffer; a config without a class is not refused it.
pub(super) fn may_have_extra_buffer(architecture: &Architecture) -> bool {
    let is_unnamed = architecture.architectures().is_empty() && architecture.model_type().is_none();
    is_unnamed || is_listed(architecture, EXTRA_BUFFER)
}

/// Tokens of a page: what the class forces, whatever is set (`model_overrides/deepseek_v4.py` and `deepseek_v2.py`), else what is set,
/// else one.
pub(super) fn page(architecture: &Architecture, settings: &Settings) -> u64 {
    forced_page(architecture).or(settings.block_size).unwrap_or(1)
}

/// Says that a page that is set is not taken, or that the back end of the GPU would take another than is set or assumed where
/// `get_default_attn_backend` or the class chooses it.
pub(super) fn page_warning(
    architecture: &Architecture,
    settings: &Settings,
    launch: &Launch,
) -> Option<Warning> {
    let (reader, taken) = if has_latents(architecture) { LATENT_PAGES } else { HEAD_PAGES };
    let message = match (forced_page(architecture), settings.block_size) {
        (Some(forced), Some(asked)) if forced != asked => {
            format!("{asked} tokens are set, but SGLang takes pages of {forced} for this class")
        }
        (None, Some(asked)) if launch.is_sm100 && !taken.contains(&asked) => {
            format!(
                "{asked} tokens are set, but on this GPU {reader} takes pages of 64 in their place where it is chosen"
            )
        }
        (None, None) if launch.is_sm100 => {
            format!(
                "not given; pages of one token are assumed, and on this GPU {reader} takes 64 where it is chosen"
            )
        }
        _ => return None,
    };
    Some(Warning::new("block_size", message))
}

/// Tokens of a page of the class: 64 for DSA (times the tokens that share an index key), 256 for DeepSeek-V4.
fn forced_page(architecture: &Architecture) -> Option<u64> {
    architecture.mixers().find_map(|mixer| match mixer {
        Mixer::Compressed(_) => Some(256),
        Mixer::Dsa { index: Some(index), .. } => Some(64 * index.pool.get().max(1)),
        _ => None,
    })
}

/// FP8 where nothing is set and the checkpoint's exporter names it for K/V; every other name leaves the model's dtype
/// (`configure_kv_cache_dtype`, which reads `kv_cache_quant_algo` of `ModelOpt`'s and of plain FP8 configs).
fn checkpoint_format(architecture: &Architecture) -> Option<KvFormat> {
    let asked = architecture.checkpoint_kv()?;
    (asked.exporter != Exporter::CompressedTensors && asked.format == KvFormat::Fp8).then_some(asked.format)
}

/// Whether layers keep a latent without an indexer.
pub(super) fn has_latents(architecture: &Architecture) -> bool {
    let is_latent = |mixer: &Mixer| matches!(mixer, Mixer::Mla(_));
    architecture.mixers().any(is_latent)
}

/// Which generation of compressed attention the model has.
fn compressed_generation(architecture: &Architecture) -> Option<Generation> {
    architecture.mixers().find_map(|mixer| match mixer {
        Mixer::Compressed(attention) => Some(attention.generation),
        _ => None,
    })
}

/// How entries are stored where the flag alone does not say. DSA latents: unset means FP8 on compute capability 10 and
/// later, else BF16; FP8 rows are raw there (TRT-LLM kernels), and scaled 656-byte records on Hopper
/// (`arg_groups/overrides.py`, `calculate_mla_kv_cache_dim`).
pub(super) fn resolve_latent_format(architecture: &Architecture, settings: &mut Settings, launch: &Launch) {
    // DeepSeek-V4's pools have one record layout, whatever the flag says (`DSV4PoolConfigurator`).
    if let Some(generation) = compressed_generation(architecture) {
        let layout = PageLayout::of_windows(generation, launch);
        let ratio = if generation == Generation::V41 { 1 } else { 4 };
        settings.index_dtype = Some(index_format(ratio, settings));
        // V4.1's own layouts differ between entries and windows, and are the model's formats.
        let own = generation == Generation::V41 && layout == PageLayout::V41;
        settings.kv_dtype = (!own).then(|| layout.format());
        return;
    }
    settings.kv_dtype = match settings.kv_dtype {
        // FP4 is stored without its scales and unpacked there (`HybridSWAPoolConfigurator`).
        Some(KvFormat::Nvfp4) if pool_kind(architecture) == PoolKind::Windowed => Some(KvFormat::Fp8),
        // Latents of MXFP8 have no scales (`MLATokenToKVPool`).
        Some(KvFormat::Mxfp8) if has_latents(architecture) => Some(KvFormat::Fp8),
        asked => asked,
    };
    let is_dsa = architecture.mixers().any(|mixer| matches!(mixer, Mixer::Dsa { .. }));
    if !is_dsa {
        settings.kv_dtype = settings.kv_dtype.or_else(|| checkpoint_format(architecture));
        return;
    }
    settings.kv_dtype = match settings.kv_dtype {
        None if launch.blackwell => Some(KvFormat::Fp8),
        None => Some(KvFormat::Bf16),
        Some(KvFormat::Fp8) if !launch.blackwell => Some(KvFormat::Fp8DsMla),
        asked => asked,
    };
}
