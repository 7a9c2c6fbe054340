//! Bytes of a block and of a checkpoint, by component kind.

use serde::Serialize;

use super::Trace;
use crate::growth::Growth;
use crate::size::StateModel;
use crate::state::ComponentKind;
use crate::{Bytes, Error, Result, Tokens};

/// What the state of one request consists of, in the units that it is kept in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateSizes {
    /// Tokens of a block.
    pub block_tokens: Tokens,
    /// Bytes of a block in everything that keeps every token.
    pub block_bytes: Bytes,
    /// Bytes of a checkpoint: recurrent and convolution states, full windows and chunks.
    pub checkpoint_bytes: Bytes,
    /// The same by kind.
    pub kinds: Vec<KindSize>,
    /// Bytes of a checkpoint behind each block of a prompt, the first among them, where windows and chunks are not full
    /// everywhere.
    #[serde(skip)]
    pub(super) by_place: Vec<Bytes>,
}

/// The share of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindSize {
    /// What is kept.
    pub kind: ComponentKind,
    /// Bytes of a block.
    pub block_bytes: Bytes,
    /// Bytes of a checkpoint.
    pub checkpoint_bytes: Bytes,
    /// The same behind each block of a prompt.
    #[serde(skip)]
    by_place: Vec<Bytes>,
}

impl KindSize {
    fn new(kind: ComponentKind, places: usize) -> Self {
        let by_place = vec![Bytes::ZERO; places];
        Self { kind, block_bytes: Bytes::ZERO, checkpoint_bytes: Bytes::ZERO, by_place }
    }

    /// Bytes of as many checkpoints as were found behind each block.
    pub(super) fn found_checkpoints(&self, found: &[u64], all: u64) -> Result<Bytes> {
        if self.by_place.is_empty() {
            return self.checkpoint_bytes.times(all);
        }
        let each = self.by_place.iter().zip(found).map(|(bytes, found)| bytes.times(*found));
        Bytes::total(each.collect::<Result<Vec<_>>>()?)
    }
}

impl StateSizes {
    /// The sizes for the blocks of a trace.
    ///
    /// # Errors
    ///
    /// As [`Self::of`].
    pub fn of_trace(state: &StateModel, trace: &Trace) -> Result<Self> {
        let longest = trace.requests().iter().map(|request| trace.blocks(request).len()).max().unwrap_or(0);
        let sizes = Self::at_places(state, trace.block_tokens(), longest)?;
        // States have one size everywhere.
        if sizes.by_place.iter().any(|bytes| *bytes != sizes.checkpoint_bytes) {
            return Ok(sizes);
        }
        Self::of(state, trace.block_tokens())
    }

    /// The sizes for blocks of `block` tokens.
    ///
    /// # Errors
    ///
    /// A block that cuts a compression group, or a model that keeps nothing.
    pub fn of(state: &StateModel, block: Tokens) -> Result<Self> {
        Self::at_places(state, block, 0)
    }

    /// The same, with those of a checkpoint behind so many blocks of a prompt.
    fn at_places(state: &StateModel, block: Tokens, places: usize) -> Result<Self> {
        let mut kinds: Vec<KindSize> = Vec::new();
        for part in state.parts() {
            let kept = &part.component;
            let (mut of_block, mut of_checkpoint) = (Bytes::ZERO, Bytes::ZERO);
            let mut by_place = Vec::new();
            match (kept.kind, kept.growth) {
                // At the end of a whole group the rows are empty or computed again.
                (ComponentKind::CompressorState, _) => continue,
                (_, Growth::Compressed { ratio, .. }) if !block.get().is_multiple_of(ratio.get()) => {
                    let what = format!("a block of {} cuts a compression group of {ratio}", block.counted());
                    return Err(Error::setting("block", what));
                }
                (_, Growth::Linear { .. } | Growth::Compressed { .. }) => {
                    of_block = kept.bytes(block)?.times(part.layers)?;
                }
                _ => {
                    of_checkpoint = kept.growth.fixed(None)?.times(part.layers)?;
                    by_place = (1..=places as u64)
                        .map(|blocks| kept.bytes(Tokens::new(blocks * block.get()))?.times(part.layers))
                        .collect::<Result<_>>()?;
                }
            }
            let place = kinds.iter().position(|known| known.kind == kept.kind).unwrap_or_else(|| {
                kinds.push(KindSize::new(kept.kind, places));
                kinds.len() - 1
            });
            let known = &mut kinds[place];
            known.block_bytes = known.block_bytes.plus(of_block)?;
            known.checkpoint_bytes = known.checkpoint_bytes.plus(of_checkpoint)?;
            for (all, one) in known.by_place.iter_mut().zip(by_place) {
                *all = all.plus(one)?;
            }
        }
        let block_bytes = Bytes::total(kinds.iter().map(|kind| kind.block_bytes))?;
        let checkpoint_bytes = Bytes::total(kinds.iter().map(|kind| kind.checkpoint_bytes))?;
        let of_place = |place: usize| Bytes::total(kinds.iter().map(|kind| kind.by_place[place]));
        let by_place = (0..places).map(of_place).collect::<Result<_>>()?;
        if block_bytes == Bytes::ZERO && checkpoint_bytes == Bytes::ZERO {
            return Err(Error::setting("model", "it keeps no state, so there is nothing to find again"));
        }
        Ok(Self { block_tokens: block, block_bytes, checkpoint_bytes, kinds, by_place })
    }

    /// Bytes of a checkpoint behind block `place` of a prompt, counted from 0.
    pub(super) fn checkpoint_at(&self, place: u32) -> Bytes {
        self.by_place.get(place as usize).copied().unwrap_or(self.checkpoint_bytes)
    }

    /// Whether checkpoints of short prompts are smaller than others.
    pub(in crate::plan) fn grows_into_windows(&self) -> bool {
        !self.by_place.is_empty()
    }

    /// Whether anything keeps every token.
    pub(super) fn keeps_blocks(&self) -> bool {
        self.block_bytes > Bytes::ZERO
    }

    /// Whether a hit needs a checkpoint.
    pub(in crate::plan) fn needs_checkpoint(&self) -> bool {
        self.checkpoint_bytes > Bytes::ZERO
    }
}
