//! What a request holds at some length: slope, fixed part, and the parts by kind.

use super::spec::{Kind, Spec};
use super::{VllmPlan, per_token};
use crate::engine::{Quantity, needed};
use crate::{Bytes, BytesPerToken, Result};

/// Beyond every window and every batch in flight.
const BEYOND_WINDOWS: u64 = crate::Tokens::MAX.get();

impl VllmPlan<'_> {
    /// Bytes that one more token adds: a block's bytes over its tokens, in the groups that still grow at the context.
    pub(super) fn slope(&self) -> Result<BytesPerToken> {
        let at = self.context.map_or(BEYOND_WINDOWS, crate::Tokens::get);
        let mut total = BytesPerToken::ZERO;
        for group in &self.grouping.groups {
            let spec = &group.sets[0].spec;
            let sharing = if spec.keeps_every_token() { self.flight.dcp } else { 1 };
            let tokens = spec.block.saturating_mul(sharing);
            let grows = group.blocks(at.saturating_add(tokens), self.flight) > group.blocks(at, self.flight);
            if grows || (at == BEYOND_WINDOWS && spec.keeps_every_token()) {
                total = total.plus(per_token(self.widest_block(), tokens)?)?;
            }
        }
        Ok(total)
    }

    /// Bytes of blocks in groups that no longer grow at the context.
    pub(super) fn fixed(&self) -> Result<Bytes> {
        let at = self.context.map_or(BEYOND_WINDOWS, crate::Tokens::get);
        let mut blocks = 0;
        for group in &self.grouping.groups {
            let spec = &group.sets[0].spec;
            let held = group.blocks(at, self.flight);
            if !spec.keeps_every_token() && group.blocks(at.saturating_add(spec.block), self.flight) == held {
                blocks += held;
            }
        }
        Bytes::new(self.widest_block()).times(blocks)
    }

    /// Bytes of all blocks that the batch holds.
    pub(super) fn resident(&self) -> Result<Bytes> {
        let context = self.context.ok_or_else(|| needed("context"))?;
        self.held_bytes(context.get())?.times(self.batch)
    }

    /// Bytes of the pages of one kind that the batch holds, without the unused width of blocks.
    pub(super) fn part(&self, quantity: Quantity) -> Result<Bytes> {
        let context = self.context.ok_or_else(|| needed("context"))?;
        let mut total = Bytes::ZERO;
        for group in &self.grouping.groups {
            let blocks = group.blocks(context.get(), self.flight);
            for set in group.sets.iter().filter(|set| kind_of(set.spec.kind) == quantity) {
                let layers = self.ranks.layers_on_shown(&set.layers);
                total = total.plus(Bytes::new(set.spec.page()?).times(layers)?.times(blocks)?)?;
            }
        }
        total.times(self.batch)
    }

    /// Bytes of those blocks that no part has.
    pub(super) fn unused_width(&self) -> Result<Bytes> {
        let parts = Quantity::PARTS
            .into_iter()
            .try_fold(Bytes::ZERO, |sum, quantity| sum.plus(self.part(quantity)?))?;
        Ok(Bytes::new(self.resident()?.get().saturating_sub(parts.get())))
    }

    /// The same of a part without what holds no state: the rows of [`Self::held_rows`].
    pub(super) fn content_of(&self, quantity: Quantity) -> Result<Bytes> {
        let length = self.context.ok_or_else(|| needed("context"))?.get();
        let mut total = Bytes::ZERO;
        for group in &self.grouping.groups {
            let blocks = group.blocks(length, self.flight);
            for set in group.sets.iter().filter(|set| kind_of(set.spec.kind) == quantity) {
                let layers = self.ranks.layers_on_shown(&set.layers);
                let whole = Bytes::new(set.spec.content()?);
                let kept = match self.kept_entries(&set.spec, length) {
                    Some(entries) => Bytes::new(set.spec.entry_bytes)
                        .times(entries.min(blocks.saturating_mul(set.spec.entries())))?,
                    None if set.spec.is_state() => whole.times(blocks.min(1))?,
                    None => whole.times(blocks)?,
                };
                total = total.plus(kept.times(layers)?)?;
            }
        }
        total.times(self.batch)
    }

    /// Entries of a request of `length` tokens that a layer needs; `None` for what is no cache of tokens, or of a number of
    /// tokens that is not known.
    pub(super) fn kept_entries(&self, spec: &Spec, length: u64) -> Option<u64> {
        let shared_by = spec.tokens_per_entry.max(1);
        match spec.kind {
            Kind::Full | Kind::Latent | Kind::Index => Some(length.div_ceil(self.flight.dcp) / shared_by),
            Kind::Window { window, .. }
            | Kind::LatentWindow { window, .. }
            | Kind::Chunk { chunk: window } => Some(window.min(length) / shared_by),
            Kind::Cross { output } => output,
            Kind::State { .. } | Kind::StatePerBlock { .. } | Kind::Ring => None,
        }
    }

    /// Blocks of one request that hold recurrent state. Where every block of tokens has a state, they go by the longest
    /// request.
    pub(super) fn state_blocks(&self) -> Result<u64> {
        let states = || self.grouping.groups.iter().filter(|group| group.sets[0].spec.is_state());
        let grow = states()
            .flat_map(|group| &group.sets)
            .any(|set| matches!(set.spec.kind, Kind::StatePerBlock { .. }));
        let length = if grow { self.longest()? } else { 0 };
        Ok(states().map(|group| group.blocks(length, self.flight)).sum())
    }
}

pub(super) fn kind_of(kind: Kind) -> Quantity {
    match kind {
        Kind::Full | Kind::Latent => Quantity::KvBytes,
        Kind::Index => Quantity::IndexBytes,
        Kind::Window { .. } | Kind::Chunk { .. } | Kind::LatentWindow { state: false, .. } => {
            Quantity::WindowBytes
        }
        Kind::State { .. }
        | Kind::StatePerBlock { .. }
        | Kind::Ring
        | Kind::LatentWindow { state: true, .. } => Quantity::StateBytes,
        Kind::Cross { .. } => Quantity::CrossBytes,
    }
}
