//! How the pools of DeepSeek-V4 come about, in words.

use super::{RING_RATIOS, SPARSE_RATIO, Stream, V4Pool};
use crate::engine::Quantity;
use crate::engine::sglang::pool::{Counted, PoolTokens, ROUNDED_UP, decimal};
use crate::engine::sglang::v4_layout::is_low;
use crate::state::counted;
use crate::{Result, group_digits};

/// A product of a sum, and whether a budget charges it again for each draft layer.
enum Term {
    /// A draft layer costs as much as a layer of the target on average.
    WithDrafts(String),
    /// The same with drafts as without.
    Once(String),
}

impl V4Pool {
    /// How a part of [`V4Pool::budget`] or [`V4Pool::parts`] comes about: pages and rows of every kind.
    pub(in crate::engine::sglang) fn worked(
        &self,
        quantity: Quantity,
        tokens: PoolTokens,
        counted_as: Counted,
    ) -> Result<Option<String>> {
        let terms = match counted_as {
            Counted::Budget => self.of_budget_terms(quantity, tokens)?,
            Counted::Tensors { .. } => self.of_tensors_terms(quantity, tokens),
        };
        if terms.is_empty() {
            return Ok(None);
        }
        let drafts = self.drafts > 0 && matches!(counted_as, Counted::Budget);
        let scale = if drafts { format!(" × {}/{}", self.layers + 1, self.layers) } else { String::new() };
        let is_scaled = terms.iter().any(|term| matches!(term, Term::WithDrafts(_)));
        let sum: Vec<String> = terms
            .into_iter()
            .map(|term| match term {
                Term::WithDrafts(product) => format!("{product}{scale}"),
                Term::Once(product) => product,
            })
            .collect();
        let of_ratio = matches!(quantity, Quantity::WindowBytes | Quantity::StateBytes)
            && self.tokens.ratio().is_some()
            && matches!(counted_as, Counted::Budget);
        let rounded = if is_scaled && (drafts || of_ratio) { ROUNDED_UP } else { "" };
        let of_drafts =
            if is_scaled && drafts { "; a draft layer is charged as one more like the average" } else { "" };
        Ok(Some(format!(
            "{}{rounded}; {}{of_drafts}",
            sum.join(" + "),
            self.why(quantity, tokens, counted_as)
        )))
    }

    fn why(&self, quantity: Quantity, tokens: PoolTokens, counted_as: Counted) -> String {
        let more = match counted_as {
            Counted::Budget => "",
            Counted::Tensors { .. } => ", a page of tokens more in every pool",
        };
        match quantity {
            Quantity::StateBytes => {
                format!("rows of {} request slots, one more, and of window pages", group_digits(tokens.rings))
            }
            Quantity::WindowBytes => format!("pages of {} tokens{more}, {}", self.page, self.tokens.words()),
            _ => format!("pages of {} tokens{more}", self.page),
        }
    }

    fn of_budget_terms(&self, quantity: Quantity, tokens: PoolTokens) -> Result<Vec<Term>> {
        let pages = group_digits(tokens.full / self.page);
        let window_pages = match self.tokens.ratio() {
            Some(ratio) => {
                let (part, of) = decimal(ratio)?;
                format!("{pages} pages × {part}/{of}")
            }
            None => format!("{} pages", group_digits(tokens.window.unwrap_or(0) / self.page)),
        };
        let mut terms = Vec::new();
        match quantity {
            Quantity::KvBytes => {
                for stream in &self.streams {
                    terms.extend(self.entries_of_budget(stream, tokens, &pages));
                }
            }
            Quantity::IndexBytes => {
                for stream in &self.streams {
                    let Some(keys) = stream.keys else { continue };
                    let (layers, count) = (layers(stream.layers), self.page / stream.ratio);
                    let key = keys.budgeted.get();
                    terms
                        .push(Term::WithDrafts(format!("{pages} pages × {layers} × {count} keys × {key} B")));
                }
            }
            Quantity::WindowBytes => {
                let page = group_digits(self.window_page.get());
                terms.push(Term::WithDrafts(format!("{window_pages} × {} × {page} B", layers(self.layers))));
            }
            Quantity::StateBytes => {
                let sparse = self.layers_of(SPARSE_RATIO);
                if sparse > 0 {
                    let (ring, bytes) = (self.ring(SPARSE_RATIO), group_digits(self.sparse_row()));
                    let own = layers(sparse);
                    terms.push(Term::WithDrafts(format!("{window_pages} × {own} × {ring} rows × {bytes} B")));
                }
                terms.extend(self.rings_of_slots(tokens));
            }
            _ => {}
        }
        Ok(terms)
    }

    /// Pages of one stream; of V4.1's, the pages and keys beyond those that follow the tokens too.
    fn entries_of_budget(&self, stream: &Stream, tokens: PoolTokens, pages: &str) -> Vec<Term> {
        let (own, page) = (layers(stream.layers), group_digits(stream.page.get()));
        let mut terms = vec![Term::WithDrafts(format!("{pages} pages × {own} × {page} B"))];
        if is_low(stream.ratio) {
            let more = counted(stream.ratio, "page", "pages");
            terms.push(Term::Once(format!("{own} × {more} × {page} B")));
            let slots = self.low_index_slots(tokens.full, stream.ratio) - tokens.full / stream.ratio;
            let of_keys = stream
                .keys
                .map(|keys| Term::Once(format!("{own} × {slots} more keys × {} B", keys.budgeted.get())));
            terms.extend(of_keys);
        }
        terms
    }

    fn of_tensors_terms(&self, quantity: Quantity, tokens: PoolTokens) -> Vec<Term> {
        let window_pages = tokens.window.unwrap_or(0) / self.page + 1;
        let mut terms = Vec::new();
        let mut add = |of_layers: u64, count: String, bytes: u64| {
            terms.push(Term::Once(format!("{} × {count} × {} B", layers(of_layers), group_digits(bytes))));
        };
        match quantity {
            Quantity::KvBytes => {
                for stream in &self.streams {
                    let pages = counted(self.stream_pages(stream, tokens), "page", "pages");
                    add(stream.layers, pages, stream.page.get());
                }
            }
            Quantity::IndexBytes => {
                for stream in &self.streams {
                    let Some(keys) = stream.keys else { continue };
                    let slots = format!("{} keys", group_digits(self.key_slots(stream, tokens)));
                    add(stream.layers, slots, keys.kept.get());
                }
            }
            Quantity::WindowBytes => {
                add(self.layers, counted(window_pages, "page", "pages"), self.window_page.get());
            }
            Quantity::StateBytes => {
                let sparse = self.layers_of(SPARSE_RATIO);
                if sparse > 0 {
                    let rows = format!("{} rows", group_digits(self.sparse_rows(window_pages)));
                    add(sparse, rows, self.sparse_row());
                }
                terms.extend(self.rings_of_slots(tokens));
            }
            _ => {}
        }
        terms
    }

    /// Rows of the compressors whose rings belong to request slots.
    fn rings_of_slots(&self, tokens: PoolTokens) -> Vec<Term> {
        let kept = RING_RATIOS.into_iter().filter(|ratio| self.layers_of(*ratio) > 0);
        let term = |ratio: u64| {
            let rows = group_digits(self.slot_rows(ratio, tokens.rings));
            let (own, row) = (layers(self.layers_of(ratio)), group_digits(self.ring_row().get()));
            Term::Once(format!("{own} × {rows} rows × {row} B"))
        };
        kept.map(term).collect()
    }
}

fn layers(count: u64) -> String {
    counted(count, "layer", "layers")
}
