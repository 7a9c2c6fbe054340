//! Reading, writing, copying and changing memory, and reading working sets that caches may hold.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::bench::cpu::pool::{Pool, share};
use crate::bench::cpu::simd::{InstructionSet, Simd, dispatch};

/// Values of a unit that is not divided between workers: a page of memory.
const UNIT: usize = 2048;
/// The most f32 lanes of any instruction set.
const MOST_LANES: usize = 16;
/// Values (of two bytes) ahead of the load: 4 KiB.
const READ_AHEAD: usize = 2048;

/// Which workers take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Cores {
    /// Every one.
    All,
    /// One, on the first core.
    First,
}

impl Cores {
    fn part(self, units: usize, worker: usize, workers: usize) -> std::ops::Range<usize> {
        match self {
            Self::All => share(units, worker, workers),
            Self::First if worker == 0 => 0..units / workers,
            Self::First => 0..0,
        }
    }
}

/// What is done to memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pass {
    /// The system's own `memset`.
    Write,
    /// The system's own `memcpy`, from the first half of a worker's part to the second.
    Copy,
    /// Every value read, changed and written back.
    Update,
}

/// Bytes per second that the workers read of the whole buffer.
pub(super) fn read(pool: &Pool, set: InstructionSet, buffer: &[u16], cores: Cores) -> f64 {
    passes(pool, set, buffer, cores, 1)
}

/// Bytes per second that all workers read of the first `bytes` of the buffer, each its part of it again and again for about
/// `time`.
pub(super) fn read_again(
    pool: &Pool,
    set: InstructionSet,
    buffer: &[u16],
    bytes: usize,
    time: Duration,
) -> f64 {
    let buffer = &buffer[..(bytes / 2).min(buffer.len())];
    // The first pass fills the cache and says how many more there is time for.
    let once = buffer.len() as f64 * 2.0 / passes(pool, set, buffer, Cores::All, 1);
    let wanted = time.as_secs_f64() / once.max(1e-7);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped and positive")]
    let repeats = wanted.clamp(2.0, 1e6) as usize;
    passes(pool, set, buffer, Cores::All, repeats)
}

fn passes(pool: &Pool, set: InstructionSet, buffer: &[u16], cores: Cores, repeats: usize) -> f64 {
    let sink = AtomicU64::new(0);
    let read = AtomicU64::new(0);
    let units = buffer.len() / UNIT;
    let elapsed = pool.enter(|| {
        let started = Instant::now();
        pool.each(|worker| {
            let mine = cores.part(units, worker, pool.workers());
            let values = &buffer[mine.start * UNIT..mine.end * UNIT];
            for _ in 0..repeats {
                let part = ReadPart { values, sink: &sink };
                dispatch!(set, read_body, part, ReadPart<'_>);
            }
            read.fetch_add((values.len() * 2 * repeats) as u64, Ordering::Relaxed);
        });
        started.elapsed()
    });
    std::hint::black_box(sink.load(Ordering::Relaxed));
    read.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64()
}

/// Bytes per second of a pass over the buffer; of copies and changes, what is read and what is written are added.
pub(super) fn change(pool: &Pool, set: InstructionSet, buffer: &mut [u16], pass: Pass, cores: Cores) -> f64 {
    let units = buffer.len() / UNIT;
    let mut rest = buffer;
    let mut parts = Vec::with_capacity(pool.workers());
    for worker in 0..pool.workers() {
        let count = cores.part(units, worker, pool.workers()).len() * UNIT;
        let (mine, others) = rest.split_at_mut(count);
        parts.push(Mutex::new(mine));
        rest = others;
    }
    let moved = AtomicU64::new(0);
    let elapsed = pool.enter(|| {
        let started = Instant::now();
        pool.each(|worker| {
            let mut part = parts[worker].lock().expect("no worker panics while it writes");
            if part.is_empty() {
                return;
            }
            let bytes = part.len() * 2;
            let bytes = match pass {
                Pass::Write => {
                    part.fill(0x3F3F);
                    bytes
                }
                Pass::Copy => {
                    let half = part.len() / 2;
                    let (from, to) = part.split_at_mut(half);
                    to[..half].copy_from_slice(from);
                    bytes
                }
                Pass::Update => {
                    let values: &mut [f32] = bytemuck::cast_slice_mut(&mut part);
                    dispatch!(set, update_body, values, &mut [f32]);
                    bytes * 2
                }
            };
            std::hint::black_box(&mut **part);
            moved.fetch_add(bytes as u64, Ordering::Relaxed);
        });
        started.elapsed()
    });
    moved.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64()
}

struct ReadPart<'a> {
    values: &'a [u16],
    sink: &'a AtomicU64,
}

#[inline(always)]
unsafe fn read_body<S: Simd>(part: ReadPart<'_>) {
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

/// `x ← 0.5 x + 0.25`, which keeps every value finite however often it runs.
#[inline(always)]
unsafe fn update_body<S: Simd>(values: &mut [f32]) {
    const VECTORS: usize = 4;
    let step = VECTORS * S::LANES;
    let mut at = 0;
    // SAFETY: loads and stores stay below the slice's length; prefetches may be anywhere.
    unsafe {
        let (half, quarter) = (S::splat(0.5), S::splat(0.25));
        while at + step <= values.len() {
            let here = values.as_mut_ptr().add(at);
            let mut line = 0;
            while line < step {
                S::prefetch(here.wrapping_add(READ_AHEAD / 2 + line).cast::<u16>());
                line += 16;
            }
            for place in 0..VECTORS {
                let to = here.add(place * S::LANES);
                S::store(to, S::fma(S::load(to), half, quarter));
            }
            at += step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value of every worker's part is changed once by each pass, in every instruction set.
    #[test]
    fn each_pass_does_what_its_name_says() {
        let pool = Pool::for_all_cores().unwrap();
        for set in InstructionSet::available() {
            let mut values: Vec<u16> = bytemuck::cast_slice(&vec![1.0_f32; 8 * UNIT]).to_vec();
            assert!(change(&pool, set, &mut values, Pass::Update, Cores::All) > 0.0);
            let changed: &[f32] = bytemuck::cast_slice(&values);
            assert!(changed.iter().all(|value| (value - 0.75).abs() < 1e-6), "{set:?}");

            change(&pool, set, &mut values, Pass::Write, Cores::First);
            let written = values.iter().take_while(|value| **value == 0x3F3F).count();
            assert_eq!(written, values.len() / UNIT / pool.workers() * UNIT, "one worker's part");
            change(&pool, set, &mut values, Pass::Write, Cores::All);
            assert!(values.iter().all(|value| *value == 0x3F3F));
        }
    }

    /// The sum over all bits depends on every value, so a pass that leaves one out gives another.
    #[test]
    fn reading_reads_every_value() {
        for set in InstructionSet::available() {
            let sum = |values: &[u16]| {
                let sink = AtomicU64::new(0);
                let part = ReadPart { values, sink: &sink };
                dispatch!(set, read_body, part, ReadPart<'_>);
                sink.into_inner()
            };
            let values = vec![1_u16; 2 * UNIT];
            let whole = sum(&values);
            for place in [0, 1, 31, 777, 2 * UNIT - 1] {
                let mut other = values.clone();
                other[place] = 2;
                assert_ne!(sum(&other), whole, "{set:?}: value {place}");
            }
        }
    }
}
