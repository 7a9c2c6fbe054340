//! The indexer of sparse attention: one score for every key, and the best of them.
//!
//! `score_s = Σ_j w_j × max(0, q_j · k_s)` over the index heads j, which all share the keys (DeepSeek-V3.2, arXiv
//! 2512.02556); a query attends to the tokens (or compressed entries) of the `k` largest scores. Pages hold 64 keys with
//! the keys in lanes, `[dim][key]`, then their scales:
//!
//! | format | bytes of 128 values | scales |
//! | --- | --- | --- |
//! | fp8 | 132 | an f32 for every 128 values of a key, `[128 values][key]` |
//! | fp4 | 68 | a byte (e8m0) for every 32 values of a key, `[32 values][key]` |
//! | bf16 | 256 | none |
//!
//! A key is read once and takes `2 × heads × width` FLOPs: 124 FLOPs a byte for 64 heads over fp8. Multiply-adds bound it;
//! CPUs have none for fp8, so keys are widened to f32, once for all heads. The Hadamard rotation before quantisation
//! changes neither bytes nor scores and is left out.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

use super::numbers::{LARGEST_E2M1, LARGEST_E4M3, from_e8m0, to_bf16, to_e2m1, to_e4m3, to_e8m0_above};
use super::rows::with_block_rows;
use super::shared_rows::block_rows;
use super::simd::{E4M3_SHRINK, InstructionSet, Simd, dispatch};
use super::state::{Kind, Run};
use super::top_k::TopK;

/// Keys of a page.
pub(crate) const PAGE_KEYS: usize = 64;

/// How a key is stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KeyFormat {
    Fp8,
    Fp4,
    Bf16,
}

/// Heads and width.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Dimensions {
    pub(crate) heads: usize,
    /// Values of a key: a multiple of 128 for fp8, of 32 for fp4, of 16 for bf16.
    pub(crate) width: usize,
    pub(crate) format: KeyFormat,
}

impl Dimensions {
    /// Bytes of one page.
    pub(crate) fn page_bytes(&self) -> usize {
        PAGE_KEYS * (self.value_bytes() + self.scale_bytes())
    }

    /// Bytes of the values of one key.
    pub(crate) fn value_bytes(&self) -> usize {
        match self.format {
            KeyFormat::Fp8 => self.width,
            KeyFormat::Fp4 => self.width / 2,
            KeyFormat::Bf16 => 2 * self.width,
        }
    }

    /// Bytes of the scales of one key.
    pub(crate) fn scale_bytes(&self) -> usize {
        match self.format {
            KeyFormat::Fp8 => self.width / 128 * 4,
            KeyFormat::Fp4 => self.width / 32,
            KeyFormat::Bf16 => 0,
        }
    }

    /// What a page is filled with.
    pub(crate) fn page_runs(&self) -> Vec<Run> {
        let (values, scales) = match self.format {
            KeyFormat::Fp8 => (Kind::E4m3, Kind::F32Scale),
            KeyFormat::Fp4 => (Kind::E2m1, Kind::E8m0),
            KeyFormat::Bf16 => (Kind::Bf16, Kind::F32Scale),
        };
        let runs = [(self.value_bytes(), values), (self.scale_bytes(), scales)];
        let whole_page = |(bytes, kind)| Run { bytes: PAGE_KEYS * bytes, kind };
        runs.into_iter().filter(|(bytes, _)| *bytes > 0).map(whole_page).collect()
    }

    /// Whether the width is in whole blocks.
    pub(crate) fn is_whole(&self) -> bool {
        let block = match self.format {
            KeyFormat::Fp8 => 128,
            KeyFormat::Fp4 => 32,
            KeyFormat::Bf16 => 16,
        };
        self.width > 0 && self.width.is_multiple_of(block)
    }

    /// f32 places of scratch that [`offer`] needs.
    pub(crate) fn scratch(&self) -> usize {
        PAGE_KEYS * (self.width + 1)
    }
}

/// One request's part of one layer for one worker.
pub(crate) struct Span<'a> {
    pub(crate) dimensions: Dimensions,
    /// The layer's pages, one after the other.
    pub(crate) layer: &'a [u8],
    /// Physical pages in the order of the keys.
    pub(crate) pages: &'a [u32],
    /// Keys in those pages.
    pub(crate) keys: usize,
    /// Index of the first of them.
    pub(crate) first: u32,
    /// From [`pack_query`].
    pub(crate) query: &'a [f32],
    /// `[heads]`
    pub(crate) weights: &'a [f32],
    pub(crate) scratch: &'a mut [f32],
    pub(crate) best: &'a mut TopK,
}

/// Puts `[heads][width]` queries in the order in which [`offer`] reads them.
pub(crate) fn pack_query(set: InstructionSet, dims: Dimensions, query: &[f32]) -> Vec<f32> {
    let shared = super::shared_rows::Dimensions { heads: dims.heads, width: dims.width, value_width: 0 };
    super::shared_rows::pack_query(set, shared, query)
}

/// Scores the span's keys and offers them to its best.
pub(crate) fn offer(set: InstructionSet, span: Span<'_>) {
    let dims = span.dimensions;
    assert!(dims.is_whole() && span.keys > 0 && span.keys.div_ceil(PAGE_KEYS) == span.pages.len());
    let held = span.layer.len() / dims.page_bytes();
    assert!(span.pages.iter().all(|page| (*page as usize) < held));
    assert!(span.query.len() == dims.heads * dims.width && span.weights.len() == dims.heads);
    assert!(span.scratch.len() >= dims.scratch());
    dispatch!(set, body, span, Span<'_>);
}

/// Writes one new key at `place` of a page; scales are the smallest that keep every value of their block in range.
pub(crate) fn write_key(dims: Dimensions, page: &mut [u8], place: usize, key: &[f32]) {
    assert!(page.len() == dims.page_bytes() && key.len() == dims.width && place < PAGE_KEYS);
    let (values, scales) = page.split_at_mut(PAGE_KEYS * dims.value_bytes());
    let largest = |block: &[f32]| block.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    match dims.format {
        KeyFormat::Fp8 => {
            for (number, block) in key.chunks(128).enumerate() {
                let scale = (largest(block) / LARGEST_E4M3).max(f32::MIN_POSITIVE);
                let at = (number * PAGE_KEYS + place) * 4;
                scales[at..at + 4].copy_from_slice(&scale.to_le_bytes());
                for (d, value) in block.iter().enumerate() {
                    values[(number * 128 + d) * PAGE_KEYS + place] = to_e4m3(value / scale);
                }
            }
        }
        KeyFormat::Fp4 => {
            for (number, block) in key.chunks(32).enumerate() {
                let scale = to_e8m0_above(largest(block) / LARGEST_E2M1);
                scales[number * PAGE_KEYS + place] = scale;
                for (d, value) in block.iter().enumerate() {
                    let byte = &mut values[(number * 32 + d) * (PAGE_KEYS / 2) + place / 2];
                    let (shift, code) = (place % 2 * 4, to_e2m1(value / from_e8m0(scale)));
                    *byte = *byte & !(15 << shift) | code << shift;
                }
            }
        }
        KeyFormat::Bf16 => {
            for (d, value) in key.iter().enumerate() {
                let at = (d * PAGE_KEYS + place) * 2;
                values[at..at + 2].copy_from_slice(&to_bf16(*value));
            }
        }
    }
}

#[inline(always)]
unsafe fn body<S: Simd>(span: Span<'_>) {
    let dims = span.dimensions;
    let panel_keys = 2 * S::LANES;
    let rows = block_rows(dims.heads, S::BLOCK_ROWS);
    let (panel, scores) = span.scratch.split_at_mut(PAGE_KEYS * dims.width);
    let panel = panel.as_mut_ptr();

    for (place, page) in span.pages.iter().enumerate() {
        let count = PAGE_KEYS.min(span.keys - place * PAGE_KEYS);
        let page = &span.layer[*page as usize * dims.page_bytes()..][..dims.page_bytes()];
        let next = span.pages[(place + 1).min(span.pages.len() - 1)] as usize * dims.page_bytes();
        let panels = count.div_ceil(panel_keys);
        let bytes_a_panel = dims.page_bytes().div_ceil(panels);
        for part in 0..panels {
            // SAFETY: `offer` checked that pages lie in the layer and that the slices have their lengths.
            unsafe {
                let mut ahead = 0;
                while ahead < bytes_a_panel {
                    let at = next + part * bytes_a_panel + ahead;
                    S::prefetch(span.layer.as_ptr().wrapping_add(at).cast());
                    ahead += 64;
                }
                widen::<S>(dims, page, part * panel_keys, panel);
                let mut totals = [S::splat(0.0); 2];
                let mut head = 0;
                while head < dims.heads {
                    let block = rows.min(dims.heads - head);
                    let query = span.query.as_ptr().add(head * dims.width);
                    let weights = span.weights.as_ptr().add(head);
                    macro_rules! add_block {
                        ($H:literal) => {
                            add_heads::<S, $H>(panel, query, dims.width, weights, &mut totals)
                        };
                    }
                    with_block_rows!(block, add_block);
                    head += block;
                }
                let to = scores.as_mut_ptr().add(part * panel_keys);
                for (vector, total) in totals.iter().enumerate() {
                    S::store(to.add(vector * S::LANES), *total);
                }
            }
        }
        let first = u32::try_from(place * PAGE_KEYS).map_or(u32::MAX, |offset| span.first + offset);
        span.best.offer(first, &scores[..count]);
    }
}

/// Widens two vectors of keys, from `key` on, to `[width][2 × LANES]`, scales included.
#[inline(always)]
unsafe fn widen<S: Simd>(dims: Dimensions, page: &[u8], key: usize, panel: *mut f32) {
    let values = page.as_ptr();
    // SAFETY: the page is whole.
    unsafe {
        let scales = values.add(PAGE_KEYS * dims.value_bytes());
        let mut scale = [S::splat(1.0); 2];
        for d in 0..dims.width {
            for vector in 0..2 {
                let key = key + vector * S::LANES;
                let value = match dims.format {
                    KeyFormat::Fp8 => {
                        if d % 128 == 0 {
                            let at = scales.add((d / 128 * PAGE_KEYS + key) * 4);
                            scale[vector] = S::mul(S::load(at.cast()), S::splat(E4M3_SHRINK));
                        }
                        S::mul(S::load_e4m3(values.add(d * PAGE_KEYS + key)), scale[vector])
                    }
                    KeyFormat::Fp4 => {
                        if d % 32 == 0 {
                            let at = scales.add(d / 32 * PAGE_KEYS + key);
                            // The vectors hold twice the values.
                            scale[vector] = S::mul(S::load_e8m0(at), S::splat(0.5));
                        }
                        S::mul(S::load_e2m1(values.add(d * (PAGE_KEYS / 2) + key / 2)), scale[vector])
                    }
                    KeyFormat::Bf16 => S::load_bf16(values.add((d * PAGE_KEYS + key) * 2).cast()),
                };
                S::store(panel.add((2 * d + vector) * S::LANES), value);
            }
        }
    }
}

/// `totals += Σ_h weights[h] × max(0, query_h · keys)` for `H` heads.
#[inline(always)]
unsafe fn add_heads<S: Simd, const H: usize>(
    panel: *const f32,
    query: *const f32,
    width: usize,
    weights: *const f32,
    totals: &mut [S::F; 2],
) {
    // SAFETY: as in `body`.
    unsafe {
        let mut products = [[S::splat(0.0); 2]; H];
        for d in 0..width {
            let a = S::load(panel.add(d * 2 * S::LANES));
            let b = S::load(panel.add(d * 2 * S::LANES + S::LANES));
            for h in 0..H {
                let q = S::splat(query.add(d * H + h).read());
                products[h][0] = S::fma(a, q, products[h][0]);
                products[h][1] = S::fma(b, q, products[h][1]);
            }
        }
        let zero = S::splat(0.0);
        for h in 0..H {
            let weight = S::splat(weights.add(h).read());
            totals[0] = S::fma(S::max(products[h][0], zero), weight, totals[0]);
            totals[1] = S::fma(S::max(products[h][1], zero), weight, totals[1]);
        }
    }
}
