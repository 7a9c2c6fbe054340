//! Draft (MTP) layers: which of the model's layers they are like.

use super::Setup;
use crate::architecture::{Architecture, LayerClass};
use crate::mixer::{CompressedAttention, Mixer};
use crate::{Error, Result};

impl Setup<'_> {
    /// The mixer of draft layer `index`, counted from 0: the window alone for DeepSeek-V4, a window or full attention as the class has
    /// it, else the last layer that keeps every token, with index keys of its own.
    ///
    /// # Errors
    ///
    /// A model without such a layer.
    pub(super) fn draft_mixer(&self, index: usize) -> Result<Mixer> {
        let kind = kind(self.architecture, index);
        let classes = self.architecture.classes();
        let mixers = || classes.iter().rev().flat_map(|class| &class.mixers);
        let found = mixers().find_map(|mixer| match mixer {
            Mixer::Compressed(attention) => {
                Some(Mixer::Compressed(CompressedAttention { compression: None, ..attention.clone() }))
            }
            Mixer::Sliding { .. } if kind == DraftKind::Window => Some(mixer.clone()),
            Mixer::Full(_) | Mixer::IndexedFull(..) | Mixer::Mla(_) if kind == DraftKind::Full => {
                Some(mixer.clone())
            }
            Mixer::Dsa { index: Some(_), .. } => Some(mixer.clone()),
            _ => None,
        });
        found.ok_or_else(|| {
            Error::setting("draft_layers", "this model has no layer that a draft layer copies")
        })
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DraftKind {
    Full,
    Window,
}

/// `MiMoV2MTP` has windows; Step-3.5's and -3.7's layers are those behind the model's in `layer_types`, else in `mtp_layer_types`
/// (`models/step3p5.py`, `_get_layer_type`); EXAONE's are numbered from 0 on, in `mtp_layer_types` where K-EXAONE has it, else in
/// `layer_types` (`models/exaone_moe.py` and `exaone4.py`; all 0.33).
fn kind(architecture: &Architecture, index: usize) -> DraftKind {
    let model_type = architecture.model_type().unwrap_or_default();
    let hints = architecture.hints();
    let of = |is_window: bool| if is_window { DraftKind::Window } else { DraftKind::Full };
    let of_layer = || {
        let class: Option<&LayerClass> = architecture.layers().nth(index);
        of(class.is_some_and(|class| class.mixers.iter().any(|mixer| matches!(mixer, Mixer::Sliding { .. }))))
    };
    if model_type.starts_with("mimo_v2") {
        return DraftKind::Window;
    }
    if model_type.starts_with("step3p") {
        let stated = hints.padded_windows.iter().chain(&hints.mtp_windows).nth(index);
        return of(stated.copied().unwrap_or(false));
    }
    if model_type.starts_with("exaone_moe") {
        return hints.mtp_windows.get(index).map_or_else(of_layer, |is_window| of(*is_window));
    }
    if is_exaone_4_5(architecture) { of_layer() } else { DraftKind::Full }
}

pub(super) fn is_exaone_4_5(architecture: &Architecture) -> bool {
    let is_named = |name: &str| name.starts_with("exaone4_5") || name.starts_with("Exaone4_5");
    architecture.model_type().is_some_and(is_named)
        || architecture.architectures().iter().any(|class| is_named(class))
}
