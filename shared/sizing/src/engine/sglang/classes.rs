//! Rules that SGLang chooses by the model's class.

use crate::architecture::Architecture;
use crate::format::KvFormat;
use crate::mixer::Mixer;
use crate::settings::Settings;

use super::launch::Launch;

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
    let has = |wanted: fn(&Mixer) -> bool| {
        architecture.classes().iter().any(|class| class.mixers.iter().any(wanted))
    };
    if has(|mixer| matches!(mixer, Mixer::Compressed(_))) {
        return PoolKind::V4;
    }
    let windows = has(|mixer| matches!(mixer, Mixer::Sliding { .. } | Mixer::Chunked { .. }));
    let listed = architecture.asks_for_window_pool() || is_listed(architecture, WINDOW_POOL);
    if windows && listed { PoolKind::Windowed } else { PoolKind::Uniform }
}

/// Whether the draft layers of the model are window layers.
pub(super) fn drafts_with_windows(architecture: &Architecture) -> bool {
    is_listed(architecture, WINDOW_DRAFTS)
}

/// The default ratio of window tokens to full tokens, DeepSeek-V4 aside.
pub(super) fn default_ratio(architecture: &Architecture) -> f64 {
    if is_listed(architecture, SMALL_WINDOW_POOL) { SMALL_RATIO } else { DEFAULT_RATIO }
}

fn is_listed(architecture: &Architecture, list: &[(&str, &str)]) -> bool {
    if architecture.architectures().is_empty() {
        return architecture.model_type().is_some_and(|own| list.iter().any(|(_, class)| *class == own));
    }
    architecture.architectures().iter().any(|own| list.iter().any(|(class, _)| class == own))
}

/// Tokens of a page: 64 for DSA (times the tokens that share an index key), 256 for DeepSeek-V4, else 1
/// (`arg_groups/model_overrides`).
pub(super) fn default_page(architecture: &Architecture) -> u64 {
    for mixer in architecture.classes().iter().flat_map(|class| &class.mixers) {
        match mixer {
            Mixer::Compressed(_) => return 256,
            Mixer::Dsa { index: Some(index), .. } => return 64 * index.pool.get().max(1),
            _ => {}
        }
    }
    1
}

/// DSA latents: unset means FP8 on compute capability 10 and later, else BF16; FP8 rows are raw there (TRT-LLM kernels),
/// and scaled 656-byte records on Hopper (`arg_groups/overrides.py`, `calculate_mla_kv_cache_dim`).
pub(super) fn resolve_latent_format(architecture: &Architecture, settings: &mut Settings, launch: &Launch) {
    // DeepSeek-V4's pools have one record layout, whatever the flag says (`DSV4PoolConfigurator`).
    if pool_kind(architecture) == PoolKind::V4 {
        settings.kv_dtype = Some(KvFormat::Fp8DsMla);
        return;
    }
    let is_dsa = architecture
        .classes()
        .iter()
        .any(|class| class.mixers.iter().any(|mixer| matches!(mixer, Mixer::Dsa { .. })));
    if !is_dsa {
        return;
    }
    settings.kv_dtype = match settings.kv_dtype {
        None if launch.blackwell => Some(KvFormat::Fp8),
        None => Some(KvFormat::Bf16),
        Some(KvFormat::Fp8) if !launch.blackwell => Some(KvFormat::Fp8DsMla),
        asked => asked,
    };
}
