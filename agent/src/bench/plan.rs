use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kvscope_protocol::run::{Cache, Run, StateAsked};
use kvscope_sizing::cost::StepCost;
use kvscope_sizing::{Bytes, Tokens};
use serde::Serialize;

use super::calibration::CalibrationUse;
use super::shape::FormShape;

/// Contexts of the quick form: 4Ki to 256Ki tokens, each a whole number of pages.
pub const DEFAULT_CONTEXTS: [Tokens; 4] =
    [Tokens::new(4 << 10), Tokens::new(16 << 10), Tokens::new(64 << 10), Tokens::new(256 << 10)];

/// What a run may use.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The time that the whole run may take, calibration and warm-up included.
    pub budget: Duration,
    /// How much of it is kept for what is measured after the cases.
    pub kept: Duration,
    /// Seed of the random state and page tables.
    pub seed: u64,
    /// The most state that all cases together hold; it is lowered to a quarter of the free memory.
    pub state_limit: Bytes,
    /// Which calibration predicts.
    pub calibration: CalibrationUse,
    /// A stored run that goes on.
    pub resumed: Option<Resumed>,
    /// Tiers that follow the cases, by their words, for the run's record.
    pub tiers: Vec<String>,
    /// States that go to them.
    pub states: Vec<StateAsked>,
}

impl Plan {
    /// A plan with the usual limits: 4 GiB of state.
    pub fn new(budget: Duration) -> Self {
        Self {
            budget,
            kept: Duration::ZERO,
            seed: 0x6B76,
            state_limit: Bytes::new(4 << 30),
            calibration: CalibrationUse::Stored,
            resumed: None,
            tiers: Vec::new(),
            states: Vec::new(),
        }
    }
}

/// A stored run whose missing cases are asked for; their figures are added to its file.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// As it is stored.
    pub run: Run,
    /// The number in it of every case that is asked for.
    pub cases: Vec<u32>,
}

/// One case to run: a form's shape at a context and batch.
#[derive(Clone)]
pub struct CaseRequest {
    /// The form's name in JSON, with the format of its state where one was asked for: `gqa`, `gqa@fp8`.
    pub form: String,
    /// Widths of one layer.
    pub shape: FormShape,
    /// Layers of the model that have this form; at least 1.
    pub layers: u64,
    /// The catalogue id that the shape comes from.
    pub model: String,
    /// Tokens of each request.
    pub context: Tokens,
    /// Requests in the step.
    pub batch: u64,
    /// Whether caches are emptied before each step, or left with what the step before put into them.
    pub cache: Cache,
    /// What sizing says of it.
    pub sizing: Arc<dyn CaseSizing>,
}

impl fmt::Debug for CaseRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaseRequest")
            .field("form", &self.form)
            .field("shape", &self.shape)
            .field("layers", &self.layers)
            .field("model", &self.model)
            .field("context", &self.context)
            .field("batch", &self.batch)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// What sizing says of `layers` layers of a form: logical bytes and operations, for the whole batch.
pub trait CaseSizing: fmt::Debug + Send + Sync {
    /// Bytes that are resident.
    fn state_bytes(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<Bytes>;

    /// Bytes of stores that earlier layers keep and these layers read.
    fn borrowed_bytes(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<Bytes>;

    /// What one decode step reads, writes and computes.
    fn cost(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<StepCost>;

    /// The same with one in `by` of the heads, where that keeps one in `by` of the state.
    fn divided(&self, by: u64) -> Option<Divided>;
}

/// A form with fewer heads than its model has.
#[derive(Clone, Debug)]
pub struct Divided {
    /// Widths of one layer.
    pub shape: FormShape,
    /// What sizing says of it.
    pub sizing: Arc<dyn CaseSizing>,
    /// `4 of 8 key-value heads`
    pub what: String,
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Progress {
    /// What it is doing.
    pub stage: Stage,
    /// Share of the expected time that has passed, 0 to 1.
    pub fraction: f64,
    /// Seconds that it is expected to go on.
    pub remaining_seconds: f64,
    /// The case that it is at, counted from 0.
    pub case: Option<usize>,
    /// Cases that are asked for, as far as they are known.
    pub cases: usize,
    /// Cases of the run that have a figure.
    pub measured: usize,
    /// The run's name, as soon as its file is there.
    pub run: Option<String>,
}

impl Progress {
    /// The same when `passed` more has gone by and nothing new is known: what was expected goes down.
    #[must_use]
    pub fn after(&self, passed: Duration) -> Self {
        let passed = passed.as_secs_f64().min(self.remaining_seconds);
        let rest = (1.0 - self.fraction) * passed / self.remaining_seconds.max(1e-9);
        Self {
            fraction: (self.fraction + rest).min(1.0),
            remaining_seconds: self.remaining_seconds - passed,
            ..self.clone()
        }
    }
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Measuring the machine's ceilings.
    #[default]
    Calibrating,
    /// Filling state and checking a result against the reference.
    Preparing,
    /// Measuring steps.
    Measuring,
    /// All figures are stored.
    Done,
}

impl Stage {
    /// The word in JSON and on screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Calibrating => "calibrating",
            Self::Preparing => "preparing",
            Self::Measuring => "measuring",
            Self::Done => "done",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_down_to_nothing() {
        // A quarter of 40 s has passed: after 15 s more, 25 of 40 have; after a minute, all.
        let progress = Progress { fraction: 0.25, remaining_seconds: 30.0, ..Progress::default() };
        let later = progress.after(Duration::from_secs(15));
        assert!((later.fraction - 0.625).abs() < 1e-12 && (later.remaining_seconds - 15.0).abs() < 1e-12);
        let late = progress.after(Duration::from_mins(1));
        assert!((late.fraction - 1.0).abs() < 1e-12 && late.remaining_seconds.abs() < 1e-12);
        assert_eq!(late.after(Duration::from_secs(1)), late);
    }
}
