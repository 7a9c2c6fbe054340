//! Grouped-query decode attention over paged bf16 keys and values (MHA and MQA are the ends of the same thing).
//!
//! A page holds `[kv_head][token][k_width]` keys, then `[kv_head][token][v_width]` values. Each key-value head's pages
//! are walked in tiles of 32 tokens: scores of all its query heads, online softmax, weighted values. While keys are
//! scored the same tokens' values are asked for, and while values are summed the next tile's keys: pages lie in random
//! order, so the processor's own prefetcher stops at each.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

use super::rows::{Rows, Running, TILE_TOKENS, add_weighted, weigh, with_block_rows};
use super::simd::{InstructionSet, Simd, dispatch};

/// Tokens of a page.
pub(crate) const PAGE_TOKENS: usize = 16;
/// Pages of a tile. Its keys, its values and the next tile's keys are in the first-level cache together: with 128-wide
/// heads that is 3 × 8 KiB of 32.
const TILE_PAGES: usize = 2;
const _: () = assert!(TILE_PAGES * PAGE_TOKENS <= TILE_TOKENS);

/// Heads and widths of one layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Dimensions {
    pub(crate) query_heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) k_width: usize,
    pub(crate) v_width: usize,
}

impl Dimensions {
    /// bf16 values of one page.
    pub(crate) fn page_values(&self) -> usize {
        PAGE_TOKENS * self.kv_heads * (self.k_width + self.v_width)
    }

    /// Query heads that share a key-value head.
    pub(crate) fn group(&self) -> usize {
        self.query_heads / self.kv_heads
    }

    /// f32 places of scratch that [`attend`] needs.
    pub(crate) fn scratch(&self) -> usize {
        self.group() * TILE_TOKENS
    }
}

/// One request's part of one layer for one worker.
pub(crate) struct Span<'a> {
    pub(crate) dimensions: Dimensions,
    /// The layer's pages, one after the other.
    pub(crate) layer: &'a [u16],
    /// Physical pages in the order of the tokens.
    pub(crate) pages: &'a [u32],
    /// Tokens in those pages.
    pub(crate) tokens: usize,
    /// `[query_heads][k_width]`, scaled to base-2 scores, each block of two vectors as its even, then its odd values.
    pub(crate) query: &'a [f32],
    pub(crate) scratch: &'a mut [f32],
    /// `[query_heads]`.
    pub(crate) running: &'a mut [Running],
    /// `[query_heads][v_width]`, not yet divided by the total, blocks as in the query.
    pub(crate) summed: &'a mut [f32],
}

/// Computes the span's part of the attention.
pub(crate) fn attend(set: InstructionSet, span: Span<'_>) {
    let dims = span.dimensions;
    assert!(set.divides(&[dims.k_width, dims.v_width]));
    assert!(span.tokens > 0 && span.tokens.div_ceil(PAGE_TOKENS) == span.pages.len());
    let held = span.layer.len() / dims.page_values();
    assert!(span.pages.iter().all(|page| (*page as usize) < held));
    assert_eq!(span.query.len(), dims.query_heads * dims.k_width);
    assert_eq!(span.summed.len(), dims.query_heads * dims.v_width);
    assert!(span.running.len() == dims.query_heads && span.scratch.len() >= dims.scratch());
    dispatch!(set, body, span, Span<'_>);
}

#[inline(always)]
unsafe fn body<S: Simd>(span: Span<'_>) {
    let dims = span.dimensions;
    let group = dims.group();
    let page_values = dims.page_values();
    let keys_of_a_head = PAGE_TOKENS * dims.k_width;
    let values_of_a_head = PAGE_TOKENS * dims.v_width;
    let tiles = span.pages.len().div_ceil(TILE_PAGES);
    span.running.fill(Running::EMPTY);
    span.summed.fill(0.0);
    let scores = span.scratch.as_mut_ptr();

    for kv_head in 0..dims.kv_heads {
        let first_head = kv_head * group;
        // SAFETY: `attend` checked that pages lie in the layer and that the slices have their lengths.
        unsafe {
            let query = span.query.as_ptr().add(first_head * dims.k_width);
            let summed = span.summed.as_mut_ptr().add(first_head * dims.v_width);
            let key_offset = kv_head * keys_of_a_head;
            let value_offset = dims.kv_heads * keys_of_a_head + kv_head * values_of_a_head;

            for tile in 0..tiles {
                let pages = &span.pages[tile * TILE_PAGES..span.pages.len().min((tile + 1) * TILE_PAGES)];
                let count = (TILE_PAGES * PAGE_TOKENS).min(span.tokens - tile * TILE_PAGES * PAGE_TOKENS);
                let mut key_pieces = [span.layer.as_ptr(); TILE_PAGES];
                let mut value_pieces = key_pieces;
                let mut next_pieces = key_pieces;
                for (place, page) in pages.iter().enumerate() {
                    let base = span.layer.as_ptr().add(*page as usize * page_values);
                    key_pieces[place] = base.add(key_offset);
                    value_pieces[place] = base.add(value_offset);
                }
                // After the last tile comes the first one of the next head; addresses past the end are only asked for.
                let (next_tile, next_offset) =
                    if tile + 1 < tiles { (tile + 1, key_offset) } else { (0, key_offset + keys_of_a_head) };
                for (place, page) in span.pages[next_tile * TILE_PAGES..].iter().take(TILE_PAGES).enumerate()
                {
                    next_pieces[place] =
                        span.layer.as_ptr().wrapping_add(*page as usize * page_values + next_offset);
                }
                let rows = |pieces, stride| Rows { pieces, per_piece: PAGE_TOKENS, stride, count };
                let keys = rows(&key_pieces[..pages.len()], dims.k_width);
                let values = rows(&value_pieces[..pages.len()], dims.v_width);
                let next = rows(&next_pieces[..pages.len()], dims.k_width);

                let mut head = 0;
                while head < group {
                    let block = S::BLOCK_ROWS.min(group - head);
                    let query = query.add(head * dims.k_width);
                    let scores = scores.add(head * TILE_TOKENS);
                    macro_rules! score_block {
                        ($H:literal) => {
                            if head == 0 {
                                score::<S, $H, true>(&keys, &values, query, dims.k_width, scores)
                            } else {
                                score::<S, $H, false>(&keys, &values, query, dims.k_width, scores)
                            }
                        };
                    }
                    with_block_rows!(block, score_block);
                    head += block;
                }
                for head in 0..group {
                    weigh::<S>(
                        scores.add(head * TILE_TOKENS),
                        count,
                        &mut span.running[first_head + head],
                        summed.add(head * dims.v_width),
                        dims.v_width,
                    );
                }
                let mut d = 0;
                while d < dims.v_width {
                    let mut head = 0;
                    while head < group {
                        let block = S::BLOCK_ROWS.min(group - head);
                        let summed = summed.add(head * dims.v_width);
                        let weights = scores.add(head * TILE_TOKENS);
                        // A line is asked for once: by the first heads, where a new line begins.
                        macro_rules! sum_block {
                            ($H:literal) => {
                                if head == 0 && d % 32 == 0 && d < dims.k_width {
                                    add_weighted::<S, $H, true>(
                                        &values,
                                        &next,
                                        d,
                                        weights,
                                        summed,
                                        dims.v_width,
                                    )
                                } else {
                                    add_weighted::<S, $H, false>(
                                        &values,
                                        &next,
                                        d,
                                        weights,
                                        summed,
                                        dims.v_width,
                                    )
                                }
                            };
                        }
                        with_block_rows!(block, sum_block);
                        head += block;
                    }
                    d += 2 * S::LANES;
                }
            }
        }
    }
}

/// `scores[h][t] = query_h · key_t` for `H` heads; `AHEAD` also asks for row t of `ahead`.
#[inline(always)]
unsafe fn score<S: Simd, const H: usize, const AHEAD: bool>(
    keys: &Rows<'_>,
    ahead: &Rows<'_>,
    query: *const f32,
    width: usize,
    scores: *mut f32,
) {
    // SAFETY: as in `body`.
    unsafe {
        let mut first = 0;
        for piece in 0..keys.pieces.len() {
            let here = keys.per_piece.min(keys.count - first);
            let mut t = 0;
            while t < here {
                // With an odd count the last row is scored twice: cheaper than a second loop.
                let second = (t + 1).min(here - 1);
                let row0 = keys.pieces[piece].add(t * width);
                let row1 = keys.pieces[piece].add(second * width);
                if AHEAD {
                    let mut line = 0;
                    while line < ahead.stride {
                        S::prefetch(ahead.pieces[piece].add(t * ahead.stride + line));
                        S::prefetch(ahead.pieces[piece].add(second * ahead.stride + line));
                        line += 32;
                    }
                }
                let mut products = [[S::splat(0.0); 2]; H];
                let mut d = 0;
                while d < width {
                    let raw0 = S::load_halves(row0.add(d));
                    let raw1 = S::load_halves(row1.add(d));
                    let (a, b) = (S::even(raw0), S::even(raw1));
                    for h in 0..H {
                        let q = S::load(query.add(h * width + d));
                        products[h][0] = S::fma(a, q, products[h][0]);
                        products[h][1] = S::fma(b, q, products[h][1]);
                    }
                    let (a, b) = (S::odd(raw0), S::odd(raw1));
                    for h in 0..H {
                        let q = S::load(query.add(h * width + d + S::LANES));
                        products[h][0] = S::fma(a, q, products[h][0]);
                        products[h][1] = S::fma(b, q, products[h][1]);
                    }
                    d += 2 * S::LANES;
                }
                let to = scores.add(first + t);
                let to1 = scores.add(first + second);
                let mut h = 0;
                while h + 1 < H {
                    let [x, y, z, w] =
                        S::sum4([products[h][0], products[h][1], products[h + 1][0], products[h + 1][1]]);
                    to.add(h * TILE_TOKENS).write(x);
                    to1.add(h * TILE_TOKENS).write(y);
                    to.add((h + 1) * TILE_TOKENS).write(z);
                    to1.add((h + 1) * TILE_TOKENS).write(w);
                    h += 2;
                }
                if H % 2 == 1 {
                    to.add((H - 1) * TILE_TOKENS).write(S::sum(products[H - 1][0]));
                    to1.add((H - 1) * TILE_TOKENS).write(S::sum(products[H - 1][1]));
                }
                t += 2;
            }
            first += here;
        }
    }
}
