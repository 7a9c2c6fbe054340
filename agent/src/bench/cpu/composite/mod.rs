//! Layers whose heads all share one record an entry, in one or two stores, whole or chosen: DSA, CSA, HCA, CSA2 and the
//! window branch alone.
//!
//! One decode step of a layer, for a request of n tokens of which the last is the one that is computed:
//!
//! 1. **update**: the new record takes its slot in the window's ring, the new row its slot in the compressor's; where n
//!    ends a group, an entry and an index key are made and written;
//! 2. **choose**: the indexer scores all keys, and the exact top k of all workers' parts are the entries to read; a layer
//!    that borrows its choice has it given; without a top k every entry is read;
//! 3. **attend**: softmax over the window's records, the entries, and one sink a head where there is a window; the parts of
//!    the workers are joined.
//!
//! Bytes that are read: all index keys, the chosen records, the window, the compressor's rows; FLOPs:
//! `2 × index heads × index width` a key and `2 × heads × (width + value width)` a record. Multiply-adds bound every one of
//! these forms on a CPU; of DSA and CSA the indexer takes the larger part from some 30,000 tokens on.

mod case;
mod compressor;
mod reference;
mod step;
mod stores;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kvscope_sizing::{IndexFormat, KvFormat};

use self::case::CompositeCase;
use self::compressor::Pooling;
use super::gather::PAGE_RECORDS;
use super::indexer::{self, KeyFormat};
use super::pool::Pool;
use super::records::Record;
use super::shared_rows;
use super::simd::InstructionSet;
use crate::bench::BenchError;
use crate::bench::backend::{CaseOrder, Layout, PreparedCase};
use crate::bench::shape::{
    BranchShape, CompressedShape, DsaShape, IndexShape, MlaShape, RowsShape, StoreOwner,
};

/// What one layer keeps and how it is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Layer {
    rows: shared_rows::Dimensions,
    /// One record for every `ratio` tokens.
    entries: Option<Entries>,
    /// The last so many tokens, each as one record, and a sink a head.
    window: Option<Window>,
    index: Option<indexer::Dimensions>,
    /// Entries that are read; all where absent.
    top_k: Option<usize>,
    compressor: Option<Compressor>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Entries {
    record: Record,
    ratio: usize,
    owner: StoreOwner,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Window {
    record: Record,
    tokens: usize,
}

/// The compressor of the entries and, where there is one, of the index keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Compressor {
    entries: Pooling,
    keys: Option<Pooling>,
}

impl Compressor {
    /// f32 values of one token's row.
    fn row(&self) -> usize {
        self.entries.row() + self.keys.map_or(0, Pooling::row)
    }
}

/// Counts of one request at a context.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Counts {
    entries: usize,
    keys: usize,
    window: usize,
    /// Entries that are read.
    read: usize,
}

impl Layer {
    pub(super) fn dsa(shape: &DsaShape) -> Result<Self, BenchError> {
        let MlaShape { query_heads, latent, rope, format } = shape.attention;
        let [heads, latent, rope] = sizes(shape, [query_heads, latent, rope])?;
        let layer = Self {
            rows: shared_rows::Dimensions { heads, width: latent + rope, value_width: latent },
            entries: Some(Entries {
                record: latent_record(format, latent, rope)?,
                ratio: 1,
                owner: StoreOwner::Own,
            }),
            window: None,
            index: shape.index.map(|index| indexer(&index, 1)).transpose()?,
            top_k: shape.top_k.map(|k| sizes(shape, [k]).map(|[k]| k)).transpose()?,
            compressor: None,
        };
        layer.checked()
    }

    pub(super) fn compressed(shape: &CompressedShape) -> Result<Self, BenchError> {
        let [heads, width, rope, window] =
            sizes(shape, [shape.query_heads, shape.width, shape.rope, shape.window])?;
        let mut layer = Self {
            rows: shared_rows::Dimensions { heads, width, value_width: width },
            entries: None,
            window: Some(Window { record: entry_record(shape.window_format, width, rope)?, tokens: window }),
            index: None,
            top_k: None,
            compressor: None,
        };
        if let Some(branch) = &shape.branch {
            layer.add_branch(branch, width, rope)?;
        }
        layer.checked()
    }

    fn add_branch(&mut self, branch: &BranchShape, width: usize, rope: usize) -> Result<(), BenchError> {
        let [ratio] = sizes(branch, [branch.ratio])?;
        let record = entry_record(branch.format, width, rope)?;
        self.entries = Some(Entries { record, ratio, owner: branch.store });
        self.index = branch.index.map(|index| indexer(&index, branch.ratio)).transpose()?;
        self.top_k = branch.top_k.map(|k| sizes(branch, [k]).map(|[k]| k)).transpose()?;
        self.compressor = branch.rows.map(|rows| self.compressor(&rows, ratio, width, rope)).transpose()?;
        Ok(())
    }

    fn compressor(
        &self,
        rows: &RowsShape,
        ratio: usize,
        width: usize,
        rope: usize,
    ) -> Result<Compressor, BenchError> {
        let [kept, values] = sizes(rows, [rows.rows, rows.values])?;
        let halves = kept / ratio;
        let pooling = |width: usize| Pooling { width, rope: rope.min(width), ratio, halves };
        let compressor =
            Compressor { entries: pooling(width), keys: self.index.map(|index| pooling(index.width)) };
        if !(1..=2).contains(&halves) || kept != halves * ratio || compressor.row() != values {
            let what = format!("a compressor of {kept} rows of {values} values for groups of {ratio}");
            return Err(BenchError::Shape(what));
        }
        Ok(compressor)
    }

    fn checked(self) -> Result<Self, BenchError> {
        let records = [self.entries.map(|entries| entries.record), self.window.map(|window| window.record)];
        let whole = records.into_iter().flatten().all(Record::is_whole)
            && self.rows.width.is_multiple_of(16)
            && self.rows.value_width.is_multiple_of(16)
            && self.index.is_none_or(|index| index.is_whole());
        if whole {
            return Ok(self);
        }
        Err(BenchError::Shape(format!("widths that are no whole blocks of their formats: {self:?}")))
    }

    fn counts(&self, context: usize) -> Counts {
        let entries = self.entries.map_or(0, |entries| context / entries.ratio);
        Counts {
            entries,
            keys: if self.index.is_some() { entries } else { 0 },
            window: self.window.map_or(0, |window| window.tokens.min(context)),
            read: self.top_k.map_or(entries, |k| k.min(entries)),
        }
    }
}

impl super::Kernel for Layer {
    fn layout(&self, context: u64, batch: u64) -> Result<Layout, BenchError> {
        let [context, requests] = sizes_within(&(context, batch), [context, batch], 1 << 40)?;
        let counts = self.counts(context);
        let (mut layer_bytes, mut padding_bytes) = (0_u64, 0_u64);
        let mut add = |count: usize, bytes: usize| {
            layer_bytes += (count.next_multiple_of(PAGE_RECORDS) * bytes) as u64;
            padding_bytes += ((count.next_multiple_of(PAGE_RECORDS) - count) * bytes) as u64;
        };
        if let Some(entries) = self.entries {
            add(counts.entries, entries.record.bytes());
        }
        if let Some(index) = self.index {
            add(counts.keys, index.page_bytes() / PAGE_RECORDS);
        }
        if let Some(window) = self.window {
            add(counts.window, window.record.bytes());
        }
        if let Some(compressor) = self.compressor {
            layer_bytes += (compressor.entries.rows() * compressor.row() * 4) as u64;
        }
        let times = |bytes: u64| {
            let overflow =
                || kvscope_sizing::Error::overflow(format!("{requests} requests of {context} tokens"));
            bytes.checked_mul(requests as u64).ok_or_else(overflow)
        };
        Ok(Layout {
            layer_bytes: times(layer_bytes)?,
            padding_bytes: times(padding_bytes)?,
            padding_reason: "whole pages of 64",
            // The heads' parts and their joining, the indexer before them, and compressors.
            launches: 2 + u64::from(self.index.is_some()) + u64::from(self.compressor.is_some()),
            instructions: InstructionSet::available()[0].name(),
        })
    }

    fn prepare(&self, order: &CaseOrder, pool: Arc<Pool>) -> Result<Box<dyn PreparedCase>, BenchError> {
        let set = InstructionSet::available()[0];
        Ok(Box::new(CompositeCase::new(*self, set, order, pool)?))
    }
}

fn indexer(shape: &IndexShape, pool: u64) -> Result<indexer::Dimensions, BenchError> {
    if (shape.key_heads, shape.pool) != (1, pool) {
        let what =
            format!("an indexer with {} key heads and a key for {} tokens", shape.key_heads, shape.pool);
        return Err(BenchError::Shape(what));
    }
    let [heads, width] = sizes(shape, [shape.query_heads, shape.width])?;
    let format = match shape.format {
        IndexFormat::Fp8 => KeyFormat::Fp8,
        IndexFormat::Fp4 => KeyFormat::Fp4,
        IndexFormat::Bf16 => KeyFormat::Bf16,
    };
    Ok(indexer::Dimensions { heads, width, format })
}

/// The record of an MLA latent.
pub(super) fn latent_record(format: KvFormat, latent: usize, rope: usize) -> Result<Record, BenchError> {
    match format {
        KvFormat::Bf16 => Ok(Record::Bf16 { width: latent + rope }),
        KvFormat::Fp8DsMla => Ok(Record::ScaledLatent { latent, rope }),
        other => Err(BenchError::Shape(format!("latents in {other}: bf16 and fp8_ds_mla are measured"))),
    }
}

fn entry_record(format: KvFormat, width: usize, rope: usize) -> Result<Record, BenchError> {
    match format {
        KvFormat::Bf16 => Ok(Record::Bf16 { width }),
        KvFormat::Fp8DsMla if rope < width => Ok(Record::ScaledEntry { plain: width - rope, rope }),
        KvFormat::Mxfp8 => Ok(Record::Mxfp8 { width }),
        KvFormat::Nvfp4 => Ok(Record::Nvfp4 { width }),
        other => Err(BenchError::Shape(format!(
            "entries in {other}: bf16, fp8_ds_mla, mxfp8 and nvfp4 are measured"
        ))),
    }
}

fn sizes<const N: usize>(shape: &dyn std::fmt::Debug, values: [u64; N]) -> Result<[usize; N], BenchError> {
    sizes_within(shape, values, 1 << 20)
}

fn sizes_within<const N: usize>(
    shape: &dyn std::fmt::Debug,
    values: [u64; N],
    most: u64,
) -> Result<[usize; N], BenchError> {
    let mut sizes = [0; N];
    for (size, value) in sizes.iter_mut().zip(values) {
        let fits = usize::try_from(value).ok().filter(|_| (1..=most).contains(&value));
        *size = fits.ok_or_else(|| {
            BenchError::Shape(format!("{shape:?} has a count or width outside 1 to {most}"))
        })?;
    }
    Ok(sizes)
}
