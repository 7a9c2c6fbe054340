//! Attention of many heads over rows that all of them share: each row is key and value at once (MLA absorbed, DSA, CSA,
//! HCA, CSA2).
//!
//! `output[h] = Σ_t softmax_t(q_h · row_t) row_t[.. value_width]`. Rows are widened to a tile of 64 in f32, once for all
//! heads, and transposed so that tokens lie in lanes; then blocks of heads × two vectors of tokens stay in registers.
//!
//! A row is a few hundred bytes and `2 × heads × (width + value_width)` FLOPs: 242 FLOPs a byte for 128 heads over bf16
//! latents of 512 + 64. Multiply-adds bound it on every CPU.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; callers state the lengths")]

use super::rows::{Running, TILE_TOKENS, weigh, with_block_rows};
use super::simd::{InstructionSet, Simd};

/// What of a panel is scored before the rest: it fits the first-level cache together with its block of queries.
const PART_BYTES: usize = 24 << 10;

/// Heads and widths, in values; widths are multiples of 16.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Dimensions {
    pub(crate) heads: usize,
    /// Values of a row, all of which are the key.
    pub(crate) width: usize,
    /// How many of them, from the first on, are also the value.
    pub(crate) value_width: usize,
}

impl Dimensions {
    /// f32 places from one row of a tile to the next: an odd number of cache lines, since rows that lie a power of two apart
    /// would all want the same places of the first-level cache.
    pub(crate) fn stride(&self) -> usize {
        const LINE: usize = 16;
        ((self.width / LINE) | 1) * LINE
    }

    /// f32 places of [`Scratch`].
    pub(crate) fn scratch(&self) -> usize {
        TILE_TOKENS * (self.stride() + self.width + self.heads)
    }
}

/// Where a tile is widened and scored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scratch {
    /// `[64][stride]`
    pub(crate) rows: *mut f32,
    /// `[panel][width][2 × lanes]`
    panels: *mut f32,
    /// `[heads][64]`
    scores: *mut f32,
}

impl Scratch {
    /// Divides [`Dimensions::scratch`] places.
    pub(crate) fn new(places: &mut [f32], dims: Dimensions) -> Self {
        assert!(places.len() >= dims.scratch());
        let (rows, rest) = places.split_at_mut(TILE_TOKENS * dims.stride());
        let (panels, scores) = rest.split_at_mut(TILE_TOKENS * dims.width);
        Self { rows: rows.as_mut_ptr(), panels: panels.as_mut_ptr(), scores: scores.as_mut_ptr() }
    }
}

/// Puts `[heads][width]` base-2 queries in the order in which [`attend_tile`] reads them: blocks of heads, in each the
/// values, in each the heads.
pub(crate) fn pack_query(set: InstructionSet, dims: Dimensions, query: &[f32]) -> Vec<f32> {
    let mut packed = Vec::with_capacity(query.len());
    for block in query.chunks(block_rows(dims.heads, set.block_rows()) * dims.width) {
        for d in 0..dims.width {
            packed.extend(block.chunks(dims.width).map(|head| head[d]));
        }
    }
    packed
}

/// Heads of a block: as equal as they can be, since a block of one or two would load every vector for little.
#[inline(always)]
pub(crate) fn block_rows(heads: usize, most: usize) -> usize {
    heads.div_ceil(heads.div_ceil(most))
}

/// What is read next, asked for while a tile is scored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead<'a> {
    pub(crate) pieces: &'a [*const u8],
    /// Bytes of each piece.
    pub(crate) bytes: usize,
}

/// Adds the attention of all heads over the first `count` rows of the tile.
///
/// # Safety
/// `scratch` is of `dims` and its rows are filled up to the next multiple of `2 × LANES`; `query` is from
/// [`pack_query`]; `running` is `[heads]`, `summed` `[heads][value_width]`; 1 ≤ `count` ≤ 64.
#[inline(always)]
pub(crate) unsafe fn attend_tile<S: Simd>(
    dims: Dimensions,
    scratch: Scratch,
    count: usize,
    query: *const f32,
    ahead: Ahead<'_>,
    running: *mut Running,
    summed: *mut f32,
) {
    let panel_tokens = 2 * S::LANES;
    let panels = count.div_ceil(panel_tokens);
    // SAFETY: the caller's lengths.
    unsafe {
        for panel in 0..panels {
            for token in (0..panel_tokens).step_by(8) {
                let rows = scratch.rows.add((panel * panel_tokens + token) * dims.stride());
                let to = scratch.panels.add(panel * panel_tokens * dims.width + token);
                let mut d = 0;
                while d < dims.width {
                    S::transpose_8x8(rows.add(d), dims.stride(), to.add(d * panel_tokens), panel_tokens);
                    d += 8;
                }
            }
        }
        score_tile::<S>(dims, scratch, panels, query, ahead);
        for head in 0..dims.heads {
            let scores = scratch.scores.add(head * TILE_TOKENS);
            let summed = summed.add(head * dims.value_width);
            weigh::<S>(scores, count, &mut *running.add(head), summed, dims.value_width);
        }
        sum_tile::<S>(dims, scratch, count, summed);
    }
}

#[inline(always)]
unsafe fn score_tile<S: Simd>(
    dims: Dimensions,
    scratch: Scratch,
    panels: usize,
    query: *const f32,
    ahead: Ahead<'_>,
) {
    let panel_tokens = 2 * S::LANES;
    let rows = block_rows(dims.heads, S::BLOCK_ROWS);
    let split = dims.width.min(PART_BYTES / (panel_tokens * size_of::<f32>()));
    let lines_a_piece = ahead.bytes.div_ceil(64);
    let lines = ahead.pieces.len() * lines_a_piece;
    let lines_a_block = lines.div_ceil(dims.width.div_ceil(split) * panels * dims.heads.div_ceil(rows));
    let mut line = 0;
    // SAFETY: as in `attend_tile`.
    unsafe {
        std::ptr::write_bytes(scratch.scores, 0, dims.heads * TILE_TOKENS);
        for panel in 0..panels {
            for first in (0..dims.width).step_by(split) {
                let depth = split.min(dims.width - first);
                let mut head = 0;
                while head < dims.heads {
                    let block = rows.min(dims.heads - head);
                    let stop = lines.min(line + lines_a_block);
                    while line < stop {
                        let piece = ahead.pieces[line / lines_a_piece];
                        S::prefetch(piece.wrapping_add(line % lines_a_piece * 64).cast());
                        line += 1;
                    }
                    let query = query.add(head * dims.width + first * block);
                    let scores = scratch.scores.add(head * TILE_TOKENS + panel * panel_tokens);
                    let panel = scratch.panels.add((panel * dims.width + first) * panel_tokens);
                    macro_rules! score_block {
                        ($H:literal) => {
                            score::<S, $H>(panel, query, depth, scores, TILE_TOKENS)
                        };
                    }
                    with_block_rows!(block, score_block);
                    head += block;
                }
            }
        }
    }
}

/// Adds the products of `H` heads with two vectors of tokens over `depth` values to their scores, which are `stride`
/// apart.
///
/// # Safety
/// `panel` is `[depth][2 × LANES]`, `query` `[depth][H]`.
#[inline(always)]
pub(crate) unsafe fn score<S: Simd, const H: usize>(
    panel: *const f32,
    query: *const f32,
    depth: usize,
    scores: *mut f32,
    stride: usize,
) {
    // SAFETY: the caller's lengths.
    unsafe {
        let mut products = [[S::splat(0.0); 2]; H];
        for h in 0..H {
            products[h][0] = S::load(scores.add(h * stride));
            products[h][1] = S::load(scores.add(h * stride + S::LANES));
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
            S::store(scores.add(h * stride), products[h][0]);
            S::store(scores.add(h * stride + S::LANES), products[h][1]);
        }
    }
}

#[inline(always)]
unsafe fn sum_tile<S: Simd>(dims: Dimensions, scratch: Scratch, count: usize, summed: *mut f32) {
    let rows = block_rows(dims.heads, S::BLOCK_ROWS);
    // SAFETY: as in `attend_tile`.
    unsafe {
        let mut column = 0;
        while column < dims.value_width {
            let vectors = 2.min((dims.value_width - column) / S::LANES);
            let mut head = 0;
            while head < dims.heads {
                let block = rows.min(dims.heads - head);
                let weights = scratch.scores.add(head * TILE_TOKENS);
                let summed = summed.add(head * dims.value_width + column);
                let values = scratch.rows.add(column);
                macro_rules! sum_block {
                    ($H:literal) => {
                        // Widths are multiples of 16, so only vectors of 16 lanes can be left over.
                        if const { S::LANES == 16 } && vectors == 1 {
                            sum::<S, $H, 1>(dims, values, count, weights, summed)
                        } else {
                            sum::<S, $H, 2>(dims, values, count, weights, summed)
                        }
                    };
                }
                with_block_rows!(block, sum_block);
                head += block;
            }
            column += vectors * S::LANES;
        }
    }
}

/// `summed[h] += Σ_t weights[h][t] × row_t` for `H` heads and `C` vectors of columns.
#[inline(always)]
unsafe fn sum<S: Simd, const H: usize, const C: usize>(
    dims: Dimensions,
    values: *const f32,
    count: usize,
    weights: *const f32,
    summed: *mut f32,
) {
    // SAFETY: as in `attend_tile`.
    unsafe {
        let mut sums = [[S::splat(0.0); C]; H];
        for h in 0..H {
            for c in 0..C {
                sums[h][c] = S::load(summed.add(h * dims.value_width + c * S::LANES));
            }
        }
        for t in 0..count {
            let row = values.add(t * dims.stride());
            for h in 0..H {
                let weight = S::splat(weights.add(h * TILE_TOKENS + t).read());
                for c in 0..C {
                    sums[h][c] = S::fma(S::load(row.add(c * S::LANES)), weight, sums[h][c]);
                }
            }
        }
        for h in 0..H {
            for c in 0..C {
                S::store(summed.add(h * dims.value_width + c * S::LANES), sums[h][c]);
            }
        }
    }
}
