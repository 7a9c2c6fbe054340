//! What bounds this machine, measured by code that is not the predicted kernels: moving memory, multiply-adds on data in the
//! first-level cache, and starting all workers.
//!
//! All are measured in turns, so that drift of the machine reaches them alike. Figures are medians over the turns; a spread
//! is (p95 − p05) / median.

mod bandwidth;
mod rates;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use kvscope_sizing::Bytes;
use kvscope_sizing::cost::Operand;
use kvscope_sizing::prediction::{CeilingSpread, Ceilings, CoreBandwidth, OperandRate, ReadPoint, Unsteady};

use self::bandwidth::{Cores, Pass, change, read, read_again};
use self::rates::{Block, Multiply, Origin, once, repeats_for};
use super::pool::Pool;
use super::simd::InstructionSet;
use crate::bench::backend::Probe;
use crate::bench::worker_time::WorkerTime;
use crate::bench::{Interrupt, stats};

/// Fewer turns than this are not taken, even when the time is up.
const LEAST_TURNS: usize = 5;
/// A machine that is too slow for [`LEAST_TURNS`] gets so many times the time that was meant, and fewer turns after that.
const LATEST: f64 = 1.5;
/// How long one sample of multiply-adds at the peak is: several turns of the system's scheduler.
const PEAK_SAMPLE: Duration = Duration::from_millis(10);
/// How long the other samples on cached data are.
const SHORT_SAMPLE: Duration = Duration::from_millis(2);
/// The smallest working set of the curve, of all cores together.
const SMALLEST_SET: usize = 64 << 10;
/// A ceiling whose median is uncertain by more than this share, or moves by it from the first half of the turns to the
/// second, does not hold still.
const STEADY_CEILING: f64 = 0.1;
/// A worker that got less of its core than this shared it with another process.
const WHOLE_CORE: f64 = 0.95;

/// Ceilings, their spreads, and why the machine was not steady.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) ceilings: Ceilings,
    pub(super) spread: CeilingSpread,
    pub(super) unsteady: Vec<Unsteady>,
}

/// What is multiplied beside the peak: every operand that forms have, used once, by a group, by as many rows as registers
/// hold, and by so many that it is widened once for all.
fn rate_list() -> Vec<(Multiply, Operand, u64)> {
    let mut list = vec![(Multiply::State(Operand::F32), Operand::F32, 1)];
    let attention = [
        (Operand::Bf16, &[1, 2, 4, 6, 8, 16, 64][..]),
        (Operand::Fp8, &[1, 4, 8, 16, 64][..]),
        (Operand::Fp4, &[8, 16, 64][..]),
        (Operand::F32, &[16][..]),
    ];
    list.extend(loaded(&attention));
    list
}

/// What is multiplied while it comes from memory: K and V, whose groups of queries are small enough for reading to matter.
fn streamed_list() -> Vec<(Multiply, Operand, u64)> {
    loaded(&[(Operand::Bf16, &[1, 2, 4, 6, 8, 16][..]), (Operand::Fp8, &[1, 4, 8, 16][..])])
}

fn loaded(operands: &[(Operand, &[usize])]) -> Vec<(Multiply, Operand, u64)> {
    let of = |(operand, rows): &(Operand, &[usize])| {
        let operand = *operand;
        rows.iter()
            .map(move |rows| (Multiply::Loaded(operand, *rows), operand, *rows as u64))
            .collect::<Vec<_>>()
    };
    operands.iter().flat_map(of).collect()
}

/// Measures everything in about `time`; less where `interrupt` asks for it.
pub(super) fn measure(
    pool: &Pool,
    set: InstructionSet,
    buffer: &mut [u16],
    time: Duration,
    interrupt: Interrupt<'_>,
) -> Found {
    let started = Instant::now();
    let blocks: Vec<Mutex<Block>> = (0..pool.workers()).map(|_| Mutex::new(Block::new())).collect();
    let (list, streamed) = (rate_list(), streamed_list());
    let repeats: Vec<usize> =
        list.iter().map(|(what, ..)| repeats_for(pool, set, &blocks, *what, SHORT_SAMPLE)).collect();
    let exponential_repeats = repeats_for(pool, set, &blocks, Multiply::Exponential, SHORT_SAMPLE);
    let peak_repeats = repeats_for(pool, set, &blocks, Multiply::Peak, PEAK_SAMPLE);
    let sizes = set_sizes(buffer.len() * 2);
    let cores = WorkerTime::new(pool.workers());

    let mut turns = Turns::new(list.len(), streamed.len(), sizes.len());
    // The first turn warms up: clocks, and the system's first touch of what it hands out.
    for turn in 0.. {
        let begun = Instant::now();
        let mut kept = Turns::new(list.len(), streamed.len(), sizes.len());
        kept.read.push(read(pool, set, buffer, Cores::All));
        let cached =
            |what, repeats| once(pool, set, &blocks, what, Origin::Cache { repeats }, Some(&cores)).rate();
        kept.peak.push(cached(Multiply::Peak, peak_repeats));
        kept.exponential.push(cached(Multiply::Exponential, exponential_repeats));
        kept.launch.push(launch_once(pool));
        kept.update.push(change(pool, set, buffer, Pass::Update, Cores::All));
        for (place, (what, ..)) in list.iter().enumerate() {
            kept.rates[place].push(cached(*what, repeats[place]));
        }
        for (place, (what, ..)) in streamed.iter().enumerate() {
            let from = Origin::Memory(bytemuck::cast_slice(buffer));
            kept.streamed[place].push(once(pool, set, &blocks, *what, from, Some(&cores)).rate());
        }
        for (place, size) in sizes.iter().enumerate() {
            kept.sets[place].push(read_again(pool, set, buffer, *size, SHORT_SAMPLE));
        }
        kept.copy.push(change(pool, set, buffer, Pass::Copy, Cores::All));
        kept.one_read.push(read(pool, set, buffer, Cores::First));
        kept.one_write.push(change(pool, set, buffer, Pass::Write, Cores::First));
        kept.one_copy.push(change(pool, set, buffer, Pass::Copy, Cores::First));
        kept.write.push(change(pool, set, buffer, Pass::Write, Cores::All));
        // Where one turn takes all of the time there is no other.
        if turn > 0 || started.elapsed() > time {
            turns.add(kept);
        }
        let enough = turns.read.len() >= LEAST_TURNS && started.elapsed() + begun.elapsed() > time;
        let is_late = started.elapsed() > time.mul_f64(LATEST) && !turns.read.is_empty();
        // Who asks to stop has no use for the figures.
        if enough || is_late || interrupt.is_set() {
            break;
        }
    }
    turns.found([&list, &streamed], &sizes, cores.least_share())
}

/// The read and the FLOP ceiling again, in a fraction of a second: whether an earlier calibration still holds.
pub(super) fn probe(pool: &Pool, set: InstructionSet, buffer: &[u16]) -> Probe {
    const SAMPLES: usize = 4;
    let blocks: Vec<Mutex<Block>> = (0..pool.workers()).map(|_| Mutex::new(Block::new())).collect();
    let repeats = repeats_for(pool, set, &blocks, Multiply::Peak, PEAK_SAMPLE);
    read(pool, set, buffer, Cores::All);
    let (mut reads, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        reads.push(read(pool, set, buffer, Cores::All));
        peaks.push(once(pool, set, &blocks, Multiply::Peak, Origin::Cache { repeats }, None).rate());
    }
    Probe { read_bytes_per_second: stats::median(&reads), flops_per_second: stats::median(&peaks) }
}

/// Reads the whole buffer with all workers: how caches are emptied of other data.
pub(super) fn read_once(pool: &Pool, set: InstructionSet, buffer: &[u16]) {
    read(pool, set, buffer, Cores::All);
}

/// Powers of two from [`SMALLEST_SET`] up to the buffer.
fn set_sizes(buffer: usize) -> Vec<usize> {
    std::iter::successors(Some(SMALLEST_SET), |size| Some(size * 2))
        .take_while(|size| *size <= buffer)
        .collect()
}

/// Samples of every figure, one for each turn.
struct Turns {
    read: Vec<f64>,
    write: Vec<f64>,
    copy: Vec<f64>,
    update: Vec<f64>,
    one_read: Vec<f64>,
    one_write: Vec<f64>,
    one_copy: Vec<f64>,
    peak: Vec<f64>,
    exponential: Vec<f64>,
    launch: Vec<f64>,
    rates: Vec<Vec<f64>>,
    streamed: Vec<Vec<f64>>,
    sets: Vec<Vec<f64>>,
}

impl Turns {
    fn new(rates: usize, streamed: usize, sets: usize) -> Self {
        let none = Vec::new;
        Self {
            read: none(),
            write: none(),
            copy: none(),
            update: none(),
            one_read: none(),
            one_write: none(),
            one_copy: none(),
            peak: none(),
            exponential: none(),
            launch: none(),
            rates: vec![none(); rates],
            streamed: vec![none(); streamed],
            sets: vec![none(); sets],
        }
    }

    fn add(&mut self, turn: Self) {
        for (all, one) in [
            (&mut self.read, turn.read),
            (&mut self.write, turn.write),
            (&mut self.copy, turn.copy),
            (&mut self.update, turn.update),
            (&mut self.one_read, turn.one_read),
            (&mut self.one_write, turn.one_write),
            (&mut self.one_copy, turn.one_copy),
            (&mut self.peak, turn.peak),
            (&mut self.exponential, turn.exponential),
            (&mut self.launch, turn.launch),
        ] {
            all.extend(one);
        }
        let lists =
            [(&mut self.rates, turn.rates), (&mut self.streamed, turn.streamed), (&mut self.sets, turn.sets)];
        for (all, one) in lists.into_iter().flat_map(|(all, one)| all.iter_mut().zip(one)) {
            all.extend(one);
        }
    }

    fn found(
        &self,
        [list, streamed]: [&[(Multiply, Operand, u64)]; 2],
        sizes: &[usize],
        least_share: Option<(usize, f64)>,
    ) -> Found {
        let median = stats::median;
        let ceilings = Ceilings {
            read_bytes_per_second: median(&self.read),
            flops_per_second: median(&self.peak),
            launch_seconds: median(&self.launch),
            write_bytes_per_second: Some(median(&self.write)),
            copy_bytes_per_second: Some(median(&self.copy)),
            update_bytes_per_second: Some(median(&self.update)),
            one_core: Some(CoreBandwidth {
                read_bytes_per_second: median(&self.one_read),
                write_bytes_per_second: median(&self.one_write),
                copy_bytes_per_second: median(&self.one_copy),
            }),
            read_by_working_set: sizes
                .iter()
                .zip(&self.sets)
                .map(|(size, samples)| ReadPoint {
                    working_set_bytes: Bytes::new(*size as u64),
                    bytes_per_second: median(samples),
                })
                .collect(),
            rates: rates_of(list, &self.rates),
            streamed_rates: rates_of(streamed, &self.streamed),
            exponentials_per_second: Some(median(&self.exponential)),
        };
        let spread = CeilingSpread {
            read: stats::relative_spread(&self.read),
            flops: stats::relative_spread(&self.peak),
            launch: stats::relative_spread(&self.launch),
            update: Some(stats::relative_spread(&self.update)),
        };
        let unsteady = unsteady([("read", "read", &self.read), ("flops", "FLOP", &self.peak)], least_share);
        Found { ceilings, spread, unsteady }
    }
}

fn rates_of(list: &[(Multiply, Operand, u64)], samples: &[Vec<f64>]) -> Vec<OperandRate> {
    let rate = |((_, operand, rows), samples): (&(Multiply, Operand, u64), &Vec<f64>)| OperandRate {
        operand: *operand,
        rows: *rows,
        flops_per_second: stats::median(samples),
    };
    list.iter().zip(samples).map(rate).collect()
}

/// What says that something else used the machine meanwhile.
fn unsteady(ceilings: [(&str, &str, &[f64]); 2], least_share: Option<(usize, f64)>) -> Vec<Unsteady> {
    let mut found = Vec::new();
    if let Some((worker, share)) = least_share.filter(|(_, share)| *share < WHOLE_CORE) {
        found.push(Unsteady {
            of: "core".to_owned(),
            sentence: format!(
                "core {worker} gave its worker {:.0} % of the time while the ceilings were measured; another process used it",
                share * 100.0
            ),
        });
    }
    for (of, name, samples) in ceilings {
        let uncertain = stats::median_uncertainty(samples).unwrap_or(0.0);
        let drift = stats::drift(samples);
        let sentence = if drift > STEADY_CEILING {
            format!("the {name} ceiling moved by {:.0} % while it was measured", drift * 100.0)
        } else if uncertain > STEADY_CEILING {
            format!(
                "the {name} ceiling is uncertain by {:.0} %: its samples lie far apart",
                uncertain * 100.0
            )
        } else {
            continue;
        };
        found.push(Unsteady { of: of.to_owned(), sentence });
    }
    found
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

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn found(time: Duration) -> Found {
        let pool = Pool::for_all_cores().unwrap();
        let set = InstructionSet::available()[0];
        let mut buffer = vec![0x3F3F_u16; 1 << 20];
        let never = AtomicBool::new(false);
        measure(&pool, set, &mut buffer, time, Interrupt { cancel: &never })
    }

    #[test]
    fn every_ceiling_is_a_positive_number_and_every_operand_has_its_rates() {
        let ceilings = found(Duration::from_millis(400)).ceilings;
        let text = serde_json::to_value(&ceilings).unwrap();
        for name in [
            "read_bytes_per_second",
            "write_bytes_per_second",
            "copy_bytes_per_second",
            "update_bytes_per_second",
        ] {
            assert!(text[name].as_f64().unwrap() > 0.0, "{name}");
        }
        assert!(ceilings.launch_seconds > 0.0);
        assert_eq!(ceilings.read_by_working_set.len(), 6, "64 KiB to 2 MiB");
        assert_eq!(ceilings.rates.len(), rate_list().len());
        for (_, operand, rows) in rate_list() {
            assert!(ceilings.rate(operand, rows).unwrap() > 0.0, "{operand:?} {rows}");
        }
        assert_eq!(ceilings.streamed_rates.len(), streamed_list().len());
        assert!(ceilings.streamed_rates.iter().all(|rate| rate.flops_per_second > 0.0));
    }

    /// A process that does nothing but count on every core; it ends with the test.
    struct Busy(Vec<Child>);

    impl Drop for Busy {
        fn drop(&mut self) {
            for child in &mut self.0 {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    #[test]
    #[cfg(unix)]
    fn with_a_core_kept_busy_by_another_process_the_machine_is_not_steady() {
        let workers = Pool::for_all_cores().unwrap().workers();
        // One for every core, since the system may move a single one to where no worker is at the moment.
        let spin = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let busy = Busy((0..workers).map(|_| spin()).collect());
        let found = found(Duration::from_secs(1));
        drop(busy);
        assert!(found.unsteady.iter().any(|why| why.of == "core"), "{:?}", found.unsteady);
    }

    #[test]
    fn a_machine_that_holds_still_is_told_from_one_that_does_not() {
        let near = [1.0, 1.05, 0.95, 1.0, 1.02, 0.98, 1.0, 1.0];
        let calm: [(&str, &str, &[f64]); 2] = [("read", "read", &near), ("flops", "FLOP", &near)];
        assert!(unsteady(calm, Some((0, 0.99))).is_empty() && unsteady(calm, None).is_empty());
        let shared = unsteady(calm, Some((1, 0.52)));
        assert!(shared[0].sentence.starts_with("core 1 gave its worker 52 % of the time"), "{shared:?}");
        let says = |samples: &[f64]| unsteady([("read", "read", samples), calm[1]], None)[0].sentence.clone();
        assert_eq!(
            says(&[1.0, 1.0, 1.0, 0.8, 0.8, 0.8]),
            "the read ceiling moved by 22 % while it was measured"
        );
        assert_eq!(
            says(&[1.0, 1.6, 0.4, 1.0, 1.0, 1.6, 0.4, 1.0]),
            "the read ceiling is uncertain by 60 %: its samples lie far apart"
        );
    }
}
