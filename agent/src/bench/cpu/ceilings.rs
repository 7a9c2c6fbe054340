//! What bounds this machine, measured by code that is not the predicted kernels: reading memory, fused multiply-adds
//! on data in the first-level cache, and starting all workers.
#![allow(unsafe_code, reason = "vector loads go through pointers; lengths are checked on entry")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kvscope_sizing::prediction::{CeilingSpread, Ceilings};

use super::pool::{Pool, share};
use super::simd::{InstructionSet, Simd, dispatch};
use crate::bench::stats;

/// Time that the measurement may take, and what it must not exceed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    /// Fewer samples than this are not taken, even when the time is up.
    pub(crate) least_samples: usize,
}

/// Rows × depth of the multiply-add block: 6 KiB and 16 KiB, which stay in any first-level cache.
const DEPTH: usize = 256;
const MOST_LANES: usize = 16;
const MOST_ROWS: usize = 8;

/// Measures all three in turns, so that drift of the machine reaches them alike; medians and spreads.
pub(crate) fn measure(
    pool: &Pool,
    set: InstructionSet,
    buffer: &[u16],
    limits: Limits,
) -> (Ceilings, CeilingSpread) {
    let started = Instant::now();
    let (mut read, mut flops, mut launch) = (Vec::new(), Vec::new(), Vec::new());
    let blocks: Vec<Mutex<Block>> = (0..pool.workers()).map(|_| Mutex::new(Block::new())).collect();
    let repeats = repeats_for(pool, set, &blocks, MULTIPLY_SAMPLE);
    read_once(pool, set, buffer);

    while read.len() < limits.least_samples || started.elapsed() < limits.time {
        read.push((buffer.len() * 2) as f64 / read_once(pool, set, buffer));
        let (seconds, operations) = multiply_once(pool, set, &blocks, repeats);
        flops.push(operations / seconds);
        launch.push(launch_once(pool));
        if started.elapsed() > limits.time * 4 {
            break;
        }
    }
    let ceilings = Ceilings {
        read_bytes_per_second: stats::median(&read),
        flops_per_second: stats::median(&flops),
        launch_seconds: stats::median(&launch),
        ..Ceilings::default()
    };
    let spread = CeilingSpread {
        read: stats::relative_spread(&read),
        flops: stats::relative_spread(&flops),
        launch: stats::relative_spread(&launch),
        update: None,
    };
    (ceilings, spread)
}

/// How long one sample of multiply-adds is to take: several turns of the system's scheduler.
const MULTIPLY_SAMPLE: Duration = Duration::from_millis(10);

/// Repeats that fill `time`, from the fastest of a few short trials: a trial that was interrupted says nothing.
fn repeats_for(pool: &Pool, set: InstructionSet, blocks: &[Mutex<Block>], time: Duration) -> usize {
    const TRIAL: usize = 256;
    let fastest = (0..16).map(|_| multiply_once(pool, set, blocks, TRIAL).0).fold(f64::INFINITY, f64::min);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
    let repeats = (time.as_secs_f64() / fastest.max(1e-7) * TRIAL as f64) as usize;
    repeats.clamp(1, 1 << 24)
}

/// Reads the whole buffer with all workers; also how caches are emptied of other data.
pub(crate) fn read_once(pool: &Pool, set: InstructionSet, buffer: &[u16]) -> f64 {
    let sink = AtomicU64::new(0);
    let chunk = 2048;
    let chunks = buffer.len() / chunk;
    let started = pool.enter(|| {
        let started = Instant::now();
        pool.each(|worker| {
            let mine = share(chunks, worker, pool.workers());
            let part = ReadPart { values: &buffer[mine.start * chunk..mine.end * chunk], sink: &sink };
            dispatch!(set, read, part, ReadPart<'_>);
        });
        started.elapsed()
    });
    std::hint::black_box(sink.load(Ordering::Relaxed));
    started.as_secs_f64()
}

struct ReadPart<'a> {
    values: &'a [u16],
    sink: &'a AtomicU64,
}

#[inline(always)]
unsafe fn read<S: Simd>(part: ReadPart<'_>) {
    const VECTORS: usize = 4;
    let step = VECTORS * 2 * S::LANES;
    let mut at = 0;
    // SAFETY: loads stay below the slice's length; prefetches may be anywhere.
    unsafe {
        let zero = [0_u16; 2 * MOST_LANES];
        let mut sums = [S::load_halves(zero.as_ptr()); VECTORS];
        while at + step <= part.values.len() {
            let from = part.values.as_ptr().add(at);
            let mut line = 0;
            while line < step {
                S::prefetch(from.wrapping_add(READ_AHEAD + line));
                line += 32;
            }
            for (place, sum) in sums.iter_mut().enumerate() {
                *sum = S::add_bits(*sum, S::load_halves(from.add(place * 2 * S::LANES)));
            }
            at += step;
        }
        let mut folded = 0_u64;
        for sum in sums {
            folded = folded.wrapping_add(S::fold_bits(sum));
        }
        part.sink.fetch_add(folded, Ordering::Relaxed);
    }
}

/// Values (of two bytes) ahead of the load: 4 KiB.
const READ_AHEAD: usize = 2048;

struct Block {
    panel: Vec<f32>,
    factors: Vec<f32>,
    products: Vec<f32>,
}

impl Block {
    fn new() -> Self {
        let mut random = fastrand::Rng::with_seed(11);
        let mut values = |count| (0..count).map(|_| random.f32() - 0.5).collect();
        Self {
            panel: values(DEPTH * 2 * MOST_LANES),
            factors: values(DEPTH * MOST_ROWS),
            products: values(MOST_ROWS * 2 * MOST_LANES),
        }
    }
}

struct MultiplyPart<'a> {
    block: &'a mut Block,
    repeats: usize,
    operations: &'a AtomicU64,
}

/// Seconds, and the floating point operations done in them.
fn multiply_once(pool: &Pool, set: InstructionSet, blocks: &[Mutex<Block>], repeats: usize) -> (f64, f64) {
    let operations = AtomicU64::new(0);
    let elapsed = pool.enter(|| {
        let started = Instant::now();
        pool.each(|worker| {
            let mut block = blocks[worker].lock().expect("no worker panics while it multiplies");
            let part = MultiplyPart { block: &mut block, repeats, operations: &operations };
            dispatch!(set, multiply, part, MultiplyPart<'_>);
        });
        started.elapsed()
    });
    (elapsed.as_secs_f64(), operations.load(Ordering::Relaxed) as f64)
}

#[inline(always)]
unsafe fn multiply<S: Simd>(part: MultiplyPart<'_>) {
    const { assert!(S::LANES <= MOST_LANES && S::BLOCK_ROWS <= MOST_ROWS) };
    for _ in 0..part.repeats {
        let block = &mut *part.block;
        macro_rules! rows {
            ($H:literal) => {
                // SAFETY: the buffers hold the most lanes and rows.
                unsafe { multiply_block::<S, $H>(block) }
            };
        }
        match S::BLOCK_ROWS {
            2 => rows!(2),
            6 => rows!(6),
            _ => rows!(8),
        }
        std::hint::black_box(&mut part.block.products);
    }
    let operations = part.repeats * DEPTH * S::BLOCK_ROWS * 2 * S::LANES * 2;
    part.operations.fetch_add(operations as u64, Ordering::Relaxed);
}

#[inline(always)]
unsafe fn multiply_block<S: Simd, const H: usize>(block: &mut Block) {
    // SAFETY: the buffers hold the most lanes and rows.
    unsafe {
        let mut products = [[S::splat(0.0); 2]; H];
        for d in 0..DEPTH {
            let a = S::load(block.panel.as_ptr().add(d * 2 * S::LANES));
            let b = S::load(block.panel.as_ptr().add(d * 2 * S::LANES + S::LANES));
            for h in 0..H {
                let factor = S::splat(block.factors.as_ptr().add(d * H + h).read());
                products[h][0] = S::fma(a, factor, products[h][0]);
                products[h][1] = S::fma(b, factor, products[h][1]);
            }
        }
        for h in 0..H {
            S::store(block.products.as_mut_ptr().add(2 * h * S::LANES), products[h][0]);
            S::store(block.products.as_mut_ptr().add((2 * h + 1) * S::LANES), products[h][1]);
        }
    }
}

/// Mean seconds of one start of all workers with nothing to do, over as many as a decode step has layers.
fn launch_once(pool: &Pool) -> f64 {
    const STARTS: u32 = 64;
    let elapsed = pool.enter(|| {
        let started = Instant::now();
        for _ in 0..STARTS {
            pool.each(|worker| {
                std::hint::black_box(worker);
            });
        }
        started.elapsed()
    });
    elapsed.as_secs_f64() / f64::from(STARTS)
}
