//! Where reserved bytes hold no state, for one request of the longest length.

use super::VllmPlan;
use super::spec::Kind;
use crate::engine::Padding;
use crate::{Bytes, Result};

impl VllmPlan<'_> {
    /// Padding layers over real ones, of the kind that loses most.
    pub(super) fn padding_fraction(&self) -> f64 {
        let fractions = self.grouping.padded.iter().map(|kind| kind.padding as f64 / kind.layers as f64);
        fractions.fold(0.0, f64::max)
    }

    /// Rows of one request of `length` tokens.
    pub(super) fn padding_rows(&self, length: u64) -> Result<Vec<Padding>> {
        let mut rows = Rows::default();
        let widest = self.widest_block();
        for group in &self.grouping.groups {
            let blocks = group.blocks(length, self.flight);
            let mut width = 0;
            for set in &group.sets {
                let spec = &set.spec;
                let layers = self.layers_on_widest_rank(&set.layers);
                let (page, content) = (spec.page()?, spec.content()?);
                width += page * layers;
                let lost = Bytes::new(page - content).times(layers)?.times(blocks)?;
                if spec.is_state() {
                    rows.states = rows.states.plus(lost)?;
                } else {
                    rows.pages = rows.pages.plus(lost)?;
                }
                let held = blocks.saturating_mul(spec.block);
                let entry = Bytes::new(content / spec.block.max(1)).times(layers)?;
                match spec.kind {
                    Kind::Full | Kind::Latent | Kind::Index => {
                        let share = length.div_ceil(self.flight.dcp);
                        rows.last_block = rows.last_block.plus(entry.times(held.saturating_sub(share))?)?;
                    }
                    Kind::Window { window, .. }
                    | Kind::LatentWindow { window, .. }
                    | Kind::Chunk { chunk: window } => {
                        let kept = window.min(length);
                        rows.in_flight = rows.in_flight.plus(entry.times(held.saturating_sub(kept))?)?;
                    }
                    Kind::State { .. } | Kind::StatePerBlock | Kind::Ring | Kind::Cross => {}
                }
            }
            rows.narrow = rows.narrow.plus(Bytes::new(widest.saturating_sub(width)).times(blocks)?)?;
        }
        rows.null_block = Bytes::new(widest);
        Ok(rows.named())
    }
}

#[derive(Debug, Default)]
struct Rows {
    states: Bytes,
    pages: Bytes,
    narrow: Bytes,
    in_flight: Bytes,
    last_block: Bytes,
    null_block: Bytes,
}

impl Rows {
    fn named(self) -> Vec<Padding> {
        let rows = [
            (
                "state pages",
                self.states,
                "a state's page is padded to the attention page, so that both use one pool",
            ),
            ("smaller pages", self.pages, "pages are rounded up, or padded to the largest page of the model"),
            (
                "narrow groups",
                self.narrow,
                "a block is as wide as the widest group; others leave the rest unused",
            ),
            (
                "windows beyond their tokens",
                self.in_flight,
                "a window keeps what is in flight until it is settled, and the block that it starts in",
            ),
            ("last blocks", self.last_block, "the last block of a request is not full"),
            (
                "null block",
                self.null_block,
                "one block of the pool is never handed out (once, not for each request)",
            ),
        ];
        let kept = rows.into_iter().filter(|(_, bytes, _)| *bytes != Bytes::ZERO);
        kept.map(|(what, bytes, why)| Padding { what: what.to_owned(), bytes, why: why.to_owned() }).collect()
    }
}
