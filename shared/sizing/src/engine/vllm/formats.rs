//! Formats that are counted, but that a launch of this version refuses or reads on some GPUs alone.

use super::Setup;
use super::rules::Nvfp4Heads;
use crate::engine::formats::is_followed;
use crate::engine::gpu::Family;
use crate::format::{KvFormat, StateFormat};
use crate::mixer::{Generation, Heads, Mixer};
use crate::warning::Warning;
use crate::{Error, Result};

/// `--mamba-cache-dtype` and `--mamba-ssm-cache-dtype`, each from a version on (`MambaDType` of `config/cache.py`).
const STATES: [(StateFormat, &[u32]); 3] =
    [(StateFormat::F32, &[]), (StateFormat::F16, &[0, 13]), (StateFormat::Bf16, &[0, 22])];
/// Where a checkpoint asks for its K/V format.
const CHECKPOINT: &str = "quantization_config";
/// Widths of heads that `FlashInfer` takes, which alone reads FP4 heads (`get_supported_head_sizes`, 0.22 to 0.33).
const FLASHINFER_WIDTHS: [u64; 4] = [64, 128, 256, 512];

impl Setup<'_> {
    /// Refuses FP4 where no launch starts with it, and dtypes of states that this version has no word for.
    ///
    /// # Errors
    ///
    /// The setting, or that the checkpoint asks for it.
    pub(super) fn check_formats(&self) -> Result<()> {
        self.check_states()?;
        self.check_latents()?;
        if self.rules.nvfp4_heads == Nvfp4Heads::Nowhere && self.fp4_heads().next().is_some() {
            let what = "this version of vLLM takes nvfp4, but has no kernels for it and refuses to start; set kv_dtype to fp8 or \
                        bf16";
            return Err(Error::setting(self.names_heads_format(), what));
        }
        Ok(())
    }

    /// A dtype of states that is no word of this version's flags and not what it keeps without one either.
    fn check_states(&self) -> Result<()> {
        let lacks = |format: StateFormat| {
            !STATES.iter().any(|(known, first)| *known == format && self.engine.at_least(first))
        };
        let refuse = |name, format: StateFormat| {
            let what = format!(
                "{} is no type of states in {}; set f32, or leave it out",
                format.name(),
                self.engine
            );
            Err(Error::setting(name, what))
        };
        let mut unset: Vec<StateFormat> = self
            .mixers()
            .filter_map(|mixer| match mixer {
                Mixer::Recurrent(recurrent) => Some(self.unset_recurrent_dtype(&recurrent.recurrence)),
                _ => None,
            })
            .collect();
        if unset.is_empty() {
            unset.push(self.model_dtype);
        }
        match (self.settings.state_dtype, self.settings.conv_dtype) {
            (Some(format), _) if lacks(format) && unset.iter().any(|unset| *unset != format) => {
                refuse("state_dtype", format)
            }
            (_, Some(format)) if lacks(format) && format != self.model_dtype => refuse("conv_dtype", format),
            _ => Ok(()),
        }
    }

    /// `validate_nvfp4_kv_cache_with_mla` of `config/vllm.py`; sparse latents have a record of their own from 0.30 on
    /// (`nvfp4_ds_mla`), which no checkpoint asks for.
    fn check_latents(&self) -> Result<()> {
        let (name, format) = match (self.settings.latent_dtype(), self.latents_of_checkpoint()) {
            (Some((name, format)), _) => (name, format),
            (None, Some(asked)) => (CHECKPOINT, asked),
            (None, None) => return Ok(()),
        };
        let refuses = |mixer: &Mixer| match mixer {
            Mixer::Mla(_) => !self.keeps_heads_of_latents(),
            Mixer::Dsa { .. } => !self.rules.sparse_nvfp4 || name == CHECKPOINT,
            Mixer::Compressed(attention) => attention.generation == Generation::V4,
            _ => false,
        };
        if format != KvFormat::Nvfp4 || !self.mixers().any(refuses) {
            return Ok(());
        }
        let what = if name == CHECKPOINT {
            "vLLM follows the checkpoint's nvfp4 and refuses it for these latents; set kv_dtype to fp8 or bf16"
        } else {
            "vLLM refuses nvfp4 for these latents; set fp8 or bf16"
        };
        Err(Error::setting(name, what))
    }

    /// What to know of formats before a launch.
    pub(super) fn format_warnings(&self) -> Vec<Warning> {
        let told = [self.latent_format_warning(), self.fp4_heads_warning(), self.checkpoint_warning()];
        told.into_iter().flatten().collect()
    }

    /// Says where no back end of latents lists the format that is set (`supported_kv_cache_dtypes` of `v1/attention/backends/mla`,
    /// 0.33), or none of this GPU (`supports_combination` of `flashmla_sparse.py`, 0.30 to 0.33): the planner counts it, and a
    /// launch finds no back end.
    fn latent_format_warning(&self) -> Option<Warning> {
        let (name, asked) = self.settings.latent_dtype()?;
        let is_unlisted = |mixer: &Mixer| match asked {
            KvFormat::Fp8PerTokenHead | KvFormat::Int8PerTokenHead | KvFormat::Int4PerTokenHead => {
                matches!(mixer, Mixer::Mla(_) | Mixer::Dsa { .. })
            }
            KvFormat::Fp8DsMla => matches!(mixer, Mixer::Mla(_)),
            KvFormat::Nvfp4 => self.gpu.family != Family::Sm100 && matches!(mixer, Mixer::Dsa { .. }),
            _ => false,
        };
        let is_told = !self.keeps_heads_of_latents() && self.mixers().any(is_unlisted);
        is_told.then(|| {
            let reader = match asked {
                KvFormat::Nvfp4 => "no back end but that of SM10x",
                _ => "no back end",
            };
            let message = format!(
                "vLLM counts {} for these latents, but {reader} reads it, so a launch ends there; set fp8 or bf16",
                asked.name()
            );
            Warning::new(name, message)
        })
    }

    /// The same of FP4 heads, which `FlashInfer` alone reads (`v1/attention/backends/flashinfer.py`: on `SM10x` from 0.22 on, which
    /// later versions check at the start; elsewhere from 0.32 on, `supports_combination` and `__init__`).
    fn fp4_heads_warning(&self) -> Option<Warning> {
        let off_sm100 = self.gpu.family != Family::Sm100;
        let why = self.fp4_heads().find_map(|heads| {
            let widths = [heads.k_width.get(), heads.v_width.get()];
            if widths[0] != widths[1] || !FLASHINFER_WIDTHS.contains(&widths[0]) {
                return Some("no back end reads it in heads of these widths");
            }
            match self.rules.nvfp4_heads {
                Nvfp4Heads::OnSm100 if off_sm100 => {
                    Some("in this version no back end but that of SM10x reads it")
                }
                Nvfp4Heads::Everywhere if off_sm100 && widths[0] == 64 => {
                    Some("no back end but that of SM10x reads it in heads of 64 values")
                }
                Nvfp4Heads::Everywhere if off_sm100 && self.settings.dcp() > 1 => {
                    Some("no back end but that of SM10x reads it on context-parallel ranks")
                }
                _ => None,
            }
        })?;
        let message = format!(
            "vLLM counts nvfp4 for K/V heads, but {why}, so a launch ends there; set kv_dtype to fp8 or bf16"
        );
        Some(Warning::new(self.names_heads_format(), message))
    }

    /// Says where this version does not do with a checkpoint's format what the newest does.
    fn checkpoint_warning(&self) -> Option<Warning> {
        let asked = self.architecture.checkpoint_kv()?;
        let is_set = self.settings.latent_dtype().is_some();
        let message = if !is_followed(asked, self.engine) {
            format!(
                "this version of vLLM does not follow the checkpoint's {} K/V; nothing set is the model's dtype",
                asked.format
            )
        } else if is_set && self.forces_checkpoint() {
            format!(
                "this version of vLLM keeps K/V heads in the checkpoint's {} whatever kv_dtype is",
                asked.format
            )
        } else {
            return None;
        };
        Some(Warning::new(CHECKPOINT, message))
    }

    /// K/V heads in FP4, of layers that keep them.
    fn fp4_heads(&self) -> impl Iterator<Item = &Heads> {
        let is_fp4 = self.side_format(self.settings.k_dtype) == KvFormat::Nvfp4;
        self.mixers().filter(move |_| is_fp4).filter_map(|mixer| match mixer {
            Mixer::Full(heads)
            | Mixer::IndexedFull(heads, _)
            | Mixer::Sliding { heads, .. }
            | Mixer::Chunked { heads, .. } => Some(heads),
            _ => None,
        })
    }

    /// What says the format of K/V heads.
    fn names_heads_format(&self) -> &'static str {
        self.settings.latent_dtype().map_or(CHECKPOINT, |(name, _)| name)
    }
}
