use std::time::Duration;

use kvscope_protocol::run::{Cache, Machine};
use kvscope_sizing::Bytes;
use kvscope_sizing::prediction::Calibration;
use serde::{Deserialize, Serialize};

use super::shape::FormShape;
use super::{BenchError, Interrupt};

/// A device that can hold state and run decode steps over it.
pub(crate) trait Backend {
    /// `cpu` or `cuda`.
    fn name(&self) -> &'static str;

    /// The device and what else it is doing now.
    fn machine(&self) -> Machine;

    /// Measures the ceilings in about `time`.
    fn calibrate(&mut self, time: Duration, interrupt: Interrupt<'_>) -> Result<Calibrated, BenchError>;

    /// Measures two of the ceilings in a fraction of a second, to see whether an earlier calibration still holds.
    fn probe(&mut self) -> Result<Probe, BenchError>;

    /// Bytes of state that may be held now without pressing on what else runs.
    fn free_state_bytes(&self) -> Bytes;

    /// How the kernel for a shape lays out one layer of `batch` requests of `context` tokens; an error where no kernel fits
    /// the shape.
    fn layout(&self, shape: &FormShape, context: u64, batch: u64) -> Result<Layout, BenchError>;

    /// Asks for the memory of a case, fills it and prepares the step.
    fn prepare(&mut self, order: &CaseOrder) -> Result<Box<dyn PreparedCase>, BenchError>;

    /// Empties the caches of a case's state, as far as [`Calibrated::buffer`] reaches.
    fn empty_caches(&mut self) -> Result<(), BenchError>;

    /// Whether it only stands for a device, so that its results hold and its times say nothing.
    fn is_emulated(&self) -> bool {
        false
    }

    /// Puts in what of the device is known only after a run.
    fn end(&mut self, _machine: &mut Machine) {}
}

/// The ceilings, and what they were measured with.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Calibrated {
    pub(crate) calibration: Calibration,
    /// The buffer that is read for the read ceiling and to empty caches.
    pub(crate) buffer: Bytes,
    /// The instruction set of the ceilings.
    pub(crate) instructions: String,
}

/// Two ceilings as they are now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) read_bytes_per_second: f64,
    pub(crate) flops_per_second: f64,
}

/// How a kernel lays out the state of one layer of the whole batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Layout {
    /// Bytes that it asks for.
    pub(crate) layer_bytes: u64,
    /// How many of them are neither sizing's state nor a store that another layer keeps: the rest of whole pages.
    pub(crate) padding_bytes: u64,
    /// Why there is padding: `whole pages of 16 tokens`.
    pub(crate) padding_reason: &'static str,
    /// How often a step of one layer starts all workers.
    pub(crate) launches: u64,
    /// The instruction set that the kernel runs with: the widest that divides the shape's rows.
    pub(crate) instructions: &'static str,
}

/// What to hold and run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CaseOrder {
    pub(crate) shape: FormShape,
    pub(crate) layers: u64,
    pub(crate) context: u64,
    pub(crate) batch: u64,
    pub(crate) seed: u64,
    /// What the caches may hold when a step starts.
    pub(crate) cache: Cache,
}

/// A case whose state is in memory.
pub(crate) trait PreparedCase {
    /// Bytes asked of the allocator for state.
    fn asked_bytes(&self) -> Bytes;

    /// What the system shows for them; `None` where it does not say.
    fn resident(&self) -> Option<Resident>;

    /// Compares a step with the f64 reference.
    fn check(&mut self) -> Result<Check, BenchError>;

    /// Runs one decode step over all layers and says how long it took.
    fn step(&mut self) -> Result<Timed, BenchError>;

    /// What a reader has to know of how it is held or run.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How long a step took.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    pub(crate) elapsed: Duration,
    pub(crate) disturbance: Disturbance,
}

/// How it is known whether something else slowed a step down.
#[derive(Clone, Debug)]
pub(crate) enum Disturbance {
    /// By the time that this process got of its processors.
    OfProcessor,
    /// The device says whether it was held back, and by what.
    OfDevice(Option<String>),
}

impl Timed {
    /// A step on processors.
    pub(crate) fn on_processors(elapsed: Duration) -> Self {
        Self { elapsed, disturbance: Disturbance::OfProcessor }
    }
}

/// What the system shows for a case's state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Resident {
    pub(crate) bytes: Bytes,
    /// `None` where the system does not say.
    pub(crate) huge_page_bytes: Option<Bytes>,
}

impl Resident {
    /// What has come since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        let grown = |after: Bytes, before: Bytes| Bytes::new(after.get().saturating_sub(before.get()));
        Self {
            bytes: grown(self.bytes, before.bytes),
            huge_page_bytes: self
                .huge_page_bytes
                .zip(before.huge_page_bytes)
                .map(|(after, before)| grown(after, before)),
        }
    }
}

/// The comparison with the f64 reference.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    /// The largest difference over the largest reference value.
    pub(crate) largest_relative_error: f64,
    /// What it was made over, in words, where that is not the whole output.
    pub(crate) part: Option<String>,
}

impl Check {
    /// For bf16 inputs and f32 sums.
    pub(crate) const TOLERANCE: f64 = 2e-3;

    /// Whether the kernel's result holds. NaN does not.
    pub(crate) fn is_correct(&self) -> bool {
        self.largest_relative_error <= Self::TOLERANCE
    }
}
