//! Where reserved bytes hold no state, for one request of the longest length.

use super::VllmPlan;
use super::parts::kind_of;
use crate::engine::{Padding, Quantity};
use crate::{Bytes, Result};

impl VllmPlan<'_> {
    /// Padding layers over real ones, of the kind that loses most.
    pub(super) fn padding_fraction(&self) -> f64 {
        let fractions = self.grouping.padded.iter().map(|kind| kind.padding as f64 / kind.layers as f64);
        fractions.fold(0.0, f64::max)
    }

    /// Rows of one request of `length` tokens, and of the pool.
    pub(super) fn padding_rows(&self, length: u64) -> Result<Vec<Padding>> {
        Ok(self.rows(length)?.named())
    }

    /// Rows of the batch's own blocks, each request `length` tokens long.
    pub(super) fn held_rows(&self, length: u64) -> Result<Vec<Padding>> {
        let mut held = Rows { null_block: Bytes::ZERO, ..self.rows(length)? }.named();
        for row in &mut held {
            row.bytes = row.bytes.times(self.batch)?;
        }
        Ok(held)
    }

    fn rows(&self, length: u64) -> Result<Rows> {
        let mut rows = Rows::default();
        let widest = self.widest_block();
        for group in &self.grouping.groups {
            let blocks = group.blocks(length, self.flight);
            for set in &group.sets {
                let spec = &set.spec;
                let layers = self.ranks.layers_on_shown(&set.layers);
                let (page, content) = (spec.page()?, spec.content()?);
                let lost = Bytes::new(page - content).times(layers)?.times(blocks)?;
                if lost > Bytes::ZERO && !spec.is_state() {
                    let why = spec.page_words();
                    if !rows.page_words.contains(&why) {
                        rows.page_words.push(why);
                    }
                }
                if spec.is_state() {
                    rows.states = rows.states.plus(lost)?;
                } else {
                    rows.pages = rows.pages.plus(lost)?;
                }
                if let Some(kept) = self.kept_entries(spec, length) {
                    let beyond = blocks.saturating_mul(spec.entries()).saturating_sub(kept);
                    let bytes = Bytes::new(spec.entry_bytes).times(layers)?.times(beyond)?;
                    let row = match kind_of(spec.kind) {
                        Quantity::KvBytes | Quantity::IndexBytes => &mut rows.last_block,
                        Quantity::StateBytes => &mut rows.compressors,
                        Quantity::CrossBytes => &mut rows.encoder,
                        _ => &mut rows.in_flight,
                    };
                    *row = row.plus(bytes)?;
                } else if spec.is_state() {
                    let spare = Bytes::new(content).times(layers)?.times(blocks.saturating_sub(1))?;
                    rows.spare_states = rows.spare_states.plus(spare)?;
                }
            }
            let unused = widest.saturating_sub(self.ranks.width_on_shown(group)?);
            rows.narrow = rows.narrow.plus(Bytes::new(unused).times(blocks)?)?;
        }
        rows.null_block = Bytes::new(widest);
        Ok(rows)
    }
}

#[derive(Debug, Default)]
struct Rows {
    states: Bytes,
    spare_states: Bytes,
    pages: Bytes,
    /// Why they are larger than what they hold.
    page_words: Vec<String>,
    narrow: Bytes,
    in_flight: Bytes,
    compressors: Bytes,
    encoder: Bytes,
    last_block: Bytes,
    null_block: Bytes,
}

impl Rows {
    fn named(self) -> Vec<Padding> {
        let page_words = format!("a page holds less than its bytes: {}", self.page_words.join("; "));
        let rows = [
            (
                "state pages",
                self.states,
                "a state's page is padded to the attention page, so that both use one pool",
            ),
            (
                "spare states",
                self.spare_states,
                "a request holds more states than the one it runs on: for reuse of prefixes, and for drafts",
            ),
            ("padding of pages", self.pages, page_words.as_str()),
            (
                "narrow groups",
                self.narrow,
                "a block is as wide as the widest group; others leave the rest unused",
            ),
            (
                "windows beyond their tokens",
                self.in_flight,
                "a window keeps what is in flight until it is settled, and the block that it starts in; a request is admitted with \
                 room for it",
            ),
            (
                "compressor state beyond its tokens",
                self.compressors,
                "rows of compressors are kept like windows: what is in flight, and the block that they start in",
            ),
            (
                "cross-attention beyond the encoder's output",
                self.encoder,
                "an encoder's output has the blocks of a whole batch (max_num_batched_tokens), however short it is",
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
