use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rayon::ThreadPool;
use rayon::prelude::*;

use super::{Move, Way};
use crate::bench::Interrupt;

/// Requests that are under way at the same time.
pub(crate) const DEPTH: usize = 16;

/// Reads and writes at positions, so many threads at a time.
#[derive(Debug)]
pub(crate) struct PositionPool {
    threads: ThreadPool,
}

impl PositionPool {
    pub(crate) fn new() -> io::Result<Self> {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(DEPTH).build().map_err(io::Error::other)?;
        Ok(Self { threads })
    }

    pub(crate) fn transfer(
        &self,
        file: &File,
        moves: &mut [Move<'_>],
        interrupt: Interrupt<'_>,
    ) -> io::Result<()> {
        let mut pieces: Vec<Move<'_>> = super::pieces(moves).collect();
        let move_piece = |piece: &mut Move<'_>| super::go_on(interrupt).and_then(|()| move_one(file, piece));
        self.threads.install(|| pieces.par_iter_mut().with_max_len(1).try_for_each(move_piece))
    }
}

/// Moves one block on this thread.
pub(crate) fn move_one(file: &File, one: &mut Move<'_>) -> io::Result<()> {
    match one.way {
        Way::Save => file.write_all_at(one.memory, one.offset),
        Way::Restore => file.read_exact_at(one.memory, one.offset),
    }
}
