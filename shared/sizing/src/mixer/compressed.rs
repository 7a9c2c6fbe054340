use smol_str::{SmolStr, format_smolstr};

use super::latent::IndexKeys;
use crate::derivation::{Derivation, Input};
use crate::fact::{Fact, Source};
use crate::format::KvFormat;
use crate::growth::Growth;
use crate::settings::Formats;
use crate::state::{ComponentKind, Lifecycle, Reads, StateComponent};
use crate::{Bytes, Result, Tokens};

/// Attention of DeepSeek-V4 and V4.1: a window branch, and beside it a compressed store that may be sparse (CSA), dense
/// (HCA), borrowed from an earlier layer (CSA2), or absent.
///
/// One entry is both K and V. Sources: the DeepSeek-V4 report (arXiv 2606.19348, cache layout), FlashMLA's README for
/// the record sizes.
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct CompressedAttention {
    /// Values of one entry.
    pub width: Fact,
    /// Rotary values among them.
    pub rope: Fact,
    /// Query heads, where the config names them; all of them share each entry.
    pub query_heads: Option<Fact>,
    /// Tokens of the window branch.
    pub window: Fact,
    /// The compressed branch, if there is one.
    pub compression: Option<Compression>,
    /// The record layout of the generation.
    pub generation: Generation,
}

/// The compressed branch of one layer.
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct Compression {
    /// Tokens that become one entry.
    pub ratio: Fact,
    /// Whether the entries are this layer's own; a borrowed store costs nothing here.
    pub own_store: bool,
    /// The indexer's keys, where this layer keeps them.
    pub index: Option<IndexKeys>,
    /// The keys of an earlier layer that this layer scores anew, where it borrows them.
    pub reindex: Option<Box<Reindex>>,
    /// Entries that a query reads; all where absent.
    pub top_k: Option<Fact>,
    /// Rows that the compressor holds until a group is whole.
    pub rows: Option<CompressorRows>,
}

/// Index keys of an earlier layer that a layer scores to choose entries of its own (CSA2's Reindex layers).
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct Reindex {
    /// The earlier layer's keys.
    pub keys: IndexKeys,
    /// Keys that are scored: the candidates that the earlier layer left; all where absent.
    pub candidates: Option<Fact>,
}

/// What a compressor keeps: `rows` rows of `values` FP32 values.
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct CompressorRows {
    /// Rows kept.
    pub rows: Fact,
    /// Values of one row.
    pub values: Fact,
}

/// The record layout where nothing is set.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Generation {
    /// DeepSeek-V4: 584-byte records for entries and window.
    V4,
    /// DeepSeek-V4.1: NVFP4 entries (288 bytes) and MXFP8 window records (528 bytes).
    V41,
}

impl CompressedAttention {
    /// CSA, HCA, CSA2 or the window branch alone.
    pub fn name(&self) -> &'static str {
        match (&self.compression, self.generation) {
            (None, _) => "sliding",
            (Some(_), Generation::V41) => "CSA2",
            (Some(branch), Generation::V4) if branch.index.is_some() => "CSA",
            (Some(_), Generation::V4) => "HCA",
        }
    }

    /// Entries, index keys, compressor rows and the window.
    pub fn components(&self, formats: &Formats) -> Result<Vec<StateComponent>> {
        let mut kept = Vec::with_capacity(4);
        if let Some(branch) = &self.compression {
            if branch.own_store {
                kept.push(self.store(branch, formats)?);
            }
            if let Some(index) = &branch.index {
                kept.push(index.component(formats)?);
            }
            if let Some(rows) = &branch.rows {
                kept.push(rows.component()?);
            }
        }
        kept.push(self.window_branch(formats)?);
        Ok(kept)
    }

    /// The storage of entries of the compressed branch, whoever keeps them.
    pub fn store_format(&self, formats: &Formats) -> KvFormat {
        formats.entry(self.native_store(), "").format
    }

    fn native_store(&self) -> KvFormat {
        match self.generation {
            Generation::V4 => KvFormat::Fp8DsMla,
            Generation::V41 => KvFormat::Nvfp4,
        }
    }

    /// The store of an earlier layer that this layer reads and does not keep.
    pub fn borrowed_store(&self, formats: &Formats) -> Result<Option<StateComponent>> {
        let branch = self.compression.as_ref().filter(|branch| !branch.own_store);
        branch.map(|branch| self.store(branch, formats)).transpose()
    }

    /// The entries of the compressed branch, whoever keeps them.
    pub(crate) fn store(&self, branch: &Compression, formats: &Formats) -> Result<StateComponent> {
        let native = self.native_store();
        let (entry, mut derivation, format) = self.record(native, formats)?;
        derivation.inputs.push(Input::of("ratio", &branch.ratio));
        derivation.inputs.extend(branch.top_k.as_ref().map(|limit| Input::of("top_k", limit)));
        let growth = match branch.ratio.get() {
            1 => Growth::Linear { entry },
            ratio => Growth::Compressed { entry, ratio: Tokens::new(ratio) },
        };
        let reads = branch.top_k.as_ref().map_or(Reads::Everything, |limit| Reads::TopEntries(limit.get()));
        Ok(StateComponent {
            kind: ComponentKind::CompressedKv,
            growth,
            lifecycle: Lifecycle::Token,
            format,
            reads,
            derivation,
        })
    }

    fn window_branch(&self, formats: &Formats) -> Result<StateComponent> {
        let native = match self.generation {
            Generation::V4 => KvFormat::Fp8DsMla,
            Generation::V41 => KvFormat::Mxfp8,
        };
        let (entry, mut derivation, format) = self.record(native, formats)?;
        derivation.inputs.push(Input::of("window", &self.window));
        Ok(StateComponent {
            kind: ComponentKind::WindowKv,
            growth: Growth::Window { entry, window: Tokens::new(self.window.get()) },
            lifecycle: Lifecycle::Window,
            format,
            reads: Reads::Everything,
            derivation,
        })
    }

    fn record(&self, native: KvFormat, formats: &Formats) -> Result<(Bytes, Derivation, &'static str)> {
        let chosen = formats.entry(native, "the model's own record layout");
        let entry = chosen.format.entry(self.width.get(), self.rope.get())?;
        let rule = format_smolstr!("one {} record ({})", chosen.format, chosen.source);
        let inputs = vec![
            Input::of("head_dim", &self.width),
            Input::of("qk_rope_head_dim", &self.rope),
            Input::new("record_bytes", entry.get(), Source::Layout { rule }),
        ];
        Ok((entry, Derivation::new("record_bytes", inputs, entry), chosen.format.name()))
    }
}

impl CompressorRows {
    fn component(&self) -> Result<StateComponent> {
        let bytes = Bytes::new(self.values.get()).times(self.rows.get())?.times(4)?;
        let value_bytes = Source::Layout { rule: SmolStr::new_static("compressors accumulate in f32") };
        let inputs = vec![
            Input::of("rows", &self.rows),
            Input::of("values", &self.values),
            Input::new("value_bytes", 4, value_bytes),
        ];
        Ok(StateComponent {
            kind: ComponentKind::CompressorState,
            growth: Growth::Constant { bytes },
            lifecycle: Lifecycle::Transient,
            format: "f32",
            reads: Reads::Everything,
            derivation: Derivation::new("rows × values × value_bytes", inputs, bytes),
        })
    }
}
