//! Tiers: what it takes to save a request's state somewhere else and to bring it back.
//!
//! A [`Tier`] moves blocks between memory and where it keeps them. `dram` copies within memory, `file` goes past or through
//! the page cache, by `ring` or by `pool`; `peer` is another process over
//! loopback TCP, `device` memory of a GPU; `folder` is where files live, and what a killed process left there is removed.
//! `room` says how much a tier may take before anything is asked for.
//! `sweep` measures blocks of every size, fits α and β to a declared half of the points and judges them on the other half.
//! `layout` lays a request's state out in its engine's blocks, `round_trip` saves, drops, restores and compares it;
//! `declared` says what is measured of a tier, less what a stored run has of it; `session` goes through all tiers of a run,
//! and `watch` is how it is told to stop and stores what comes.

mod declared;
mod device;
mod dram;
mod file;
mod folder;
mod layout;
mod memory;
mod peer;
mod pool;
mod ring;
mod room;
mod round_trip;
mod session;
#[cfg(test)]
mod session_tests;
mod sweep;
mod watch;

use std::io;

pub(crate) use device::{DeviceTier, HostMemory};
pub(crate) use dram::Dram;
pub(crate) use file::{FileTier, Through};
pub(crate) use folder::TierFolder;
pub use folder::remove_own as remove_own_tiers;
pub use layout::StateLayout;
pub(crate) use memory::{Expected, Memory, PAGE, Scrub};
pub(crate) use peer::Peer;
pub use peer::serve as serve_peer;
pub(crate) use session::measure;
pub use session::{TierPlan, run_tiers};
pub(crate) use watch::Watch;

use super::Interrupt;

/// Somewhere that blocks of state are kept.
pub(crate) trait Tier: std::fmt::Debug {
    /// How it moves blocks, in words, with the reason where it is not the usual way.
    fn method(&self) -> String;

    /// Locks the memory that blocks are moved from and to, where the tier needs that, until what is given is dropped; the
    /// caller keeps the memory until then.
    fn lock(&self, _memory: &mut [u8]) -> io::Result<Option<Box<dyn std::fmt::Debug>>> {
        Ok(None)
    }

    /// Moves all blocks; each is in its place when this returns. [`Interrupted`](io::ErrorKind::Interrupted) where someone
    /// asked to stop before the last was: what the tier then holds is not known, and it may take no more.
    fn transfer(&mut self, moves: &mut [Move<'_>], interrupt: Interrupt<'_>) -> io::Result<()>;
}

/// A larger block moves in several pieces: a device works on them side by side, and a request to stop is seen between them.
const LARGEST_PIECE: usize = 512 << 10;

/// The pieces of these blocks, in their order.
fn pieces<'m>(moves: &'m mut [Move<'_>]) -> impl Iterator<Item = Move<'m>> {
    moves.iter_mut().flat_map(|one| {
        let way = one.way;
        let offsets = (one.offset..).step_by(LARGEST_PIECE);
        one.memory.chunks_mut(LARGEST_PIECE).zip(offsets).map(move |(memory, offset)| Move {
            memory,
            offset,
            way,
        })
    })
}

/// An error where someone asked to stop.
fn go_on(interrupt: Interrupt<'_>) -> io::Result<()> {
    if interrupt.is_set() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}

/// One block to move. Blocks of one transfer do not overlap, neither in memory nor in the tier.
#[derive(Debug)]
pub(crate) struct Move<'a> {
    /// Its place in memory: a whole number of pages.
    pub(crate) memory: &'a mut [u8],
    /// Its first byte in the tier: a multiple of the page.
    pub(crate) offset: u64,
    /// Which way.
    pub(crate) way: Way,
}

/// Which way a block goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// From memory to the tier.
    Save,
    /// From the tier to memory.
    Restore,
}
