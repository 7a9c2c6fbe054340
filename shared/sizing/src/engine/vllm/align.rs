//! The attention block: chosen by the back end, raised in hybrids until an attention page holds a state.
//!
//! Source: vLLM 0.33, `platforms/interface.py` and the back ends' kernel block sizes.

use super::Setup;
use super::layers::Blocks;
use super::storage::LatentReader;
use crate::engine::gpu::Family;
use crate::fact::Fact;
use crate::format::KvFormat;
use crate::mixer::{Generation, Mixer, Recurrence};
use crate::settings::{GdnPrefillBackend, MambaCacheMode};
use crate::units::gcd;
use crate::{Error, Result};

/// MLA decode kernels want 128 tokens in whole kernel blocks, so hybrids with MLA align to it.
const MLA_HYBRID_ALIGNMENT: u64 = 128;
/// Tokens between two states that FlashInfer's gated DeltaNet prefill can export.
const GDN_EXPORT_ALIGNMENT: u64 = 64;
/// Tokens of a chunk where the config names none (`ModelConfig.get_mamba_chunk_size`).
const DEFAULT_MAMBA_CHUNK: u64 = 2048;
/// Kernel blocks of FlashAttention, FlashInfer and Triton.
const KERNEL_BLOCK: u64 = 16;

impl Setup<'_> {
    pub(super) fn mixers(&self) -> impl Iterator<Item = &Mixer> {
        self.architecture
            .classes()
            .iter()
            .filter(|class| self.keeps_cache(class))
            .flat_map(|class| &class.mixers)
    }

    /// The block sizes of this model.
    pub(super) fn align(&self) -> Result<Blocks> {
        let base = self.base_block()?;
        let mut state = 0;
        for mixer in self.mixers() {
            if let Mixer::Recurrent(recurrent) = mixer
                && !self.convolutions_are_windows()
            {
                state = self.state_bytes(recurrent)?.max(state);
            }
        }
        let Some(token) = self.attention_token_bytes()?.filter(|_| state > 0) else {
            return Ok(Blocks { attention: base, state_page: None, raised: false });
        };
        let alignment = self.hybrid_alignment(base);
        let raised = state.div_ceil(token).div_ceil(alignment).checked_mul(alignment);
        let raised = raised.ok_or_else(|| Error::overflow("raising the attention block"))?;
        let attention = raised.max(base);
        let page = attention.checked_mul(token).ok_or_else(|| Error::overflow("the attention page"))?;
        // Before 0.20 the block has no size yet where none is set, so whatever it becomes is printed.
        let is_unset = self.settings.block_size.is_none() && !self.rules.aligned_by_kernels;
        let is_raised = is_unset || base < raised;
        Ok(Blocks { attention, state_page: (page != state).then_some(page), raised: is_raised })
    }

    /// The block size before alignment: what is set, or what the back end of this GPU prefers.
    ///
    /// # Errors
    ///
    /// A block that no back end of a layer takes.
    fn base_block(&self) -> Result<u64> {
        if let Some(block) = self.settings.block_size {
            return self.taken(block);
        }
        let mut block = KERNEL_BLOCK;
        for mixer in self.mixers() {
            block = block.max(match mixer {
                Mixer::Mla(_) if !self.keeps_heads_of_latents() => self.mla_block(),
                Mixer::Full(heads) | Mixer::Sliding { heads, .. } => self.heads_block(heads.k_width.get()),
                _ => self.kernel_block(mixer),
            });
        }
        Ok(block)
    }

    /// Tokens that a block of the layer is a multiple of in every back end (`get_supported_kernel_block_sizes`). Versions
    /// before 0.33 list 1 and 8 too, and then refuse them: "Block size must be a multiple of 16".
    fn kernel_block(&self, mixer: &Mixer) -> u64 {
        match mixer {
            Mixer::Compressed(attention) if attention.generation == Generation::V4 => 256,
            Mixer::Compressed(_) if self.gpu.family == Family::Sm90 => 64,
            Mixer::Compressed(_) => 128,
            // The indexer's kernels take pages of 32 keys.
            Mixer::Dsa { index: Some(keys), .. } => (32 * keys.pool.get()).max(64),
            Mixer::Dsa { .. } => 64,
            _ => KERNEL_BLOCK,
        }
    }

    /// The block that is set, where every attention layer takes it.
    fn taken(&self, block: u64) -> Result<u64> {
        let listed = self.rules.blocks;
        if !listed.is_empty() && !listed.contains(&block) {
            let what = format!("{block} tokens; this version of vLLM takes {listed:?} alone");
            return Err(Error::setting("block_size", what));
        }
        let kernels = self.mixers().filter(|mixer| !matches!(mixer, Mixer::Recurrent(_) | Mixer::None));
        match kernels.map(|mixer| self.kernel_block(mixer)).find(|kernel| !block.is_multiple_of(*kernel)) {
            None => Ok(block),
            Some(kernel) => {
                let what = format!(
                    "{block} tokens are no multiple of the {kernel} that the attention kernels of this model read; vLLM refuses \
                     this"
                );
                Err(Error::setting("block_size", what))
            }
        }
    }

    /// Before 0.20 (`platforms/cuda.py`): 64 for `FlashMLA` on SM90 and for `FlashInfer` on `SM10x`, where 0.11 had 128 for CUTLASS; since
    /// then FlashAttention-MLA 16 and FlashMLA 64 (FP8) on SM90, FlashInfer 32 on `SM10x`, Triton 16 elsewhere.
    fn mla_block(&self) -> u64 {
        let fp8 = matches!(self.latent_format(LatentReader::Dense), KvFormat::Fp8 | KvFormat::Fp8DsMla);
        match self.gpu.family {
            Family::Sm90 if !self.rules.aligned_by_kernels => 64,
            Family::Sm100 if !self.rules.aligned_by_kernels => self.rules.forced_sm100_block,
            Family::Sm90 if fp8 => 64,
            Family::Sm100 => 32,
            Family::Ampere | Family::Sm90 | Family::Sm120 => KERNEL_BLOCK,
        }
    }

    /// FlashAttention 4 reads FP8 caches of 512-wide heads in tiles of 64 tokens on SM90.
    fn heads_block(&self, width: u64) -> u64 {
        let fp8 = self.side_format(self.settings.k_dtype) == KvFormat::Fp8;
        if self.rules.wide_fp8_blocks && fp8 && width == 512 && self.gpu.family == Family::Sm90 {
            return 64;
        }
        KERNEL_BLOCK
    }

    /// What a raised block is a multiple of.
    fn hybrid_alignment(&self, base: u64) -> u64 {
        if let Some(block) = self.settings.kernel_block_size {
            return block;
        }
        let alignment = if self.rules.aligned_by_kernels {
            self.kernel_alignment(base)
        } else {
            self.alignment_of_configs()
        };
        // A state for every block begins at a chunk of the model's kernels (`_align_hybrid_block_size`).
        if self.cache_mode == MambaCacheMode::All {
            let chunk = self.architecture.mamba_chunk().map_or(DEFAULT_MAMBA_CHUNK, Fact::get);
            return lcm(chunk.max(1), alignment);
        }
        if self.cache_mode == MambaCacheMode::Align && self.gdn_exports_states() && self.only_gdn_states() {
            return lcm(alignment, GDN_EXPORT_ALIGNMENT);
        }
        alignment
    }

    fn kernel_alignment(&self, base: u64) -> u64 {
        let of_latents = self.has_latents() && self.rules.latents_of_128;
        base.max(if of_latents { MLA_HYBRID_ALIGNMENT } else { KERNEL_BLOCK })
    }

    fn has_latents(&self) -> bool {
        self.mixers().any(|mixer| matches!(mixer, Mixer::Mla(_) | Mixer::Dsa { .. }))
    }

    /// The same before 0.20, in numbers of the models' own (`HybridAttentionMambaModelConfig` of `models/config.py`): 64 for
    /// latents, and 32 for 256-wide heads on `SM10x`, where `FlashInfer` misread blocks of 16.
    fn alignment_of_configs(&self) -> u64 {
        let wide = |mixer: &Mixer| matches!(mixer, Mixer::Full(heads) if heads.k_width.get() == 256);
        match self.gpu.family {
            _ if self.has_latents() => 64,
            Family::Sm100 if self.mixers().any(wide) => 32,
            _ => KERNEL_BLOCK,
        }
    }

    /// Whether gated DeltaNet prefills with kernels that export states: `FlashInfer`'s, for Qwen's layers on SM90, and on
    /// newer GPUs with 128-wide keys (vLLM 0.33, `layers/mamba/gdn/qwen_gdn_linear_attn.py`).
    pub(super) fn gdn_exports_states(&self) -> bool {
        let flashinfer =
            match (self.settings.gdn_prefill_backend, self.settings.mamba_prefill_checkpoint_blocks) {
                (Some(backend), _) => backend == GdnPrefillBackend::FlashInfer,
                (None, Some(pages)) => pages > 0,
                (None, None) => match self.gpu.family {
                    Family::Ampere => false,
                    Family::Sm90 => true,
                    Family::Sm100 | Family::Sm120 => self.gdn_keys_are_128_wide(),
                },
            };
        let qwen = self.architecture.model_type().is_none_or(|class| class.starts_with("qwen"));
        flashinfer && qwen && self.rules.gdn_checkpoints
    }

    /// Bytes that a packed block is a multiple of where keys share entries: whole rows of latents, and whole pages of the
    /// indexer's kernels, which take 64 keys at most (`get_block_stride_alignment` in `v1/kv_cache_interface.py`).
    pub(super) fn block_alignment(&self, block: u64) -> Result<u64> {
        let mut alignment = 1;
        for mixer in self.mixers() {
            let Mixer::Dsa { latent, index: Some(keys), .. } = mixer else { continue };
            let pool = keys.pool.get();
            if pool <= 1 {
                continue;
            }
            let kernel = gcd(64 * pool, block);
            let page = (kernel / pool).max(1).checked_mul(self.index_row(keys)?);
            let page = page.ok_or_else(|| Error::overflow("a page of index keys"))?;
            alignment = lcm(alignment, lcm(self.latent_row(latent, LatentReader::Sparse)?, page));
        }
        Ok(alignment)
    }

    fn gdn_keys_are_128_wide(&self) -> bool {
        self.mixers().all(|mixer| match mixer {
            Mixer::Recurrent(recurrent) => match &recurrent.recurrence {
                Recurrence::GatedDeltaNet { k_dim, .. } => k_dim.get() == 128,
                _ => true,
            },
            _ => true,
        })
    }

    fn only_gdn_states(&self) -> bool {
        self.mixers().all(|mixer| match mixer {
            Mixer::Recurrent(recurrent) => matches!(recurrent.recurrence, Recurrence::GatedDeltaNet { .. }),
            _ => true,
        })
    }

    /// Bytes of one token in one attention layer; `None` for models without attention.
    fn attention_token_bytes(&self) -> Result<Option<u64>> {
        for mixer in self.mixers() {
            let bytes = match mixer {
                Mixer::Full(heads) | Mixer::IndexedFull(heads, _) | Mixer::Sliding { heads, .. } => {
                    self.heads_row(heads)?
                }
                Mixer::Mla(latent) => self.latent_row(latent, LatentReader::Dense)?,
                Mixer::Dsa { latent, .. } => self.latent_row(latent, LatentReader::Sparse)?,
                _ => continue,
            };
            return Ok(Some(bytes));
        }
        Ok(None)
    }
}

fn lcm(a: u64, b: u64) -> u64 {
    a / gcd(a, b).max(1) * b
}
