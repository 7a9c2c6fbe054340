//! What a pool holds: blocks, requests, the token line, and the longest request.
//!
//! Source: vLLM 0.33, `v1/core/kv_cache_planning.py` and `kv_cache_utils.py`.

use super::VllmPlan;
use super::group::Group;
use super::rules::{FitCheck, PackedBlock};
use crate::capacity::largest_fitting;
use crate::engine::needed;
use crate::settings::MambaCacheMode;
use crate::units::truncated;
use crate::{Bytes, Error, Result};

impl VllmPlan<'_> {
    /// Blocks that one request of `length` tokens holds, over all groups.
    pub(super) fn blocks(&self, length: u64) -> u64 {
        self.grouping.groups.iter().map(|group| group.blocks(length, self.flight)).sum()
    }

    /// Bytes of one block on the rank where it is widest.
    pub(super) fn widest_block(&self) -> u64 {
        self.ranks.block_bytes().iter().copied().max().unwrap_or(0)
    }

    /// Bytes that one request of `length` tokens holds, on the rank where its blocks are widest.
    pub(super) fn held_bytes(&self, length: u64) -> Result<Bytes> {
        Bytes::new(self.widest_block()).times(self.blocks(length))
    }

    /// Bytes that the start-up check finds one request of `length` tokens to need, on the rank where it needs most.
    ///
    /// # Errors
    ///
    /// An overflow.
    pub(super) fn needed_bytes(&self, length: u64) -> Result<Bytes> {
        match self.rules.fit_check {
            FitCheck::Groups => {
                let widest = self.ranks.bytes_in_check().iter().copied().max().unwrap_or(0);
                Bytes::new(widest).times(self.blocks(length))
            }
            FitCheck::FirstGroup => Bytes::new(self.widest_block()).times(self.first_blocks(length)),
            FitCheck::FirstGroupOfModel => {
                let groups = self.grouping.groups.iter();
                let widths = groups.map(|group| group.width(|_| true)).collect::<Result<Vec<_>>>()?;
                Bytes::new(widths.into_iter().max().unwrap_or(0)).times(self.first_blocks(length))
            }
            FitCheck::Layers => {
                let of_layers = |rank| self.bytes_of_layers(rank, length);
                let needed = (0..self.ranks.layers().len()).map(of_layers).collect::<Result<Vec<_>>>()?;
                Ok(needed.into_iter().max().unwrap_or(Bytes::ZERO))
            }
        }
    }

    /// Blocks of the group that has the first layer.
    fn first_blocks(&self, length: u64) -> u64 {
        let first = |group: &&Group| group.sets.iter().flat_map(|set| &set.layers).min().copied();
        let group = self.grouping.groups.iter().min_by_key(first);
        group.map_or(0, |group| group.blocks(length, self.flight))
    }

    /// Bytes of a request on one rank, every layer by itself.
    fn bytes_of_layers(&self, rank: usize, length: u64) -> Result<Bytes> {
        let mut sum = Bytes::ZERO;
        for set in &self.in_check {
            let blocks = set.spec.blocks(length, self.flight);
            let layers = self.ranks.layers_on(rank, &set.layers);
            sum = sum.plus(Bytes::new(set.spec.page()?).times(blocks)?.times(layers)?)?;
        }
        Ok(sum)
    }

    /// Blocks of the pool: those of the rank that has the fewest. The one that is never handed out counts.
    pub(super) fn num_blocks(&self) -> Result<u64> {
        let available = self.available()?;
        let fewest =
            self.ranks.block_bytes().iter().filter(|bytes| **bytes > 0).map(|bytes| available / bytes).min();
        // A model without a cache still has that one block.
        Ok(fewest.unwrap_or(1))
    }

    /// Requests of the longest `length` that the pool holds, in the engine's own floating point.
    pub(super) fn max_concurrency(&self, length: u64) -> Result<f64> {
        match self.blocks_of_concurrency(length)? {
            0 => Err(Error::setting("max_model_len", "a request of this model holds no blocks")),
            blocks => Ok(self.num_blocks()? as f64 / blocks as f64),
        }
    }

    /// Blocks that one request is counted as: what it holds, but before 0.27 of packed pages its bytes over the pages of the group
    /// that keeps every token (`get_max_concurrency_for_kv_cache_config`).
    fn blocks_of_concurrency(&self, length: u64) -> Result<u64> {
        let groups = || self.grouping.groups.iter();
        let growing = groups().find(|group| group.sets.iter().any(|set| set.spec.keeps_every_token()));
        let Some(growing) = growing.filter(|_| self.grouping.block != PackedBlock::Widest) else {
            return Ok(self.blocks(length));
        };
        let mut held = Bytes::ZERO;
        for group in groups() {
            let width = Bytes::new(self.ranks.width_on_shown(group)?);
            held = held.plus(width.times(group.blocks(length, self.flight))?)?;
        }
        Ok(held.get().div_ceil(self.ranks.width_on_shown(growing)?.max(1)))
    }

    /// The figure of the cache size line.
    ///
    /// Since 0.21 it is concurrency × longest length, both in floating point, cut off; that can be one below the exact
    /// quotient. Before, blocks were divided evenly over groups as if every layer kept everything.
    pub(super) fn logged_tokens(&self, length: u64) -> Result<u64> {
        if self.rules.group_aware_token_line {
            return Ok(truncated(self.max_concurrency(length)? * length as f64));
        }
        let groups = self.grouping.groups.len().max(1) as u64;
        let sets = || self.grouping.groups.iter().flat_map(|group| &group.sets);
        let smallest = sets().filter(|set| !set.spec.is_state()).map(|set| set.spec.block).min();
        // A state without prefixes has one block as long as a request (`mamba_block_size`).
        let smallest = smallest.unwrap_or(match self.cache_mode {
            MambaCacheMode::None => length,
            MambaCacheMode::Align | MambaCacheMode::All => self.blocks.attention,
        });
        let tokens = (self.num_blocks()? / groups).checked_mul(smallest);
        tokens
            .and_then(|tokens| tokens.checked_mul(self.flight.dcp))
            .ok_or_else(|| Error::overflow("tokens of the pool"))
    }

    /// The longest request up to `limit` that passes the fit check on every rank; 0 where none does.
    pub(super) fn longest_length(&self, limit: u64) -> Result<u64> {
        self.available()?;
        Ok(largest_fitting(limit, |length| self.starts_with(length).unwrap_or(false)))
    }

    /// Whether the fit check passes on every rank with requests of `length` tokens.
    ///
    /// # Errors
    ///
    /// An overflow, or no size of the pool.
    pub(super) fn starts_with(&self, length: u64) -> Result<bool> {
        let available = self.available()?;
        if self.rules.fit_check != FitCheck::Groups {
            return Ok(self.needed_bytes(length)?.get() <= available);
        }
        let blocks = self.blocks(length);
        let mut pages = self.ranks.bytes_in_check().iter().copied().filter(|bytes| *bytes > 0);
        Ok(pages.all(|bytes| {
            let reserved = if self.rules.null_block_in_check { bytes } else { 0 };
            blocks <= available.saturating_sub(reserved) / bytes
        }))
    }

    fn available(&self) -> Result<u64> {
        self.settings.available_kv_bytes.ok_or_else(|| needed("available_kv_bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GLM-5.1: 6960 blocks, 3168 a request of 202,752 tokens. The exact quotient is 445,440; the engine says 445,439.
    #[test]
    fn the_token_line_is_cut_off_in_floating_point() {
        assert_eq!(truncated(6960.0 / 3168.0 * 202_752.0), 445_439);
    }
}
