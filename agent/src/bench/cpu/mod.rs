//! The CPU backend: real paged decode attention over real state, on all cores.
#![allow(
    clippy::inline_always,
    reason = "a helper that is not inlined is compiled without the instruction set"
)]
#![allow(
    clippy::many_single_char_names,
    reason = "h, t and d are head, token and dimension in every formula"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "constant ranges unroll; iterators in kernels may not be inlined"
)]
#![allow(clippy::needless_pass_by_value, reason = "a kernel takes its argument whole, through one dispatch")]
#![allow(clippy::wildcard_imports, reason = "intrinsics have their prefix in the name")]

mod barrier;
mod ceilings;
mod composite;
mod gather;
mod gqa;
mod indexer;
mod mla;
mod numbers;
mod paged;
mod parts;
mod pool;
mod records;
mod recurrent;
mod reference;
mod rows;
mod shared_rows;
mod simd;
mod state;
mod step;
mod top_k;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kvscope_protocol::run::Machine;
use kvscope_sizing::Bytes;
use kvscope_sizing::prediction::Calibration;
use memmap2::MmapMut;

pub(in crate::bench) use self::state::{Kind, Run, random_bytes};

use self::pool::Pool;
use self::simd::InstructionSet;
use self::state::{PagedState, StateShape};
use super::backend::{Backend, Calibrated, CaseOrder, Layout, PreparedCase, Probe};
use super::shape::FormShape;
use super::{BenchError, Interrupt, machine, memory};

/// The buffer that is read for the read ceiling, and to empty caches, is no larger than this.
const LARGEST_READ_BUFFER: u64 = 512 << 20;
/// The rule of STREAM: a working set of four times the last-level cache is in memory.
pub(crate) const CACHE_MULTIPLE: u64 = 4;

/// All cores of this machine.
#[derive(Debug)]
pub(crate) struct CpuBackend {
    pool: Arc<Pool>,
    buffer: Option<MmapMut>,
}

impl CpuBackend {
    /// Starts the workers.
    pub(crate) fn new() -> Result<Self, BenchError> {
        Ok(Self { pool: Arc::new(Pool::for_all_cores()?), buffer: None })
    }

    /// Four times the last-level cache, or less where memory or [`LARGEST_READ_BUFFER`] asks for it; filled with random
    /// values so that no page is the system's zero page.
    fn buffer(&mut self) -> Result<&mut [u16], BenchError> {
        if self.buffer.is_none() {
            let cache =
                machine::last_level_cache().map_or(LARGEST_READ_BUFFER, |bytes| bytes * CACHE_MULTIPLE);
            let bytes = cache.clamp(64 << 20, LARGEST_READ_BUFFER).min(memory::free_bytes() / 4).max(1 << 20);
            let pages = usize::try_from(bytes / 4096).expect("at most 512 MiB");
            let shape = StateShape { layers: 1, pages, page_values: 2048 };
            self.buffer = Some(PagedState::new(shape, 3, &self.pool)?.into_map());
        }
        let map = self.buffer.as_mut().expect("filled above");
        Ok(bytemuck::cast_slice_mut(&mut map[..]))
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn machine(&self) -> Machine {
        Machine {
            cores: u32::try_from(self.pool.workers()).ok(),
            pinned: Some(self.pool.pinned()),
            instructions: InstructionSet::available().first().map(|set| set.name().to_owned()),
            ..machine::describe()
        }
    }

    fn calibrate(&mut self, time: Duration, interrupt: Interrupt<'_>) -> Result<Calibrated, BenchError> {
        interrupt.check()?;
        let started = Instant::now();
        let pool = Arc::clone(&self.pool);
        let buffer = self.buffer()?;
        let set = InstructionSet::available()[0];
        let time = time.saturating_sub(started.elapsed());
        let found = ceilings::measure(&pool, set, buffer, time, interrupt);
        let calibration = Calibration {
            date: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            ceilings: found.ceilings,
            relative_spread: found.spread,
            last_level_cache_bytes: machine::last_level_cache().map(Bytes::new),
            workers: u32::try_from(pool.workers()).unwrap_or(u32::MAX),
            unsteady: found.unsteady,
        };
        let buffer = Bytes::new(std::mem::size_of_val(buffer) as u64);
        Ok(Calibrated { calibration, buffer, instructions: set.name().to_owned() })
    }

    fn probe(&mut self) -> Result<Probe, BenchError> {
        let pool = Arc::clone(&self.pool);
        Ok(ceilings::probe(&pool, InstructionSet::available()[0], self.buffer()?))
    }

    fn free_state_bytes(&self) -> Bytes {
        Bytes::new(memory::free_bytes() / 4)
    }

    fn layout(&self, shape: &FormShape, context: u64, batch: u64) -> Result<Layout, BenchError> {
        kernel_for(shape)?.layout(context, batch)
    }

    fn prepare(&mut self, order: &CaseOrder) -> Result<Box<dyn PreparedCase>, BenchError> {
        kernel_for(&order.shape)?.prepare(order, Arc::clone(&self.pool))
    }

    fn empty_caches(&mut self) -> Result<(), BenchError> {
        let set = InstructionSet::available()[0];
        let pool = Arc::clone(&self.pool);
        ceilings::read_once(&pool, set, self.buffer()?);
        Ok(())
    }
}

/// The kernel of one shape: how it lays out state, and cases of it.
trait Kernel {
    /// The layout of one layer of the whole batch.
    fn layout(&self, context: u64, batch: u64) -> Result<Layout, BenchError>;

    /// Asks for the memory of a case of this shape, fills it and prepares the step.
    fn prepare(&self, order: &CaseOrder, pool: Arc<Pool>) -> Result<Box<dyn PreparedCase>, BenchError>;
}

/// The kernel that fits a shape: one line a family, each in a module of its own.
fn kernel_for(shape: &FormShape) -> Result<Box<dyn Kernel>, BenchError> {
    match shape {
        FormShape::Gqa(gqa) => Ok(Box::new(paged::Paged::gqa(gqa)?)),
        FormShape::Mla(mla) => Ok(Box::new(paged::Paged::mla(mla)?)),
        FormShape::Recurrent(shape) => Ok(Box::new(recurrent::RecurrentKernel::new(shape)?)),
        FormShape::Dsa(dsa) => Ok(Box::new(composite::Layer::dsa(dsa)?)),
        FormShape::Compressed(compressed) => Ok(Box::new(composite::Layer::compressed(compressed)?)),
        FormShape::Indexed(_) => {
            Err(BenchError::Shape("K/V heads behind an indexer are not measured on a CPU yet".to_owned()))
        }
    }
}
