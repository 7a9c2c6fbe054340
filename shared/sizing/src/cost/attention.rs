//! Operations of attention: every query head against each entry that is read, once for the score, once for the sum.

use super::span::Met;
use super::{Operand, Part, Work, product};
use crate::fact::Fact;
use crate::format::{IndexFormat, KvFormat};
use crate::growth::Growth;
use crate::mixer::{CompressedAttention, CompressorRows, Heads, IndexKeys, Latent};
use crate::settings::{Formats, MlaStorage};
use crate::state::{ComponentKind, Reads, StateComponent};
use crate::{Bytes, Error, Result, Tokens};

impl StateComponent {
    /// Bytes that a decode step writes back in place: a recurrent state as a whole, and a convolution's inputs, which move
    /// by one.
    pub fn rewritten_bytes(&self) -> Bytes {
        match self.kind {
            ComponentKind::RecurrentState | ComponentKind::ConvState => self.growth.entry(),
            _ => Bytes::ZERO,
        }
    }

    /// Bytes of the entry that a step at `n` tokens adds, or puts in place of an old one.
    pub fn appended_bytes(&self, n: Tokens) -> Bytes {
        let is_whole = match self.growth {
            Growth::Constant { .. } => false,
            Growth::Compressed { ratio, .. } => n.get().is_multiple_of(ratio.get().max(1)),
            Growth::Linear { .. } | Growth::Window { .. } | Growth::Chunk { .. } => true,
        };
        if is_whole && n.get() > 0 { self.growth.entry() } else { Bytes::ZERO }
    }
}

impl Heads {
    /// 2 × query heads × K width for the score and × V width for the sum, for each entry.
    pub(super) fn work(&self, formats: &Formats, met: Met) -> Result<Vec<Work>> {
        self.work_in([formats.k().format, formats.v().format], met)
    }

    pub(super) fn cross_work(&self, formats: &Formats, met: Met) -> Result<Vec<Work>> {
        let sides = formats
            .cross()
            .map_or_else(|| [formats.k().format, formats.v().format], |chosen| [chosen.format; 2]);
        self.work_in(sides, met)
    }

    fn work_in(&self, [k, v]: [KvFormat; 2], met: Met) -> Result<Vec<Work>> {
        let heads = query_heads(self.query_heads.as_ref())?;
        let rows = (heads / self.kv_heads.get().max(1)).max(1);
        let side = |format, width: &Fact| core(kv_operand(format), rows, &[2, heads, width.get()], met);
        Ok(vec![side(k, &self.k_width)?, side(v, &self.v_width)?])
    }
}

impl Latent {
    /// Absorbed: 2 × heads × (rank + rope for the score, rank for the sum) for each entry. Expanded: as heads of their own.
    pub(super) fn work(&self, formats: &Formats, met: Met) -> Result<Vec<Work>> {
        if formats.mla_storage() == MlaStorage::Expanded {
            return self.expanded_work([formats.k().format, formats.v().format], met);
        }
        let heads = query_heads(self.query_heads.as_ref())?;
        let width = self.rank.get().saturating_mul(2).saturating_add(self.rope.get());
        Ok(vec![core(kv_operand(formats.latent().format), heads, &[2, heads, width], met)?])
    }

    /// That of a prefill, which expands latents to K and V of every head where the config gives their widths.
    pub(super) fn prefill_work(&self, formats: &Formats, met: Met) -> Result<Vec<Work>> {
        if self.nope.is_none() || self.v_width.is_none() {
            return self.work(formats, met);
        }
        self.expanded_work([KvFormat::Bf16; 2], met)
    }

    fn expanded_work(&self, [k, v]: [KvFormat; 2], met: Met) -> Result<Vec<Work>> {
        let heads = query_heads(self.query_heads.as_ref())?;
        let part = |fact: &Option<Fact>| fact.as_ref().map_or(0, Fact::get);
        let k_width = part(&self.nope).saturating_add(self.rope.get());
        let side = |format, width| core(kv_operand(format), 1, &[2, heads, width], met);
        Ok(vec![side(k, k_width)?, side(v, part(&self.v_width))?])
    }
}

/// The product of `factors` for each entry.
fn core(operand: Operand, rows: u64, factors: &[u64], met: Met) -> Result<Work> {
    Ok(Work { part: Part::Core, operand, rows, flops_per_entry: product(factors)?, met })
}

impl IndexKeys {
    /// 2 × query heads × width for every key, of which at most `cap` are scored.
    pub(super) fn work(&self, formats: &Formats, cap: Option<u64>) -> Result<Work> {
        let heads = self.query_heads.as_ref().ok_or_else(|| {
            Error::field(
                "index_n_heads",
                "the config does not say it, and the operations of the indexer need it",
            )
        })?;
        let component = self.component(formats)?;
        let operand = match component.format {
            name if name == IndexFormat::Bf16.name() => Operand::Bf16,
            name if name == IndexFormat::Fp8.name() => Operand::Fp8,
            name if name == IndexFormat::Fp4.name() => Operand::Fp4,
            other => return Err(no_operand("index_dtype", other)),
        };
        Ok(Work {
            part: Part::Indexer,
            operand,
            rows: heads.get(),
            flops_per_entry: product(&[2, heads.get(), self.width.get()])?,
            met: Met::Entries { ratio: self.pool.get(), cap },
        })
    }
}

impl CompressedAttention {
    /// Every head against each entry and window record that is read (one vector is K and V), the indexer, and the
    /// compressor's weighted sum over its rows.
    pub(super) fn work(&self, formats: &Formats) -> Result<Vec<Work>> {
        let heads = query_heads(self.query_heads.as_ref())?;
        let core = |format: &str, met: Met| {
            let operand = format.parse().map(kv_operand).map_err(|_| no_operand("kv_dtype", format))?;
            core(operand, heads, &[4, heads, self.width.get()], met)
        };
        let [entries, window] = self.attended();
        let mut all = Vec::new();
        for component in self.components(formats)? {
            if component.kind == ComponentKind::WindowKv {
                all.push(core(component.format, window)?);
            }
        }
        let Some(branch) = &self.compression else { return Ok(all) };
        let store = self.store(branch, formats)?;
        all.push(core(store.format, entries)?);
        if let Some(index) = &branch.index {
            all.push(index.work(formats, None)?);
        }
        if let Some(other) = &branch.reindex {
            all.push(other.keys.work(formats, other.candidates.as_ref().map(Fact::get))?);
        }
        if let Some(rows) = &branch.rows {
            all.push(rows.work()?);
        }
        Ok(all)
    }

    /// An earlier layer's store and index keys, with what this layer reads of them.
    pub(super) fn borrowed(&self, formats: &Formats) -> Result<Vec<StateComponent>> {
        let mut borrowed: Vec<StateComponent> = self.borrowed_store(formats)?.into_iter().collect();
        if let Some(other) = self.compression.as_ref().and_then(|branch| branch.reindex.as_ref()) {
            let keys = other.keys.component(formats)?;
            let reads = other.candidates.as_ref().map_or(keys.reads, |most| Reads::TopEntries(most.get()));
            borrowed.push(StateComponent { reads, ..keys });
        }
        Ok(borrowed)
    }

    /// Entries and window records that every head attends to.
    pub(super) fn attended(&self) -> [Met; 2] {
        let entries = self.compression.as_ref().map_or(Met::NOTHING, |branch| Met::Entries {
            ratio: branch.ratio.get(),
            cap: branch.top_k.as_ref().map(Fact::get),
        });
        [entries, Met::tokens(Some(self.window.get()))]
    }
}

impl CompressorRows {
    /// Half of each row are values, half are weights: one multiply-add for each pair.
    fn work(&self) -> Result<Work> {
        Ok(Work {
            part: Part::Compressor,
            operand: Operand::F32,
            rows: 1,
            flops_per_entry: product(&[self.rows.get(), self.values.get()])?,
            met: Met::Each(1),
        })
    }
}

fn no_operand(setting: &str, format: &str) -> Error {
    Error::setting(setting, format!("what is computed with values in {format} is not known"))
}

/// Tokens of the encoder's output: as set, else as the config says.
pub(super) fn encoder_tokens(formats: &Formats, limit: Option<&Fact>) -> Result<u64> {
    formats.settings().encoder_tokens.or(limit.map(Fact::get)).ok_or_else(|| {
        Error::setting("encoder_tokens", "not given, and the config has no max_source_positions")
    })
}

pub(super) fn query_heads(heads: Option<&Fact>) -> Result<u64> {
    heads.map(Fact::get).ok_or_else(|| {
        Error::field(
            "num_attention_heads",
            "the config does not say it, and the operations of a step need it",
        )
    })
}

/// The type of the values in a K/V format.
pub(super) fn kv_operand(format: KvFormat) -> Operand {
    match format {
        KvFormat::F32 => Operand::F32,
        KvFormat::Bf16 | KvFormat::F16 => Operand::Bf16,
        KvFormat::Fp8
        | KvFormat::Fp8DsMla
        | KvFormat::Int8PerTokenHead
        | KvFormat::Fp8PerTokenHead
        | KvFormat::Mxfp8
        | KvFormat::Q8_0 => Operand::Fp8,
        KvFormat::Int4PerTokenHead
        | KvFormat::Nvfp4
        | KvFormat::Q5_1
        | KvFormat::Q5_0
        | KvFormat::Q4_1
        | KvFormat::Q4_0
        | KvFormat::Iq4Nl => Operand::Fp4,
    }
}
