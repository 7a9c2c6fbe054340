//! Grouped-query decode attention over paged keys and values (MHA and MQA are the ends of the same thing).
//!
//! `output[h] = softmax(scale × q_h · K) V` for the query heads h that share a key-value head. A page of 16 tokens holds
//! of each key-value head in turn its keys, where the format has them a scale for each key and each value, and its values;
//! [`stored`] has the order within keys and values. A tile of one or two pages is read once from its first byte to
//! its last, head by head: scores of all its query heads, online softmax, weighted values. While keys are scored the same
//! head's values are asked for, and while values are summed the next head's keys.
//!
//! A token and key-value head is `(k_width + v_width) × element bytes` (and scales) read once and
//! `2 × group × (k_width + v_width)` FLOPs: `group` FLOPs a byte in bf16, `2 × group` in bytes. Memory bounds it up to
//! about eight query heads a head in bf16, multiply-adds beyond.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

mod ahead;
pub(crate) mod reference;
mod stored;
#[cfg(test)]
mod tests;

use self::ahead::Ahead;
pub(crate) use self::stored::Format;
use self::stored::{Bf16, Bytes, E4m3, I8, Stored};
use super::rows::{Running, TILE_TOKENS, weigh, with_rows};
use super::simd::{InstructionSet, Simd, dispatch, dispatch_pairs};
use super::state::{Kind, Run};

/// Tokens of a page: one vector of 16 lanes or two of 8.
pub(crate) const PAGE_TOKENS: usize = 16;
/// Pages of the largest tile.
const MOST_PAGES: usize = 4;
const _: () = assert!(MOST_PAGES * PAGE_TOKENS <= TILE_TOKENS);
/// A tile's keys and values and the next tile's keys stay together in the first-level cache, beside queries and sums.
const TILE_BYTES: usize = 24 << 10;

/// Heads and widths of one layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Dimensions {
    pub(crate) query_heads: usize,
    pub(crate) kv_heads: usize,
    /// A multiple of 16, as `v_width`.
    pub(crate) k_width: usize,
    pub(crate) v_width: usize,
    pub(crate) format: Format,
}

impl Dimensions {
    /// Bytes of one page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.keys_at(self.kv_heads)
    }

    /// What a page is filled with.
    pub(crate) fn page_runs(&self) -> Vec<Run> {
        let (values, scales) = match self.format {
            Format::Bf16 => (Kind::Bf16, Kind::F32Scale),
            Format::Fp8 | Format::Fp8PerTokenHead => (Kind::E4m3, Kind::F32Scale),
            Format::Int8PerTokenHead => (Kind::I8, Kind::F32ByteScale),
        };
        let runs = [
            (self.keys_of_a_head(), values),
            (2 * self.scales_of_a_head(), scales),
            (self.values_of_a_head(), values),
        ];
        runs.into_iter().filter(|(bytes, _)| *bytes > 0).map(|(bytes, kind)| Run { bytes, kind }).collect()
    }

    /// Query heads that share a key-value head.
    pub(crate) fn group(&self) -> usize {
        self.query_heads / self.kv_heads
    }

    /// f32 places of scratch that [`attend`] needs.
    pub(crate) fn scratch(&self) -> usize {
        self.group() * TILE_TOKENS
    }

    /// Byte of a page at which the keys of a head begin.
    fn keys_at(&self, kv_head: usize) -> usize {
        kv_head * (self.keys_of_a_head() + 2 * self.scales_of_a_head() + self.values_of_a_head())
    }

    /// Byte of a page at which the scales of a head's keys begin.
    fn key_scales_at(&self, kv_head: usize) -> usize {
        self.keys_at(kv_head) + self.keys_of_a_head()
    }

    /// Byte of a page at which the scales of a head's values begin.
    fn value_scales_at(&self, kv_head: usize) -> usize {
        self.key_scales_at(kv_head) + self.scales_of_a_head()
    }

    /// Byte of a page at which the values of a head begin.
    fn values_at(&self, kv_head: usize) -> usize {
        self.value_scales_at(kv_head) + self.scales_of_a_head()
    }

    fn keys_of_a_head(&self) -> usize {
        PAGE_TOKENS * self.k_width * self.format.element_bytes()
    }

    fn values_of_a_head(&self) -> usize {
        PAGE_TOKENS * self.v_width * self.format.element_bytes()
    }

    fn scales_of_a_head(&self) -> usize {
        PAGE_TOKENS * self.format.scale_bytes()
    }

    fn tile_pages(&self) -> usize {
        let one = 2 * self.keys_of_a_head() + self.values_of_a_head();
        (TILE_BYTES / one).clamp(1, MOST_PAGES)
    }
}

/// One request's part of one layer for one worker.
pub(crate) struct Span<'a> {
    pub(crate) dimensions: Dimensions,
    /// The layer's pages, one after the other; of every byte pattern that is no NaN.
    pub(crate) layer: &'a [u8],
    /// Physical pages in the order of the tokens.
    pub(crate) pages: &'a [u32],
    /// Tokens in those pages.
    pub(crate) tokens: usize,
    /// From [`pack_query`].
    pub(crate) query: &'a [f32],
    /// Factor of the products of query and key that makes base-2 scores: scale × log2 e.
    pub(crate) score_factor: f32,
    pub(crate) scratch: &'a mut [f32],
    /// `[query_heads]`.
    pub(crate) running: &'a mut [Running],
    /// `[query_heads][v_width]`, not yet divided by the total.
    pub(crate) summed: &'a mut [f32],
}

/// Puts `[query_heads][k_width]` queries in the form in which [`attend`] reads them.
pub(crate) fn pack_query(set: InstructionSet, dims: Dimensions, query: &[f32]) -> Vec<f32> {
    let mut packed = query.to_vec();
    if dims.format == Format::Bf16 {
        dispatch_pairs!(set, pack, &mut packed[..], &mut [f32]);
    }
    packed
}

#[inline(always)]
unsafe fn pack<S: Simd>(factors: &mut [f32]) {
    // SAFETY: widths are multiples of 16, so of the lanes.
    unsafe { S::pack_pairs(factors.as_mut_ptr(), factors.len()) }
}

/// Computes the span's part of the attention.
pub(crate) fn attend(set: InstructionSet, span: Span<'_>) {
    let dims = span.dimensions;
    assert!(dims.k_width.is_multiple_of(16) && dims.v_width.is_multiple_of(16));
    assert!(span.tokens > 0 && span.tokens.div_ceil(PAGE_TOKENS) == span.pages.len());
    let held = span.layer.len() / dims.page_bytes();
    assert!(span.pages.iter().all(|page| (*page as usize) < held));
    assert_eq!(span.query.len(), dims.query_heads * dims.k_width);
    assert_eq!(span.summed.len(), dims.query_heads * dims.v_width);
    assert!(span.running.len() == dims.query_heads && span.scratch.len() >= dims.scratch());
    match dims.format {
        Format::Bf16 => dispatch_pairs!(set, bf16, span, Span<'_>),
        Format::Fp8 | Format::Fp8PerTokenHead => dispatch!(set, fp8, span, Span<'_>),
        Format::Int8PerTokenHead => dispatch!(set, int8, span, Span<'_>),
    }
}

#[inline(always)]
unsafe fn bf16<S: Simd>(span: Span<'_>) {
    // SAFETY: `attend` has checked the span; the same for the two below.
    unsafe { body::<S, Bf16>(span) }
}

#[inline(always)]
unsafe fn fp8<S: Simd>(span: Span<'_>) {
    unsafe { body::<S, Bytes<E4m3>>(span) }
}

#[inline(always)]
unsafe fn int8<S: Simd>(span: Span<'_>) {
    unsafe { body::<S, Bytes<I8>>(span) }
}

/// Scales of a page that has none.
static NO_SCALES: [f32; PAGE_TOKENS] = [1.0; PAGE_TOKENS];

/// The parts of a tile's pages that belong to one key-value head.
#[derive(Clone, Copy)]
struct Tile {
    pages: usize,
    tokens: usize,
    keys: [*const u8; MOST_PAGES],
    values: [*const u8; MOST_PAGES],
    key_scales: [*const u8; MOST_PAGES],
    value_scales: [*const u8; MOST_PAGES],
    /// The next tile's keys, which are only asked for.
    next_keys: [*const u8; MOST_PAGES],
}

#[inline(always)]
unsafe fn body<S: Simd, T: Stored<S>>(span: Span<'_>) {
    let dims = span.dimensions;
    let group = dims.group();
    let tiles = span.pages.len().div_ceil(dims.tile_pages());
    span.running.fill(Running::EMPTY);
    span.summed.fill(0.0);
    let scores = span.scratch.as_mut_ptr();
    let factor = span.score_factor;
    // Equal blocks: a last block of one or two heads would read and widen the keys again for little.
    let block = group.div_ceil(group.div_ceil(S::PAIR_ROWS));
    let values_ahead = Ahead::values(dims, group.div_ceil(block));

    for tile in 0..tiles {
        for kv_head in 0..dims.kv_heads {
            let first_head = kv_head * group;
            // SAFETY: `attend` checked that pages lie in the layer and that the slices have their lengths.
            unsafe {
                let summed = span.summed.as_mut_ptr().add(first_head * dims.v_width);
                let tile = tile_at(&span, kv_head, tile, tiles);
                let mut head = 0;
                while head < group {
                    let rows = block.min(group - head);
                    let query = Factors { from: span.query.as_ptr(), first: first_head + head };
                    let scores = scores.add(head * TILE_TOKENS);
                    let ahead = values_ahead.part(head / block);
                    macro_rules! score_block {
                        ($H:literal) => {
                            score_tile::<S, T, $H>(&tile, dims, ahead, query, factor, scores)
                        };
                    }
                    with_rows!(rows, S::PAIR_ROWS, score_block);
                    head += rows;
                }
                for head in 0..group {
                    let weights = scores.add(head * TILE_TOKENS);
                    let running = &mut span.running[first_head + head];
                    weigh::<S>(weights, tile.tokens, running, summed.add(head * dims.v_width), dims.v_width);
                    finish_weights::<S, T>(&tile, weights);
                }
                sum_tile::<S, T>(&tile, dims, block, scores, summed);
            }
        }
    }
}

#[inline(always)]
unsafe fn tile_at(span: &Span<'_>, kv_head: usize, tile: usize, tiles: usize) -> Tile {
    let dims = span.dimensions;
    let (per_tile, page_bytes) = (dims.tile_pages(), dims.page_bytes());
    let first = tile * per_tile;
    let base = span.layer.as_ptr();
    let mut parts = Tile {
        pages: per_tile.min(span.pages.len() - first),
        tokens: (per_tile * PAGE_TOKENS).min(span.tokens - first * PAGE_TOKENS),
        keys: [base; MOST_PAGES],
        values: [base; MOST_PAGES],
        key_scales: [NO_SCALES.as_ptr().cast(); MOST_PAGES],
        value_scales: [NO_SCALES.as_ptr().cast(); MOST_PAGES],
        next_keys: [base; MOST_PAGES],
    };
    // After the last head comes the first one of the next tile.
    let next_tile = if tile + 1 < tiles { first + per_tile } else { 0 };
    let (next, next_head) = if kv_head + 1 < dims.kv_heads { (first, kv_head + 1) } else { (next_tile, 0) };
    for place in 0..parts.pages {
        // SAFETY: `attend` checked that pages lie in the layer.
        unsafe {
            let page = base.add(span.pages[first + place] as usize * page_bytes);
            parts.keys[place] = page.add(dims.keys_at(kv_head));
            parts.values[place] = page.add(dims.values_at(kv_head));
            if dims.format.scale_bytes() > 0 {
                parts.key_scales[place] = page.add(dims.key_scales_at(kv_head));
                parts.value_scales[place] = page.add(dims.value_scales_at(kv_head));
            }
        }
        let next = span.pages[(next + place).min(span.pages.len() - 1)] as usize;
        parts.next_keys[place] = base.wrapping_add(next * page_bytes + dims.keys_at(next_head));
    }
    parts
}

/// Scores of `H` heads. With few heads two pages are scored together, so that sums need not wait for each other.
#[inline(always)]
unsafe fn score_tile<S: Simd, T: Stored<S>, const H: usize>(
    tile: &Tile,
    dims: Dimensions,
    ahead: Ahead,
    query: Factors,
    factor: f32,
    scores: *mut f32,
) {
    // SAFETY: as in `body`.
    unsafe {
        let mut page = 0;
        if const { H * PAGE_TOKENS <= S::PAIR_ROWS * S::LANES } {
            while page + 2 <= tile.pages {
                score::<S, T, H, 2>(tile, page, dims, ahead, query, factor, scores);
                page += 2;
            }
        }
        while page < tile.pages {
            score::<S, T, H, 1>(tile, page, dims, ahead, query, factor, scores);
            page += 1;
        }
    }
}

/// `scores[h][t] = factor × query_h · key_t × scale_t` for `H` heads and the tokens of `P` pages from `first` on; also
/// asks for those pages' values.
#[inline(always)]
unsafe fn score<S: Simd, T: Stored<S>, const H: usize, const P: usize>(
    tile: &Tile,
    first: usize,
    dims: Dimensions,
    ahead: Ahead,
    query: Factors,
    factor: f32,
    scores: *mut f32,
) {
    const MOST_VECTORS: usize = 2;
    let vectors = const { PAGE_TOKENS / S::LANES };
    let pairs = dims.k_width / 2;
    // SAFETY: as in `body`.
    unsafe {
        let mut products = [[[S::splat(0.0); MOST_VECTORS]; P]; H];
        let mut pair = 0;
        while pair < pairs {
            if pair % Ahead::PAIRS == 0 {
                for p in 0..P {
                    ahead.ask::<S>(tile.values[first + p], pair / Ahead::PAIRS);
                }
            }
            for p in 0..P {
                for v in 0..vectors {
                    let two = T::keys(tile.keys[first + p], pair, v * S::LANES);
                    for h in 0..H {
                        let factors = T::factors(query.from, (query.first + h) * pairs + pair);
                        products[h][p][v] = T::fma(two, factors, products[h][p][v]);
                    }
                }
            }
            pair += 1;
        }
        for p in 0..P {
            for v in 0..vectors {
                let mut factor = S::splat(factor);
                if let Some(scale) = T::scale(tile.key_scales[first + p], v * S::LANES) {
                    factor = S::mul(factor, scale);
                }
                for h in 0..H {
                    let place = h * TILE_TOKENS + (first + p) * PAGE_TOKENS + v * S::LANES;
                    S::store(scores.add(place), S::mul(products[h][p][v], factor));
                }
            }
        }
    }
}

/// Multiplies one head's weights with the scales of the values and packs them.
#[inline(always)]
unsafe fn finish_weights<S: Simd, T: Stored<S>>(tile: &Tile, weights: *mut f32) {
    // SAFETY: as in `body`; a row of weights has room for the tile's whole pages.
    unsafe {
        let padded = tile.pages * PAGE_TOKENS;
        // `weigh` has filled whole vectors; a half page beyond them must weigh nothing either.
        let mut place = tile.tokens.next_multiple_of(S::LANES);
        while place < padded {
            S::store(weights.add(place), S::splat(0.0));
            place += S::LANES;
        }
        for page in 0..tile.pages {
            for token in (0..PAGE_TOKENS).step_by(S::LANES) {
                if let Some(scale) = T::scale(tile.value_scales[page], token) {
                    let to = weights.add(page * PAGE_TOKENS + token);
                    S::store(to, S::mul(S::load(to), scale));
                }
            }
        }
        T::pack(weights, padded);
    }
}

/// Adds a tile's weighted values for all heads of the group, in blocks of columns; also asks for the next tile's keys.
#[inline(always)]
unsafe fn sum_tile<S: Simd, T: Stored<S>>(
    tile: &Tile,
    dims: Dimensions,
    block: usize,
    weights: *const f32,
    summed: *mut f32,
) {
    let group = dims.group();
    let keys_ahead = Ahead::keys(dims, dims.v_width.div_ceil(2 * S::LANES) * group.div_ceil(block));
    let mut unit = 0;
    // SAFETY: as in `body`.
    unsafe {
        let mut column = 0;
        while column < dims.v_width {
            let columns = 2.min((dims.v_width - column) / S::LANES);
            let mut head = 0;
            while head < group {
                let rows = block.min(group - head);
                let summed = summed.add(head * dims.v_width + column);
                let weights = weights.add(head * TILE_TOKENS);
                let ahead = keys_ahead.part(unit);
                unit += 1;
                macro_rules! sum_block {
                    ($H:literal) => {
                        // Widths are multiples of 16, so only vectors of 16 lanes can be left over.
                        if const { S::LANES == 16 } && columns == 1 {
                            sum::<S, T, $H, 1>(tile, dims.v_width, column, ahead, weights, summed)
                        } else {
                            sum::<S, T, $H, 2>(tile, dims.v_width, column, ahead, weights, summed)
                        }
                    };
                }
                with_rows!(rows, S::PAIR_ROWS, sum_block);
                head += rows;
            }
            column += columns * S::LANES;
        }
    }
}

/// `summed[h] += Σ_t weights[h][t] × value_t` for `H` heads over `C` vectors of columns.
#[inline(always)]
unsafe fn sum<S: Simd, T: Stored<S>, const H: usize, const C: usize>(
    tile: &Tile,
    width: usize,
    column: usize,
    ahead: Ahead,
    weights: *const f32,
    summed: *mut f32,
) {
    const PAIRS: usize = PAGE_TOKENS / 2;
    // SAFETY: as in `body`.
    unsafe {
        let mut sums = [[S::splat(0.0); C]; H];
        for h in 0..H {
            for c in 0..C {
                sums[h][c] = S::load(summed.add(h * width + c * S::LANES));
            }
        }
        for page in 0..tile.pages {
            let tokens = PAGE_TOKENS.min(tile.tokens - page * PAGE_TOKENS);
            let values = tile.values[page];
            ahead.ask::<S>(tile.next_keys[page], 0);
            for pair in 0..tokens.div_ceil(2) {
                let mut twos = [T::values(values, width, pair, column); C];
                for c in 1..C {
                    twos[c] = T::values(values, width, pair, column + c * S::LANES);
                }
                for h in 0..H {
                    let factors = T::factors(weights.add(h * TILE_TOKENS), page * PAIRS + pair);
                    for c in 0..C {
                        sums[h][c] = T::fma(twos[c], factors, sums[h][c]);
                    }
                }
            }
        }
        for h in 0..H {
            for c in 0..C {
                S::store(summed.add(h * width + c * S::LANES), sums[h][c]);
            }
        }
    }
}

/// Where the query factors of a block of heads are.
#[derive(Clone, Copy)]
struct Factors {
    /// Those of all heads.
    from: *const f32,
    /// First head of the block.
    first: usize,
}
