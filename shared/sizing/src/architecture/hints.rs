//! What a config says that changes no state of its own, but chooses an engine's rule.

use crate::fact::Fact;

/// Fields that only some engines' rules look at.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is what one field of a config says")]
pub(crate) struct EngineHints {
    /// `is_hybrid_swa`: the config itself asks SGLang for a pool of its own for window layers.
    pub(crate) asks_for_window_pool: bool,
    /// The gate of linear attention has a lower bound, which fused prefill kernels need.
    pub(crate) bounded_gate: bool,
    /// The file is one whose latents its engine keeps as K and V of every head.
    pub(crate) latents_as_heads: bool,
    /// `new_decoder_architecture`: K and V are widened to every query head before transformers caches them.
    pub(crate) widened_heads: bool,
    /// `max_window_layers`, given or the class's default.
    pub(crate) max_window_layers: Option<Fact>,
    /// Of the draft layers behind the model's in `layer_types`, which have a window.
    pub(crate) padded_windows: Vec<bool>,
    /// Of those in `mtp_layer_types`.
    pub(crate) mtp_windows: Vec<bool>,
}
