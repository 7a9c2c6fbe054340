//! The CUDA backend: real decode attention over real state on one GPU.
//!
//! `plan` finds the form of a shape: `gqa` (K/V heads in pages), `composite` (records that all heads share, with indexer and
//! compressor: MLA, DSA, CSA, HCA, CSA2), `recurrent`. Each holds its state in `pages` or plain memory, starts the kernels of
//! `kvscope-kernels` for a layer, and compares a layer with `kvscope-reference`. `case` times steps of them by replaying a
//! graph; `ceilings` is what the device can do at most; `selftest` goes through every kernel.

mod case;
mod ceilings;
mod composite;
mod compressor;
mod describe;
mod gqa;
mod index;
mod numbers;
mod pages;
mod plan;
mod recurrence;
mod recurrent;
mod rows;
mod selftest;

use std::rc::Rc;
use std::time::Duration;

use kvscope_protocol::run::Machine;
use kvscope_sizing::Bytes;

use self::case::CudaCase;
use self::ceilings::Bench;
use super::backend::{Backend, Calibrated, CaseOrder, Layout, PreparedCase, Probe};
use super::shape::FormShape;
use super::{BenchError, Interrupt, machine};
use crate::gpu::{Gpu, Telemetry};

pub(crate) use selftest::{Outcome, selftest};

/// The first GPU of this machine that has kernels.
pub(crate) struct CudaBackend {
    gpu: Rc<Gpu>,
    telemetry: Option<Rc<Telemetry>>,
    bench: Option<Bench>,
}

impl CudaBackend {
    /// Takes the device into use; one line where there is none.
    pub(crate) fn new() -> Result<Self, BenchError> {
        let gpu = Gpu::open()?;
        let telemetry = gpu.uuid().and_then(Telemetry::find).map(Rc::new);
        Ok(Self { gpu, telemetry, bench: None })
    }

    fn bench(&mut self) -> Result<&mut Bench, BenchError> {
        if self.bench.is_none() {
            self.bench = Some(Bench::new(&self.gpu)?);
        }
        Ok(self.bench.as_mut().expect("made above"))
    }
}

impl Backend for CudaBackend {
    /// A calibration of an emulation is never taken for one of a device.
    fn name(&self) -> &'static str {
        if self.gpu.is_emulated() { "cuda-emulated" } else { "cuda" }
    }

    fn machine(&self) -> Machine {
        let device = self.gpu.device();
        let target = device.target().map_or("", |target| target.name());
        let uuid = self.gpu.uuid().map_or_else(String::new, |uuid| format!(", {uuid}"));
        Machine {
            instructions: Some(format!("{target} on {}{uuid}", device.name)),
            last_level_cache_bytes: Some(device.second_level_cache),
            device: Some(describe::device(&self.gpu, self.telemetry.as_deref())),
            ..machine::describe()
        }
    }

    fn calibrate(&mut self, time: Duration, interrupt: Interrupt<'_>) -> Result<Calibrated, BenchError> {
        interrupt.check()?;
        let target = self.gpu.device().target().map_or("", |target| target.name());
        let cache = self.gpu.device().second_level_cache;
        let workers = self.gpu.device().multiprocessors;
        let bench = self.bench()?;
        let calibration = bench.calibrate(time, interrupt, cache, workers)?;
        Ok(Calibrated {
            calibration,
            buffer: Bytes::new(bench.buffer_bytes()),
            instructions: target.to_owned(),
        })
    }

    fn probe(&mut self) -> Result<Probe, BenchError> {
        self.bench()?.probe()
    }

    fn free_state_bytes(&self) -> Bytes {
        // A fifth is for what is held beside state: other inputs, parts of results, the driver's own.
        Bytes::new(self.gpu.free_bytes().unwrap_or(0) / 5 * 4)
    }

    fn layout(&self, shape: &FormShape, context: u64, batch: u64) -> Result<Layout, BenchError> {
        plan::plan(shape, &self.gpu)?.layout(context, batch)
    }

    fn prepare(&mut self, order: &CaseOrder) -> Result<Box<dyn PreparedCase>, BenchError> {
        Ok(Box::new(CudaCase::new(&self.gpu, self.telemetry.clone(), order)?))
    }

    fn empty_caches(&mut self) -> Result<(), BenchError> {
        Ok(self.bench()?.read_once()?)
    }

    fn is_emulated(&self) -> bool {
        self.gpu.is_emulated()
    }

    fn end(&mut self, machine: &mut Machine) {
        if let Some(device) = &mut machine.device {
            describe::end(device, &self.gpu, self.telemetry.as_deref());
        }
    }
}
