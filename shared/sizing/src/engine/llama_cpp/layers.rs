//! The caches of a model: which cells its layers need, and how wide a cell is.

use std::borrow::Cow;

use super::Role;
use super::cells::Cells;
use crate::engine::Padding;
use crate::engine::shard::{RankClass, RankState};
use crate::format::KvFormat;
use crate::growth::Growth;
use crate::mixer::{Heads, IndexKeys, Mixer};
use crate::settings::{Formats, MlaStorage, Settings};
use crate::state::{ComponentKind, StateComponent, counted};
use crate::{Bytes, BytesPerToken, Result, group_digits};

/// What a pooled indexer keeps of every token: its key, its gate and its pooled value (`llama_memory_hybrid_idx`).
const POOLED_PARTS: u64 = 3;

/// Which tokens have a cell of index keys.
#[derive(Clone, Copy, Debug)]
enum IndexCells {
    /// Every token, with so many rows as wide as a key.
    EachToken { parts: u64 },
    /// Every group of the indexer's pool, in a stream of its sequence.
    EachGroup,
}

/// Equal caches of several layers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cache {
    /// What it keeps.
    pub(super) role: Role,
    /// Layers that have one.
    pub(super) layers: u64,
    /// Bytes of the K part of one cell of one layer; of state, of the convolution.
    pub(super) k: Bytes,
    /// Bytes of the V part; of state, of the recurrence.
    pub(super) v: Bytes,
    /// Bytes of one cell of one layer.
    pub(super) cell: Bytes,
    /// Cells of one stream.
    pub(super) cells: u64,
    /// Copies of those cells: streams, or sequences with their snapshots.
    pub(super) copies: u64,
    /// Cells of one stream that hold state of the batch.
    pub(super) filled: u64,
    /// Tokens that share a cell.
    pub(super) ratio: u64,
    /// Whether one more token needs one more cell, or its share of one.
    pub(super) grows: bool,
    /// Of `cell`, bytes that pad the V row to the widest of the model.
    pub(super) row_padding: Bytes,
    /// Types of the two parts.
    pub(super) formats: [&'static str; 2],
}

impl Cache {
    /// Bytes of all layers and copies.
    pub(super) fn bytes(&self) -> Result<Bytes> {
        self.cell.times(self.cells)?.times(self.copies)?.times(self.layers)
    }

    /// Bytes as layers × cells × bytes × copies.
    pub(super) fn worked(&self) -> String {
        let layers = counted(self.layers, "layer", "layers");
        let cells = match self.role {
            Role::Cross | Role::State => String::new(),
            _ => format!(" × {}", counted(self.cells, "cell", "cells")),
        };
        let copies = match (self.copies, self.role) {
            (1, _) => String::new(),
            (copies, Role::State) => format!(" × {copies} sequences and snapshots"),
            (copies, _) => format!(" × {copies} streams"),
        };
        format!("{layers}{cells} × {} B{copies}", group_digits(self.cell.get()))
    }

    /// Bytes of one more token of each request, over the requests. The tokens of a stream are those of all its sequences.
    pub(super) fn slope(&self, cells: &Cells) -> Result<BytesPerToken> {
        if !self.grows {
            return Ok(BytesPerToken::ZERO);
        }
        let whole = self.cell.times(self.copies)?.times(self.layers)?;
        BytesPerToken::new(whole, self.ratio.saturating_mul(cells.streams))
    }

    /// A sequence's part of the bytes that do not grow, rounded up; its snapshots are among them.
    pub(super) fn fixed(&self, cells: &Cells) -> Result<Bytes> {
        if self.grows {
            return Ok(Bytes::ZERO);
        }
        Ok(Bytes::new(self.bytes()?.get().div_ceil(cells.sequences)))
    }

    /// Copies that hold state of the batch: of states those that sequences run on, of everything else all.
    fn own_copies(&self, cells: &Cells) -> u64 {
        if self.role == Role::State { cells.sequences } else { self.copies }
    }

    /// Bytes without the padding of [`Self::padding`].
    pub(super) fn content(&self, cells: &Cells) -> Result<Bytes> {
        let row = Bytes::new(self.cell.get() - self.row_padding.get());
        row.times(self.filled)?.times(self.own_copies(cells))?.times(self.layers)
    }

    /// Cells beyond those that are filled, padded rows of the others, and snapshots.
    pub(super) fn padding(&self, cells: &Cells) -> Result<Vec<Padding>> {
        let mut found = Vec::new();
        let layers = counted(self.layers, "layer", "layers");
        if self.filled < self.cells {
            let more = self.cells - self.filled;
            let bytes = self.cell.times(more)?.times(self.copies)?.times(self.layers)?;
            let (what, why) = match self.role {
                Role::Window => (format!("cells of {layers} beyond their windows"), cells.window_words()),
                _ => (format!("cells of {layers}"), cells.padding_words(self.cells, self.filled)),
            };
            found.push(Padding { what, bytes, why });
        }
        let snapshots = self.copies.saturating_sub(self.own_copies(cells));
        if snapshots > 0 {
            let bytes = self.cell.times(self.cells)?.times(snapshots)?.times(self.layers)?;
            let why = format!("each sequence can roll back to {} earlier states", cells.snapshots);
            found.push(Padding { what: format!("snapshots of {layers}"), bytes, why });
        }
        if self.row_padding > Bytes::ZERO {
            let bytes = self.row_padding.times(self.filled)?.times(self.copies)?.times(self.layers)?;
            let why = "without flash attention every V row is as wide as the model's widest".to_owned();
            found.push(Padding { what: format!("V rows of {layers}"), bytes, why });
        }
        Ok(found)
    }
}

/// The caches of all layers, equal ones merged.
pub(super) fn caches(rank: &RankState, formats: &Formats, cells: &Cells) -> Result<Vec<Cache>> {
    let build = Build { formats, cells, widest_v: widest_v(rank, formats)? };
    let mut caches: Vec<Cache> = Vec::new();
    for class in rank.classes().iter().filter(|class| !class.borrows) {
        for new in build.class(class)? {
            let same = |old: &&mut Cache| Cache { layers: new.layers, ..(**old).clone() } == new;
            match caches.iter_mut().find(same) {
                Some(known) => known.layers += new.layers,
                None => caches.push(new),
            }
        }
    }
    Ok(caches)
}

/// Bytes of the widest V row, where rows are padded to it: V is stored transposed without flash attention, and then
/// all layers need one width (`llama_kv_cache` constructor).
fn widest_v(rank: &RankState, formats: &Formats) -> Result<Option<Bytes>> {
    if formats.settings().flash_attn != Some(false) {
        return Ok(None);
    }
    let mut widest = None;
    for mixer in rank.classes().iter().flat_map(|class| &class.mixers) {
        if let Some(heads) = heads_of(mixer, formats.settings()) {
            widest = widest.max(Some(v_row(&heads, formats)?));
        }
    }
    Ok(widest)
}

/// The K/V heads that a mixer keeps, those of an expanded latent too.
pub(super) fn heads_of<'m>(mixer: &'m Mixer, settings: &Settings) -> Option<Cow<'m, Heads>> {
    match mixer {
        Mixer::Full(heads)
        | Mixer::IndexedFull(heads, _)
        | Mixer::Sliding { heads, .. }
        | Mixer::Chunked { heads, .. } => Some(Cow::Borrowed(heads)),
        Mixer::Mla(latent) | Mixer::Dsa { latent, .. }
            if settings.mla_storage == Some(MlaStorage::Expanded) =>
        {
            latent.heads().map(Cow::Owned)
        }
        _ => None,
    }
}

fn v_row(heads: &Heads, formats: &Formats) -> Result<Bytes> {
    formats.v().format.row(heads.kv_heads.get(), heads.v_width.get())
}

struct Build<'a> {
    formats: &'a Formats,
    cells: &'a Cells,
    widest_v: Option<Bytes>,
}

impl Build<'_> {
    fn class(&self, class: &RankClass) -> Result<Vec<Cache>> {
        let mut caches = Vec::new();
        for mixer in &class.mixers {
            // The components of a class are those of its only mixer, most often.
            let kept = match class.mixers.as_slice() {
                [_] => Cow::Borrowed(&class.components),
                _ => Cow::Owned(mixer.components(self.formats)?),
            };
            self.mixer(mixer, &kept, class.layers, &mut caches)?;
        }
        Ok(caches)
    }

    fn mixer(
        &self,
        mixer: &Mixer,
        kept: &[StateComponent],
        layers: u64,
        caches: &mut Vec<Cache>,
    ) -> Result<()> {
        let (cells, in_stream) = (self.cells, self.cells.sequences_in_stream());
        match mixer {
            Mixer::Full(heads) => caches.push(self.every_token(heads, layers)?),
            Mixer::Sliding { heads, window } | Mixer::Chunked { heads, chunk: window } => {
                let window = window.get();
                let filled = cells.filled_by_window(window, in_stream);
                let of_window = (cells.window(window, in_stream)?, filled);
                let cache = self.heads(heads, Role::Window, of_window, layers)?;
                caches.push(Cache { grows: cells.window_grows(window, in_stream), ..cache });
            }
            Mixer::IndexedFull(heads, index) => {
                caches.push(self.every_token(heads, layers)?);
                caches.push(self.index(index, layers, IndexCells::EachToken { parts: 1 })?);
            }
            Mixer::Mla(_) => self.latents(mixer, kept, layers, caches)?,
            Mixer::Dsa { index, .. } => {
                self.latents(mixer, kept, layers, caches)?;
                if let Some(index) = index {
                    let parts = if index.pool.get() > 1 { POOLED_PARTS } else { 1 };
                    caches.push(self.index(index, layers, IndexCells::EachToken { parts })?);
                }
            }
            Mixer::Compressed(attention) => {
                self.k_only(kept, layers, caches)?;
                if let Some(index) = attention.compression.as_ref().and_then(|branch| branch.index.as_ref()) {
                    caches.push(self.index(index, layers, IndexCells::EachGroup)?);
                }
            }
            Mixer::Recurrent(_) => caches.extend(self.state(kept, layers)?),
            Mixer::Cross { .. } => {
                for output in kept {
                    let whole = output.bytes(crate::Tokens::new(0))?;
                    caches.push(self.cache(Role::Cross, layers, [whole, Bytes::ZERO], 1, output));
                }
            }
            Mixer::None => {}
        }
        Ok(())
    }

    /// Latents, or K and V of the heads that they stand for.
    fn latents(
        &self,
        mixer: &Mixer,
        kept: &[StateComponent],
        layers: u64,
        caches: &mut Vec<Cache>,
    ) -> Result<()> {
        match heads_of(mixer, self.formats.settings()) {
            Some(heads) => caches.push(self.every_token(&heads, layers)?),
            None => self.k_only(kept, layers, caches)?,
        }
        Ok(())
    }

    fn every_token(&self, heads: &Heads, layers: u64) -> Result<Cache> {
        let cells = (self.cells.per_stream, self.cells.filled_in_stream());
        self.heads(heads, Role::Full, cells, layers)
    }

    fn heads(&self, heads: &Heads, role: Role, (cells, filled): (u64, u64), layers: u64) -> Result<Cache> {
        let (k_format, v_format) = (self.formats.k().format, self.formats.v().format);
        let k = k_format.row(heads.kv_heads.get(), heads.k_width.get())?;
        let own_v = v_row(heads, self.formats)?;
        let v = self.widest_v.unwrap_or(own_v);
        Ok(Cache {
            role,
            layers,
            k,
            v,
            cell: k.plus(v)?,
            cells,
            copies: self.cells.streams,
            filled: filled.min(cells),
            ratio: 1,
            grows: true,
            row_padding: Bytes::new(v.get() - own_v.get()),
            formats: [k_format.name(), v_format.name()],
        })
    }

    /// Caches of one entry that is both K and V: latents, compressed entries and their window. DeepSeek-V4 keeps a
    /// stream for each sequence even where the others share one.
    fn k_only(&self, components: &[StateComponent], layers: u64, caches: &mut Vec<Cache>) -> Result<()> {
        for kept in components {
            let entry = [kept.growth.entry(), Bytes::ZERO];
            let per_sequence = self.cells.sequences;
            let cache = match (kept.kind, kept.growth) {
                (ComponentKind::IndexKey, _) => continue,
                (ComponentKind::CompressorState, _) => {
                    self.state_cache(layers, [Bytes::ZERO, kept.growth.entry()], kept)
                }
                (_, Growth::Window { window, .. }) => {
                    let cells = self.cells.window(window.get(), 1)?;
                    let filled = self.cells.filled_by_window(window.get(), 1).min(cells);
                    let grows = self.cells.window_grows(window.get(), 1);
                    let cache = self.cache(Role::Window, layers, entry, cells, kept);
                    Cache { copies: per_sequence, filled, grows, ..cache }
                }
                (ComponentKind::CompressedKv, growth) => {
                    let ratio = ratio_of(growth);
                    let cells = self.cells.compressed(ratio)?;
                    let cache = self.cache(Role::Compressed, layers, entry, cells, kept);
                    Cache { copies: per_sequence, ratio, filled: self.cells.filled / ratio, ..cache }
                }
                _ => {
                    let cache = self.cache(Role::Full, layers, entry, self.cells.per_stream, kept);
                    Cache { filled: self.cells.filled_in_stream(), ..cache }
                }
            };
            caches.push(cache);
        }
        Ok(())
    }

    /// Index keys in the type of the K cache, without scales of their own (`llama_kv_cache_dsa`,
    /// `llama_memory_hybrid_idx`).
    fn index(&self, index: &IndexKeys, layers: u64, cells: IndexCells) -> Result<Cache> {
        let format: KvFormat = self.formats.k().format;
        let (heads, width) = (index.heads.get(), index.width.get());
        let key = format.row(heads, width)?;
        let own = self.cells;
        let (cell, cells, copies, ratio) = match cells {
            IndexCells::EachToken { parts } => (key.times(parts)?, own.per_stream, own.streams, 1),
            IndexCells::EachGroup => {
                let ratio = index.pool.get().max(1);
                (key, own.compressed(ratio)?, own.sequences, ratio)
            }
        };
        let filled = if ratio == 1 { own.filled_in_stream() } else { own.filled / ratio };
        Ok(Cache {
            role: Role::Index,
            layers,
            k: cell,
            v: Bytes::ZERO,
            cell,
            cells,
            copies,
            filled: filled.min(cells),
            ratio,
            grows: true,
            row_padding: Bytes::ZERO,
            formats: [format.name(), self.formats.v().format.name()],
        })
    }

    /// Convolution and recurrent state of every sequence and of each of its snapshots (`llama_memory_recurrent`).
    fn state(&self, components: &[StateComponent], layers: u64) -> Result<Option<Cache>> {
        let (mut conv, mut recurrent) = (Bytes::ZERO, Bytes::ZERO);
        for kept in components {
            match kept.kind {
                ComponentKind::ConvState => conv = conv.plus(kept.growth.entry())?,
                _ => recurrent = recurrent.plus(kept.growth.entry())?,
            }
        }
        let Some(kept) = components.first() else { return Ok(None) };
        let cell = conv.plus(recurrent)?;
        let cache = self.state_cache(layers, [conv, recurrent], kept);
        Ok(Some(Cache { cell, ..cache }))
    }

    /// State of every sequence and snapshot. Both of its parts have one type: a context asks for no other
    /// (`llama_model::create_memory`, `recurrent_type_r` and `recurrent_type_s`).
    fn state_cache(&self, layers: u64, parts: [Bytes; 2], kept: &StateComponent) -> Cache {
        let cache = self.cache(Role::State, layers, parts, 1, kept);
        let copies = self.cells.sequences.saturating_mul(self.cells.snapshots + 1);
        Cache { copies, formats: [kept.format; 2], ..cache }
    }

    fn cache(&self, role: Role, layers: u64, [k, v]: [Bytes; 2], cells: u64, kept: &StateComponent) -> Cache {
        Cache {
            role,
            layers,
            k,
            v,
            cell: Bytes::new(k.get().saturating_add(v.get())),
            cells,
            copies: self.cells.streams,
            filled: cells,
            ratio: 1,
            grows: !matches!(role, Role::Cross | Role::State),
            row_padding: Bytes::ZERO,
            // A cache without V prints the type that V would have (`llama_kv_cache`, `type_v`).
            formats: [kept.format, self.formats.v().format.name()],
        }
    }
}

fn ratio_of(growth: Growth) -> u64 {
    match growth {
        Growth::Compressed { ratio, .. } => ratio.get().max(1),
        _ => 1,
    }
}
