//! Rules that llama.cpp chooses by the model's class.

use crate::architecture::{Architecture, LayerClass};
use crate::mixer::Mixer;
use crate::settings::Settings;
use crate::warning::Warning;

/// Classes whose recurrent or compressor state can roll back to a snapshot (`llm_arch_supports_rs_rollback`), by the
/// config's `model_type` and by `general.architecture`; every other context keeps none, whatever was asked.
const ROLLS_BACK: [&str; 24] = [
    "kimi_k3",
    "kimi-k3",
    "qwen3_5",
    "qwen3_5_text",
    "qwen35",
    "qwen3_5_moe",
    "qwen3_5_moe_text",
    "qwen35moe",
    "qwen4_exp",
    "qwen4_exp_text",
    "qwen4exp",
    "deepseek_v4",
    "deepseek4",
    "glm5_next",
    "glm5_next_text",
    "glm5-next",
    "nemotron_h",
    "nemotron_h_moe",
    "lfm2",
    "lfm2_moe",
    "lfm2moe",
    "bailingmoe3",
    "bailing_moe_v3",
    "bailing_moe_v3_vl",
];
/// Of those, a class whose text part goes by another class's name.
const ROLLS_BACK_BY_CLASS: &str = "KimiK3ForConditionalGeneration";

/// Whether sequences of this model keep snapshots. A config without a class is not refused them.
pub(super) fn rolls_back(architecture: &Architecture) -> bool {
    let by_class = architecture.architectures().iter().any(|class| class == ROLLS_BACK_BY_CLASS);
    by_class || architecture.model_type().is_none_or(|class| ROLLS_BACK.contains(&class))
}

/// Classes whose window llama.cpp does not use: their layers keep every token (of all classes with windows in transformers 5.19 those
/// that it has and whose file in `src/models` loads none, October 2026; Phi-3's window is
/// switched off there).
const WINDOW_UNUSED: [&str; 23] = [
    "PanguEmbedded",
    "qwen3_omni_moe_text",
    "qwen3_vl_moe_text",
    "llama",
    "smollm3",
    "qwen2_vl_text",
    "qwen2_5_omni_text",
    "mistral",
    "mixtral",
    "ministral",
    "mistral3",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "starcoder2",
    "granite",
    "dots1",
    "ministral3",
    "phi4mm",
    "phimoe",
    "qwen2_5_vl_text",
];

/// EXAONE 4 has windows where it has as many layers as its 32B version, and no other (`src/models/exaone4.cpp`).
const LAYERS_OF_EXAONE_WITH_WINDOWS: usize = 64;

/// Classes with latents whose graphs keep K and V of every head (`build_attn` without a latent in `src/models/minicpm3.cpp` and
/// `plm.cpp`).
const KEEPS_HEADS: [&str; 2] = ["minicpm3", "plm"];

/// Whether llama.cpp keeps K and V of every head of this model's latents.
pub(super) fn keeps_heads_of_latents(architecture: &Architecture) -> bool {
    let has_latents = || architecture.mixers().any(is_latent);
    let by_class = architecture.model_type().is_some_and(|class| KEEPS_HEADS.contains(&class));
    (by_class || architecture.hints().latents_as_heads) && has_latents()
}

fn is_latent(mixer: &Mixer) -> bool {
    matches!(mixer, Mixer::Mla(_))
}

/// Encoders with a decoder that llama.cpp has, by the config's `model_type` (`conversion/t5.py`, October 2026).
const ENCODER_DECODERS: [&str; 3] = ["t5", "mt5", "umt5"];

/// What llama.cpp keeps of an encoder's output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EncoderOutput {
    /// Nothing: every step computes its K and V again (`src/models/t5.cpp` multiplies the output itself).
    Recomputed,
    /// K and V of every token, in the layers that do nothing else.
    Cached,
}

/// `None` for models without cross-attention. Layers that have it beside self-attention are those of T5; layers of their own
/// are those of Llama 3.2 Vision, which no build of llama.cpp has: Ollama's runner on top of it keeps their caches
/// (ollama/ollama#7456).
pub(super) fn encoder_output(architecture: &Architecture) -> Option<EncoderOutput> {
    let has_cross = |class: &&LayerClass| class.mixers.iter().any(is_cross);
    let class = architecture.classes().iter().find(has_cross)?;
    let alone = class.mixers.iter().all(is_cross);
    Some(if alone { EncoderOutput::Cached } else { EncoderOutput::Recomputed })
}

fn is_cross(mixer: &Mixer) -> bool {
    matches!(mixer, Mixer::Cross { .. })
}

/// How llama.cpp keeps each mixer of this class: without windows that it does not use, and without what it computes again.
pub(super) fn as_kept(architecture: &Architecture) -> impl Fn(Mixer) -> Mixer + use<> {
    let without_windows = leaves_windows_unused(architecture);
    let without_cross = encoder_output(architecture) == Some(EncoderOutput::Recomputed);
    move |mixer| match mixer {
        Mixer::Sliding { heads, .. } if without_windows => Mixer::Full(heads),
        Mixer::Cross { .. } if without_cross => Mixer::None,
        other => other,
    }
}

/// What is kept otherwise, and what llama.cpp cannot run.
pub(super) fn warnings(architecture: &Architecture, settings: &Settings) -> Vec<Warning> {
    let mut found = Vec::new();
    if leaves_windows_unused(architecture) {
        let message = "llama.cpp does not use this model's window; its layers keep every token";
        found.push(Warning::new("sliding_window", message));
    }
    if keeps_heads_of_latents(architecture) && settings.mla_storage.is_none() {
        let message = "llama.cpp keeps K and V of every head of this model, not the latent; set latent to see the other";
        found.push(Warning::new("mla_storage", message));
    }
    let Some(output) = encoder_output(architecture) else { return found };
    let class = architecture.model_type().unwrap_or("this class");
    let message = match output {
        EncoderOutput::Recomputed if ENCODER_DECODERS.contains(&class) => {
            let Some(message) = layers_message(architecture) else { return with_unused(found, settings) };
            message
        }
        EncoderOutput::Recomputed => format!(
            "llama.cpp has no class for {class}, of encoders with a decoder only T5's; the figures follow its rules for T5"
        ),
        EncoderOutput::Cached => format!(
            "llama.cpp has no class for {class}; the caches of its cross-attention are those of Ollama's runner"
        ),
    };
    found.push(Warning::new("model_type", message));
    if output == EncoderOutput::Recomputed { with_unused(found, settings) } else { found }
}

/// T5's caches are of as many layers as `block_count` says, which are the encoder's.
pub(super) fn layers_of_caches(architecture: &Architecture) -> Option<u64> {
    let encoder = architecture.encoder_layers()?.get();
    (encoder_output(architecture) == Some(EncoderOutput::Recomputed)).then_some(encoder)
}

fn layers_message(architecture: &Architecture) -> Option<String> {
    let (decoder, encoder) = (architecture.layer_count() as u64, layers_of_caches(architecture));
    match encoder {
        Some(encoder) if encoder == decoder => None,
        Some(encoder) if encoder > decoder => Some(format!(
            "llama.cpp makes caches for the encoder's {encoder} layers, of which the decoder uses {decoder}"
        )),
        Some(encoder) => Some(format!(
            "llama.cpp makes caches for the encoder's {encoder} layers alone, which the decoder's {decoder} cannot run with"
        )),
        None => Some(
            "llama.cpp makes caches for as many layers as the encoder has, which the config does not say; these are of \
             the decoder's"
                .to_owned(),
        ),
    }
}

/// Settings that are of the encoder's output alone.
fn with_unused(mut found: Vec<Warning>, settings: &Settings) -> Vec<Warning> {
    let given = [
        ("cross_dtype", settings.cross_dtype.is_some()),
        ("encoder_tokens", settings.encoder_tokens.is_some()),
    ];
    for (name, _) in given.into_iter().filter(|(_, given)| *given) {
        let message = "changes no reserved bytes: llama.cpp keeps nothing of this encoder's output";
        found.push(Warning::new(name, message));
    }
    found
}

/// Whether the class has windows that llama.cpp does not use.
pub(super) fn leaves_windows_unused(architecture: &Architecture) -> bool {
    let mut mixers = architecture.mixers();
    let is_unused = |class: &str| {
        WINDOW_UNUSED.contains(&class)
            || (class.starts_with("exaone4") && architecture.layer_count() != LAYERS_OF_EXAONE_WITH_WINDOWS)
    };
    architecture.model_type().is_some_and(is_unused)
        && mixers.any(|mixer| matches!(mixer, Mixer::Sliding { .. }))
}
