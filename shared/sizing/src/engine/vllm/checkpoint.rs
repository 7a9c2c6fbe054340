//! The state that a prefill writes on its way: one page more of each request in align mode.
//!
//! Source: vLLM 0.33, `layers/mamba` and the models named in each place.

use super::Setup;
use crate::engine::gpu::Family;
use crate::format::StateFormat;
use crate::mixer::{Mixer, Recurrence};
use crate::settings::{GdnPrefillBackend, MambaCacheMode, Settings};
use crate::{Result, group_digits};

/// A state that is exported inside a prefill, for reuse of prefixes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Checkpoint {
    /// Pages of a request that it takes.
    pages: u64,
    /// What writes it, and what chooses that.
    writer: String,
    /// How blocks are laid out with kernels that write none, where a setting has such kernels.
    otherwise: Option<Otherwise>,
}

/// The other choice of `gdn_prefill_backend`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Otherwise {
    block: u64,
    state_page: Option<u64>,
}

impl Setup<'_> {
    /// Extra state pages of a request in align mode: layers that export a state inside a prefill have one.
    pub(super) fn prefill_checkpoints(&self, recurrence: &Recurrence) -> u64 {
        if let Some(pages) = self.settings.mamba_prefill_checkpoint_blocks {
            return pages;
        }
        u64::from(match recurrence {
            Recurrence::GatedDeltaNet { .. } => self.gdn_exports_states(),
            Recurrence::Mamba2 { .. } => self.rules.mamba2_checkpoints,
            Recurrence::Kda { dim, .. } => self.kda_exports_states(dim.get()),
            _ => false,
        })
    }

    /// Whether KDA prefills with `FlashKDA`, which exports states: 128-wide heads with a bounded gate on SM90 and newer
    /// (vLLM 0.33, `models/kimi_k3/nvidia/kda.py`).
    fn kda_exports_states(&self, dim: u64) -> bool {
        self.rules.kda_checkpoints
            && self.architecture.hints().bounded_gate
            && dim == 128
            && self.model_dtype == StateFormat::Bf16
            && self.gpu.family != Family::Ampere
    }

    /// The checkpoint of this model's states; `None` where none is written.
    ///
    /// # Errors
    ///
    /// An overflow.
    pub(super) fn checkpoint(&self) -> Result<Option<Checkpoint>> {
        let recurrence = self.mixers().find_map(|mixer| match mixer {
            Mixer::Recurrent(recurrent) => Some(&recurrent.recurrence),
            _ => None,
        });
        let Some(recurrence) = recurrence.filter(|_| self.cache_mode == MambaCacheMode::Align) else {
            return Ok(None);
        };
        let pages = self.prefill_checkpoints(recurrence);
        if pages == 0 {
            return Ok(None);
        }
        let is_set = self.settings.mamba_prefill_checkpoint_blocks.is_some();
        let writer = match recurrence {
            _ if is_set => "a prefill writes (mamba_prefill_checkpoint_blocks)".to_owned(),
            Recurrence::GatedDeltaNet { .. } => {
                let chosen = match (self.settings.gdn_prefill_backend, &self.settings.gpu) {
                    (Some(_), _) => "as set",
                    (None, Some(_)) => "the default on this GPU",
                    (None, None) => "the default on the H100 that is assumed",
                };
                format!("FlashInfer's prefill writes (gdn_prefill_backend, {chosen})")
            }
            Recurrence::Kda { .. } => "FlashKDA's prefill writes".to_owned(),
            _ => "a prefill writes".to_owned(),
        };
        let has_choice = matches!(recurrence, Recurrence::GatedDeltaNet { .. }) && !is_set;
        let otherwise = if has_choice { Some(self.without_export()?) } else { None };
        Ok(Some(Checkpoint { pages, writer, otherwise }))
    }

    /// Blocks where Triton prefills gated DeltaNet.
    fn without_export(&self) -> Result<Otherwise> {
        let triton = GdnPrefillBackend::Triton;
        let settings = Settings { gdn_prefill_backend: Some(triton), ..self.settings.clone() };
        let other = Setup { settings: &settings, ..*self };
        let blocks = other.align()?;
        Ok(Otherwise { block: blocks.attention, state_page: blocks.state_page })
    }
}

impl Checkpoint {
    /// Pages of a request that it takes.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// `1 for the checkpoint that FlashInfer's prefill writes (gdn_prefill_backend, …)`
    pub(super) fn words(&self) -> String {
        let what = if self.pages == 1 { "the checkpoint" } else { "checkpoints" };
        format!("{} for {what} that {}", self.pages, self.writer)
    }

    /// What kernels that write none would leave: `with triton blocks have 2,096 tokens, and states 197,591,040 B less`.
    /// `layers` layers each have `pages` pages of `page` bytes for a request, of which a state takes `content`.
    pub(super) fn otherwise(&self, layers: u64, (pages, page, content): (u64, u64, u64)) -> Option<String> {
        let other = self.otherwise?;
        let without = pages.checked_sub(self.pages)?.checked_mul(other.state_page.unwrap_or(content))?;
        let saved = pages.checked_mul(page)?.checked_sub(without)?.checked_mul(layers)?;
        Some(format!(
            "with gdn_prefill_backend=triton blocks have {} tokens, and a request's states {} B less",
            group_digits(other.block),
            group_digits(saved)
        ))
    }
}
