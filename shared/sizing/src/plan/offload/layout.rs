//! How the state of a request lies in pieces that are copied one by one.

use serde::Serialize;

use crate::describe::Description;
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

/// What of a description the pieces follow from.
pub(super) struct Layouts {
    block_tokens: u64,
    /// Bytes of a block in everything that keeps every token.
    block_bytes: Bytes,
    /// Pieces of a block by layer.
    block_pieces: u64,
    /// Bytes of what is kept once: full windows, states.
    once_bytes: Bytes,
    /// Its pieces by layer.
    once_pieces: u64,
    /// How many components it is.
    once: u64,
}

impl Layouts {
    pub(super) fn of(described: &Description) -> Self {
        let service = &described.service;
        let mut layouts = Self {
            block_tokens: service.block.tokens.get().max(1),
            block_bytes: service.block.bytes,
            block_pieces: 0,
            once_bytes: Bytes::ZERO,
            once_pieces: 0,
            once: 0,
        };
        for one in &service.components {
            let lifetime = &described.lifecycle[one.component];
            let has_sides = one.payload.parts.iter().any(|part| part.name == "v");
            let pieces = lifetime.layers.len() as u64 * if has_sides { 2 } else { 1 };
            match (one.checkpoint_bytes, lifetime.saturates_at, one.block_bytes) {
                (Some(bytes), ..) => {
                    layouts.once_bytes = Bytes::new(layouts.once_bytes.get().saturating_add(bytes.get()));
                    layouts.once_pieces += pieces;
                    layouts.once += 1;
                }
                (None, None, Some(_)) => layouts.block_pieces += pieces,
                _ => {}
            }
        }
        layouts
    }

    /// Pieces and bytes of a request of `tokens` tokens: whole blocks, and what is kept once.
    pub(super) fn at(&self, tokens: Tokens, layout: CopyLayout) -> Result<Copies> {
        let blocks =
            if self.block_bytes == Bytes::ZERO { 0 } else { tokens.get().div_ceil(self.block_tokens) };
        let bytes = self.block_bytes.times(blocks)?.plus(self.once_bytes)?;
        let by_layer =
            blocks.checked_mul(self.block_pieces).and_then(|all| all.checked_add(self.once_pieces));
        let pieces = match layout {
            CopyLayout::ByLayer => by_layer.ok_or_else(|| Error::overflow("pieces of a state"))?,
            CopyLayout::ByBlock => blocks + self.once,
            CopyLayout::Whole => 1,
        };
        Ok(Copies { pieces: if bytes == Bytes::ZERO { 0 } else { pieces }, bytes })
    }
}
