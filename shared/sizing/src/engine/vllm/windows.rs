//! Which layers have a window in vLLM, and how far it reaches, where a class has a rule of its own.

use super::Setup;
use super::spec::Kind;
use crate::architecture::Architecture;
use crate::fact::Source;
use crate::mixer::Mixer;
use crate::warning::Warning;

impl Setup<'_> {
    /// The cache of a layer whose config gives it a window of `window` tokens.
    pub(super) fn window_kind(&self, window: u64) -> Kind {
        Kind::Window { window: window + self.window_margin(), extra: self.retained_for_drafts() }
    }

    /// Layers of Qwen2, Qwen3 and Qwen2-MoE take their window from the cache's settings, which have one where all layers do
    /// (vLLM 0.33, `qwen2.py` and `qwen2_moe.py`; `engine/arg_utils.py`, `create_engine_config`).
    pub(super) fn leaves_windows_unused(&self) -> bool {
        (is_of_qwen2(self.architecture) || self.architecture.model_type() == Some("qwen2_moe"))
            && self.architecture.mixers().any(|mixer| matches!(mixer, Mixer::Full(_)))
    }

    /// Beam without `layer_types`: vLLM's class gives the window to every layer, 4096 tokens where the config has none (0.33,
    /// `transformers_utils/configs/beam.py`); transformers' and SGLang's leave every sixth and the last without.
    pub(super) fn window_of_full_layers(&self) -> Option<u64> {
        if self.architecture.model_type() != Some("beam") || self.architecture.layers_field() != "model_type"
        {
            return None;
        }
        self.architecture.mixers().find_map(|mixer| match mixer {
            Mixer::Sliding { window, .. } => Some(match window.source() {
                Source::Default { .. } => 4096,
                _ => window.get(),
            }),
            _ => None,
        })
    }

    pub(super) fn window_warning(&self) -> Option<Warning> {
        let window = self.window_of_full_layers()?;
        let message = format!(
            "absent; vLLM's class gives every layer a window of {window} tokens here, while transformers leaves every sixth \
             layer and the last without one; give layer_types"
        );
        Some(Warning::new("layer_types", message))
    }

    /// Cohere's window counts the tokens before the current one, so it keeps one more (vLLM 0.33, `commandr.py`).
    pub(super) fn window_margin(&self) -> u64 {
        u64::from(self.architecture.model_type().is_some_and(|class| class.starts_with("cohere2")))
    }

    /// Tokens below a window that a chain of draft modules reads again.
    fn retained_for_drafts(&self) -> u64 {
        if self.rules.retained_tokens && self.settings.draft_layers.unwrap_or(0) > 1 {
            return self.settings.draft_tokens().saturating_sub(1);
        }
        0
    }
}

/// Classes that vLLM runs as its `Qwen2Model`: with `Qwen3Model` and the text parts that are Qwen2 (0.33, `models/qwen3.py`,
/// `qwen2_vl.py`, `qwen2_5_vl.py` and `qwen2_5_omni_thinker.py`).
pub(super) fn is_of_qwen2(architecture: &Architecture) -> bool {
    let classes = ["qwen2", "qwen3", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text"];
    architecture.model_type().is_some_and(|class| classes.contains(&class))
}
