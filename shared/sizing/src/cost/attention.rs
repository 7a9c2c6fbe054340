//! Operations of attention: every query head against each entry that is read, once for the score, once for the sum.

use super::span::Span;
use super::{Operand, Operations, Part, PartOperations, product};
use crate::fact::Fact;
use crate::format::{IndexFormat, KvFormat};
use crate::growth::Growth;
use crate::mixer::{CompressedAttention, CompressorRows, Heads, IndexKeys, Latent};
use crate::settings::{Formats, MlaStorage};
use crate::state::{ComponentKind, StateComponent};
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
    /// 2 × query heads × K width for the score and × V width for the sum, for each of `entries`.
    pub(super) fn operations(&self, formats: &Formats, entries: u64) -> Result<Vec<Operations>> {
        self.operations_in([formats.k().format, formats.v().format], entries)
    }

    pub(super) fn cross_operations(&self, formats: &Formats, entries: u64) -> Result<Vec<Operations>> {
        let sides = formats
            .cross()
            .map_or_else(|| [formats.k().format, formats.v().format], |chosen| [chosen.format; 2]);
        self.operations_in(sides, entries)
    }

    fn operations_in(&self, [k, v]: [KvFormat; 2], entries: u64) -> Result<Vec<Operations>> {
        let heads = query_heads(self.query_heads.as_ref())?;
        let rows = (heads / self.kv_heads.get().max(1)).max(1);
        let side = |format, width: &Fact| side(format, rows, &[heads, width.get(), entries]);
        Ok(vec![side(k, &self.k_width)?, side(v, &self.v_width)?])
    }
}

impl Latent {
    /// Absorbed: 2 × heads × (rank + rope for the score, rank for the sum) for each entry. Expanded: as heads of their own.
    pub(super) fn operations(&self, formats: &Formats, entries: u64) -> Result<Vec<Operations>> {
        if formats.mla_storage() == MlaStorage::Expanded {
            return self.expanded_operations([formats.k().format, formats.v().format], entries);
        }
        let heads = query_heads(self.query_heads.as_ref())?;
        let width = self.rank.get().saturating_mul(2).saturating_add(self.rope.get());
        Ok(vec![side(formats.latent().format, heads, &[heads, width, entries])?])
    }

    /// Those of a prefill, which expands latents to K and V of every head where the config gives their widths.
    pub(super) fn prefill_operations(&self, formats: &Formats, entries: u64) -> Result<Vec<Operations>> {
        if self.nope.is_none() || self.v_width.is_none() {
            return self.operations(formats, entries);
        }
        self.expanded_operations([KvFormat::Bf16; 2], entries)
    }

    fn expanded_operations(&self, [k, v]: [KvFormat; 2], entries: u64) -> Result<Vec<Operations>> {
        let heads = query_heads(self.query_heads.as_ref())?;
        let part = |fact: &Option<Fact>| fact.as_ref().map_or(0, Fact::get);
        let k_width = part(&self.nope).saturating_add(self.rope.get());
        Ok(vec![side(k, 1, &[heads, k_width, entries])?, side(v, 1, &[heads, part(&self.v_width), entries])?])
    }
}
/// Two operations for each of the product of `factors`, on values that are stored in `format`.
fn side(format: KvFormat, rows: u64, factors: &[u64]) -> Result<Operations> {
    let flops = product(&[2, product(factors)?])?;
    Ok(Operations { operand: kv_operand(format), rows, flops })
}

impl IndexKeys {
    /// 2 × query heads × width for every key, of which at most `cap` are scored.
    pub(super) fn operations(
        &self,
        formats: &Formats,
        span: Span,
        cap: Option<u64>,
    ) -> Result<PartOperations> {
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
        let flops = product(&[2, heads.get(), self.width.get(), span.entries(self.pool.get(), cap)?])?;
        Ok((Part::Indexer, Operations { operand, rows: heads.get(), flops }))
    }
}

impl CompressedAttention {
    /// Every head against each entry and window record that is read (one vector is K and V), the indexer, and the
    /// compressor's weighted sum over its rows.
    pub(super) fn operations(&self, formats: &Formats, span: Span) -> Result<Vec<PartOperations>> {
        let heads = query_heads(self.query_heads.as_ref())?;
        let core = |format: &str, entries: u64| {
            let operand = format.parse().map(kv_operand).map_err(|_| no_operand("kv_dtype", format))?;
            let flops = product(&[4, heads, self.width.get(), entries])?;
            Ok((Part::Core, Operations { operand, rows: heads, flops }))
        };
        let mut all = Vec::new();
        for component in self.components(formats)? {
            if component.kind == ComponentKind::WindowKv {
                all.push(core(component.format, span.entries(1, Some(self.window.get()))?)?);
            }
        }
        let Some(branch) = &self.compression else { return Ok(all) };
        let store = self.store(branch, formats)?;
        all.push(core(store.format, self.entries_read(span)?)?);
        if let Some(index) = &branch.index {
            all.push(index.operations(formats, span, None)?);
        }
        if let Some(other) = &branch.reindex {
            all.push(other.keys.operations(formats, span, other.candidates.as_ref().map(Fact::get))?);
        }
        if let Some(rows) = &branch.rows {
            all.push((Part::Compressor, rows.operations(span)?));
        }
        Ok(all)
    }

    /// Bytes of an earlier layer's store and index keys that this layer reads.
    pub(super) fn borrowed_bytes(&self, formats: &Formats, n: Tokens) -> Result<[Bytes; 2]> {
        let store = self.borrowed_store(formats)?.map_or(Ok(Bytes::ZERO), |store| store.read_bytes(n))?;
        let reindex = self.compression.as_ref().and_then(|branch| branch.reindex.as_ref());
        let keys = reindex.map_or(Ok(Bytes::ZERO), |other| {
            let growth = other.keys.component(formats)?.growth;
            let candidates = other.candidates.as_ref().map_or(u64::MAX, Fact::get);
            growth.entry().times(growth.entries(n).min(candidates))
        })?;
        Ok([store, keys])
    }

    /// Window records and entries that every head attends to.
    pub(super) fn attended(&self, span: Span) -> Result<u64> {
        let window = span.entries(1, Some(self.window.get()))?;
        Ok(window.saturating_add(self.entries_read(span)?))
    }

    fn entries_read(&self, span: Span) -> Result<u64> {
        let Some(branch) = &self.compression else { return Ok(0) };
        span.entries(branch.ratio.get(), branch.top_k.as_ref().map(Fact::get))
    }
}

impl CompressorRows {
    /// Half of each row are values, half are weights: one multiply-add for each pair.
    fn operations(&self, span: Span) -> Result<Operations> {
        Ok(Operations {
            operand: Operand::F32,
            rows: 1,
            flops: product(&[self.rows.get(), self.values.get(), span.tokens()])?,
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
