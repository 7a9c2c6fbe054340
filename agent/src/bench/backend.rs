use std::time::Duration;

use kvscope_protocol::run::Machine;
use kvscope_sizing::Bytes;
use kvscope_sizing::prediction::Calibration;

use super::plan::FormShape;
use super::{BenchError, Interrupt};

/// A device that can hold state and run decode steps over it.
pub(crate) trait Backend {
    /// `cpu` or `cuda`.
    fn name(&self) -> &'static str;

    /// The device and what else it is doing now.
    fn machine(&self) -> Machine;

    /// Measures the ceilings in about `time`.
    fn calibrate(&mut self, time: Duration, interrupt: Interrupt<'_>) -> Result<Calibrated, BenchError>;

    /// Bytes of state that may be held now without pressing on what else runs.
    fn free_state_bytes(&self) -> Bytes;

    /// The state that a step over this shape keeps, as the kernel lays it out; an error where no kernel fits the shape.
    fn layout(&self, shape: &FormShape) -> Result<Layout, BenchError>;

    /// Asks for the memory of a case, fills it and prepares the step.
    fn prepare(&mut self, order: &CaseOrder) -> Result<Box<dyn PreparedCase>, BenchError>;

    /// Empties the caches of a case's state, as far as [`Calibrated::buffer`] reaches.
    fn empty_caches(&mut self) -> Result<(), BenchError>;
}

/// The ceilings, and what they were measured with.
#[derive(Clone, Debug)]
pub(crate) struct Calibrated {
    pub(crate) calibration: Calibration,
    /// The buffer that is read for the read ceiling and to empty caches.
    pub(crate) buffer: Bytes,
    /// The instruction set of the ceilings.
    pub(crate) instructions: &'static str,
}

/// How a kernel lays out state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) page_tokens: u64,
    /// Bytes of one page of one layer.
    pub(crate) page_bytes: u64,
    /// FLOPs of one token of one layer of one request; a multiply-add counts as two.
    pub(crate) flops_a_token: u64,
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
}

/// A case whose state is in memory.
pub(crate) trait PreparedCase {
    /// Bytes asked of the allocator for state.
    fn asked_bytes(&self) -> Bytes;

    /// What the system shows for them; `None` where it does not say.
    fn resident(&self) -> Option<Resident>;

    /// Compares a step with the f64 reference.
    fn check(&mut self) -> Check;

    /// Runs one decode step over all layers and says how long it took.
    fn step(&mut self) -> Duration;
}

/// What the system shows for a case's state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Resident {
    pub(crate) bytes: Bytes,
    /// `None` where the system does not say.
    pub(crate) huge_page_bytes: Option<Bytes>,
}

/// The comparison with the f64 reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    /// The largest difference over the largest reference value.
    pub(crate) largest_relative_error: f64,
    /// Tokens over which it was made.
    pub(crate) tokens: u64,
}

impl Check {
    /// For bf16 inputs and f32 sums.
    pub(crate) const TOLERANCE: f64 = 2e-3;

    /// Whether the kernel's result holds. NaN does not.
    pub(crate) fn is_correct(&self) -> bool {
        self.largest_relative_error <= Self::TOLERANCE
    }
}
