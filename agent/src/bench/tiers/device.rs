use std::fmt;
use std::io;
use std::rc::Rc;

use super::{Move, PAGE, Tier, Way};
use crate::bench::Interrupt;
use crate::gpu::{Exchange, Gpu, GpuError, Memory, Registered};

/// Memory of a GPU. Every block is a copy of its own, started one after the other and waited for together, as an engine does
/// that moves pages of a request.
pub(crate) struct DeviceTier {
    kept: Memory,
    gpu: Rc<Gpu>,
    host: HostMemory,
}

/// What the other end of a copy is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HostMemory {
    /// Locked, so that the device copies by itself.
    Pinned,
    /// As any program gets it: the driver copies through memory of its own.
    Pageable,
}

impl DeviceTier {
    pub(crate) fn new(pages: usize, host: HostMemory) -> io::Result<Self> {
        let gpu = Gpu::open().map_err(|error| in_words(&error))?;
        if gpu.is_emulated() {
            return Err(io::Error::other("the driver is emulated, so there is nothing to measure"));
        }
        let kept = Memory::new(&gpu, (pages * PAGE) as u64).map_err(|error| in_words(&error))?;
        Ok(Self { kept, gpu, host })
    }
}

impl fmt::Debug for DeviceTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceTier").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Tier for DeviceTier {
    fn method(&self) -> String {
        let memory = match self.host {
            HostMemory::Pinned => "locked",
            HostMemory::Pageable => "pageable",
        };
        format!("a copy for each block, with {memory} memory of the host, on {}", self.gpu.device().name)
    }

    fn lock(&self, memory: &mut [u8]) -> io::Result<Option<Box<dyn fmt::Debug>>> {
        if self.host == HostMemory::Pageable {
            return Ok(None);
        }
        Ok(Some(Box::new(Registered::new(&self.gpu, memory).map_err(|error| in_words(&error))?)))
    }

    fn transfer(&mut self, moves: &mut [Move<'_>], interrupt: Interrupt<'_>) -> io::Result<()> {
        super::go_on(interrupt)?;
        let mut copies: Vec<Exchange<'_>> = moves
            .iter_mut()
            .map(|one| match one.way {
                Way::Save => Exchange::To(one.offset, one.memory),
                Way::Restore => Exchange::From(one.offset, one.memory),
            })
            .collect();
        self.kept.exchange(&mut copies).map_err(|error| in_words(&error))
    }
}

fn in_words(error: &GpuError) -> io::Error {
    io::Error::other(error.to_string())
}
