//! The parts that all decode kernels share: online softmax and the sum of weighted rows.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; callers state the lengths")]

use super::simd::Simd;

/// Tokens that are scored before their values are summed; scores of one head are this far apart.
pub(crate) const TILE_TOKENS: usize = 64;

/// One head's running maximum (base 2) and sum of weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) maximum: f32,
    pub(crate) total: f32,
}

impl Running {
    pub(crate) const EMPTY: Self = Self { maximum: f32::NEG_INFINITY, total: 0.0 };
}

/// Turns `count` base-2 scores of one head into weights, and rescales what was summed before under a smaller maximum.
///
/// # Safety
/// `scores` has [`TILE_TOKENS`] places, 1 ≤ `count` ≤ [`TILE_TOKENS`]; `summed` has `width` values, a multiple of the lanes.
#[inline(always)]
pub(crate) unsafe fn weigh<S: Simd>(
    scores: *mut f32,
    count: usize,
    running: &mut Running,
    summed: *mut f32,
    width: usize,
) {
    // SAFETY: the caller's lengths; TILE_TOKENS is a multiple of every lane count.
    unsafe {
        let padded = count.next_multiple_of(S::LANES);
        for place in count..padded {
            scores.add(place).write(f32::NEG_INFINITY);
        }
        let mut highest = S::load(scores);
        let mut place = S::LANES;
        while place < padded {
            highest = S::max(highest, S::load(scores.add(place)));
            place += S::LANES;
        }
        let largest = S::largest(highest);
        if largest > running.maximum {
            let shrink = (running.maximum - largest).exp2();
            running.maximum = largest;
            running.total *= shrink;
            let factor = S::splat(shrink);
            let mut d = 0;
            while d < width {
                S::store(summed.add(d), S::mul(S::load(summed.add(d)), factor));
                d += S::LANES;
            }
        }
        let maximum = S::splat(running.maximum);
        let mut total = S::splat(0.0);
        place = 0;
        while place < padded {
            let weight = S::exp2(S::sub(S::load(scores.add(place)), maximum));
            S::store(scores.add(place), weight);
            total = S::add(total, weight);
            place += S::LANES;
        }
        running.total += S::sum(total);
    }
}

/// Rows of bf16 values, in pieces of equally many rows (the last may have fewer).
pub(crate) struct Rows<'a> {
    /// First value of each piece.
    pub(crate) pieces: &'a [*const u16],
    /// Rows in a piece.
    pub(crate) per_piece: usize,
    /// Values from one row to the next.
    pub(crate) stride: usize,
    /// Rows in all.
    pub(crate) count: usize,
}

/// `summed[h] += Σ_t weights[h][t] × row_t` over columns `d .. d + 2 × LANES`, for `H` heads; `summed` keeps each block
/// of `2 × LANES` columns as its even, then its odd columns. `AHEAD` also asks for the same columns of `ahead`.
///
/// # Safety
/// Every row has the columns; `weights` has `H` rows of [`TILE_TOKENS`]; `summed` has `H` rows of `summed_stride`.
#[inline(always)]
pub(crate) unsafe fn add_weighted<S: Simd, const H: usize, const AHEAD: bool>(
    rows: &Rows<'_>,
    ahead: &Rows<'_>,
    d: usize,
    weights: *const f32,
    summed: *mut f32,
    summed_stride: usize,
) {
    // SAFETY: the caller's lengths.
    unsafe {
        let mut even = [S::splat(0.0); H];
        let mut odd = even;
        for h in 0..H {
            even[h] = S::load(summed.add(h * summed_stride + d));
            odd[h] = S::load(summed.add(h * summed_stride + d + S::LANES));
        }
        let mut first = 0;
        for piece in 0..rows.pieces.len() {
            let here = rows.per_piece.min(rows.count - first);
            let mut row = rows.pieces[piece].add(d);
            let mut next =
                if AHEAD && piece < ahead.pieces.len() { ahead.pieces[piece].wrapping_add(d) } else { row };
            for t in 0..here {
                if AHEAD {
                    S::prefetch(next);
                    next = next.wrapping_add(ahead.stride);
                }
                let raw = S::load_halves(row);
                let (a, b) = (S::even(raw), S::odd(raw));
                for h in 0..H {
                    let weight = S::splat(weights.add(h * TILE_TOKENS + first + t).read());
                    even[h] = S::fma(a, weight, even[h]);
                    odd[h] = S::fma(b, weight, odd[h]);
                }
                row = row.add(rows.stride);
            }
            first += here;
        }
        for h in 0..H {
            S::store(summed.add(h * summed_stride + d), even[h]);
            S::store(summed.add(h * summed_stride + d + S::LANES), odd[h]);
        }
    }
}

/// Calls `$call!(H)` with the constant that equals `$rows`, 1 to 8.
macro_rules! with_block_rows {
    ($rows:expr, $call:ident) => {
        match $rows {
            1 => $call!(1),
            2 => $call!(2),
            3 => $call!(3),
            4 => $call!(4),
            5 => $call!(5),
            6 => $call!(6),
            7 => $call!(7),
            _ => $call!(8),
        }
    };
}
pub(crate) use with_block_rows;
