//! Multiply-adds on data in the first-level cache: on values in registers, and on operands that are loaded and widened once
//! for each block of rows that uses them.
#![allow(
    unsafe_code,
    reason = "vector loads and stores go through pointers; buffers hold the most lanes and rows"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kvscope_sizing::cost::Operand;

use crate::bench::cpu::pool::Pool;
use crate::bench::cpu::rows::with_rows;
use crate::bench::cpu::simd::{InstructionSet, Simd, dispatch_pairs};
use crate::bench::worker_time::WorkerTime;

/// Steps of a block: with the most lanes, 8 KiB of f32, which stay in any first-level cache beside factors and sums.
const DEPTH: usize = 64;
const MOST_LANES: usize = 16;
const MOST_ROWS: usize = 8;
/// Places for `DEPTH` steps of two vectors of the widest operand.
const PANEL_VALUES: usize = DEPTH * 2 * MOST_LANES;

/// What is multiplied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Multiply {
    /// f32 values that stay in registers for a full block of rows: the ceiling.
    Peak,
    /// Operands that are loaded and widened, each value used by so many rows.
    Loaded(Operand, usize),
    /// f32 values that are loaded, changed and stored: a recurrence's state.
    State(Operand),
    /// Exponentials of f32 values, counted as one operation each.
    Exponential,
}

/// What one worker works on.
pub(super) struct Block {
    /// Read as f32, bf16, bytes or halves of bytes.
    panel: Vec<f32>,
    factors: Vec<f32>,
    products: Vec<f32>,
}

impl Block {
    pub(super) fn new() -> Self {
        let mut random = fastrand::Rng::with_seed(11);
        // Every byte is 0x3E or 0x3F with a random sign: near 0.18 as f32 and bf16, near 1.8 as e4m3, never denormal.
        let panel =
            (0..PANEL_VALUES).map(|_| f32::from_bits(0x3E3E_3E3E | random.u32(..) & 0x8181_8181)).collect();
        let mut values = |count| (0..count).map(|_| random.f32() - 0.5).collect();
        Self { panel, factors: values(DEPTH * MOST_ROWS * 2), products: values(MOST_ROWS * 2 * MOST_LANES) }
    }
}

/// Operations and seconds of one sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) operations: f64,
}

impl Sample {
    pub(super) fn rate(self) -> f64 {
        self.operations / self.seconds
    }
}

/// Repeats that fill `time`, from the fastest of a few short trials: a trial that was interrupted says nothing.
pub(super) fn repeats_for(
    pool: &Pool,
    set: InstructionSet,
    blocks: &[Mutex<Block>],
    what: Multiply,
    time: Duration,
) -> usize {
    const TRIAL: usize = 256;
    let trial = |_| once(pool, set, blocks, what, TRIAL, None).seconds;
    let fastest = (0..12).map(trial).fold(f64::INFINITY, f64::min);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
    let repeats = (time.as_secs_f64() / fastest.max(1e-7) * TRIAL as f64) as usize;
    repeats.clamp(1, 1 << 24)
}

/// One sample of all workers; `time` learns how much of its core each worker got.
pub(super) fn once(
    pool: &Pool,
    set: InstructionSet,
    blocks: &[Mutex<Block>],
    what: Multiply,
    repeats: usize,
    time: Option<&WorkerTime>,
) -> Sample {
    let operations = AtomicU64::new(0);
    let elapsed = pool.enter(|| {
        let started = Instant::now();
        pool.each(|worker| {
            let mut block = blocks[worker].lock().expect("no worker panics while it multiplies");
            let mut run = || {
                let part = Part { block: &mut block, what, repeats, operations: &operations };
                dispatch_pairs!(set, multiply, part, Part<'_>);
            };
            match time {
                Some(time) => time.measure(worker, run),
                None => run(),
            }
        });
        started.elapsed()
    });
    Sample { seconds: elapsed.as_secs_f64(), operations: operations.load(Ordering::Relaxed) as f64 }
}

struct Part<'a> {
    block: &'a mut Block,
    what: Multiply,
    repeats: usize,
    operations: &'a AtomicU64,
}

#[inline(always)]
unsafe fn multiply<S: Simd>(part: Part<'_>) {
    const { assert!(S::LANES <= MOST_LANES && S::BLOCK_ROWS <= MOST_ROWS) };
    let rows = match part.what {
        Multiply::Peak => S::BLOCK_ROWS,
        Multiply::Loaded(Operand::Bf16, rows) => rows.min(S::PAIR_ROWS),
        Multiply::Loaded(_, rows) => rows.min(S::BLOCK_ROWS),
        Multiply::State(_) | Multiply::Exponential => 1,
    };
    // A block of more rows than the registers hold goes over the operand again.
    let wanted = match part.what {
        Multiply::Loaded(_, wanted) => wanted,
        Multiply::Peak | Multiply::State(_) | Multiply::Exponential => rows,
    };
    let mut operations = 0;
    for _ in 0..part.repeats {
        let mut done = 0;
        while done < wanted {
            let here = rows.min(wanted - done);
            let block = &mut *part.block;
            macro_rules! of_rows {
                ($H:literal) => {
                    // SAFETY: the buffers hold the most lanes and rows.
                    unsafe { block_of::<S, $H>(block, part.what) }
                };
            }
            operations += with_rows!(here, S::BLOCK_ROWS, of_rows);
            done += here;
        }
        std::hint::black_box(&mut part.block.products);
    }
    part.operations.fetch_add(operations as u64, Ordering::Relaxed);
}

/// One block; returns its operations.
#[inline(always)]
unsafe fn block_of<S: Simd, const H: usize>(block: &mut Block, what: Multiply) -> usize {
    let factors = block.factors.as_ptr();
    let panel = block.panel.as_ptr();
    // SAFETY: the buffers hold the most lanes and rows.
    unsafe {
        match what {
            Multiply::State(operand) => return state::<S>(block, operand),
            Multiply::Loaded(Operand::Bf16, _) => return pairs::<S, H>(block),
            Multiply::Exponential => return exponentials::<S>(block),
            Multiply::Peak | Multiply::Loaded(..) => {}
        }
        let mut products = [[S::splat(0.0); 2]; H];
        for d in 0..DEPTH {
            let two: [S::F; 2] = match what {
                Multiply::Loaded(Operand::Fp8, _) => {
                    let from = panel.cast::<u8>().add(d * 2 * S::LANES);
                    [S::load_e4m3(from), S::load_e4m3(from.add(S::LANES))]
                }
                Multiply::Loaded(Operand::Fp4, _) => {
                    let from = panel.cast::<u8>().add(d * S::LANES);
                    [S::load_e2m1(from), S::load_e2m1(from.add(S::LANES / 2))]
                }
                _ => {
                    let from = panel.add(d * 2 * S::LANES);
                    [S::load(from), S::load(from.add(S::LANES))]
                }
            };
            for h in 0..H {
                let factor = S::splat(factors.add(d * H + h).read());
                products[h][0] = S::fma(two[0], factor, products[h][0]);
                products[h][1] = S::fma(two[1], factor, products[h][1]);
            }
        }
        store::<S, H>(block, products);
    }
    DEPTH * H * 2 * S::LANES * 2
}

/// Pairs of bf16, both products added in one lane.
#[inline(always)]
unsafe fn pairs<S: Simd, const H: usize>(block: &mut Block) -> usize {
    // SAFETY: the buffers hold the most lanes and rows.
    unsafe {
        let panel = block.panel.as_ptr().cast::<u16>();
        let mut products = [[S::splat(0.0); 2]; H];
        for d in 0..DEPTH {
            // Two vectors of pairs take as many bytes as two vectors of f32.
            let a = S::load_halves(panel.add(d * 4 * S::LANES));
            let b = S::load_halves(panel.add(d * 4 * S::LANES + 2 * S::LANES));
            for h in 0..H {
                let factors = S::pair(block.factors.as_ptr(), d * H + h);
                products[h][0] = S::fma_pair(a, factors, products[h][0]);
                products[h][1] = S::fma_pair(b, factors, products[h][1]);
            }
        }
        store::<S, H>(block, products);
    }
    DEPTH * H * 2 * S::LANES * 2 * 2
}

/// `x ← a x + b` and a sum of `c x`: two multiply-adds a value, one load and one store of it.
#[inline(always)]
unsafe fn state<S: Simd>(block: &mut Block, operand: Operand) -> usize {
    // SAFETY: the buffers hold the most lanes.
    unsafe {
        let panel = block.panel.as_mut_ptr();
        let (decay, add) = (S::splat(0.5), S::splat(0.25));
        let mut sum = S::splat(0.0);
        for d in 0..2 * DEPTH {
            let at = d * S::LANES;
            let value = if operand == Operand::Bf16 {
                let to = panel.cast::<u16>().add(at);
                let value = S::fma(S::load_bf16(to), decay, add);
                S::store_bf16(to, value);
                value
            } else {
                let to = panel.add(at);
                let value = S::fma(S::load(to), decay, add);
                S::store(to, value);
                value
            };
            sum = S::fma(value, add, sum);
        }
        S::store(block.products.as_mut_ptr(), sum);
    }
    2 * DEPTH * S::LANES * 4
}

/// The sum of the exponentials of the negated panel.
#[inline(always)]
unsafe fn exponentials<S: Simd>(block: &mut Block) -> usize {
    // SAFETY: the buffers hold the most lanes.
    unsafe {
        let minus = S::splat(-1.0);
        let mut sums = [S::splat(0.0); 4];
        for d in 0..2 * DEPTH {
            let value = S::load(block.panel.as_ptr().add(d * S::LANES));
            sums[d % 4] = S::add(sums[d % 4], S::exp2(S::mul(S::mul(value, value), minus)));
        }
        for (place, sum) in sums.into_iter().enumerate() {
            S::store(block.products.as_mut_ptr().add(place * S::LANES), sum);
        }
    }
    2 * DEPTH * S::LANES
}

#[inline(always)]
unsafe fn store<S: Simd, const H: usize>(block: &mut Block, products: [[S::F; 2]; H]) {
    for (h, pair) in products.into_iter().enumerate() {
        // SAFETY: the products hold the most lanes and rows.
        unsafe {
            S::store(block.products.as_mut_ptr().add(2 * h * S::LANES), pair[0]);
            S::store(block.products.as_mut_ptr().add((2 * h + 1) * S::LANES), pair[1]);
        }
    }
}
