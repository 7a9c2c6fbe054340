//! Bytes of one stored entry: heads, latents, index keys, compressed records, states.
//!
//! Sources: vLLM 0.33, the attention back ends' own packing (`v1/attention/backends`), `mla_attention.py`,
//! `models/deepseek_v4`, `mamba_utils.py`.

use super::Setup;
use super::rules::ScaledRows;
use crate::architecture::{CheckpointKv, Exporter};
use crate::engine::Quantity;
use crate::engine::formats::{heads_by_default, is_followed, is_forced};
use crate::engine::gpu::Family;
use crate::engine::shard::shard_count;
use crate::fact::Fact;
use crate::format::{IndexFormat, KvFormat, StateFormat};
use crate::mixer::{
    CompressedAttention, Generation, Heads, IndexKeys, IndexLayout, Latent, Mixer, Recurrence, Recurrent,
};
use crate::{Error, Result};

/// A row of DeepSeek-V3.2 in its scaled layout always has room for a rotary part of 64 values.
const SCALED_ROPE: u64 = 64;

/// Which kernels read a latent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LatentReader {
    /// Those of plain MLA.
    Dense,
    /// Those that read what an indexer chooses.
    Sparse,
}

/// Where an entry of compressed attention is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EntryOf {
    /// The compressed stream.
    Stream,
    /// The window branch.
    Window,
}

impl Setup<'_> {
    /// One token's K and V on one rank.
    pub(super) fn heads_row(&self, heads: &Heads) -> Result<u64> {
        let on_rank = shard_count(&heads.kv_heads, self.ranks_of_heads())?.get();
        let k = self.side(("k_dtype", self.settings.k_dtype), heads.k_width.get())?;
        let v_width = if self.pads_values() {
            heads.k_width.get().max(heads.v_width.get())
        } else {
            heads.v_width.get()
        };
        let v = self.side(("v_dtype", self.settings.v_dtype), v_width)?;
        multiply(on_rank, k + v)
    }

    /// Whether V takes as many values as K: a page had one head size (`AttentionSpec.head_size`), and from 0.14 to 0.19 openPangu
    /// alone states another for V.
    pub(super) fn pads_values(&self) -> bool {
        let is_pangu = || self.architecture.architectures().iter().any(|class| class.contains("Pangu"));
        !(self.rules.values_as_wide_as_stated || (self.rules.pangu_values_as_stated && is_pangu()))
    }

    /// Whether every rank has all heads and the whole state: ZAYA's attention is not divided (the pull request that adds
    /// `model_executor/models/zaya.py`: "CCA currently replicates heads on every rank").
    pub(super) fn replicates(&self) -> bool {
        self.settings.tp() > 1 && self.architecture.model_type() == Some("zaya")
    }

    /// Ranks that share heads and states.
    fn ranks_of_heads(&self) -> u64 {
        if self.replicates() { 1 } else { self.settings.tp() }
    }

    /// Bytes of K or V of one head, of which `own` is the setting.
    fn side(&self, (name, own): (&str, Option<KvFormat>), width: u64) -> Result<u64> {
        match self.side_format(own) {
            KvFormat::Fp8DsMla => {
                let name = if own.is_some() { name } else { "kv_dtype" };
                Err(Error::setting(name, "fp8_ds_mla is a record of latents; this model has K/V heads"))
            }
            format => Ok(format.row(1, width)?.get()),
        }
    }

    /// The format of K or V of heads, of which `own` is the setting.
    pub(super) fn side_format(&self, own: Option<KvFormat>) -> KvFormat {
        // A scheme of compressed-tensors reaches layers by their quantisation, whatever the cache's format is.
        let of_modelopt = |asked: CheckpointKv| asked.exporter == Exporter::Modelopt;
        if self.own_dtype && self.architecture.checkpoint_kv().is_none_or(of_modelopt) {
            return self.model_dtype.into();
        }
        let by_default = || heads_by_default(self.architecture, self.engine);
        let set = own.or(self.settings.kv_dtype).filter(|_| !self.forces_checkpoint() && !self.own_dtype);
        set.unwrap_or_else(by_default)
    }

    /// Whether K/V heads are in the checkpoint's format whatever is set.
    pub(super) fn forces_checkpoint(&self) -> bool {
        self.architecture.checkpoint_kv().is_some_and(|asked| is_forced(asked, self.engine))
    }

    /// What the checkpoint asks for latents, where this version follows it.
    pub(super) fn latents_of_checkpoint(&self) -> Option<KvFormat> {
        let of_latents =
            |asked: &CheckpointKv| asked.exporter == Exporter::Modelopt && is_followed(*asked, self.engine);
        self.architecture.checkpoint_kv().filter(of_latents).map(|asked| asked.format)
    }

    /// The format of latents: what is set, what the checkpoint asks for, FP8 for models of the class of GLM-5 on
    /// `SM10x`, or the model's dtype.
    pub(super) fn latent_format(&self, reader: LatentReader) -> KvFormat {
        if let Some((_, format)) = self.settings.latent_dtype() {
            return format;
        }
        if let Some(asked) = self.latents_of_checkpoint() {
            return asked;
        }
        let turns_fp8 =
            matches!(self.architecture.model_type(), Some("glm_moe_dsa" | "glm5_next_text" | "glm5_next"))
                && self.gpu.family == Family::Sm100
                && self.rules.glm_fp8_on_sm100;
        let turns_scaled =
            self.rules.scaled_rows_by_default && self.architecture.model_type() == Some("deepseek_v32");
        if reader == LatentReader::Sparse && (turns_fp8 || turns_scaled) {
            return KvFormat::Fp8;
        }
        self.model_dtype.into()
    }

    /// How a latent is stored. `FlashMLA`'s sparse kernels rewrite the FP8 flag to their scaled row; `FlashInfer`'s on `SM10x`
    /// keep raw values, and so do those for 512-wide rows on SM90.
    fn stored_latent(&self, latent: &Latent, reader: LatentReader) -> KvFormat {
        let heads = || latent.query_heads.as_ref().map(|all| all.get() / self.settings.tp());
        let scaled = match (self.rules.scaled_rows, self.gpu.family) {
            (ScaledRows::Everywhere, _) | (_, Family::Ampere | Family::Sm120) => true,
            (ScaledRows::OnSm100Above(few), Family::Sm100) => heads().is_none_or(|heads| heads > few),
            (ScaledRows::OffSm100, Family::Sm100) => false,
            (_, Family::Sm90) => latent.rank.get() + latent.rope.get() != 512,
        };
        match self.latent_format(reader) {
            KvFormat::Fp8 if reader == LatentReader::Sparse && scaled => KvFormat::Fp8DsMla,
            format => format,
        }
    }

    /// One token's latent. It is not divided by tensor parallelism.
    pub(super) fn latent_row(&self, latent: &Latent, reader: LatentReader) -> Result<u64> {
        let sparse = reader == LatentReader::Sparse;
        let (rank, rope) = (latent.rank.get(), latent.rope.get());
        let bytes = match self.stored_latent(latent, reader) {
            KvFormat::Fp8DsMla => KvFormat::Fp8DsMla.latent(rank, SCALED_ROPE)?.get(),
            // The latent has no V, yet room for both scales.
            KvFormat::Int8PerTokenHead | KvFormat::Fp8PerTokenHead => rank + rope + 8,
            KvFormat::Int4PerTokenHead => u64::midpoint(rank, rope) + 8,
            KvFormat::Nvfp4 if sparse => rank / 2 + rope + rank / 16,
            format => format.latent(rank, rope)?.get(),
        };
        Ok(bytes)
    }

    /// One key of an indexer.
    pub(super) fn index_row(&self, keys: &IndexKeys) -> Result<u64> {
        multiply(self.index_format(keys).key(keys.width.get())?.get(), keys.heads.get())
    }

    fn index_format(&self, keys: &IndexKeys) -> IndexFormat {
        let native = match keys.layout {
            IndexLayout::Plain => IndexFormat::Bf16,
            IndexLayout::Dsa | IndexLayout::Csa => IndexFormat::Fp8,
        };
        self.settings.index_dtype.unwrap_or(native)
    }

    /// How latents, index keys and recurrent states are stored; `None` for several formats.
    pub(super) fn formats(&self) -> Vec<(Quantity, Option<&'static str>)> {
        let mut found: Vec<(Quantity, Option<&'static str>)> = Vec::new();
        let mut add = |quantity, format| match found.iter_mut().find(|(known, _)| *known == quantity) {
            Some((_, known)) => *known = known.filter(|known| *known == format),
            None => found.push((quantity, Some(format))),
        };
        for mixer in self.mixers() {
            match mixer {
                Mixer::Recurrent(recurrent) if !matches!(recurrent.recurrence, Recurrence::ShortConv) => {
                    add(Quantity::StateBytes, self.recurrent_dtype(&recurrent.recurrence).name());
                }
                Mixer::Mla(latent) if !self.keeps_heads_of_latents() => {
                    add(Quantity::KvBytes, self.stored_latent(latent, LatentReader::Dense).name());
                }
                Mixer::Dsa { latent, .. } => {
                    add(Quantity::KvBytes, self.stored_latent(latent, LatentReader::Sparse).name());
                }
                _ => {}
            }
            if let Some(keys) = mixer.index_keys() {
                add(Quantity::IndexBytes, self.index_format(keys).name());
            }
        }
        found
    }

    /// The record of a compressed or window entry, and what its pages are aligned to.
    pub(super) fn record(&self, attention: &CompressedAttention, kept: EntryOf) -> Result<(u64, u64)> {
        let (width, rope) = (attention.width.get(), attention.rope.get());
        match (self.settings.kv_dtype, attention.generation) {
            (None | Some(KvFormat::Fp8DsMla | KvFormat::Fp8), Generation::V4) => {
                Ok((KvFormat::Fp8DsMla.entry(width, rope)?.get(), 576))
            }
            (None | Some(KvFormat::Fp8DsMla | KvFormat::Fp8), Generation::V41) => {
                let format = match kept {
                    EntryOf::Window => KvFormat::Mxfp8,
                    EntryOf::Stream => KvFormat::Nvfp4,
                };
                Ok((format.entry(width, rope)?.get(), 1))
            }
            (Some(format), _) => Ok((format.entry(width, rope)?.get(), 512)),
        }
    }

    /// Storage of recurrent state: what is set, what the checkpoint asks, or the engine's own choice for the mixer.
    pub(super) fn recurrent_dtype(&self, recurrence: &Recurrence) -> StateFormat {
        let set = self.settings.state_dtype.filter(|_| !self.follows_convolution(recurrence));
        set.unwrap_or_else(|| self.unset_recurrent_dtype(recurrence))
    }

    /// The same where nothing is set for it.
    pub(super) fn unset_recurrent_dtype(&self, recurrence: &Recurrence) -> StateFormat {
        if self.follows_convolution(recurrence) {
            return self.settings.conv_dtype.unwrap_or(self.model_dtype);
        }
        let of_checkpoint = self.architecture.recurrent_dtype().filter(|_| self.rules.checkpoint_states);
        if let Some(format) = of_checkpoint {
            return format;
        }
        let nemotron = self.architecture.model_type() == Some("nemotron_h");
        match recurrence {
            Recurrence::Kda { .. } => StateFormat::F32,
            _ if nemotron && self.rules.nemotron_f32_state => StateFormat::F32,
            _ => self.model_dtype,
        }
    }

    fn follows_convolution(&self, recurrence: &Recurrence) -> bool {
        !self.rules.delta_state_apart && matches!(recurrence, Recurrence::GatedDeltaNet { .. })
    }

    /// All state of one recurrent layer on one rank.
    pub(super) fn state_bytes(&self, recurrent: &Recurrent) -> Result<u64> {
        let width = self.recurrent_dtype(&recurrent.recurrence).bytes_per_value();
        let state = match &recurrent.recurrence {
            Recurrence::GatedDeltaNet { v_heads, v_dim, k_dim } => {
                product(&[self.split(v_heads)?, v_dim.get(), k_dim.get()])?
            }
            Recurrence::Kda { heads, dim } | Recurrence::Lightning { heads, dim } => {
                product(&[self.split(heads)?, dim.get(), dim.get()])?
            }
            Recurrence::Mamba1 { d_inner, d_state } => product(&[self.split(d_inner)?, d_state.get()])?,
            Recurrence::Mamba2 { heads, head_dim, d_state, .. } => {
                product(&[self.split(heads)?, head_dim.get(), d_state.get()])?
            }
            Recurrence::ShortConv => 0,
        };
        let conv_width = self.settings.conv_dtype.unwrap_or(self.model_dtype).bytes_per_value();
        let conv = multiply(self.conv_values(recurrent)?, conv_width)?;
        multiply(state, width)?
            .checked_add(conv)
            .ok_or_else(|| Error::overflow("adding state and conv bytes"))
    }

    /// Values of the convolution's window, which is longer by the drafts except before Mamba-1.
    fn conv_values(&self, recurrent: &Recurrent) -> Result<u64> {
        let Some(conv) = &recurrent.conv else { return Ok(0) };
        let tp = self.ranks_of_heads();
        let mut columns = conv.kernel.get().saturating_sub(1);
        let mut channels = conv.channels.get();
        match &recurrent.recurrence {
            Recurrence::Mamba1 { .. } => {}
            Recurrence::Mamba2 { groups, d_state, .. } => {
                columns += self.settings.draft_tokens();
                // Groups that cannot be divided become one a rank.
                if !groups.get().is_multiple_of(tp) {
                    let each = product(&[2, d_state.get()])?;
                    let heads_alone = channels.saturating_sub(multiply(groups.get(), each)?);
                    channels = multiply(tp, each)?
                        .checked_add(heads_alone)
                        .ok_or_else(|| Error::overflow("conv channels"))?;
                }
            }
            _ => columns += self.settings.draft_tokens(),
        }
        let derived = Fact::derived(channels, conv.channels.source().to_string());
        multiply(columns, self.split(&derived)?)
    }

    fn split(&self, count: &Fact) -> Result<u64> {
        let tp = self.ranks_of_heads();
        if count.get().is_multiple_of(tp) {
            return Ok(count.get() / tp);
        }
        Err(Error::setting(
            "tp",
            format!("{} ({}) is no multiple of {tp} ranks", count.get(), count.source()),
        ))
    }
}

fn multiply(a: u64, b: u64) -> Result<u64> {
    a.checked_mul(b).ok_or_else(|| Error::overflow(format!("{a} × {b} B")))
}

fn product(factors: &[u64]) -> Result<u64> {
    factors.iter().try_fold(1, |total, factor| multiply(total, *factor))
}
