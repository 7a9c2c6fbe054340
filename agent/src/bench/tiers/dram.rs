use std::io;

use super::memory::Memory;
use super::{Move, Tier, Way};
use crate::bench::Interrupt;

/// Another place in memory; one thread copies, as in an engine's offload to the host.
#[derive(Debug)]
pub(crate) struct Dram {
    kept: Memory,
}

impl Dram {
    pub(crate) fn new(pages: usize) -> io::Result<Self> {
        Ok(Self { kept: Memory::random(pages, 1)? })
    }

    #[cfg(test)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.kept.bytes_mut()
    }
}

impl Tier for Dram {
    fn method(&self) -> String {
        "copies of one thread".to_owned()
    }

    fn transfer(&mut self, moves: &mut [Move<'_>], interrupt: Interrupt<'_>) -> io::Result<()> {
        let kept = self.kept.bytes_mut();
        for one in super::pieces(moves) {
            super::go_on(interrupt)?;
            let begin = usize::try_from(one.offset).map_err(io::Error::other)?;
            let place = kept
                .get_mut(begin..begin.saturating_add(one.memory.len()))
                .ok_or_else(|| io::Error::other(format!("byte {begin} lies beyond the tier")))?;
            match one.way {
                Way::Save => place.copy_from_slice(one.memory),
                Way::Restore => one.memory.copy_from_slice(place),
            }
        }
        Ok(())
    }
}
