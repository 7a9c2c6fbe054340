//! A state that is saved, dropped, restored and compared byte for byte.

use std::io;
use std::time::{Duration, Instant};

use kvscope_protocol::run::{Direction, Pattern, StatePart, Transfer};
use kvscope_sizing::Bytes;

use super::layout::stride;
use super::sweep::{self, Wrong};
use super::{Expected, Memory, Move, PAGE, Scrub, Tier, Watch, Way};
use crate::bench::Interrupt;
use crate::bench::samples::{STORED_AT, Sample, Samples};

/// The transfers of one state on one tier, in this order.
pub(crate) const TRANSFERS: [(Pattern, Direction); 4] = [
    (Pattern::Contiguous, Direction::Save),
    (Pattern::Contiguous, Direction::Restore),
    (Pattern::Fragments, Direction::Save),
    (Pattern::Fragments, Direction::Restore),
];

/// A state in memory, the tier that it goes to, and what the tier is known to hold.
#[derive(Debug)]
pub(crate) struct RoundTrip<'a> {
    // Unlocked before the memory is given back.
    _locked: Option<Box<dyn std::fmt::Debug>>,
    tier: &'a mut dyn Tier,
    memory: Memory,
    /// Begin and length of every place, the same in memory and in the tier.
    places: Vec<(usize, usize)>,
    /// Places of equal length, which blocks can change among them.
    equal: Vec<std::ops::Range<usize>>,
    expected: Expected,
    scrub: Scrub,
    rng: fastrand::Rng,
    seed: u64,
}

impl<'a> RoundTrip<'a> {
    /// Asks for the memory of these blocks, and no byte more.
    pub(crate) fn new(tier: &'a mut dyn Tier, parts: &[StatePart], seed: u64) -> io::Result<Self> {
        let (mut places, mut equal, mut begin) = (Vec::new(), Vec::new(), 0);
        for part in parts {
            let length = usize::try_from(stride(part)).map_err(io::Error::other)?;
            let first = places.len();
            for _ in 0..part.blocks {
                places.push((begin, length));
                begin += length;
            }
            equal.push(first..places.len());
        }
        let mut memory = Memory::random(begin / PAGE, seed)?;
        let locked = tier.lock(memory.bytes_mut())?;
        let expected = Expected::nothing(begin / PAGE);
        let (scrub, rng) = (Scrub::new()?, fastrand::Rng::with_seed(seed));
        Ok(Self { _locked: locked, tier, memory, places, equal, expected, scrub, rng, seed })
    }

    /// What was asked of the system.
    pub(crate) fn asked(&self) -> Bytes {
        Bytes::new(self.memory.len() as u64)
    }

    /// Samples of all of [`TRANSFERS`] in turns, until all are steady, `deadline` has come or `watch` says so. A state that
    /// came back with another byte voids the save and the restore.
    pub(crate) fn measure(
        &mut self,
        transfers: &mut [&mut Transfer],
        deadline: Instant,
        watch: &mut dyn Watch,
    ) {
        let method = self.tier.method();
        let asked = self.asked();
        let mut samples: [Samples; TRANSFERS.len()] = Default::default();
        let mut longest = Duration::ZERO;
        for round in 0.. {
            let mut turns = 0;
            for (pair, samples) in transfers.chunks_exact_mut(2).zip(samples.chunks_exact_mut(2)) {
                let is_done = samples.iter().all(Samples::is_enough) || pair[0].status.starts_with("failed");
                if is_done || Instant::now() + longest > deadline {
                    continue;
                }
                if watch.stop() {
                    return;
                }
                turns += 1;
                let begun = Instant::now();
                let moved = self.once(pair[0].pattern, watch);
                longest = longest.max(begun.elapsed());
                match moved {
                    Ok(None) => return,
                    // What breaks while everything ends has not failed.
                    Err(_) if watch.stop() => return,
                    Err(wrong) => {
                        for transfer in &mut *pair {
                            transfer.method = Some(method.clone());
                            sweep::fail(transfer, &wrong);
                        }
                        watch.store(pair);
                    }
                    // The first round trip warms up: room is given out.
                    Ok(Some(_)) if round == 0 => {}
                    Ok(Some(both)) => {
                        for ((transfer, samples), sample) in pair.iter_mut().zip(samples).zip(both) {
                            transfer.method = Some(method.clone());
                            samples.push(sample);
                            sweep::record(transfer, samples, Some(asked));
                            watch.keep(transfer);
                        }
                        if STORED_AT.contains(&round) {
                            watch.store(pair);
                        }
                    }
                }
            }
            if turns == 0 {
                return;
            }
        }
    }

    /// Fills, saves, drops, restores to other places and compares; the times of the save and the restore, none where `watch`
    /// says to stop in between.
    fn once(&mut self, pattern: Pattern, watch: &mut dyn Watch) -> Result<Option<[Sample; 2]>, Wrong> {
        let slots = self.arranged(pattern);
        let places = self.arranged(pattern);
        self.fill(&places);
        if watch.stop() {
            return Ok(None);
        }
        let saved = self.transfer(Way::Save, pattern, &places, &slots, watch.interrupt())?;
        self.memory.bytes_mut().fill(0);
        if watch.stop() {
            return Ok(None);
        }
        let places = self.arranged(pattern);
        let restored = self.transfer(Way::Restore, pattern, &places, &slots, watch.interrupt())?;
        self.compare(&places)?;
        Ok(Some([saved, restored]))
    }

    /// A place for every block: its own, or another of the same length.
    fn arranged(&mut self, pattern: Pattern) -> Vec<usize> {
        let mut arranged: Vec<usize> = (0..self.places.len()).collect();
        if pattern == Pattern::Fragments {
            for range in &self.equal {
                self.rng.shuffle(&mut arranged[range.clone()]);
            }
        }
        arranged
    }

    fn transfer(
        &mut self,
        way: Way,
        pattern: Pattern,
        places: &[usize],
        slots: &[usize],
        interrupt: Interrupt<'_>,
    ) -> Result<Sample, Wrong> {
        let mut order: Vec<usize> = (0..places.len()).collect();
        if pattern == Pattern::Fragments {
            self.rng.shuffle(&mut order);
        }
        let pieces: Vec<(usize, usize)> = order.iter().map(|block| self.places[places[*block]]).collect();
        let mut moves: Vec<Move<'_>> = self
            .memory
            .pieces(&pieces)
            .into_iter()
            .zip(&order)
            .map(|(memory, block)| Move { memory, offset: self.places[slots[*block]].0 as u64, way })
            .collect();
        self.expected.before(&mut moves);
        self.scrub.empty_caches();
        let begun = Instant::now();
        self.tier.transfer(&mut moves, interrupt).map_err(Wrong::Tier)?;
        let elapsed = begun.elapsed();
        self.expected.check(&moves).map_err(Wrong::Bytes)?;
        Ok(Sample::new(elapsed, None))
    }

    /// Every block's random bytes, at its place.
    fn fill(&mut self, places: &[usize]) {
        let bytes = self.memory.bytes_mut();
        for (block, place) in places.iter().enumerate() {
            let (begin, length) = self.places[*place];
            content(self.seed, block).fill(&mut bytes[begin..begin + length]);
        }
    }

    /// Makes every block again and compares it with what lies at its place.
    fn compare(&mut self, places: &[usize]) -> Result<(), Wrong> {
        let mut made = Vec::new();
        let bytes = self.memory.bytes_mut();
        for (block, place) in places.iter().enumerate() {
            let (begin, length) = self.places[*place];
            made.resize(length, 0);
            content(self.seed, block).fill(&mut made);
            let restored = &bytes[begin..begin + length];
            if restored != made {
                let first = restored.iter().zip(&made).position(|(a, b)| a != b).unwrap_or(0);
                let what = format!("byte {first} of block {block} did not come back as it was saved");
                return Err(Wrong::Bytes(what));
            }
        }
        Ok(())
    }
}

/// What makes the random bytes of a block.
fn content(seed: u64, block: usize) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed.wrapping_add((block as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

#[cfg(test)]
mod tests {
    use kvscope_protocol::run::TierName;

    use super::*;
    use crate::bench::tiers::Dram;
    use crate::bench::tiers::watch::Unwatched;

    fn parts() -> Vec<StatePart> {
        [(1, 5000), (9, 12_288)]
            .map(|(blocks, bytes)| StatePart { what: String::new(), blocks, block_bytes: Bytes::new(bytes) })
            .into()
    }

    fn measured(tier: &mut dyn Tier) -> (Bytes, Vec<Transfer>) {
        let mut transfers: Vec<Transfer> = TRANSFERS
            .into_iter()
            .map(|(pattern, direction)| {
                sweep::blank(0, TierName::Dram, direction, pattern, (12_288 * 9 + 8192, 12_288), false)
            })
            .collect();
        let mut trip = RoundTrip::new(tier, &parts(), 7).unwrap();
        let mut all: Vec<&mut Transfer> = transfers.iter_mut().collect();
        trip.measure(&mut all, Instant::now() + Duration::from_mins(1), &mut Unwatched);
        (trip.asked(), transfers)
    }

    #[test]
    fn a_state_goes_and_comes_back_in_both_patterns() {
        // By hand: 5000 B on two pages, nine blocks of three pages.
        let pages = 2 + 9 * 3;
        let (asked, transfers) = measured(&mut Dram::new(pages).unwrap());
        assert_eq!(asked.get(), pages as u64 * 4096);
        for transfer in &transfers {
            let measured = transfer.measured.as_ref().unwrap();
            assert!(measured.seconds.n >= 10 && measured.asked_bytes == Some(asked), "{transfer:?}");
            let restores = transfer.direction == Direction::Restore;
            assert_eq!(transfer.correct, restores.then_some(true));
        }
    }

    /// Turns one bit of one byte over in every save of blocks at random places.
    #[derive(Debug)]
    struct Flipping(Dram, usize);

    impl Tier for Flipping {
        fn method(&self) -> String {
            self.0.method()
        }

        fn transfer(&mut self, moves: &mut [Move<'_>], interrupt: Interrupt<'_>) -> io::Result<()> {
            let in_order = moves.windows(2).all(|pair| pair[0].offset < pair[1].offset);
            let saves = moves[0].way == Way::Save;
            self.0.transfer(moves, interrupt)?;
            if saves && !in_order {
                self.0.bytes_mut()[self.1] ^= 1;
            }
            Ok(())
        }
    }

    #[test]
    fn a_flipped_byte_voids_save_and_restore() {
        let (_, transfers) = measured(&mut Flipping(Dram::new(29).unwrap(), 20_481));
        for transfer in &transfers {
            if transfer.pattern == Pattern::Contiguous {
                assert!(transfer.measured.is_some(), "{transfer:?}");
                continue;
            }
            assert_eq!((transfer.measured.is_none(), transfer.correct), (true, Some(false)));
            // Byte 20,481 lies on the sixth page.
            assert_eq!(
                transfer.status,
                "failed: the 4096 bytes at byte 20480 of the tier did not come back as they were saved"
            );
        }
    }

    #[test]
    fn a_byte_that_no_checksum_covers_is_found_by_comparing() {
        let mut tier = Dram::new(29).unwrap();
        let mut trip = RoundTrip::new(&mut tier, &parts(), 7).unwrap();
        let places = trip.arranged(Pattern::Fragments);
        trip.fill(&places);
        assert!(trip.compare(&places).is_ok());
        let begin = trip.places[places[3]].0;
        trip.memory.bytes_mut()[begin + 12_287] ^= 0x80;
        let Err(Wrong::Bytes(what)) = trip.compare(&places) else { panic!() };
        assert_eq!(what, "byte 12287 of block 3 did not come back as it was saved");
    }
}
