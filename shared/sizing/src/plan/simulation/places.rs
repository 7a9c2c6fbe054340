//! Where in a prompt a checkpoint lies, which says how much of each window it has.

use super::StateSizes;

/// For each block the place at which the checkpoint behind it was last made. Nothing where all have one size.
pub(super) struct Places(Vec<u32>);

impl Places {
    pub(super) fn new(sizes: &StateSizes, blocks: u32) -> Self {
        Self(vec![0; if sizes.by_place.is_empty() { 0 } else { blocks as usize }])
    }

    /// A checkpoint is made behind `block`, which is number `place` of its prompt.
    pub(super) fn make(&mut self, block: u32, place: usize) {
        if let Some(known) = self.0.get_mut(block as usize) {
            *known = u32::try_from(place).unwrap_or(u32::MAX);
        }
    }

    pub(super) fn of(&self, block: u32) -> u32 {
        self.0.get(block as usize).copied().unwrap_or_default()
    }

    /// Bytes of the checkpoint behind a block.
    pub(super) fn bytes(&self, sizes: &StateSizes, block: u32) -> u64 {
        sizes.checkpoint_at(self.of(block)).get()
    }
}
