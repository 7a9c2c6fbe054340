//! Multi-head latent decode attention, absorbed: every head's query of `latent + rope` values against one shared row a
//! token, whose first `latent` values are also the values.
//!
//! All heads share each row, so this is a matrix product with few bytes: a page of 64 tokens is widened and transposed
//! once, then blocks of heads × two vectors of tokens stay in registers. The weighted sum reads the bf16 rows
//! again, which are then in the cache.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

use super::rows::{Rows, Running, TILE_TOKENS, add_weighted, weigh, with_block_rows};
use super::simd::{InstructionSet, Simd, dispatch};

/// Tokens of a page.
pub(crate) const PAGE_TOKENS: usize = TILE_TOKENS;

/// Heads and widths of one layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Dimensions {
    pub(crate) query_heads: usize,
    pub(crate) latent: usize,
    pub(crate) rope: usize,
}

impl Dimensions {
    /// Values of one row.
    pub(crate) fn width(&self) -> usize {
        self.latent + self.rope
    }

    /// bf16 values of one page.
    pub(crate) fn page_values(&self) -> usize {
        PAGE_TOKENS * self.width()
    }

    /// f32 places of scratch that [`attend`] needs: the transposed page and the scores.
    pub(crate) fn scratch(&self) -> usize {
        PAGE_TOKENS * (self.width() + self.query_heads)
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
    /// From [`pack_query`].
    pub(crate) query: &'a [f32],
    pub(crate) scratch: &'a mut [f32],
    /// `[query_heads]`.
    pub(crate) running: &'a mut [Running],
    /// `[query_heads][latent]`, not yet divided by the total, each block of two vectors as its even, then its odd values.
    pub(crate) summed: &'a mut [f32],
}

/// Puts `[query_heads][width]` base-2 queries in the order in which [`attend`] reads them: blocks of heads, in each
/// the values in the order of the transposed page, in each the heads.
pub(crate) fn pack_query(set: InstructionSet, dims: Dimensions, query: &[f32]) -> Vec<f32> {
    let width = dims.width();
    let mut packed = Vec::with_capacity(query.len());
    for block in query.chunks(block_rows(set) * width) {
        for place in 0..width {
            let within = place % 16;
            let d = place - within + within % 8 * 2 + within / 8;
            packed.extend(block.chunks(width).map(|head| head[d]));
        }
    }
    packed
}

fn block_rows(set: InstructionSet) -> usize {
    match set {
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => super::simd::Avx512::BLOCK_ROWS,
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => super::simd::Avx2::BLOCK_ROWS,
        InstructionSet::Portable => super::simd::Portable::BLOCK_ROWS,
    }
}

/// Computes the span's part of the attention.
pub(crate) fn attend(set: InstructionSet, span: Span<'_>) {
    let dims = span.dimensions;
    assert!(set.divides(&[dims.latent]) && dims.rope.is_multiple_of(16));
    assert!(span.tokens > 0 && span.tokens.div_ceil(PAGE_TOKENS) == span.pages.len());
    let held = span.layer.len() / dims.page_values();
    assert!(span.pages.iter().all(|page| (*page as usize) < held));
    assert_eq!(span.query.len(), dims.query_heads * dims.width());
    assert_eq!(span.summed.len(), dims.query_heads * dims.latent);
    assert!(span.running.len() == dims.query_heads && span.scratch.len() >= dims.scratch());
    dispatch!(set, body, span, Span<'_>);
}

#[inline(always)]
unsafe fn body<S: Simd>(span: Span<'_>) {
    let dims = span.dimensions;
    let (heads, width) = (dims.query_heads, dims.width());
    let panel_tokens = 2 * S::LANES;
    // Half a panel and half a block of queries fit the first-level cache together.
    let split = width / 32 * 16;
    let lines_of_a_page = dims.page_values().div_ceil(32);
    span.running.fill(Running::EMPTY);
    span.summed.fill(0.0);
    let (transposed, scores) = span.scratch.split_at_mut(PAGE_TOKENS * width);
    let (transposed, scores) = (transposed.as_mut_ptr(), scores.as_mut_ptr());
    let summed = span.summed.as_mut_ptr();

    for place in 0..span.pages.len() {
        let count = PAGE_TOKENS.min(span.tokens - place * PAGE_TOKENS);
        let panels = count.div_ceil(panel_tokens);
        // SAFETY: `attend` checked that pages lie in the layer and that the slices have their lengths. A page is whole
        // in memory, so rows past `count` can be read; `weigh` masks their scores.
        unsafe {
            let page = span.layer.as_ptr().add(span.pages[place] as usize * dims.page_values());
            let ahead = span.pages[(place + 1).min(span.pages.len() - 1)] as usize * dims.page_values();
            let ahead = span.layer.as_ptr().add(ahead);
            let lines_a_call = lines_of_a_page.div_ceil(2 * panels * heads.div_ceil(S::BLOCK_ROWS));
            let mut line = 0;

            std::ptr::write_bytes(scores, 0, heads * TILE_TOKENS);
            for panel in 0..panels {
                let to = transposed.add(panel * panel_tokens * width);
                for token in (0..panel_tokens).step_by(8) {
                    for d in (0..width).step_by(16) {
                        let from = page.add((panel * panel_tokens + token) * width + d);
                        S::transpose_8x16(from, width, to.add(d * panel_tokens + token), panel_tokens);
                    }
                }
                for depth in [0..split, split..width] {
                    let mut head = 0;
                    while head < heads {
                        let block = S::BLOCK_ROWS.min(heads - head);
                        let stop = lines_of_a_page.min(line + lines_a_call);
                        while line < stop {
                            S::prefetch(ahead.add(line * 32));
                            line += 1;
                        }
                        let query = span.query.as_ptr().add(head * width + depth.start * block);
                        let scores = scores.add(head * TILE_TOKENS + panel * panel_tokens);
                        let panel = to.add(depth.start * panel_tokens);
                        macro_rules! score_block {
                            ($H:literal) => {
                                score::<S, $H>(panel, query, depth.len(), scores)
                            };
                        }
                        with_block_rows!(block, score_block);
                        head += block;
                    }
                }
            }
            for head in 0..heads {
                weigh::<S>(
                    scores.add(head * TILE_TOKENS),
                    count,
                    &mut span.running[head],
                    summed.add(head * dims.latent),
                    dims.latent,
                );
            }
            let rows = Rows { pieces: &[page], per_piece: PAGE_TOKENS, stride: width, count };
            let mut d = 0;
            while d < dims.latent {
                let mut head = 0;
                while head < heads {
                    let block = S::BLOCK_ROWS.min(heads - head);
                    let weights = scores.add(head * TILE_TOKENS);
                    let summed = summed.add(head * dims.latent);
                    macro_rules! sum_block {
                        ($H:literal) => {
                            add_weighted::<S, $H, false>(&rows, &rows, d, weights, summed, dims.latent)
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

/// Adds the products of `H` heads with two vectors of tokens over `depth` values to their scores.
#[inline(always)]
unsafe fn score<S: Simd, const H: usize>(
    panel: *const f32,
    query: *const f32,
    depth: usize,
    scores: *mut f32,
) {
    // SAFETY: as in `body`.
    unsafe {
        let mut products = [[S::splat(0.0); 2]; H];
        for h in 0..H {
            products[h][0] = S::load(scores.add(h * TILE_TOKENS));
            products[h][1] = S::load(scores.add(h * TILE_TOKENS + S::LANES));
        }
        for d in 0..depth {
            let a = S::load(panel.add(d * 2 * S::LANES));
            let b = S::load(panel.add(d * 2 * S::LANES + S::LANES));
            for h in 0..H {
                let q = S::splat(query.add(d * H + h).read());
                products[h][0] = S::fma(a, q, products[h][0]);
                products[h][1] = S::fma(b, q, products[h][1]);
            }
        }
        for h in 0..H {
            S::store(scores.add(h * TILE_TOKENS), products[h][0]);
            S::store(scores.add(h * TILE_TOKENS + S::LANES), products[h][1]);
        }
    }
}
