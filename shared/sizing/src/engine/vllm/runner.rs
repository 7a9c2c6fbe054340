//! Which of vLLM's two model runners runs a model.

use crate::architecture::Architecture;
use crate::engine::Engine;
use crate::mixer::Mixer;

/// Classes other than dense ones that the newer model runner is the default of before it is for all, with the first release that
/// lists them (vLLM 0.26 to 0.28, `DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES` of `config/vllm.py`).
const OF_NEWER_RUNNER: [(&str, [u32; 2]); 8] = [
    ("DeepseekV2ForCausalLM", [0, 26]),
    ("DeepseekV4ForCausalLM", [0, 28]),
    ("GraniteMoeForCausalLM", [0, 26]),
    ("InklingForCausalLM", [0, 26]),
    ("InklingForConditionalGeneration", [0, 26]),
    ("KimiK3ForConditionalGeneration", [0, 27]),
    ("LongcatFlashNgramForCausalLM", [0, 26]),
    ("Qwen2MoeForCausalLM", [0, 26]),
];

/// Whether the newer model runner runs this model where nothing is said: models without experts and without states, and
/// [`OF_NEWER_RUNNER`].
pub(super) fn is_newer(architecture: &Architecture, engine: &Engine) -> bool {
    let listed = |class: &String| {
        OF_NEWER_RUNNER.iter().any(|(known, since)| known == class && engine.at_least(since))
    };
    let mut mixers = architecture.mixers();
    let has_states = mixers.any(|mixer| matches!(mixer, Mixer::Recurrent(_)));
    architecture.architectures().iter().any(listed) || !(has_states || architecture.has_experts())
}
