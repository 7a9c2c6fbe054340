//! Layers that vLLM tells nothing of the K/V format: they keep the model's dtype, whatever is set.
//!
//! `Attention.__init__` (`layers/attention/attention.py`) takes the format from the `cache_config` that a model's file hands it, and
//! these files hand none.

use super::Setup;
use super::drafts::is_exaone_4_5;
use crate::architecture::Architecture;
use crate::engine::Engine;
use crate::warning::Warning;

/// Whose layers they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LayersOf {
    Model,
    Drafts,
}

/// Falcon in every version read (0.9.2 to 0.33, `falcon.py`), Baichuan with `ALiBi` in all that had it (to 0.24, `baichuan.py`),
/// `MiMo`-V2 to 0.31 (`mimo_v2_flash.py`, `mimo_v2.py`); drafts of K-EXAONE in every version read (`exaone_moe_mtp.py`), of EXAONE
/// 4.5 to 0.32 (`exaone4_5_mtp.py`) and of `MiMo`-V2 with its model.
pub(super) fn keeps_own_dtype(architecture: &Architecture, engine: &Engine, layers: LayersOf) -> bool {
    let model_type = architecture.model_type().unwrap_or_default();
    let is_mimo = model_type.starts_with("mimo_v2") && !engine.at_least(&[0, 32]);
    match layers {
        LayersOf::Model => {
            is_mimo
                || matches!(model_type, "falcon" | "RefinedWeb" | "RefinedWebModel")
                || (model_type == "baichuan" && has_alibi(architecture))
        }
        LayersOf::Drafts => {
            is_mimo
                || model_type.starts_with("exaone_moe")
                || (is_exaone_4_5(architecture) && !engine.at_least(&[0, 33]))
        }
    }
}

/// `BaichuanForCausalLM` whose streams are not 4,096 values wide.
fn has_alibi(architecture: &Architecture) -> bool {
    let hidden = architecture.plain_heads().hidden.as_ref();
    let is_other = hidden.is_some_and(|hidden| hidden.get() != 4096);
    is_other && architecture.architectures().iter().any(|class| class == "BaichuanForCausalLM")
}

impl Setup<'_> {
    /// Says so where a format is set.
    pub(super) fn own_dtype_warning(&self) -> Option<Warning> {
        let settings = self.settings;
        let (name, _) =
            [("kv_dtype", settings.kv_dtype), ("k_dtype", settings.k_dtype), ("v_dtype", settings.v_dtype)]
                .into_iter()
                .find(|(_, format)| format.is_some_and(|format| format != self.model_dtype.into()))?;
        let keeps = |layers| keeps_own_dtype(self.architecture, self.engine, layers);
        let has_drafts = settings.draft_layers.is_some_and(|drafts| drafts > 0);
        let which = match (keeps(LayersOf::Model), has_drafts && keeps(LayersOf::Drafts)) {
            (true, _) => "this model's layers",
            (false, true) => "this model's draft layers",
            (false, false) => return None,
        };
        let own = self.model_dtype.name();
        Some(Warning::new(
            name,
            format!("changes nothing in {which}: {} keeps their K/V in {own} whatever is set", self.engine),
        ))
    }
}
