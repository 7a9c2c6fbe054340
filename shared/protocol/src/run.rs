//! A run: one benchmark job with its plan, its machine, what was predicted before each measurement, and what came out.
//!
//! [`Run`] is what `bench run --json` prints and what the page shows. [`Line`] is one line of the stored file;
//! [`read_lines`] folds a file into a [`Run`] and keeps what is readable of a damaged one. What is unknown is `null`.

mod compare;
mod fitted;
mod lines;
mod machine;
mod samples;
mod spent;
mod summary;
mod tier;
mod transfer;
mod verdict;

use kvscope_sizing::prediction::{Bound, Calibration, FittedTime, Grade};
use kvscope_sizing::{Bytes, Tokens, record, word_record};
use serde::Serialize;

pub use compare::{Comparison, Difference, TransferDifference, compare_runs};
pub use fitted::{fit_half, put_fits};
pub use lines::{Header, Line, LineWarning, ReadRun, read_lines};
pub use machine::Machine;
pub use samples::quantile;
pub use spent::TimeSpent;
pub use summary::RunSummary;
pub use tier::TierName;
pub use transfer::{
    Direction, FittedTransfer, MeasuredTransfer, Pattern, PredictedTransfer, StateMoved, StatePart, Transfer,
    is_missing_transfer, transfer_verdicts,
};
pub use verdict::{FitVerdict, Verdict, WorstPoint, WorstTransfer, verdicts};

/// The version of the stored form. A reader refuses a newer one.
pub const RUN_SCHEMA: u32 = 1;

/// One benchmark job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The run's name: its start in UTC and four hexadecimal digits.
    pub run: String,
    /// [`RUN_SCHEMA`] of the writer.
    pub schema: u32,
    /// `cpu` or `cuda`.
    pub backend: String,
    /// When it started, RFC 3339, UTC.
    pub started: String,
    /// The version of kvscope that measured; `null` in runs of before it was kept.
    pub version: Option<String>,
    /// How it ended.
    pub ended: Ended,
    /// What was asked for.
    pub plan: PlanRecord,
    /// Where it ran.
    pub machine: Machine,
    /// Ceilings measured before the cases.
    pub calibration: Option<Calibration>,
    /// The measured points.
    pub cases: Vec<Case>,
    /// Transfers between tiers; their fields come with the tiers.
    pub transfers: Vec<serde_json::Value>,
    /// One per form that has measured cases.
    pub verdicts: Vec<Verdict>,
    /// What a reader of the whole has to know: what was left out, and when the run was resumed.
    pub notes: Vec<String>,
    /// Where the time went; `null` where the run has no end, and in runs of before it was kept.
    pub spent: Option<TimeSpent>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// Every case was measured, failed, or cannot be run on this machine.
    Complete,
    /// The time was up before every case had its samples: `bench run --resume` measures those that are missing.
    Partial,
    /// It goes on at this moment; said of a stored run, never in its file.
    Running,
    /// Someone asked it to stop.
    Cancelled,
    /// The file has no last line: the process was killed.
    Interrupted,
}

impl Ended {
    /// The word in JSON and on screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Running => "running",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlanRecord {
    /// The time that the whole run may take, calibration and warm-up included.
    pub budget_seconds: f64,
    /// Forms asked for, in order.
    pub forms: Vec<String>,
    /// Seed of the random state and page tables.
    pub seed: u64,
    /// Numbers of the cases that fits are made from; the others judge them. Declared before anything is measured.
    pub fit_half: Vec<u32>,
    /// Tiers asked for after the forms, in order.
    pub tiers: Vec<String>,
    /// States that go to each of them and come back.
    pub states: Vec<StateAsked>,
}

/// A state that goes to tiers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateAsked {
    /// Catalogue id or path.
    pub model: String,
    /// Whose blocks it lies in.
    pub engine: String,
    /// Tokens of the request.
    pub context: Tokens,
    /// `name=value`
    pub settings: Vec<String>,
}

/// One measured point: a form at one context and batch, predicted first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// Its place in the run, from 0.
    pub case: u32,
    /// The form, with the format of its state where one was asked for: `gqa`, `gqa@fp8`, `mamba2`.
    pub form: String,
    /// The catalogue version that the shape comes from.
    pub model: String,
    /// Tokens of each request.
    pub context: Tokens,
    /// Requests in the step.
    pub batch: u64,
    /// `cold`: no state is in a cache when a step starts; `hot` is never mixed with it.
    pub cache: Cache,
    /// Layers that all figures are of, held where anything was measured; fewer than the model has where memory or time asked
    /// for it.
    pub layers_measured: u64,
    /// Layers of the model that have this form.
    pub layers_total: u64,
    /// Computed and stored before the measurement, for `layers_measured` layers.
    pub predicted: Predicted,
    /// `null` where the case was skipped, failed, or gave a wrong result.
    pub measured: Option<Measured>,
    /// The time that a fit to the declared half of the form's points gives; no prediction.
    pub fitted: Option<Fitted>,
    /// State bytes that one step must read, from the architecture.
    pub read_bytes: Option<Bytes>,
    /// State bytes that one step writes back in place; `null` in runs of before they were counted.
    pub written_bytes: Option<Bytes>,
    /// Floating point operations of one step, from the shape.
    pub flops: Option<u64>,
    /// `read_bytes` over the median time, as a share of the measured read ceiling.
    pub bandwidth_share: Option<f64>,
    /// The larger of bytes over the read ceiling and FLOPs over the FLOP ceiling, as a share of the median time.
    pub bound_share: Option<f64>,
    /// Whether the result agreed with the f64 reference; `null` where it was not checked.
    pub correct: Option<bool>,
    /// The largest difference from the reference over the largest reference value.
    pub largest_relative_error: Option<f64>,
    /// `ok`; `unsteady` when the median is uncertain by more than 10 %; `unsteady: …` when what the prediction rests on does not hold
    /// still, such as the machine's ceilings; `partial: …` where time was lacking, `skipped: …` where it cannot be run on this
    /// machine, `failed: …`, each with the reason.
    pub status: String,
    /// What a reader of the figures has to know.
    pub warnings: Vec<String>,
}

/// The state of the caches at the start of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Nothing of the state is in a cache.
    Cold,
    /// The state may be in a cache from the step before.
    Hot,
}

impl Cache {
    /// The word in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Hot => "hot",
        }
    }
}

/// What was computed before the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// Bytes of state by sizing.
    pub bytes: Option<Bytes>,
    /// Bytes that the kernel's layout adds: whole pages, where the context is not a multiple of the page.
    pub page_padding_bytes: Option<Bytes>,
    /// Bytes of stores that earlier layers keep and these layers read; they are held beside [`Predicted::bytes`].
    pub borrowed_bytes: Option<Bytes>,
    /// The time of one step.
    pub seconds: Option<f64>,
    /// Where the constants come from.
    pub grade: Grade,
    /// Which term of the prediction is the largest.
    pub bound: Option<Bound>,
    /// Reading and writing alone.
    pub memory_seconds: Option<f64>,
    /// Computing alone.
    pub compute_seconds: Option<f64>,
    /// Operations over their rates while the operands come from memory, where that was measured.
    pub streamed_seconds: Option<f64>,
    /// Starts of the workers in one step.
    pub launches: Option<u64>,
}

/// What a fit says of a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// The time of one step.
    pub seconds: FittedTime,
    /// Whether the case is one of those that the fit was made from, which judge nothing.
    pub used: bool,
}

/// A sample that does not count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drop {
    /// How long it took.
    pub seconds: f64,
    /// Why it does not count, in a sentence.
    pub reason: String,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Bytes asked of the allocator for state.
    pub asked_bytes: Bytes,
    /// What the system shows as resident for them; `null` where it does not say.
    pub resident_bytes: Option<Bytes>,
    /// How much of it is in large pages; `null` where the system does not say.
    pub huge_page_bytes: Option<Bytes>,
    /// The time of one step.
    pub seconds: SampleSummary,
    /// Every sample that counts, in the order of measuring, in seconds.
    pub samples_seconds: Vec<f64>,
    /// Samples that do not count.
    pub drops: Vec<Drop>,
}

/// Samples in short, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SampleSummary {
    /// The middle sample.
    pub median: f64,
    /// 5 % of the samples are below.
    pub p05: f64,
    /// 95 % of the samples are below.
    pub p95: f64,
    /// How many.
    pub n: u32,
    /// Standard deviation over mean; `null` for fewer than two samples.
    pub cv: Option<f64>,
    /// How far the median is uncertain, as a share of it: half its 95 % confidence interval, by the order of the samples;
    /// `null` for fewer than two, and in runs of before it was kept.
    pub uncertainty: Option<f64>,
}

record!(Run {
    run, schema, backend, started, ended, plan, machine, calibration, cases, verdicts;
    or default version, transfers, notes, spent
});
word_record!(Ended, word, [Complete, Partial, Running, Cancelled, Interrupted]);
record!(PlanRecord { budget_seconds, forms, seed; or default fit_half, tiers, states });
record!(StateAsked { model, engine, context, settings });
record!(Case {
    case, form, model, context, batch, cache, layers_measured, layers_total, predicted, measured, fitted, read_bytes,
    written_bytes, flops, bandwidth_share, bound_share, correct, largest_relative_error, status;
    or default warnings
});
word_record!(Cache, word, [Cold, Hot]);
record!(Predicted {
    bytes,
    page_padding_bytes,
    borrowed_bytes,
    seconds,
    grade,
    bound,
    memory_seconds,
    compute_seconds,
    streamed_seconds,
    launches
});
record!(Fitted { seconds, used });
record!(Drop { seconds, reason });
record!(Measured {
    asked_bytes, resident_bytes, huge_page_bytes, seconds; or default samples_seconds, drops
});
record!(SampleSummary { median, p05, p95, n, cv, uncertainty });

impl Case {
    /// (predicted − measured) / measured of the time: positive where the step was faster than predicted.
    pub fn time_error(&self) -> Option<f64> {
        let measured = self.timing()?.median;
        let predicted = self.predicted.seconds?;
        (measured > 0.0).then(|| (predicted - measured) / measured)
    }

    /// The time of one step; none where nothing was measured and where the result was wrong or the case failed, since the
    /// time of a wrong result is no speed.
    pub fn timing(&self) -> Option<SampleSummary> {
        let is_wrong = self.correct == Some(false) || self.status.starts_with("failed");
        self.measured.as_ref().filter(|_| !is_wrong).map(|measured| measured.seconds)
    }

    /// Operations for every byte of state that a step reads or writes back.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.read_bytes?.get().checked_add(self.written_bytes.unwrap_or_default().get())?;
        let flops = self.flops?;
        (bytes > 0).then(|| flops as f64 / bytes as f64)
    }

    /// Whether it has no figure, or one of too few samples, for want of time alone: what a resumed run measures.
    pub fn is_missing(&self) -> bool {
        // Runs of before `partial` was the word for it skipped what no time was left for.
        self.status.starts_with("partial") || self.status.ends_with("before the first sample")
    }

    /// Whether the figures hold as they are: a case that is unsteady or partial is in no verdict.
    pub fn is_steady(&self) -> bool {
        self.status == "ok"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn case(index: u32, form: &str, predicted: f64, measured: Option<Measured>) -> Case {
        Case {
            case: index,
            form: form.to_owned(),
            model: "minimax-m2.7".to_owned(),
            context: Tokens::new(4096),
            batch: 1,
            cache: Cache::Cold,
            layers_measured: 4,
            layers_total: 62,
            predicted: Predicted {
                bytes: Some(Bytes::new(67_108_864)),
                page_padding_bytes: Some(Bytes::ZERO),
                borrowed_bytes: None,
                seconds: Some(predicted),
                grade: Grade::Calibrated,
                bound: Some(Bound::Memory),
                memory_seconds: Some(predicted),
                compute_seconds: Some(predicted / 2.0),
                streamed_seconds: None,
                launches: Some(4),
            },
            measured,
            fitted: None,
            read_bytes: Some(Bytes::new(67_108_864)),
            written_bytes: Some(Bytes::ZERO),
            flops: Some(402_653_184),
            bandwidth_share: None,
            bound_share: None,
            correct: Some(true),
            largest_relative_error: Some(1e-4),
            status: "ok".to_owned(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn measured(median: f64) -> Measured {
        Measured {
            asked_bytes: Bytes::new(67_108_864),
            resident_bytes: None,
            huge_page_bytes: None,
            seconds: SampleSummary {
                median,
                p05: median,
                p95: median,
                n: 10,
                cv: Some(0.01),
                uncertainty: None,
            },
            samples_seconds: vec![median; 10],
            drops: Vec::new(),
        }
    }

    #[test]
    fn a_wrong_or_failed_case_has_no_time_and_no_error() {
        let mut case = case(0, "gqa", 1.0, Some(measured(1.25)));
        assert!((case.time_error().unwrap() + 0.2).abs() < 1e-12, "1 against 1.25 is 20 % low");
        case.status = "unsteady: the ceilings vary".to_owned();
        assert!(case.timing().is_some() && !case.is_steady());
        case.status = "failed: out of memory".to_owned();
        assert_eq!((case.timing(), case.time_error()), (None, None));
        case.status = "ok".to_owned();
        case.correct = Some(false);
        assert_eq!((case.timing(), case.time_error()), (None, None));
    }

    #[test]
    fn the_contract_s_field_names_are_there() {
        let json = serde_json::to_value(case(0, "gqa", 0.1, Some(measured(0.1)))).unwrap();
        for pointer in [
            "/form",
            "/model",
            "/context",
            "/batch",
            "/cache",
            "/predicted/bytes",
            "/predicted/seconds",
            "/predicted/grade",
            "/measured/asked_bytes",
            "/measured/resident_bytes",
            "/measured/seconds/median",
            "/measured/seconds/p05",
            "/measured/seconds/p95",
            "/measured/seconds/n",
            "/measured/seconds/cv",
            "/read_bytes",
            "/bandwidth_share",
            "/correct",
            "/status",
        ] {
            assert!(json.pointer(pointer).is_some(), "{pointer}");
        }
        assert_eq!(json["cache"], "cold");
        assert_eq!(json["predicted"]["grade"], "calibrated");
        assert_eq!(json["measured"]["resident_bytes"], serde_json::Value::Null);
    }
}
