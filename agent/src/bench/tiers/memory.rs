use std::io;

use memmap2::MmapMut;
use xxhash_rust::xxh3::xxh3_64;

use super::{Move, Way};

/// What blocks are multiples of: direct I/O asks for whole sectors, and checksums are kept of each.
pub(crate) const PAGE: usize = 4096;

/// Memory that begins at a page and is filled with random bytes.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes: MmapMut,
}

impl Memory {
    /// `pages` pages; every one is touched, so that the system has given it.
    pub(crate) fn random(pages: usize, seed: u64) -> io::Result<Self> {
        let mut bytes = MmapMut::map_anon(pages.max(1) * PAGE)?;
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        Ok(Self { bytes })
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Bytes that were asked of the system.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The pieces of this begin and length, in this order; no two of them overlap.
    pub(crate) fn pieces(&mut self, pieces: &[(usize, usize)]) -> Vec<&mut [u8]> {
        let mut rising: Vec<usize> = (0..pieces.len()).collect();
        rising.sort_unstable_by_key(|index| pieces[*index].0);
        let mut cut: Vec<Option<&mut [u8]>> = pieces.iter().map(|_| None).collect();
        let (mut rest, mut passed) = (&mut self.bytes[..], 0);
        for index in rising {
            let (begin, length) = pieces[index];
            let (_, from) = rest.split_at_mut(begin - passed);
            let (piece, after) = from.split_at_mut(length);
            cut[index] = Some(piece);
            (rest, passed) = (after, begin + length);
        }
        cut.into_iter().flatten().collect()
    }

    /// The blocks that begin at these multiples of `block` bytes, in this order; each may be named once.
    pub(crate) fn blocks(&mut self, block: usize, order: &[usize]) -> Vec<&mut [u8]> {
        let mut all: Vec<Option<&mut [u8]>> = self.bytes.chunks_exact_mut(block).map(Some).collect();
        order.iter().filter_map(|place| all.get_mut(*place).and_then(Option::take)).collect()
    }
}

/// More than the caches that a core has for itself.
const OWN_CACHES: usize = 8 << 20;

/// Other data that is read before each sample, so that a small transfer is not the faster for having been checked, in this
/// core's caches, a moment before.
#[derive(Debug)]
pub(crate) struct Scrub {
    other: Memory,
}

impl Scrub {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { other: Memory::random(OWN_CACHES / PAGE, 2)? })
    }

    /// Reads one byte of every cache line.
    pub(crate) fn empty_caches(&self) {
        let sum = self.other.bytes.iter().step_by(64).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        std::hint::black_box(sum);
    }
}

/// Checksums of what a tier holds, page by page: what a restore has to bring back.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pages: Vec<u64>,
}

impl Expected {
    /// Of a tier of so many pages that nothing was saved to.
    pub(crate) fn nothing(pages: usize) -> Self {
        Self { pages: vec![0; pages] }
    }

    /// Before a transfer: notes what is saved, and spoils the memory that is to be restored, so that a restore which does
    /// nothing is found out.
    pub(crate) fn before(&mut self, moves: &mut [Move<'_>]) {
        for one in moves {
            for (page, bytes) in self.pages_of(one.offset).zip(one.memory.chunks_exact_mut(PAGE)) {
                match one.way {
                    Way::Save => self.pages[page] = xxh3_64(bytes),
                    Way::Restore => bytes.iter_mut().step_by(512).for_each(|byte| *byte = !*byte),
                }
            }
        }
    }

    /// After a transfer: an error names the first page that did not come back as it was saved.
    pub(crate) fn check(&self, moves: &[Move<'_>]) -> Result<(), String> {
        for one in moves.iter().filter(|one| one.way == Way::Restore) {
            for (page, bytes) in self.pages_of(one.offset).zip(one.memory.chunks_exact(PAGE)) {
                if xxh3_64(bytes) != self.pages[page] {
                    return Err(format!(
                        "the {PAGE} bytes at byte {} of the tier did not come back as they were saved",
                        page * PAGE
                    ));
                }
            }
        }
        Ok(())
    }

    fn pages_of(&self, offset: u64) -> std::ops::Range<usize> {
        let first = usize::try_from(offset / PAGE as u64).unwrap_or(usize::MAX);
        first..self.pages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Interrupt;
    use crate::bench::tiers::{Dram, Tier};

    #[test]
    fn pieces_come_in_the_order_asked_for() {
        let mut memory = Memory::random(3, 7).unwrap();
        memory.bytes_mut().fill(0);
        for (value, piece) in (1..).zip(memory.pieces(&[(8192, 4096), (0, 100), (4096, 4096)])) {
            piece.fill(value);
        }
        let bytes = memory.bytes_mut();
        assert_eq!((bytes[0], bytes[99], bytes[100], bytes[4096], bytes[8192]), (2, 2, 0, 3, 1));
        assert_eq!(memory.len(), 3 * 4096);
    }

    #[test]
    fn a_restore_that_brings_back_other_bytes_is_found_out() {
        let mut memory = Memory::random(4, 7).unwrap();
        let mut expected = Expected::nothing(4);
        let mut tier = Dram::new(4).unwrap();
        let places = [2, 0, 3, 1];
        let moves = |memory: &mut Memory, tier: &mut Dram, expected: &mut Expected, way, shift: u64| {
            let mut moves: Vec<Move<'_>> = memory
                .blocks(PAGE, &places)
                .into_iter()
                .zip(0_u64..)
                .map(|(memory, place)| Move { memory, offset: (place + shift) % 4 * PAGE as u64, way })
                .collect();
            expected.before(&mut moves);
            tier.transfer(&mut moves, Interrupt::never()).unwrap();
            expected.check(&moves)
        };
        assert!(moves(&mut memory, &mut tier, &mut expected, Way::Save, 0).is_ok());
        assert!(moves(&mut memory, &mut tier, &mut expected, Way::Restore, 1).is_ok());
        tier.bytes_mut()[3 * PAGE + 100] ^= 1;
        let error = moves(&mut memory, &mut tier, &mut expected, Way::Restore, 0).unwrap_err();
        assert_eq!(error, "the 4096 bytes at byte 12288 of the tier did not come back as they were saved");
    }
}
