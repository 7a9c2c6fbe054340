//! Rules that llama.cpp chooses by the model's class.

use crate::architecture::Architecture;

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
