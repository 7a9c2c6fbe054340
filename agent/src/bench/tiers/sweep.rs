//! Transfers of blocks of every size: measured in turns, fitted on the declared half.

use std::time::Instant;

use kvscope_protocol::run::{Direction, FittedTransfer, MeasuredTransfer, Pattern, TierName, Transfer};
use kvscope_sizing::Bytes;
use kvscope_sizing::prediction::{Grade, LinkFit};

use super::{Expected, Memory, Move, PAGE, Scrub, Tier, Watch, Way};
use crate::bench::samples::{LEAST_SAMPLES, STORED_AT, Sample, Samples, WANTED_SAMPLES};
use crate::bench::{Interrupt, stats};

/// 4 KiB to 64 MiB in powers of 4.
const BLOCKS: [usize; 8] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
/// Bytes that one transfer moves, or one block where that is larger.
const TOTALS: [usize; 2] = [1 << 20, 16 << 20];
/// A median that is uncertain by more than this is unsteady.
const STEADY: f64 = 0.1;
/// Fewer steady transfers give no fit.
const LEAST_POINTS: usize = 3;
/// The first transfers of each kind warm up: room is given out, address caches fill.
const WARM_UP: usize = 1;
/// Blocks in which a tier is filled at first.
const FILL_BLOCK: usize = 1 << 20;

/// Every transfer to measure of a tier, with blocks up to `largest` bytes. Every other one of each direction and pattern is
/// declared for the fit.
pub(crate) fn transfers(tier: TierName, first: usize, largest: usize) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    for (direction, pattern) in
        Direction::ALL.into_iter().flat_map(|direction| Pattern::ALL.map(|pattern| (direction, pattern)))
    {
        let mut sizes: Vec<(usize, usize)> = TOTALS
            .iter()
            .flat_map(|total| BLOCKS.map(|block| (block.max(*total), block)))
            .filter(|(_, block)| *block <= largest)
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        for (place, (bytes, block)) in sizes.into_iter().enumerate() {
            let number = u32::try_from(first + transfers.len()).unwrap_or(u32::MAX);
            transfers.push(blank(number, tier, direction, pattern, (bytes, block), place % 2 == 0));
        }
    }
    transfers
}

pub(super) fn blank(
    transfer: u32,
    tier: TierName,
    direction: Direction,
    pattern: Pattern,
    (bytes, block): (usize, usize),
    fit_half: bool,
) -> Transfer {
    Transfer {
        transfer,
        tier,
        medium: tier.medium(),
        direction,
        pattern,
        fit_half,
        method: None,
        block_bytes: Bytes::new(block as u64),
        blocks: (bytes / block) as u64,
        bytes: Bytes::new(bytes as u64),
        state: None,
        predicted: None,
        fitted: None,
        measured: None,
        correct: None,
        status: "partial: not measured yet".to_owned(),
        warnings: Vec::new(),
    }
}

/// What a tier is measured with: memory as large as the tier, and what the tier is known to hold.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    // Unlocked before the memory can be given back.
    _locked: Option<Box<dyn std::fmt::Debug>>,
    tier: &'a mut dyn Tier,
    memory: &'a mut Memory,
    expected: Expected,
    scrub: Scrub,
    bytes: usize,
    rng: fastrand::Rng,
}

impl<'a> Bench<'a> {
    /// Fills the tier with `bytes` random bytes, a whole number of the largest blocks. [`Interrupted`](std::io::ErrorKind) where
    /// `watch` says to stop, and where a slow tier takes until `deadline`.
    pub(crate) fn new(
        tier: &'a mut dyn Tier,
        memory: &'a mut Memory,
        bytes: usize,
        seed: u64,
        deadline: Instant,
        watch: &mut dyn Watch,
    ) -> std::io::Result<Self> {
        let expected = Expected::nothing(bytes / PAGE);
        let locked = tier.lock(memory.bytes_mut())?;
        let (scrub, rng) = (Scrub::new()?, fastrand::Rng::with_seed(seed));
        let mut bench = Self { _locked: locked, tier, memory, expected, scrub, bytes, rng };
        let block = FILL_BLOCK.min(bytes);
        let all: Vec<usize> = (0..bytes / block).collect();
        for some in all.chunks(16) {
            if watch.stop() || Instant::now() >= deadline {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            bench.once(block, some, some, |_| Way::Save, watch.interrupt()).map_err(|error| match error {
                Wrong::Tier(error) => error,
                Wrong::Bytes(what) => std::io::Error::other(what),
            })?;
        }
        Ok(bench)
    }

    /// Moves blocks from and to these places, once; the seconds that it took.
    fn once(
        &mut self,
        block: usize,
        memory: &[usize],
        tier: &[usize],
        way: impl Fn(usize) -> Way,
        interrupt: Interrupt<'_>,
    ) -> Result<Sample, Wrong> {
        let blocks = self.memory.blocks(block, memory);
        let mut moves: Vec<Move<'_>> = blocks
            .into_iter()
            .zip(tier)
            .enumerate()
            .map(|(index, (memory, place))| Move { memory, offset: (place * block) as u64, way: way(index) })
            .collect();
        self.expected.before(&mut moves);
        self.scrub.empty_caches();
        let begun = Instant::now();
        self.tier.transfer(&mut moves, interrupt).map_err(Wrong::Tier)?;
        let elapsed = begun.elapsed();
        self.expected.check(&moves).map_err(Wrong::Bytes)?;
        // A thread that waits for a device uses no core, so its share of one tells no disturbance.
        Ok(Sample::new(elapsed, None))
    }

    fn sample(
        &mut self,
        transfer: &Transfer,
        round: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<Sample, Wrong> {
        let size = |bytes: Bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX);
        let block = size(transfer.block_bytes);
        let (count, all) = (size(transfer.bytes) / block, self.bytes / block);
        let (memory, tier) = match transfer.pattern {
            // Each sample goes on where the one before ended, so that no cache holds what it moves.
            Pattern::Contiguous => {
                let runs = (all / count).max(1);
                let run = |round: usize| {
                    let begin = round % runs * count;
                    (begin..begin + count).collect::<Vec<_>>()
                };
                (run(round), run(round + runs / 2))
            }
            Pattern::Fragments => (self.places(all, count), self.places(all, count)),
        };
        let way = move |index: usize| match transfer.direction {
            Direction::Save => Way::Save,
            // One block alone goes each way in turn.
            Direction::Mixed if (index + if count == 1 { round } else { 0 }).is_multiple_of(2) => Way::Save,
            Direction::Mixed | Direction::Restore => Way::Restore,
        };
        self.once(block, &memory, &tier, way, interrupt)
    }

    /// `count` different places among `all`, in random order.
    fn places(&mut self, all: usize, count: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..all).collect();
        for index in 0..count.min(all) {
            let other = self.rng.usize(index..all);
            places.swap(index, other);
        }
        places.truncate(count);
        places
    }

    /// One sample of every transfer in each round, until all are steady, `deadline` has come or `watch` says so.
    pub(crate) fn measure(
        &mut self,
        transfers: &mut [&mut Transfer],
        deadline: Instant,
        watch: &mut dyn Watch,
    ) {
        let method = self.tier.method();
        let mut samples = vec![Samples::default(); transfers.len()];
        for round in 0.. {
            let mut turns = 0;
            for (transfer, samples) in transfers.iter_mut().zip(&mut samples) {
                if samples.is_enough() || transfer.status.starts_with("failed") {
                    continue;
                }
                if watch.stop() || Instant::now() >= deadline {
                    return;
                }
                turns += 1;
                transfer.method = Some(method.clone());
                match self.sample(transfer, round, watch.interrupt()) {
                    // What breaks while everything ends has not failed.
                    Err(_) if watch.stop() => return,
                    Err(wrong) => {
                        fail(transfer, &wrong);
                        watch.store(&mut [&mut **transfer]);
                    }
                    Ok(_) if round < WARM_UP => {}
                    Ok(sample) => {
                        samples.push(sample);
                        record(transfer, samples, None);
                        watch.keep(transfer);
                    }
                }
            }
            if turns == 0 {
                return;
            }
            if STORED_AT.contains(&round) {
                watch.store(transfers);
            }
        }
    }
}

/// Why a transfer gave no time.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The tier broke.
    Tier(std::io::Error),
    /// Other bytes came back.
    Bytes(String),
}

/// Voids a transfer, with the reason.
pub(super) fn fail(transfer: &mut Transfer, wrong: &Wrong) {
    // The time of a transfer that failed later, or that brought back other bytes, is no speed.
    transfer.measured = None;
    transfer.status = match wrong {
        Wrong::Tier(error) => format!("failed: {error}"),
        Wrong::Bytes(what) => {
            transfer.correct = Some(false);
            format!("failed: {what}")
        }
    };
}

/// Puts in the samples so far; `asked` bytes are the memory of the blocks alone.
pub(super) fn record(transfer: &mut Transfer, samples: &Samples, asked: Option<Bytes>) {
    let kept = samples.kept();
    let Some(seconds) = stats::summarise(&kept) else { return };
    transfer.status = match kept.len() {
        n if n < LEAST_SAMPLES => format!("partial: {n} samples"),
        n if n < WANTED_SAMPLES => format!("partial: {n} of {WANTED_SAMPLES} samples"),
        _ if seconds.uncertainty.is_some_and(|share| share > STEADY) => "unsteady".to_owned(),
        _ => "ok".to_owned(),
    };
    if transfer.direction != Direction::Save {
        transfer.correct = Some(true);
    }
    transfer.measured = Some(MeasuredTransfer {
        asked_bytes: asked,
        seconds,
        bytes_per_second: transfer.bytes.get() as f64 / seconds.median,
        samples_seconds: kept,
        drops: samples.drops(),
    });
}

/// Fits each direction and pattern to its steady transfers of the declared half, and says of all what the fit gives.
pub(crate) fn put_fits(transfers: &mut [Transfer]) {
    for (direction, pattern) in
        Direction::ALL.into_iter().flat_map(|direction| Pattern::ALL.map(|pattern| (direction, pattern)))
    {
        let is_of = |transfer: &Transfer| transfer.direction == direction && transfer.pattern == pattern;
        let points: Vec<_> = transfers
            .iter()
            .filter(|transfer| is_of(transfer) && transfer.fit_half && transfer.is_steady())
            .filter_map(Transfer::point)
            .collect();
        // Two constants need more than two points to be judged by.
        let Some(link) = LinkFit::of(&points).filter(|_| points.len() >= LEAST_POINTS) else { continue };
        for transfer in transfers.iter_mut().filter(|transfer| is_of(transfer)) {
            let seconds = link.time(&[(transfer.blocks, transfer.bytes)]);
            transfer.fitted = Some(FittedTransfer { seconds, grade: Grade::Fitted, link: link.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;
    use crate::bench::tiers::Dram;
    use crate::bench::tiers::watch::Unwatched;

    const BYTES: usize = 4 << 20;

    fn in_an_hour() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    fn measured(tier: &mut dyn Tier) -> Vec<Transfer> {
        let mut memory = Memory::random(BYTES / PAGE, 5).unwrap();
        let mut bench = Bench::new(tier, &mut memory, BYTES, 9, in_an_hour(), &mut Unwatched).unwrap();
        let mut all = transfers(TierName::Dram, 0, 1 << 20);
        // Sixteen MiB do not fit into this tier.
        all.retain(|transfer| transfer.bytes.get() <= BYTES as u64);
        bench.measure(&mut all.iter_mut().collect::<Vec<_>>(), in_an_hour(), &mut Unwatched);
        all
    }

    #[test]
    fn sizes_are_powers_of_four_and_both_halves_span_them() {
        let all = transfers(TierName::File, 3, usize::MAX);
        assert_eq!(all[0].transfer, 3);
        // By hand: 1 MiB in five sizes, 16 MiB in seven, 4 and 16 and 64 MiB as one block, of which 16 is there already.
        assert_eq!(all.len(), (5 + 7 + 1 + 1) * 6);
        let one = |transfer: &&Transfer| {
            transfer.direction == Direction::Mixed && transfer.pattern == Pattern::Fragments
        };
        let half = all.iter().filter(one).filter(|transfer| transfer.fit_half).count();
        assert_eq!((half, all.iter().filter(one).count()), (7, 14));
        assert!(
            all.iter().all(|transfer| transfer.blocks * transfer.block_bytes.get() == transfer.bytes.get())
        );
    }

    #[test]
    fn every_transfer_is_measured_checked_and_fitted() {
        let mut all = measured(&mut Dram::new(BYTES / PAGE).unwrap());
        put_fits(&mut all);
        for transfer in &all {
            assert!(transfer.measured.as_ref().unwrap().seconds.n >= 10, "{transfer:?}");
            let restores = transfer.direction != Direction::Save;
            assert_eq!(transfer.correct, restores.then_some(true));
            assert!(["ok", "unsteady"].contains(&transfer.status.as_str()));
            assert!(transfer.fitted.iter().all(|fitted| fitted.seconds.0 > 0.0));
        }
    }

    /// A tier that takes longer to fill than there is time has not failed.
    #[test]
    fn a_tier_that_is_not_filled_in_its_time_is_not_measured() {
        let mut tier = Dram::new(BYTES / PAGE).unwrap();
        let mut memory = Memory::random(BYTES / PAGE, 5).unwrap();
        let late = Bench::new(&mut tier, &mut memory, BYTES, 9, Instant::now(), &mut Unwatched);
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }

    /// Loses its restores of single pages, and breaks at the tenth transfer of large blocks.
    #[derive(Debug)]
    struct Broken(Dram, usize);

    impl Tier for Broken {
        fn method(&self) -> String {
            self.0.method()
        }

        fn transfer(&mut self, moves: &mut [Move<'_>], interrupt: Interrupt<'_>) -> io::Result<()> {
            match moves[0].memory.len() {
                4096 if moves[0].way == Way::Restore => return Ok(()),
                0x0010_0000 if moves[0].way == Way::Restore => self.1 += 1,
                _ => {}
            }
            if self.1 == 10 {
                self.1 -= 1;
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            self.0.transfer(moves, interrupt)
        }
    }

    #[test]
    fn what_fails_says_why_and_the_rest_goes_on() {
        let all = measured(&mut Broken(Dram::new(BYTES / PAGE).unwrap(), 0));
        for transfer in all.iter().filter(|transfer| transfer.direction == Direction::Restore) {
            match transfer.block_bytes.get() {
                4096 => {
                    assert!(transfer.status.contains("did not come back as they were saved"), "{transfer:?}");
                    assert_eq!((transfer.correct, transfer.measured.is_none()), (Some(false), true));
                }
                0x0010_0000 => assert_eq!(transfer.status, "failed: connection reset"),
                _ => assert_eq!(transfer.correct, Some(true)),
            }
        }
    }
}
