//! Which layers have a window in classes that have no field for it, or read a field in a way of their own.
//!
//! Source of each: the class of that `model_type` in transformers 5.19, and of `beam` in 5.20 (`models/*/configuration_*.py`).

/// Where the full layers stand among windows in classes that have no field for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) enum FullLayer {
    /// The first of every so many.
    First(u64),
    /// The last of every so many, and the model's last.
    LastAndFinal(u64),
    /// The last of every so many, counted from the model's end.
    FromEnd(u64),
    /// The last of every so many, and the model's first.
    LastAndFirst(u64),
}

impl FullLayer {
    pub(in crate::config) fn is_full(self, index: u64, total: u64) -> bool {
        match self {
            Self::First(period) => index.is_multiple_of(period),
            Self::LastAndFinal(period) => (index + 1).is_multiple_of(period) || index + 1 == total,
            Self::FromEnd(period) => (total - 1 - index).is_multiple_of(period),
            Self::LastAndFirst(period) => index == 0 || (index + 1).is_multiple_of(period),
        }
    }
}

pub(in crate::config) fn full_layer(model_type: Option<&str>) -> Option<FullLayer> {
    match model_type? {
        "cwm" | "granite_swa" | "granitemoe_swa" => Some(FullLayer::First(4)),
        "beam" | "diffusion_gemma_text" | "gemma4_text" | "gemma4_unified_text" => {
            Some(FullLayer::LastAndFinal(6))
        }
        "mimo_v2_flash" => Some(FullLayer::LastAndFirst(6)),
        "muse_glimmer_text" | "muse_spark_text" => Some(FullLayer::FromEnd(4)),
        _ => None,
    }
}

/// Which layers a class gives a window by `max_window_layers`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) enum MaxWindowLayers {
    /// Those from there on.
    From,
    /// Every second one before it, the first among them (`Qwen2MoeConfig`).
    EverySecondBefore,
}

impl MaxWindowLayers {
    pub(in crate::config) fn is_full(self, index: u64, limit: u64) -> bool {
        match self {
            Self::From => index < limit,
            Self::EverySecondBefore => index >= limit || !index.is_multiple_of(2),
        }
    }
}

/// None where the class does not read the field (`Qwen3MoeConfig`).
pub(in crate::config) fn max_window_layers(model_type: Option<&str>) -> Option<MaxWindowLayers> {
    match model_type {
        Some("qwen2_moe") => Some(MaxWindowLayers::EverySecondBefore),
        Some("qwen3_moe") => None,
        _ => Some(MaxWindowLayers::From),
    }
}

/// Classes whose windows are those of the layers without rotary positions (`SmolLM3Config`).
pub(in crate::config) fn windows_without_rope(model_type: Option<&str>) -> bool {
    model_type == Some("smollm3")
}

/// Classes whose pattern begins behind the dense layers, which have one of their own (`Cohere2MoeConfig`).
pub(in crate::config) fn pattern_after_dense(model_type: Option<&str>) -> bool {
    model_type == Some("cohere2_moe")
}

/// The window that a class has by default and that is not taken where the field is absent. Mistral's own files
/// (`params.json`, of which engines and catalogues make configs of this class) have no field for a window that is not there.
pub(in crate::config) fn window_not_taken(model_type: Option<&str>) -> Option<u64> {
    (model_type == Some("mistral")).then_some(4096)
}

/// Classes that drop their default pattern where the window is null (transformers' `Exaone4Config`).
pub(in crate::config) fn pattern_goes_with_window(model_type: Option<&str>) -> bool {
    matches!(model_type, Some("exaone4" | "exaone_moe"))
}

/// Classes whose windows a list gives to layers, and none where there is no list (`SmallThinkerConfig`, and `LagunaConfig`,
/// `MellumConfig` and `CohereCompassTextConfig` of transformers 5.19, which have a window by default).
pub(in crate::config) fn windows_by_list_alone(model_type: Option<&str>) -> bool {
    matches!(model_type, Some("cohere_compass_text" | "laguna" | "mellum" | "smallthinker"))
}

/// Classes whose layers all have the window where the config has one and no field says which.
const WINDOW_ON_EVERY_LAYER: &[&str] =
    &["mistral", "mixtral", "phi3", "qwen3_moe", "starcoder2", "ministral"];

pub(in crate::config) fn windows_every_layer(model_type: Option<&str>) -> bool {
    model_type.is_some_and(|class| WINDOW_ON_EVERY_LAYER.contains(&class))
}
