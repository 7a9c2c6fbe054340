//! Bytes of a block and of a checkpoint, by component kind.

use serde::Serialize;

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
}

/// The share of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KindSize {
    /// What is kept.
    pub kind: ComponentKind,
    /// Bytes of a block.
    pub block_bytes: Bytes,
    /// Bytes of a checkpoint.
    pub checkpoint_bytes: Bytes,
}

impl StateSizes {
    /// The sizes for blocks of `block` tokens.
    ///
    /// # Errors
    ///
    /// A block that cuts a compression group, or a model that keeps nothing.
    pub fn of(state: &StateModel, block: Tokens) -> Result<Self> {
        let mut kinds: Vec<KindSize> = Vec::new();
        for part in state.parts() {
            let kept = &part.component;
            let (mut of_block, mut of_checkpoint) = (Bytes::ZERO, Bytes::ZERO);
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
                _ => of_checkpoint = kept.growth.fixed(None)?.times(part.layers)?,
            }
            let known = kinds.iter_mut().find(|known| known.kind == kept.kind);
            match known {
                Some(known) => {
                    known.block_bytes = known.block_bytes.plus(of_block)?;
                    known.checkpoint_bytes = known.checkpoint_bytes.plus(of_checkpoint)?;
                }
                None => kinds.push(KindSize {
                    kind: kept.kind,
                    block_bytes: of_block,
                    checkpoint_bytes: of_checkpoint,
                }),
            }
        }
        let block_bytes = Bytes::total(kinds.iter().map(|kind| kind.block_bytes))?;
        let checkpoint_bytes = Bytes::total(kinds.iter().map(|kind| kind.checkpoint_bytes))?;
        if block_bytes == Bytes::ZERO && checkpoint_bytes == Bytes::ZERO {
            return Err(Error::setting("model", "it keeps no state, so there is nothing to find again"));
        }
        Ok(Self { block_tokens: block, block_bytes, checkpoint_bytes, kinds })
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
