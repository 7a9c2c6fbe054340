//! Multiply-adds on values in registers, and on operands that are loaded and widened for the rows that use them: from the
//! first-level cache, or from main memory while the next ones are on their way.
#![allow(
    unsafe_code,
    reason = "vector loads and stores go through pointers; buffers hold the most lanes and rows"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kvscope_sizing::cost::Operand;

use crate::bench::cpu::pool::{Pool, share};
use crate::bench::cpu::rows::with_rows;
use crate::bench::cpu::simd::{InstructionSet, Simd, dispatch_pairs};
use crate::bench::worker_time::WorkerTime;

/// Steps of a block: with the most lanes, 8 KiB of f32, which stay in any first-level cache beside factors and sums.
const DEPTH: usize = 64;
const MOST_LANES: usize = 16;
const MOST_ROWS: usize = 8;
/// Places for `DEPTH` steps of two vectors of the widest operand.
const PANEL_VALUES: usize = DEPTH * 2 * MOST_LANES;
/// From so many rows on, narrow operands are widened to f32 once for all of them, as many heads over shared records are.
const WIDENED_ROWS: usize = 32;
/// Bytes between a panel and what is asked for meanwhile, where operands come from memory: a panel of bf16 pairs at least.
const AHEAD_BYTES: usize = 8192;
const LINE_BYTES: usize = 64;

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
    /// The panel's values as f32.
    widened: Vec<f32>,
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
        Self {
            panel,
            widened: values(PANEL_VALUES * 2),
            factors: values(DEPTH * MOST_ROWS * 2),
            products: values(MOST_ROWS * 2 * MOST_LANES),
        }
    }
}

/// Where operands come from.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// A panel in the first-level cache, so many times.
    Cache { repeats: usize },
    /// This buffer, each worker's share of it once. Any bits that are no NaN in f32, bf16 and e4m3.
    Memory(&'a [f32]),
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
    let trial = |_| once(pool, set, blocks, what, Origin::Cache { repeats: TRIAL }, None).seconds;
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
    from: Origin<'_>,
    time: Option<&WorkerTime>,
) -> Sample {
    let operations = AtomicU64::new(0);
    let elapsed = pool.enter(|| {
        let started = Instant::now();
        pool.each(|worker| {
            let mut block = blocks[worker].lock().expect("no worker panics while it multiplies");
            let from = match from {
                Origin::Memory(buffer) => {
                    Origin::Memory(&buffer[share(buffer.len(), worker, pool.workers())])
                }
                cached @ Origin::Cache { .. } => cached,
            };
            let mut run = || {
                let part = Part { block: &mut block, what, from, operations: &operations };
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
    from: Origin<'a>,
    operations: &'a AtomicU64,
}

#[inline(always)]
unsafe fn multiply<S: Simd>(part: Part<'_>) {
    const { assert!(S::LANES <= MOST_LANES && S::BLOCK_ROWS <= MOST_ROWS) };
    let Part { block, what, from, operations } = part;
    let mut done = 0;
    // SAFETY: the block's panel holds a panel, and what is left of the buffer holds one where it is used.
    unsafe {
        match from {
            Origin::Cache { repeats } => {
                for _ in 0..repeats {
                    let from = block.panel.as_mut_ptr();
                    done += panel::<S, 0>(block, from, what);
                    std::hint::black_box(&mut block.products);
                }
            }
            Origin::Memory(values) => {
                let values = &values[..values.len() - values.len() % PANEL_VALUES];
                // A panel is a whole number of f32, whatever it is read as.
                let step = panel_bytes::<S>(what) / 4;
                for at in (0..values.len()).step_by(step) {
                    done += panel::<S, AHEAD_BYTES>(block, values.as_ptr().add(at).cast_mut(), what);
                }
                std::hint::black_box(&mut block.products);
            }
        }
    }
    operations.fetch_add(done as u64, Ordering::Relaxed);
}

/// Bytes that one panel of the operand takes: a power of two.
fn panel_bytes<S: Simd>(what: Multiply) -> usize {
    let values = DEPTH * 2 * S::LANES;
    match what {
        Multiply::Loaded(Operand::Fp8, _) => values,
        Multiply::Loaded(Operand::Fp4, _) => values / 2,
        // Two vectors of pairs take as many bytes as two vectors of f32.
        _ => values * 4,
    }
}

/// One panel with all its rows; returns the operations. Only states are written.
#[inline(always)]
unsafe fn panel<S: Simd, const AHEAD: usize>(block: &mut Block, from: *mut f32, what: Multiply) -> usize {
    // SAFETY: the caller's panel; the block's buffers hold the most lanes and rows.
    unsafe {
        let (operand, wanted) = match what {
            Multiply::State(operand) => return state::<S>(block, from, operand),
            Multiply::Exponential => return exponentials::<S>(block),
            Multiply::Peak => (Operand::F32, S::BLOCK_ROWS),
            Multiply::Loaded(operand, rows) => (operand, rows),
        };
        let ahead = Ahead {
            first: from.cast::<u8>().wrapping_add(AHEAD),
            lines: panel_bytes::<S>(what) / LINE_BYTES,
        };
        if wanted >= WIDENED_ROWS && operand != Operand::F32 {
            let parts = widen::<S, AHEAD>(block, from, operand, ahead);
            let widened = block.widened.as_ptr();
            return (0..parts)
                .map(|part| {
                    rows::<S, 0>(block, widened.add(part * DEPTH * 2 * S::LANES), Operand::F32, wanted, ahead)
                })
                .sum();
        }
        rows::<S, AHEAD>(block, from, operand, wanted, ahead)
    }
}

/// All rows over one panel, in blocks as equal as they can be: a block of more rows than the registers hold goes over the
/// operand again.
#[inline(always)]
unsafe fn rows<S: Simd, const AHEAD: usize>(
    block: &mut Block,
    from: *const f32,
    operand: Operand,
    wanted: usize,
    ahead: Ahead,
) -> usize {
    let most = if operand == Operand::Bf16 { S::PAIR_ROWS } else { S::BLOCK_ROWS };
    let blocks = wanted.div_ceil(most);
    let each = wanted.div_ceil(blocks);
    let (mut done, mut operations) = (0, 0);
    while done < wanted {
        let here = each.min(wanted - done);
        // What comes next is asked for evenly, whichever block is worked on.
        let ahead = ahead.share(done / each, blocks);
        macro_rules! of_rows {
            ($H:literal) => {
                // SAFETY: the caller's panel.
                unsafe { block_of::<S, $H, AHEAD>(block, from, operand, ahead) }
            };
        }
        operations += with_rows!(here, S::BLOCK_ROWS, of_rows);
        done += here;
    }
    operations
}

/// Lines of what comes later that a block asks for, evenly over its steps.
#[derive(Clone, Copy)]
struct Ahead {
    first: *const u8,
    lines: usize,
}

impl Ahead {
    fn share(self, block: usize, blocks: usize) -> Self {
        let lines = share(self.lines, block, blocks);
        Self { first: self.first.wrapping_add(lines.start * LINE_BYTES), lines: lines.len() }
    }

    /// Asks for the lines of one step; for nothing where `AHEAD` is 0.
    #[inline(always)]
    unsafe fn ask<S: Simd, const AHEAD: usize>(self, step: usize) {
        if const { AHEAD > 0 } {
            for line in step * self.lines / DEPTH..(step + 1) * self.lines / DEPTH {
                // SAFETY: any address may be asked for.
                unsafe { S::prefetch(self.first.wrapping_add(line * LINE_BYTES).cast()) }
            }
        }
    }
}

/// One block; returns its operations.
#[inline(always)]
unsafe fn block_of<S: Simd, const H: usize, const AHEAD: usize>(
    block: &mut Block,
    from: *const f32,
    operand: Operand,
    ahead: Ahead,
) -> usize {
    if operand == Operand::Bf16 {
        // SAFETY: the caller's panel.
        return unsafe { pairs::<S, H, AHEAD>(block, from.cast(), ahead) };
    }
    let factors = block.factors.as_ptr();
    // SAFETY: the caller's panel; the block's buffers hold the most lanes and rows.
    unsafe {
        let mut products = [[S::splat(0.0); 2]; H];
        for d in 0..DEPTH {
            ahead.ask::<S, AHEAD>(d);
            let two = two_vectors::<S>(from, operand, d);
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

/// The two vectors of step `d` as f32; the operand is not bf16.
#[inline(always)]
unsafe fn two_vectors<S: Simd>(panel: *const f32, operand: Operand, d: usize) -> [S::F; 2] {
    // SAFETY: the caller's panel.
    unsafe {
        match operand {
            Operand::Fp8 => {
                let from = panel.cast::<u8>().add(d * 2 * S::LANES);
                [S::load_e4m3(from), S::load_e4m3(from.add(S::LANES))]
            }
            Operand::Fp4 => {
                let from = panel.cast::<u8>().add(d * S::LANES);
                [S::load_e2m1(from), S::load_e2m1(from.add(S::LANES / 2))]
            }
            Operand::F32 | Operand::Bf16 => {
                let from = panel.add(d * 2 * S::LANES);
                [S::load(from), S::load(from.add(S::LANES))]
            }
        }
    }
}

/// Widens a panel to f32; returns how many panels of f32 that are.
#[inline(always)]
unsafe fn widen<S: Simd, const AHEAD: usize>(
    block: &mut Block,
    from: *const f32,
    operand: Operand,
    ahead: Ahead,
) -> usize {
    let to = block.widened.as_mut_ptr();
    // SAFETY: the caller's panel; `widened` holds twice the most lanes.
    unsafe {
        for d in 0..DEPTH {
            ahead.ask::<S, AHEAD>(d);
            if operand == Operand::Bf16 {
                let from = from.cast::<u16>().add(d * 4 * S::LANES);
                for vector in 0..4 {
                    let place = to.add((4 * d + vector) * S::LANES);
                    S::store(place, S::load_bf16(from.add(vector * S::LANES)));
                }
            } else {
                for (vector, value) in two_vectors::<S>(from, operand, d).into_iter().enumerate() {
                    S::store(to.add((2 * d + vector) * S::LANES), value);
                }
            }
        }
    }
    if operand == Operand::Bf16 { 2 } else { 1 }
}

/// Pairs of bf16, both products added in one lane.
#[inline(always)]
unsafe fn pairs<S: Simd, const H: usize, const AHEAD: usize>(
    block: &mut Block,
    panel: *const u16,
    ahead: Ahead,
) -> usize {
    // SAFETY: the caller's panel; the block's buffers hold the most lanes and rows.
    unsafe {
        let mut products = [[S::splat(0.0); 2]; H];
        for d in 0..DEPTH {
            // Two vectors of pairs take as many bytes as two vectors of f32.
            let a = S::load_halves(panel.add(d * 4 * S::LANES));
            let b = S::load_halves(panel.add(d * 4 * S::LANES + 2 * S::LANES));
            ahead.ask::<S, AHEAD>(d);
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
unsafe fn state<S: Simd>(block: &mut Block, panel: *mut f32, operand: Operand) -> usize {
    // SAFETY: the caller's panel; the products hold the most lanes.
    unsafe {
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
