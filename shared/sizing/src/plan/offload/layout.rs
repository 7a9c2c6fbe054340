//! How the state of a request lies in pieces that are copied one by one.

use serde::Serialize;

use crate::describe::{Description, TensorParallel};
use crate::growth::Growth;
use crate::{Bytes, Error, Result, Tokens};

/// How a block lies in memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyLayout {
    /// Each layer has its own tensors, K and V apart: a piece for each block, layer and side (vLLM up to 0.11).
    ByLayer,
    /// All layers of a block lie together: a piece for each block (vLLM from 0.12 on).
    ByBlock,
    /// Everything lies together.
    Whole,
}

/// Pieces and bytes of one transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Copies {
    /// Pieces.
    pub pieces: u64,
    /// Bytes of all of them together.
    pub bytes: Bytes,
    /// Bytes of them that the fullest of a tier's ranks restores; all of them where it has one.
    pub rank_bytes: Bytes,
}

impl CopyLayout {
    /// Every layout, the most scattered first.
    pub const ALL: [Self; 3] = [Self::ByLayer, Self::ByBlock, Self::Whole];

    /// The word in JSON and on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ByLayer => "by_layer",
            Self::ByBlock => "by_block",
            Self::Whole => "whole",
        }
    }
}

/// Bytes of one copy, and of the part of it that the fullest of some ranks holds.
#[derive(Clone, Copy)]
struct Held {
    copy: Bytes,
    rank: Bytes,
}

impl Held {
    const NOTHING: Self = Self { copy: Bytes::ZERO, rank: Bytes::ZERO };

    fn of(bytes: Bytes, division: &TensorParallel, ranks: u64) -> Result<Self> {
        Ok(Self { copy: bytes, rank: division.bytes_of_rank(bytes, ranks)? })
    }

    fn plus(self, other: Self) -> Result<Self> {
        Ok(Self { copy: self.copy.plus(other.copy)?, rank: self.rank.plus(other.rank)? })
    }

    fn times(self, factor: u64) -> Result<Self> {
        Ok(Self { copy: self.copy.times(factor)?, rank: self.rank.times(factor)? })
    }
}

/// What is kept once: a state, or the entries of a window or chunk.
struct Once {
    /// One entry in all its layers; all of it where there are no entries.
    held: Held,
    /// How its entries grow; none where there are no entries.
    entries: Option<Growth>,
}

/// What of a description the pieces follow from.
pub(super) struct Layouts {
    block_tokens: u64,
    /// A block in everything that keeps every token.
    block: Held,
    /// Pieces of a block by layer.
    block_pieces: u64,
    once: Vec<Once>,
    /// Pieces of what is kept once, by layer.
    once_pieces: u64,
}

impl Layouts {
    /// The pieces of a state that so many ranks restore together, each what it holds.
    pub(super) fn of(described: &Description, ranks: u64) -> Result<Self> {
        let service = &described.service;
        let mut layouts = Self {
            block_tokens: service.block.tokens.get().max(1),
            block: Held::NOTHING,
            block_pieces: 0,
            once: Vec::new(),
            once_pieces: 0,
        };
        for one in &service.components {
            let lifetime = &described.lifecycle[one.component];
            let has_sides = one.payload.parts.iter().any(|part| part.name == "v");
            let layers = lifetime.layers.len() as u64;
            let pieces = layers * if has_sides { 2 } else { 1 };
            let held = |bytes: Bytes| Held::of(bytes, &one.tensor_parallel, ranks);
            match (one.checkpoint_bytes, lifetime.saturates_at, one.block_bytes) {
                (Some(bytes), ..) => {
                    let entries = lifetime.tokens_per_entry.map(|_| lifetime.law);
                    let bytes = if entries.is_some() { lifetime.entry_bytes.times(layers)? } else { bytes };
                    layouts.once.push(Once { held: held(bytes)?, entries });
                    layouts.once_pieces += pieces;
                }
                (None, None, Some(bytes)) => {
                    layouts.block = layouts.block.plus(held(bytes)?)?;
                    layouts.block_pieces += pieces;
                }
                _ => {}
            }
        }
        Ok(layouts)
    }

    /// Tokens of the shortest chunk: at its boundaries less is restored than before.
    pub(super) fn chunk(&self) -> Option<Tokens> {
        let chunks = self.once.iter().filter_map(|once| match once.entries {
            Some(Growth::Chunk { chunk, .. }) => Some(chunk),
            _ => None,
        });
        chunks.min()
    }

    /// Pieces and bytes of a request of `tokens` tokens: whole blocks, states, and of windows and chunks the entries in reach
    /// of the last of them.
    pub(super) fn at(&self, tokens: Tokens, layout: CopyLayout) -> Result<Copies> {
        self.with(tokens, layout, |growth| growth.entries_in_reach(tokens))
    }

    /// The least and the most of contexts from `low` to `high`: chunks with one entry, and with as many as there may be.
    pub(super) fn between(&self, [low, high]: [Tokens; 2], layout: CopyLayout) -> Result<[Copies; 2]> {
        let least = self.with(low, layout, |growth| match growth {
            Growth::Chunk { .. } => 1,
            _ => growth.entries(low),
        })?;
        Ok([least, self.with(high, layout, |growth| growth.entries(high))?])
    }

    fn with(&self, tokens: Tokens, layout: CopyLayout, entries: impl Fn(Growth) -> u64) -> Result<Copies> {
        let blocks =
            if self.block.copy == Bytes::ZERO { 0 } else { tokens.get().div_ceil(self.block_tokens) };
        let mut held = self.block.times(blocks)?;
        for once in &self.once {
            held = held.plus(once.held.times(once.entries.map_or(1, &entries))?)?;
        }
        let by_layer =
            blocks.checked_mul(self.block_pieces).and_then(|all| all.checked_add(self.once_pieces));
        let pieces = match layout {
            CopyLayout::ByLayer => by_layer.ok_or_else(|| Error::overflow("pieces of a state"))?,
            CopyLayout::ByBlock => blocks + self.once.len() as u64,
            CopyLayout::Whole => 1,
        };
        let pieces = if held.copy == Bytes::ZERO { 0 } else { pieces };
        Ok(Copies { pieces, bytes: held.copy, rank_bytes: held.rank })
    }
}
