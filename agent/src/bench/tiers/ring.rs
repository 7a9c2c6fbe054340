//! Reads and writes at depth by `io_uring`.
//!
//! Unsafe code: the kernel writes into memory of requests that are under way. The ring therefore borrows the moves until
//! every request that it handed over has come back, also where one failed.
#![allow(unsafe_code, reason = "the kernel reads and writes memory of requests that are under way")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};

use super::{Move, Way};
use crate::bench::Interrupt;

/// Requests that are under way at the same time.
pub(crate) const DEPTH: u32 = 32;

/// One ring.
pub(crate) struct Ring {
    ring: IoUring,
    /// Why it takes no more requests: some of an earlier transfer may still be in its queue.
    broken: Option<String>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("depth", &DEPTH).finish_non_exhaustive()
    }
}

impl Ring {
    /// An error where the system forbids it: `EPERM` or `ENOSYS` in many containers.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { ring: IoUring::new(DEPTH)?, broken: None })
    }

    pub(crate) fn transfer(
        &mut self,
        file: &File,
        moves: &mut [Move<'_>],
        interrupt: Interrupt<'_>,
    ) -> io::Result<()> {
        if let Some(why) = &self.broken {
            return Err(io::Error::other(why.clone()));
        }
        let file = types::Fd(file.as_raw_fd());
        let mut parts = Vec::new();
        for piece in super::pieces(moves) {
            let length = u32::try_from(piece.memory.len()).map_err(io::Error::other)?;
            parts.push(Part {
                memory: piece.memory.as_mut_ptr(),
                length,
                offset: piece.offset,
                way: piece.way,
            });
        }
        let mut waiting: Vec<usize> = (0..parts.len()).rev().collect();
        let mut under_way = 0_usize;
        let mut failed: Option<io::Error> = None;
        loop {
            if failed.is_none() && !waiting.is_empty() {
                failed = super::go_on(interrupt).err();
            }
            while under_way < DEPTH as usize
                && failed.is_none()
                && let Some(place) = waiting.pop()
            {
                let request = parts[place].request(file).user_data(place as u64);
                // SAFETY: the part lies within a block that `moves` borrows mutably until this function returns, no two
                // parts overlap, and the function returns only when nothing is under way.
                if unsafe { self.ring.submission().push(&request) }.is_err() {
                    waiting.push(place);
                    break;
                }
                under_way += 1;
            }
            if under_way == 0 {
                return failed.map_or(Ok(()), Err);
            }
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    // What the kernel has not taken stays in the queue, which is never handed over again.
                    under_way -= self.ring.submission().len();
                    self.broken = Some(error.to_string());
                    if under_way == 0 {
                        return Err(error);
                    }
                    failed = Some(error);
                }
                _ => {}
            }
            let done: Vec<(u64, i32)> =
                self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
            for (place, result) in done {
                under_way -= 1;
                let place = usize::try_from(place).map_err(io::Error::other)?;
                match parts[place].take(result) {
                    Ok(true) => {}
                    Ok(false) => waiting.push(place),
                    Err(error) => failed = Some(error),
                }
            }
        }
    }
}

/// What is left of one request.
struct Part {
    memory: *mut u8,
    length: u32,
    offset: u64,
    way: Way,
}

impl Part {
    fn request(&self, file: types::Fd) -> squeue::Entry {
        match self.way {
            Way::Save => opcode::Write::new(file, self.memory, self.length).offset(self.offset).build(),
            Way::Restore => opcode::Read::new(file, self.memory, self.length).offset(self.offset).build(),
        }
    }

    /// Whether all of it is done now; the kernel may move less than it was asked for.
    fn take(&mut self, result: i32) -> io::Result<bool> {
        let moved = u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))?;
        if moved == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.memory = self.memory.wrapping_add(moved as usize);
        self.offset += u64::from(moved);
        self.length = self.length.saturating_sub(moved);
        Ok(self.length == 0)
    }
}
