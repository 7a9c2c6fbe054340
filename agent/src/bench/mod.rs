//! Measuring: decode attention over real state, predicted first.
//!
//! [`run`] takes a [`Plan`] and [`CaseRequest`]s, calibrates the machine, stores a prediction of every case, measures
//! the cases in turns and stores what came out. Layers of the room: `backend` is what a device must do, `cpu` does it on
//! all cores, `cuda` on a GPU, `form`, `subject` and `shape` say what a model's layers are, `layers` chooses how much of a model fits memory and time, `runner` follows the protocol, `store` keeps runs.

mod backend;
mod calibration;
mod cpu;
mod cuda;
mod form;
mod layers;
mod life;
mod machine;
mod memory;
mod plan;
mod record;
mod runner;
#[cfg(test)]
mod runner_tests;
mod samples;
mod shape;
mod stats;
mod store;
mod subject;
#[cfg(target_os = "linux")]
mod tiers;
mod worker_time;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use kvscope_protocol::run::{LineWarning, Run};
use kvscope_sizing::Bytes;
use kvscope_sizing::prediction::Calibration;

pub(crate) use cuda::{Outcome, selftest};

pub use calibration::{CalibrationLength, CalibrationUse};
pub use form::Form;
pub(crate) use machine::describe as this_machine;
pub use plan::{CaseRequest, CaseSizing, DEFAULT_CONTEXTS, Divided, Plan, Progress, Resumed, Stage};
pub use shape::*;
pub use store::{Left, Store, Turn};
pub use subject::Subject;
#[cfg(target_os = "linux")]
pub use tiers::{StateLayout, TierPlan, remove_own_tiers, run_tiers, serve_peer};

/// Where a run is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// All cores of this machine.
    Cpu,
    /// The first GPU that has kernels.
    Cuda,
}

impl Place {
    fn backend(self) -> Result<Box<dyn backend::Backend>, BenchError> {
        Ok(match self {
            Self::Cpu => Box::new(cpu::CpuBackend::new()?),
            Self::Cuda => Box::new(cuda::CudaBackend::new()?),
        })
    }

    /// That of a stored run, by the name in its file.
    pub fn of_stored(backend: &str) -> Self {
        if backend.starts_with("cuda") { Self::Cuda } else { Self::Cpu }
    }
}

/// Runs `cases` there within `plan.budget`, calibration and warm-up included.
///
/// The run is stored as it goes: each prediction before its measurement, figures as they come. A case that cannot be
/// run is in the result with its reason. Where `cancel` becomes true the run ends before the next step of a case and
/// what was measured so far is returned.
pub fn run(
    place: Place,
    plan: &Plan,
    cases: &[CaseRequest],
    store: &Store,
    progress: &mut dyn FnMut(Progress),
    cancel: &AtomicBool,
) -> Result<Run, BenchError> {
    let mut backend = place.backend()?;
    runner::run(backend.as_mut(), plan, cases, store, progress, Interrupt { cancel })
}

/// The same, with the tiers after the cases: one run, one file and one budget, of which `plan.kept` is theirs.
#[cfg(target_os = "linux")]
pub fn run_with_tiers(
    place: Place,
    plan: &Plan,
    cases: &[CaseRequest],
    tiers: &TierPlan,
    store: &Store,
    progress: &mut dyn FnMut(Progress),
    cancel: &AtomicBool,
) -> Result<Run, BenchError> {
    let begun = std::time::Instant::now();
    let mut backend = place.backend()?;
    let interrupt = Interrupt { cancel };
    let plan = Plan { tiers: tiers.words(), states: tiers.asked.clone(), ..plan.clone() };
    let further: &mut runner::Further<'_> = &mut |run, writer, progress| {
        tiers::measure(tiers, begun, run, writer, progress, interrupt);
    };
    runner::run_and(backend.as_mut(), &plan, cases, store, progress, interrupt, further)
}

/// Measures the ceilings of a place and keeps them for later runs.
pub fn calibrate(
    place: Place,
    length: CalibrationLength,
    store: &Store,
    cancel: &AtomicBool,
) -> Result<Calibration, BenchError> {
    let mut backend = place.backend()?;
    let interrupt = Interrupt { cancel };
    let calibrated = calibration::measure(backend.as_mut(), length.time(), store, interrupt)?;
    interrupt.check()?;
    Ok(calibrated.calibration)
}

/// Why nothing could be measured, stored or read: one line each.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There is nothing to run.
    #[error("no case to run: choose at least one form and one context")]
    NoCases,
    /// Someone asked to stop before the first measurement.
    #[error("cancelled before the first measurement")]
    Cancelled,
    /// The worker threads did not start.
    #[error("the worker threads did not start: {0}")]
    Workers(String),
    /// A form that is unknown, or that a model does not have.
    #[error("{0}")]
    Form(String),
    /// No kernel fits the shape.
    #[error("no kernel for this shape: {0}")]
    Shape(String),
    /// The system refused memory.
    #[error("the system refused {bytes} bytes for state: {why}; use a smaller context or batch")]
    Memory {
        /// What was asked for.
        bytes: u64,
        /// The system's words.
        why: String,
    },
    /// There is no device that can be measured on, or it cannot do what was asked.
    #[error("{0}")]
    Device(String),
    /// The device cannot run anything any more in this process.
    #[error("the device was lost: {0}")]
    DeviceLost(String),
    /// Sizing or prediction failed.
    #[error(transparent)]
    Sizing(#[from] kvscope_sizing::Error),
    /// A file of the store could not be used.
    #[error("{}: {source}", path.display())]
    Store {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The store has no run of that name.
    #[error("no stored run is called {0:?}; `kvscope bench list` shows them")]
    UnknownRun(String),
    /// The store has a run of that name already.
    #[error("a run called {0:?} is already stored; delete it first")]
    KnownRun(String),
    /// A process adds to the run at this moment.
    #[error("run {0:?} goes on at this moment; wait for its end or cancel it")]
    Running(String),
    /// Another process measures at this moment.
    #[error(
        "another measurement goes on: {0}; two at once would disturb each other, so wait for its end, or stop it, and start \
         this one again"
    )]
    Busy(String),
    /// Every case of the run was measured, failed or cannot be run here.
    #[error("no case of run {0:?} is missing; start another with `kvscope bench run`")]
    NothingMissing(String),
    /// A text is not a stored run.
    #[error("{name}: {warning}")]
    NotARun {
        /// The file or what else it came from.
        name: String,
        /// Which line and why.
        warning: LineWarning,
    },
}

/// Whether someone asked to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupt<'a> {
    cancel: &'a AtomicBool,
}

impl Interrupt<'_> {
    /// Of what is too short to be asked.
    pub(crate) fn never() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self { cancel: &NEVER }
    }

    pub(crate) fn is_set(self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    pub(crate) fn check(self) -> Result<(), BenchError> {
        if self.is_set() { Err(BenchError::Cancelled) } else { Ok(()) }
    }
}

/// `1.07 GB`, as in every message of this module.
fn in_words(bytes: u64) -> String {
    Bytes::new(bytes).display(kvscope_sizing::UnitSystem::Decimal)
}
