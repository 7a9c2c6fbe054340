//! What bounds the device, measured by the kernels of `ceilings.cu`: memory, tensor cores, registers, starting a kernel.
//!
//! All are measured in turns, so that drift reaches them alike; figures are medians over the turns.

mod clock;
mod turns;

use std::rc::Rc;
use std::time::{Duration, Instant};

use kvscope_sizing::Bytes;
use kvscope_sizing::prediction::Calibration;

use self::turns::Turns;
use super::numbers::{Random, bytes_of};
use super::pages::filled;
use crate::bench::backend::Probe;
use crate::bench::cpu::{Kind, Run};
use crate::bench::{BenchError, Interrupt, stats};
use crate::gpu::{Arguments, Gpu, GpuError, Graph, Kernel, Memory, Stopwatch};

pub(super) use clock::ClockWatch;

/// Read for the read ceiling and to empty caches: ten times the second-level cache, at least so much, where memory allows.
const LEAST_BUFFER: u64 = 1 << 30;
const BUFFER_CACHES: u64 = 10;
const THREADS: u32 = 256;
const WARPS: u64 = 8;
/// Products and sums of a round of one warp: eight tiles of 16 × 8 × 16.
const ROUND_FLOPS: u64 = 8 * 16 * 8 * 16 * 2;
/// Of a round of one thread: eight multiply-adds.
const ROUND_FMA: u64 = 16;
const ROUND_EXPONENTIALS: u64 = 8;
/// A sample of what runs in registers takes at least so long.
const LEAST_SAMPLE: Duration = Duration::from_micros(500);
/// Passes over the buffer in one sample: between the first moment and the first kernel some microseconds pass.
const PASSES: u64 = 3;
const MOST_ROUNDS: usize = 1 << 22;
/// Empty kernels of the graph that shows what starting one costs.
const STARTS: usize = 100;
/// Fewer turns than this are not taken, even when the time is up; where a turn takes longer than was meant, one is enough.
const LEAST_TURNS: usize = 5;

/// Kernels and memory of all ceilings.
pub(super) struct Bench {
    gpu: Rc<Gpu>,
    watch: Stopwatch,
    buffer: Memory,
    seen: Memory,
    operands: Memory,
    sums: Memory,
    read: Kernel,
    copy: Kernel,
    update: Kernel,
    multiply: Kernel,
    fma: Kernel,
    exp2: Kernel,
    starts: Graph,
    rounds: Rounds,
}

/// Rounds of a sample.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    multiply: usize,
    fma: usize,
    exp2: usize,
}

impl Bench {
    pub(super) fn new(gpu: &Rc<Gpu>) -> Result<Self, BenchError> {
        let cache = gpu.device().second_level_cache.get();
        let bytes = (BUFFER_CACHES * cache).max(LEAST_BUFFER).min(gpu.free_bytes()? / 4) / 4096 * 4096;
        let buffer = filled(gpu, bytes.max(4096), 4096, &[Run { bytes: 4096, kind: Kind::Bf16 }], 3)?;
        let kernel = |name: &str| gpu.kernel("ceilings", name, THREADS);
        let [read, multiply] = [kernel("ceiling_read")?, kernel("ceiling_multiply")?];
        let most = [&read, &multiply].map(Kernel::blocks_at_once).into_iter().max().unwrap_or(1);
        // All threads of the largest grid have a place for a sum.
        let threads = u64::from(gpu.device().multiprocessors * most.max(8) * THREADS);
        let nothing = gpu.kernel("ceilings", "ceiling_nothing", 32)?;
        let starts = gpu.record(|| {
            (0..STARTS).try_for_each(|_| gpu.launch(&nothing, [1, 1, 1], &Arguments::new().long(0)))
        })?;
        let mut bench = Self {
            watch: Stopwatch::new(gpu)?,
            buffer,
            seen: Memory::new(gpu, 4)?,
            operands: Memory::of(gpu, &Random::new(5).bf16(6 * 32 * 2))?,
            sums: Memory::new(gpu, threads * 4)?,
            read,
            copy: kernel("ceiling_copy")?,
            update: kernel("ceiling_update")?,
            multiply,
            fma: kernel("ceiling_fma")?,
            exp2: kernel("ceiling_exp2")?,
            starts,
            rounds: Rounds { multiply: 4, fma: 64, exp2: 64 },
            gpu: Rc::clone(gpu),
        };
        bench.rounds = Rounds {
            multiply: bench.rounds_for(bench.rounds.multiply, &|rounds| bench.multiply(rounds))?,
            fma: bench.rounds_for(bench.rounds.fma, &|rounds| bench.in_registers(&bench.fma, rounds))?,
            exp2: bench.rounds_for(bench.rounds.exp2, &|rounds| bench.in_registers(&bench.exp2, rounds))?,
        };
        Ok(bench)
    }

    pub(super) fn buffer_bytes(&self) -> u64 {
        self.buffer.bytes()
    }

    /// Measures everything in about `time`.
    pub(super) fn calibrate(
        &self,
        time: Duration,
        interrupt: Interrupt<'_>,
        cache: Bytes,
        workers: u32,
    ) -> Result<Calibration, BenchError> {
        let started = Instant::now();
        let sets = working_sets(cache.get(), self.buffer.bytes());
        let mut turns = Turns::new(sets.len());
        // The first turn warms up: clocks rise, and code comes to the device.
        for turn in 0.. {
            interrupt.check()?;
            let begun = Instant::now();
            let taken = self.turn(&sets)?;
            if turn > 0 || started.elapsed() > time {
                turns.add(taken);
            }
            let is_full = turns.taken() >= LEAST_TURNS && started.elapsed() + begun.elapsed() > time;
            let is_late = started.elapsed() > time * 2 && turns.taken() > 0;
            if is_full || is_late {
                break;
            }
        }
        Ok(turns.calibration(&sets, cache, workers))
    }

    /// Two ceilings in a fraction of a second.
    pub(super) fn probe(&self) -> Result<Probe, BenchError> {
        const SAMPLES: usize = 4;
        self.read_rate(self.buffer.bytes())?;
        let (mut reads, mut peaks) = (Vec::new(), Vec::new());
        for _ in 0..SAMPLES {
            reads.push(self.read_rate(self.buffer.bytes())?);
            peaks.push(self.fma_rate()?);
        }
        Ok(Probe { read_bytes_per_second: stats::median(&reads), flops_per_second: stats::median(&peaks) })
    }

    /// Reads the whole buffer: how caches are emptied of other data.
    pub(super) fn read_once(&self) -> Result<(), GpuError> {
        self.start_read(self.buffer.bytes())?;
        self.gpu.wait()
    }

    fn turn(&self, sets: &[u64]) -> Result<Turns, GpuError> {
        let mut turn = Turns::new(sets.len());
        let bytes = self.buffer.bytes();
        turn.read.push(self.read_rate(bytes)?);
        let half = bytes / 2;
        let copied = self.passes(&|| self.start_copy(half))?;
        turn.copy.push(rate(PASSES * 2 * half, copied));
        let updated = self.passes(&|| self.start_update())?;
        turn.update.push(rate(PASSES * 2 * bytes, updated));
        let multiplied = self.watch.time(|| self.multiply(self.rounds.multiply))?;
        let warps = self.blocks(&self.multiply) as u64 * WARPS;
        turn.matrix.push(rate(warps * self.rounds.multiply as u64 * ROUND_FLOPS, multiplied));
        turn.fma.push(self.fma_rate()?);
        let raised = self.watch.time(|| self.in_registers(&self.exp2, self.rounds.exp2))?;
        let threads = self.blocks(&self.exp2) as u64 * u64::from(THREADS);
        turn.exponentials.push(rate(threads * self.rounds.exp2 as u64 * ROUND_EXPONENTIALS, raised));
        let launched = self.watch.time(|| self.starts.start())?;
        turn.launch.push(launched.as_secs_f64() / STARTS as f64);
        for (place, set) in sets.iter().enumerate() {
            turn.sets[place].push(self.read_again(*set)?);
        }
        // Last: it leaves zeros, and zeros are faster than data; what is random is put back.
        let written = self.watch.time(|| self.buffer.fill(0x3E))?;
        turn.write.push(rate(bytes, written));
        self.restore()?;
        Ok(turn)
    }

    fn restore(&self) -> Result<(), GpuError> {
        let pattern = usize::try_from(self.buffer.bytes()).unwrap_or(usize::MAX).min(4 << 20);
        let random = crate::bench::cpu::random_bytes(pattern, &[Run { bytes: 4096, kind: Kind::Bf16 }], 3);
        self.buffer.write(0, &random)?;
        self.buffer.repeat(pattern as u64)
    }

    fn read_rate(&self, bytes: u64) -> Result<f64, GpuError> {
        let took = self.passes(&|| self.start_read(bytes))?;
        Ok(rate(PASSES * bytes, took))
    }

    fn passes(&self, start: &dyn Fn() -> Result<(), GpuError>) -> Result<Duration, GpuError> {
        self.watch.time(|| (0..PASSES).try_for_each(|_| start()))
    }

    fn fma_rate(&self) -> Result<f64, GpuError> {
        let took = self.watch.time(|| self.in_registers(&self.fma, self.rounds.fma))?;
        let threads = self.blocks(&self.fma) as u64 * u64::from(THREADS);
        Ok(rate(threads * self.rounds.fma as u64 * ROUND_FMA, took))
    }

    /// A set that stays where it is, read as often as the whole buffer has room for it.
    fn read_again(&self, set: u64) -> Result<f64, GpuError> {
        let times = (self.buffer.bytes() / set).clamp(2, 16);
        self.start_read(set)?;
        let took = self.watch.time(|| (0..times).try_for_each(|_| self.start_read(set)))?;
        Ok(rate(times * set, took))
    }

    fn blocks(&self, kernel: &Kernel) -> usize {
        (self.gpu.device().multiprocessors * kernel.blocks_at_once().min(8)) as usize
    }

    fn start_read(&self, bytes: u64) -> Result<(), GpuError> {
        // bf16 of these magnitudes never add up to it.
        let arguments = Arguments::new().memory(&self.buffer).memory(&self.seen).long(bytes / 16).word(1);
        self.gpu.launch(&self.read, [self.blocks(&self.read), 1, 1], &arguments)
    }

    fn start_copy(&self, bytes: u64) -> Result<(), GpuError> {
        let arguments = Arguments::new().memory(&self.buffer).memory_at(&self.buffer, bytes).long(bytes / 16);
        self.gpu.launch(&self.copy, [self.blocks(&self.copy), 1, 1], &arguments)
    }

    fn start_update(&self) -> Result<(), GpuError> {
        let arguments = Arguments::new().memory(&self.buffer).long(self.buffer.bytes() / 16);
        self.gpu.launch(&self.update, [self.blocks(&self.update), 1, 1], &arguments)
    }

    fn multiply(&self, rounds: usize) -> Result<(), GpuError> {
        let arguments = Arguments::new().memory(&self.operands).memory(&self.sums).count(rounds);
        self.gpu.launch(&self.multiply, [self.blocks(&self.multiply), 1, 1], &arguments)
    }

    fn in_registers(&self, kernel: &Kernel, rounds: usize) -> Result<(), GpuError> {
        let arguments = Arguments::new().memory(&self.sums).float(0.5).float(0.25).count(rounds);
        self.gpu.launch(kernel, [self.blocks(kernel), 1, 1], &arguments)
    }

    fn rounds_for(
        &self,
        first: usize,
        run: &dyn Fn(usize) -> Result<(), GpuError>,
    ) -> Result<usize, GpuError> {
        let mut rounds = first;
        self.watch.time(|| run(rounds))?;
        while rounds < MOST_ROUNDS && self.watch.time(|| run(rounds))? < LEAST_SAMPLE {
            rounds *= 2;
        }
        Ok(rounds)
    }
}

fn rate(what: u64, took: Duration) -> f64 {
    what as f64 / took.as_secs_f64().max(1e-9)
}

/// Powers of two around the cache, within the buffer.
fn working_sets(cache: u64, buffer: u64) -> Vec<u64> {
    let first = (cache / 16).next_power_of_two().max(4096);
    std::iter::successors(Some(first), |size| Some(size * 2))
        .take_while(|size| *size <= (8 * cache).min(buffer))
        .collect()
}

/// The kernels of this file against what they should leave, one line each: name, and the largest error.
pub(super) fn check(gpu: &Rc<Gpu>) -> Result<Vec<(&'static str, f64)>, BenchError> {
    const BYTES: usize = 16 * 3001;
    let kernel = |name: &str| gpu.kernel("ceilings", name, THREADS);
    let random = crate::bench::cpu::random_bytes(BYTES, &[Run { bytes: 16, kind: Kind::Bf16 }], 9);
    let (from, to) = (Memory::of(gpu, &random)?, Memory::new(gpu, BYTES as u64)?);
    let verdict = |is_right: bool| if is_right { 0.0 } else { f64::INFINITY };
    let mut found = Vec::new();

    // One thread reads all of it: what it adds up is what it waits for, and what it does not wait for stays unsaid.
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let piece = |bytes: &[u8]| bytes.chunks(4).map(word).fold(0, |all, word| all ^ word);
    let first = random.chunks(16).step_by(2 * THREADS as usize).map(piece).fold(0, u32::wrapping_add);
    let mut said = Vec::new();
    for never in [first, first ^ 1] {
        let seen = Memory::of(gpu, &[0xFF; 4])?;
        let arguments = Arguments::new().memory(&from).memory(&seen).long(3001).word(never);
        gpu.launch(&kernel("ceiling_read")?, [2, 1, 1], &arguments)?;
        said.push(word(&seen.read(0, 4)?));
    }
    found.push(("ceiling_read", verdict(said == [first, u32::MAX])));

    let arguments = Arguments::new().memory(&from).memory(&to).long(3001);
    gpu.launch(&kernel("ceiling_copy")?, [2, 1, 1], &arguments)?;
    found.push(("ceiling_copy", verdict(to.read(0, BYTES)? == random)));

    gpu.launch(&kernel("ceiling_update")?, [2, 1, 1], &Arguments::new().memory(&to).long(3001))?;
    let changed = random.iter().enumerate().map(|(at, byte)| if at % 4 == 0 { byte ^ 1 } else { *byte });
    found.push(("ceiling_update", verdict(to.read(0, BYTES)? == changed.collect::<Vec<u8>>())));

    let blocks = [5_usize, 0, 80, 5, 17];
    let list = Memory::of(gpu, &super::numbers::counts_of(blocks))?;
    let arguments = Arguments::new().memory(&from).memory(&to).memory(&list).long(37);
    gpu.launch(&kernel("ceiling_gather")?, [2, blocks.len(), 1], &arguments)?;
    let right: Vec<u8> =
        blocks.iter().flat_map(|block| random[block * 37 * 16..][..37 * 16].to_vec()).collect();
    found.push(("ceiling_gather", verdict(to.read(0, right.len())? == right)));

    found.push(("ceiling_multiply", check_multiply(gpu, &kernel("ceiling_multiply")?)?));

    // Sums begin at 0 … 7 and two rounds of s × ½ + 3 make s / 4 + 4.5 of each: 43. One round of 2^v × 0 + 3 makes 24.
    for (name, factor, rounds, right) in [("ceiling_fma", 0.5, 2, 43.0), ("ceiling_exp2", 0.0, 1, 24.0)] {
        let arguments = Arguments::new().memory(&to).float(factor).float(3.0).count(rounds);
        gpu.launch(&kernel(name)?, [1, 1, 1], &arguments)?;
        let got = super::numbers::floats_of(&to.read(0, THREADS as usize * 4)?);
        let worst = got.iter().fold(0.0_f64, |worst, sum| worst.max((f64::from(*sum) - right).abs() / right));
        found.push((name, worst));
    }

    let untouched = Memory::of(gpu, &bytes_of(&[1.0]))?;
    let nothing = gpu.kernel("ceilings", "ceiling_nothing", 32)?;
    gpu.launch(&nothing, [3, 1, 1], &Arguments::new().memory(&untouched))?;
    found.push(("ceiling_nothing", verdict(untouched.read(0, 4)? == bytes_of(&[1.0]))));
    let clock = ClockWatch::new(gpu)?.read()?;
    // No time passes in an emulation, where the clock stands at 0.
    let is_right = if gpu.is_emulated() { clock == (0, 0) } else { clock.0 > 0 && clock.1 > 0 };
    found.push(("ceiling_clock", verdict(is_right)));
    Ok(found)
}

/// Three rounds: places of operands by the PTX ISA's tables.
fn check_multiply(gpu: &Rc<Gpu>, kernel: &Kernel) -> Result<f64, BenchError> {
    let operands = Random::new(7).bf16(6 * 32 * 2);
    let numbers = super::numbers::halves_of(&operands);
    let register = |i: usize, lane: usize, half: usize| numbers[(i * 32 + lane) * 2 + half];
    let left = |row: usize, k: usize| register(row / 8 + k / 8 * 2, row % 8 * 4 + k % 8 / 2, k % 2);
    let right = |k: usize, column: usize| register(4 + k / 8, column * 4 + k % 8 / 2, k % 2);
    let product = |row: usize, column: usize| (0..16).map(|k| left(row, k) * right(k, column)).sum::<f64>();
    let (from, to) = (Memory::of(gpu, &operands)?, Memory::new(gpu, u64::from(THREADS) * 4)?);
    gpu.launch(kernel, [1, 1, 1], &Arguments::new().memory(&from).memory(&to).count(3))?;
    let got = super::numbers::floats_of(&to.read(0, THREADS as usize * 4)?);
    let right = (0..THREADS as usize).map(|thread| {
        let (row, column) = (thread % 32 / 4, thread % 4 * 2);
        let places = [(row, column), (row, column + 1), (row + 8, column), (row + 8, column + 1)];
        let own: f64 = places.into_iter().map(|(row, column)| product(row, column)).sum();
        // Sum n begins with n four times.
        8.0 * 3.0 * own + 4.0 * 28.0
    });
    Ok(kvscope_reference::relative_error(right, &got))
}
