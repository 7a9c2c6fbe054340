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

/// Calls `$call!(H)` with the constant that equals `$rows`, 1 to `$most` (8 at most); what is beyond `$most` is not
/// compiled.
macro_rules! with_rows {
    ($rows:expr, $most:expr, $call:ident) => {
        if const { $most > 4 } && $rows > 4 {
            if const { $most > 6 } && $rows > 6 {
                if $rows == 7 { $call!(7) } else { $call!(8) }
            } else if $rows == 5 {
                $call!(5)
            } else {
                $call!(6)
            }
        } else if const { $most > 2 } && $rows > 2 {
            if $rows == 3 { $call!(3) } else { $call!(4) }
        } else if $rows == 1 {
            $call!(1)
        } else {
            $call!(2)
        }
    };
}
pub(crate) use with_rows;

/// The same for blocks of at most `S::BLOCK_ROWS` rows.
macro_rules! with_block_rows {
    ($rows:expr, $call:ident) => {
        $crate::bench::cpu::rows::with_rows!($rows, S::BLOCK_ROWS, $call)
    };
}
pub(crate) use with_block_rows;
