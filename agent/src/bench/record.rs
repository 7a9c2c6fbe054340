//! What is written of a case: before it is measured, and after.

use kvscope_protocol::run::{Cache, Case, Measured, Predicted};
use kvscope_sizing::Bytes;
use kvscope_sizing::cost::StepCost;
use kvscope_sizing::prediction::{Calibration, Grade, Place, PredictedTime, Work};

use super::backend::{Calibrated, Check, Layout, PreparedCase, Resident};
use super::cpu::CACHE_MULTIPLE;
use super::plan::CaseRequest;
use super::samples::{LEAST_SAMPLES, Samples, WANTED_SAMPLES};
use super::{BenchError, in_words, stats};

/// A median that is uncertain by more than this share is unsteady.
const STEADY: f64 = 0.1;
/// A case that lost more than this share of its samples says little.
const MOST_DROPS: f64 = 0.34;
/// What the system shows may differ from what was asked by so much, or by one in a hundred.
const RESIDENT_TOLERANCE: u64 = 2 << 20;
/// What a working set must exceed to be in memory where the system does not tell its caches.
const UNKNOWN_CACHE: u64 = 1 << 30;

/// A case of which nothing is known yet.
pub(crate) fn blank(index: usize, request: &CaseRequest) -> Case {
    Case {
        case: u32::try_from(index).unwrap_or(u32::MAX),
        form: request.form.clone(),
        model: request.model.clone(),
        context: request.context,
        batch: request.batch,
        cache: request.cache,
        layers_measured: 0,
        layers_total: request.layers,
        predicted: Predicted {
            bytes: None,
            page_padding_bytes: None,
            borrowed_bytes: None,
            seconds: None,
            grade: Grade::Calibrated,
            bound: None,
            memory_seconds: None,
            compute_seconds: None,
            streamed_seconds: None,
            launches: None,
        },
        measured: None,
        fitted: None,
        read_bytes: None,
        written_bytes: None,
        flops: None,
        bandwidth_share: None,
        bound_share: None,
        correct: None,
        largest_relative_error: None,
        status: "partial: not measured yet".to_owned(),
        warnings: Vec::new(),
    }
}

/// What a prediction is made of.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// Bytes of state by sizing.
    pub(crate) state: Bytes,
    /// Bytes of stores that earlier layers keep.
    pub(crate) borrowed: Bytes,
    /// Reads, writes and operations by sizing.
    pub(crate) cost: StepCost,
    /// Starts of the workers.
    pub(crate) launches: u64,
    /// The time of the step.
    pub(crate) time: PredictedTime,
}

/// What one step over `layers` layers needs, and how long it is predicted to take.
pub(crate) fn demand(
    request: &CaseRequest,
    layout: &Layout,
    layers: u64,
    calibration: &Calibration,
) -> Result<Demand, BenchError> {
    let cost = request.sizing.cost(layers, request.context, request.batch)?;
    let launches = layout.launches.saturating_mul(layers);
    let state = request.sizing.state_bytes(layers, request.context, request.batch)?;
    let borrowed = request.sizing.borrowed_bytes(layers, request.context, request.batch)?;
    let place = match request.cache {
        Cache::Cold => Place::Memory,
        Cache::Hot => Place::Hot(state.plus(borrowed)?),
    };
    let time = calibration.predict(&Work::of(&cost, launches, place))?;
    Ok(Demand { state, borrowed, cost, launches, time })
}

/// Puts in everything that is known before the measurement.
pub(crate) fn predict(
    case: &mut Case,
    request: &CaseRequest,
    layout: &Layout,
    layers: u64,
    calibrated: &Calibrated,
) -> Result<(), BenchError> {
    let Demand { state, borrowed, cost, launches, time } =
        demand(request, layout, layers, &calibrated.calibration)?;
    let padding = Bytes::new(layout.padding_bytes).times(layers)?;
    case.layers_measured = layers;
    case.read_bytes = Some(cost.read_bytes);
    case.written_bytes = Some(cost.rewritten_bytes);
    case.flops = Some(cost.flops());
    case.predicted = Predicted {
        bytes: Some(state),
        page_padding_bytes: Some(padding),
        borrowed_bytes: Some(borrowed),
        seconds: Some(time.seconds),
        grade: time.grade,
        bound: Some(time.bound),
        memory_seconds: Some(time.memory_seconds),
        compute_seconds: Some(time.compute_seconds),
        streamed_seconds: time.streamed_seconds,
        launches: Some(launches),
    };
    for one in &cost.operations {
        if calibrated.calibration.ceilings.rate(one.operand, one.rows).is_none() {
            case.warnings.push(format!(
                "no rate was measured for {} operands; they are taken to be as fast as values in registers",
                one.operand.name()
            ));
        }
    }
    if layout.instructions != calibrated.instructions {
        case.warnings.push(format!(
            "the kernel runs with {}, the widest set that divides its widths; the ceilings were measured with {}",
            layout.instructions, calibrated.instructions
        ));
    }
    if padding != Bytes::ZERO {
        case.warnings.push(format!(
            "{} more are asked for than the state takes: {}",
            in_words(padding.get()),
            layout.padding_reason
        ));
    }
    if borrowed != Bytes::ZERO {
        case.warnings.push(format!(
            "{} more are held for stores that earlier layers keep, which these layers read",
            in_words(borrowed.get())
        ));
    }
    warn_of_caches(case, state.plus(borrowed)?, calibrated);
    Ok(())
}

/// Says where a cache may have helped the ceiling or the case, and marks the case that cannot be called cold.
fn warn_of_caches(case: &mut Case, state: Bytes, calibrated: &Calibrated) {
    let cache = calibrated.calibration.last_level_cache_bytes.map_or_else(
        || format!("{}, because the last-level cache is unknown", in_words(UNKNOWN_CACHE)),
        |bytes| format!("{CACHE_MULTIPLE}× the last-level cache of {}", in_words(bytes.get())),
    );
    let buffer_is_small = is_small_for_caches(calibrated.buffer, &calibrated.calibration);
    if buffer_is_small {
        case.warnings.push(format!(
            "the read ceiling was measured over {}, less than {cache}; a cache may have raised it",
            in_words(calibrated.buffer.get())
        ));
    }
    if case.cache == Cache::Hot || !is_small_for_caches(state, &calibrated.calibration) {
        return;
    }
    case.warnings.push(if buffer_is_small {
        case.cache = Cache::Hot;
        format!(
            "the state is below {cache}; {} of other data are read before each sample, too few to empty every cache",
            in_words(calibrated.buffer.get())
        )
    } else {
        format!("the state is below {cache}; caches are emptied before each sample")
    });
}

/// Whether `bytes` could stay in a cache from one step to the next.
pub(crate) fn is_small_for_caches(bytes: Bytes, calibration: &Calibration) -> bool {
    let cold = calibration.last_level_cache_bytes.map_or(UNKNOWN_CACHE, |cache| cache.get() * CACHE_MULTIPLE);
    bytes.get() < cold
}

/// How many layers of a hot case are held, so that a step finds in the caches what the step before left there: half of the
/// last-level cache, the other half is for everything else; an error where not even one layer stays.
pub(crate) fn layers_in_cache(
    layout: &Layout,
    request: &CaseRequest,
    calibration: &Calibration,
) -> Result<u64, String> {
    let Some(cache) = calibration.last_level_cache_bytes else {
        return Err(
            "the system does not say how large its caches are, so nothing can be called hot".to_owned()
        );
    };
    match cache.get() / 2 / layout.layer_bytes.max(1) {
        0 => Err(format!(
            "one layer takes {}, more than half of the last-level cache of {}; only a cold row can be measured",
            in_words(layout.layer_bytes),
            in_words(cache.get())
        )),
        layers => Ok(layers.min(request.layers)),
    }
}

/// Says what of a case is in memory, once it is.
pub(crate) fn held(case: &mut Case, scaled: Option<&str>) {
    if let Some(what) = scaled {
        case.warnings.push(format!("{what} were held, as many as memory allows; all figures are for those"));
    }
    if case.layers_measured < case.layers_total {
        case.warnings.push(format!(
            "{} of {} layers were held, as many as memory and time allow; all figures are for those",
            case.layers_measured, case.layers_total
        ));
    }
}

/// Voids a case whose caches could not be emptied.
pub(crate) fn fail(case: &mut Case, error: &BenchError) {
    case.measured = None;
    case.bandwidth_share = None;
    case.bound_share = None;
    case.status = format!("failed: caches could not be emptied: {error}");
}

/// Puts in what a prepared case holds.
pub(crate) fn check(case: &mut Case, check: Check, asked: Bytes) {
    case.correct = Some(check.is_correct());
    case.largest_relative_error =
        check.largest_relative_error.is_finite().then_some(check.largest_relative_error);
    if let Some(part) = check.part {
        case.warnings.push(format!("checked against the f64 reference over {part}"));
    }
    let (Some(bytes), Some(padding)) = (case.predicted.bytes, case.predicted.page_padding_bytes) else {
        return;
    };
    let borrowed = case.predicted.borrowed_bytes.unwrap_or_default();
    if bytes.get() + borrowed.get() + padding.get() != asked.get() {
        let what =
            if borrowed == Bytes::ZERO { String::new() } else { format!(", {borrowed} of borrowed stores") };
        case.warnings.push(format!(
            "sizing predicts {bytes}{what} and {padding} of padding, the kernel's layout needs {asked}"
        ));
    }
}

/// Puts in the samples so far and what follows from them.
pub(crate) fn measure(
    case: &mut Case,
    prepared: &dyn PreparedCase,
    samples: &Samples,
    calibration: &Calibration,
) {
    if case.correct != Some(true) {
        "failed: wrong result".clone_into(&mut case.status);
        case.measured = None;
        return;
    }
    let (kept, drops) = (samples.kept(), samples.drops());
    let Some(seconds) = stats::summarise(&kept) else { return };
    let resident = prepared.resident();
    let lost = drops.len() as f64 / samples.taken().max(1) as f64;
    case.measured = Some(Measured {
        asked_bytes: prepared.asked_bytes(),
        resident_bytes: resident.map(|resident| resident.bytes),
        huge_page_bytes: resident.and_then(|resident| resident.huge_page_bytes),
        seconds,
        samples_seconds: kept,
        drops,
    });
    let touched = case.read_bytes.map(|read| read.get() + case.written_bytes.unwrap_or_default().get());
    let memory = touched.map(|bytes| bytes as f64 / calibration.ceilings.read_bytes_per_second);
    let busy = case
        .predicted
        .memory_seconds
        .zip(case.predicted.compute_seconds)
        .map(|(memory, compute)| memory.max(compute));
    case.bandwidth_share = memory.map(|memory| memory / seconds.median);
    case.bound_share = busy.map(|busy| busy / seconds.median);
    case.status = if samples.taken() < LEAST_SAMPLES {
        format!("partial: {} so far", in_samples(samples.taken()))
    } else if lost > MOST_DROPS {
        format!("unsteady: {:.0} % of the samples were disturbed by another process", lost * 100.0)
    } else if seconds.uncertainty.is_some_and(|share| share > STEADY) {
        "unsteady: the samples lie far apart".to_owned()
    } else {
        unsteady_ceiling(calibration).unwrap_or_else(|| "ok".to_owned())
    };
}

/// Says why the system shows other bytes than were asked for, where the two differ by more than is explained by whole pages
/// and the process's own small change.
pub(crate) fn explain_resident(case: &mut Case, asked: Bytes, resident: Option<Resident>) {
    let Some(Resident { bytes, huge_page_bytes }) = resident else {
        case.warnings.push("the system does not say how much of the state is in memory".to_owned());
        return;
    };
    let tolerance = RESIDENT_TOLERANCE.max(asked.get() / 100);
    if bytes.get().abs_diff(asked.get()) <= tolerance {
        return;
    }
    let why = if bytes < asked {
        "the rest is not in memory: swapped out, or given back by something else of this process".to_owned()
    } else {
        let large = huge_page_bytes.map_or("an unknown part".to_owned(), |bytes| in_words(bytes.get()));
        format!("large pages ({large}) round up, and the process got other memory meanwhile")
    };
    case.warnings.push(format!(
        "{} were asked for and the system shows {}: {why}",
        in_words(asked.get()),
        in_words(bytes.get())
    ));
}

/// A prediction from ceilings that did not hold still judges nothing.
fn unsteady_ceiling(calibration: &Calibration) -> Option<String> {
    calibration.unsteady.first().map(|why| format!("unsteady: {}", why.sentence))
}

/// Voids a case that failed while it was measured.
pub(crate) fn fail_step(case: &mut Case, error: &BenchError) {
    case.measured = None;
    case.bandwidth_share = None;
    case.bound_share = None;
    case.status = format!("failed: {error}");
}

/// Takes the figures from a case that an emulation ran: what is left is whether its result was right.
pub(crate) fn emulated(case: &mut Case) {
    case.measured = None;
    case.bandwidth_share = None;
    case.bound_share = None;
    let predicted = &mut case.predicted;
    predicted.seconds = None;
    predicted.bound = None;
    (predicted.memory_seconds, predicted.compute_seconds, predicted.streamed_seconds) = (None, None, None);
    if !case.status.starts_with("failed") && !case.status.starts_with("skipped") && !case.is_missing() {
        "emulated: the result was compared with the reference; nothing was measured"
            .clone_into(&mut case.status);
    }
}

/// Puts in what an end of the run means for a case that has `samples` samples; `why` it ended: `the run was cancelled`.
pub(crate) fn end(case: &mut Case, samples: usize, why: &str) {
    if case.status.starts_with("failed") {
        return;
    }
    if samples == 0 {
        case.status = format!("partial: {why} before the first sample");
    } else if samples < LEAST_SAMPLES {
        case.status = format!("partial: {why} after {}", in_samples(samples));
    } else if samples < WANTED_SAMPLES {
        case.warnings.push(format!("{why} after {} of {WANTED_SAMPLES}", in_samples(samples)));
    }
}

fn in_samples(count: usize) -> String {
    if count == 1 { "1 sample".to_owned() } else { format!("{count} samples") }
}
