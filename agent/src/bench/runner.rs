//! The protocol: calibrate, predict and store, prepare and check, then measure the cases in turns.

mod active;
mod choose;

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use kvscope_protocol::run::{
    Cache, Case, Line, Machine, PlanRecord, Run, TimeSpent, fit_half, put_fits, verdicts,
};
use kvscope_sizing::prediction::Calibration;

use super::backend::{Backend, Calibrated, CaseOrder};
use super::calibration::{self, CalibrationLength};
use super::layers::Wave;
use super::machine::Environment;
use super::plan::{CaseRequest, Plan, Progress, Resumed, Stage};
use super::record;
use super::samples::{LEAST_SAMPLES, STORED_AT, Samples};
use super::store::{RunWriter, Store};
use super::{BenchError, Interrupt, life};
use active::Active;
use choose::Job;

/// What is measured after the cases of a run, and stored in its file, in the time of [`Plan::kept`].
pub(crate) type Further<'a> = dyn FnMut(&mut Run, &mut RunWriter, &mut dyn FnMut(Progress)) + 'a;

pub(crate) fn run(
    backend: &mut dyn Backend,
    plan: &Plan,
    requests: &[CaseRequest],
    store: &Store,
    progress: &mut dyn FnMut(Progress),
    interrupt: Interrupt<'_>,
) -> Result<Run, BenchError> {
    run_and(backend, plan, requests, store, progress, interrupt, &mut |_, _, _| ())
}

pub(crate) fn run_and(
    backend: &mut dyn Backend,
    plan: &Plan,
    requests: &[CaseRequest],
    store: &Store,
    progress: &mut dyn FnMut(Progress),
    interrupt: Interrupt<'_>,
    further: &mut Further<'_>,
) -> Result<Run, BenchError> {
    if requests.is_empty() {
        return Err(BenchError::NoCases);
    }
    let mut clock = Clock::start(plan.budget.saturating_sub(plan.kept), requests.len());
    let before = Environment::now();
    let machine = backend.machine();
    let started = SystemTime::now();
    progress(clock.progress(Stage::Calibrating, None));
    let time = calibration_time(clock.budget);
    let calibrated = calibration::obtain(backend, plan.calibration, time, store, interrupt)?;

    clock.spent.calibrating_seconds = clock.started.elapsed().as_secs_f64();

    let mut cases: Vec<Case> =
        requests.iter().enumerate().map(|(index, request)| record::blank(index, request)).collect();
    let (mut run, mut writer) = match &plan.resumed {
        None => {
            // Ceilings of an emulation are no ceilings.
            let calibration = (!backend.is_emulated()).then(|| calibrated.calibration.clone());
            let run = begin(backend.name(), plan, &cases, machine, calibration, started);
            let writer = life::create(&run, store)?;
            (run, writer)
        }
        Some(stored) => resume(stored, &mut cases, &calibrated.calibration, started, store)?,
    };
    clock.known = Some((run.run.clone(), with_figures(&run.cases)));

    let mut session = Session {
        backend,
        plan,
        requests,
        calibrated: &calibrated,
        clock,
        writer: &mut writer,
        progress,
        interrupt,
        lost: false,
    };
    let (jobs, groups) = session.choose(&mut cases)?;
    session.measure_all(&jobs, groups, &mut cases);
    let (clock, is_lost) = (session.clock, session.lost);
    backend.end(&mut run.machine);
    for case in cases {
        match run.cases.iter_mut().find(|known| known.case == case.case) {
            Some(known) => *known = case,
            None => run.cases.push(case),
        }
    }
    // A file that takes no more lines is no reason to lose what is in memory: the run says that its end is not stored.
    let mut nothing = |_: &mut Run, _: &mut RunWriter, _: &mut dyn FnMut(Progress)| ();
    // What comes after the cases would wait for a device that answers no more.
    let further: &mut Further<'_> = if is_lost { &mut nothing } else { further };
    if let Err(error) = conclude(&mut run, &mut writer, before, &clock, interrupt, progress, further) {
        run.notes.push(life::end_not_stored(&error));
    }
    let done = clock.progress(Stage::Done, None);
    progress(Progress { fraction: 1.0, remaining_seconds: 0.0, measured: with_figures(&run.cases), ..done });
    Ok(run)
}

/// Fits, verdicts, what else is measured, and the end.
fn conclude(
    run: &mut Run,
    writer: &mut RunWriter,
    before: Environment,
    clock: &Clock,
    interrupt: Interrupt<'_>,
    progress: &mut dyn FnMut(Progress),
    further: &mut Further<'_>,
) -> Result<(), BenchError> {
    let fits = put_fits(&mut run.cases, &run.plan.fit_half);
    let fitted = run.cases.iter().filter(|case| fits.iter().any(|(form, _)| *form == case.form));
    writer.append_all(&fitted.map(|case| Line::Case(Box::new(case.clone()))).collect::<Vec<_>>())?;
    run.verdicts = verdicts(&run.cases);
    let missing = run.cases.iter().filter(|case| case.is_missing()).count();
    if missing > 0 {
        let what = format!(
            "{missing} of {} cases have no figure or too few samples: {}; `kvscope bench run --resume {}` measures them",
            run.cases.len(),
            clock.spent().sentence(),
            run.run
        );
        life::note(run, what, writer)?;
    }
    further(run, writer, progress);
    life::end(run, writer, before, clock.spent(), interrupt)
}

/// A sixth of the budget, at most the quick form of a calibration. A slow machine takes half as much again, which is a
/// quarter of the budget.
fn calibration_time(budget: Duration) -> Duration {
    (budget / 6).clamp(Duration::from_millis(200), CalibrationLength::Quick.time())
}

/// The stored run again and its file; the cases get the numbers that they have in it.
fn resume(
    stored: &Resumed,
    cases: &mut [Case],
    calibration: &Calibration,
    started: SystemTime,
    store: &Store,
) -> Result<(Run, RunWriter), BenchError> {
    let mut run = stored.run.clone();
    for (case, number) in cases.iter_mut().zip(&stored.cases) {
        case.case = *number;
    }
    let what = format!(
        "resumed {} for {} of {} cases, predicted from the calibration of {}",
        humantime::format_rfc3339_seconds(started),
        cases.len(),
        run.cases.len(),
        calibration.date
    );
    let writer = life::resume(&mut run, what, store)?;
    Ok((run, writer))
}

/// How many cases have figures that are not to be measured again.
pub(crate) fn with_figures(cases: &[Case]) -> usize {
    cases.iter().filter(|case| case.measured.is_some() && !case.is_missing()).count()
}

fn begin(
    backend: &str,
    plan: &Plan,
    cases: &[Case],
    machine: Machine,
    calibration: Option<Calibration>,
    started: SystemTime,
) -> Run {
    let mut forms: Vec<String> = Vec::new();
    for case in cases {
        if !forms.contains(&case.form) {
            forms.push(case.form.clone());
        }
    }
    let fit_half = fit_half(cases);
    let record = PlanRecord {
        budget_seconds: plan.budget.as_secs_f64(),
        forms,
        seed: plan.seed,
        fit_half,
        tiers: plan.tiers.clone(),
        states: plan.states.clone(),
    };
    Run { cases: cases.to_vec(), ..life::begin(backend, record, machine, calibration, started) }
}

struct Clock {
    started: Instant,
    budget: Duration,
    /// So far, without the whole.
    spent: TimeSpent,
    longest_preparation: Duration,
    cases: usize,
    /// The run's name, and how many of its cases have a figure.
    known: Option<(String, usize)>,
}

impl Clock {
    fn start(budget: Duration, cases: usize) -> Self {
        Self {
            started: Instant::now(),
            budget,
            spent: TimeSpent::default(),
            longest_preparation: Duration::ZERO,
            cases,
            known: None,
        }
    }

    fn spent(&self) -> TimeSpent {
        TimeSpent { whole_seconds: self.started.elapsed().as_secs_f64(), ..self.spent }
    }

    /// What is left, less what ending a run takes.
    fn left(&self) -> Duration {
        let reserve = (self.budget / 50).min(Duration::from_millis(300));
        self.budget.saturating_sub(self.started.elapsed()).saturating_sub(reserve)
    }

    fn progress(&self, stage: Stage, case: Option<usize>) -> Progress {
        let left = self.left().as_secs_f64();
        let passed = self.started.elapsed().as_secs_f64();
        let (run, measured) = self.known.clone().map_or((None, 0), |(run, measured)| (Some(run), measured));
        let fraction = passed / (passed + left).max(1e-9);
        Progress { stage, fraction, remaining_seconds: left, case, cases: self.cases, measured, run }
    }
}

struct Session<'a, 'b> {
    backend: &'a mut dyn Backend,
    plan: &'a Plan,
    requests: &'a [CaseRequest],
    calibrated: &'a Calibrated,
    clock: Clock,
    writer: &'a mut RunWriter,
    progress: &'a mut (dyn FnMut(Progress) + 'b),
    interrupt: Interrupt<'a>,
    /// Whether the device can run nothing any more.
    lost: bool,
}

impl Session<'_, '_> {
    fn must_stop(&self) -> bool {
        self.lost || self.interrupt.is_set()
    }

    fn why_it_ended(&self) -> &'static str {
        match (self.lost, self.interrupt.is_set()) {
            (true, _) => "the device was lost",
            (false, true) => "the run was cancelled",
            (false, false) => "the budget was used up",
        }
    }

    /// Notes what a case failed of.
    fn fail(&mut self, case: &mut Case, error: &BenchError) {
        self.lost |= matches!(error, BenchError::DeviceLost(_));
        record::fail_step(case, error);
        self.store(case);
    }

    /// Measures wave after wave. Cases of a wave that could not be prepared in its time get what time is left at the end.
    fn measure_all(&mut self, jobs: &[Job], groups: Vec<Wave>, cases: &mut [Case]) {
        let mut waves = VecDeque::from(groups);
        let mut cases_left: usize = waves.iter().map(|wave| wave.cases.len()).sum();
        while let Some(wave) = waves.pop_front() {
            #[allow(clippy::cast_possible_truncation, reason = "counts of cases are small")]
            let share = self.clock.left() * wave.cases.len() as u32 / cases_left.max(1) as u32;
            cases_left -= wave.cases.len();
            let begun = Instant::now();
            let (mut active, left_out) = self.prepare(&wave, jobs, cases, begun + share);
            let prepared = Instant::now();
            self.clock.spent.preparing_seconds += (prepared - begun).as_secs_f64();
            self.measure_in_turns(&mut active, cases, begun + share);
            self.clock.spent.measuring_seconds += prepared.elapsed().as_secs_f64();
            for case in &active {
                let taken = case.samples.taken();
                if !(self.backend.is_emulated() && taken >= LEAST_SAMPLES) {
                    record::end(&mut cases[case.index], taken, self.why_it_ended());
                }
            }
            let mut ended: Vec<usize> = active.iter().map(|case| case.index).collect();
            if !left_out.cases.is_empty() && !active.is_empty() && !self.must_stop() {
                cases_left += left_out.cases.len();
                waves.push_back(left_out);
            } else {
                for (place, _) in left_out.cases {
                    let index = jobs[place].index;
                    record::end(&mut cases[index], 0, self.why_it_ended());
                    ended.push(index);
                }
            }
            self.store_all(&ended, cases);
        }
    }

    /// Stores what a wave came to, at once; what the disk does not take together it may take one by one.
    fn store_all(&mut self, indices: &[usize], cases: &mut [Case]) {
        if self.backend.is_emulated() {
            for index in indices {
                record::emulated(&mut cases[*index]);
            }
        }
        let lines: Vec<Line> =
            indices.iter().map(|index| Line::Case(Box::new(cases[*index].clone()))).collect();
        if self.writer.append_all(&lines).is_err() {
            for index in indices {
                self.store(&mut cases[*index]);
            }
        }
    }

    /// Stores a case as it is now. Where the file takes no more lines the case has failed, since its figures would be lost
    /// with this process, and the run goes on.
    fn store(&mut self, case: &mut Case) {
        if self.backend.is_emulated() {
            record::emulated(case);
        }
        if let Err(error) = self.writer.append(&Line::Case(Box::new(case.clone()))) {
            case.status = format!("failed: not stored: {error}");
        }
    }

    /// Fills the state of a wave's cases and checks each; what fails is stored with its reason. The first half of the time
    /// until `deadline` is for this, the second for measuring: cases that come too late are left out.
    fn prepare(
        &mut self,
        wave: &Wave,
        jobs: &[Job],
        cases: &mut [Case],
        deadline: Instant,
    ) -> (Vec<Active>, Wave) {
        let (mut active, mut left_out) = (Vec::new(), Wave { cases: Vec::new() });
        let begun = Instant::now();
        let half = deadline.saturating_duration_since(begun) / 2;
        for (place, layers) in &wave.cases {
            let Job { index, request, .. } = &jobs[*place];
            let (index, case) = (*index, &mut cases[*index]);
            // What comes next is taken to need as long as the longest so far.
            if self.must_stop() || begun.elapsed() + self.clock.longest_preparation >= half {
                left_out.cases.push((*place, *layers));
                continue;
            }
            (self.progress)(self.clock.progress(Stage::Preparing, Some(index)));
            let started = Instant::now();
            let order = CaseOrder {
                shape: request.shape,
                layers: *layers,
                context: request.context.get(),
                batch: request.batch,
                seed: self.plan.seed.wrapping_add(u64::from(case.case)),
                cache: request.cache,
            };
            let checked = self.backend.prepare(&order).and_then(|mut case| Ok((case.check()?, case)));
            let (check, prepared) = match checked {
                Ok(checked) => checked,
                Err(error) => {
                    self.fail(case, &error);
                    continue;
                }
            };
            record::held(case, jobs[*place].scaled.as_deref());
            record::check(case, check, prepared.asked_bytes());
            case.warnings.extend(prepared.notes());
            self.clock.longest_preparation = self.clock.longest_preparation.max(started.elapsed());
            record::explain_resident(case, prepared.asked_bytes(), prepared.resident());
            if case.correct != Some(true) {
                record::measure(case, prepared.as_ref(), &Samples::default(), &self.calibrated.calibration);
                self.store(case);
                continue;
            }
            let bytes = case.predicted.bytes.unwrap_or_default();
            active.push(Active {
                index,
                prepared,
                is_hot: request.cache == Cache::Hot,
                empty_caches: request.cache == Cache::Cold
                    && record::is_small_for_caches(bytes, &self.calibrated.calibration),
                samples: Samples::default(),
                failed: false,
                turn: Duration::from_secs_f64(case.predicted.seconds.unwrap_or(0.0)),
            });
        }
        (active, left_out)
    }

    /// One warm-up, then one sample of every case in each round until all are steady or time is up.
    fn measure_in_turns(&mut self, active: &mut [Active], cases: &mut [Case], deadline: Instant) {
        for round in 0_usize.. {
            let mut turns = 0;
            let is_emulated = self.backend.is_emulated();
            // Times of an emulation mean nothing, so a few samples show all that there is to see.
            let is_done =
                |case: &Active| case.is_done() || is_emulated && case.samples.taken() >= LEAST_SAMPLES;
            for case in active.iter_mut().filter(|case| !is_done(case)) {
                if self.must_stop() {
                    return;
                }
                if Instant::now() + case.turn > deadline {
                    continue;
                }
                turns += 1;
                (self.progress)(self.clock.progress(Stage::Measuring, Some(case.index)));
                let begun = Instant::now();
                if case.empty_caches
                    && let Err(error) = self.backend.empty_caches()
                {
                    record::fail(&mut cases[case.index], &error);
                    case.failed = true;
                    continue;
                }
                // The first round warms up, and tells how long a turn is.
                let emptied = begun.elapsed();
                let taken = if round == 0 { case.warm_up(emptied) } else { case.sample() };
                if let Err(error) = taken {
                    case.failed = true;
                    self.fail(&mut cases[case.index], &error);
                    continue;
                }
                if round == 0 {
                    continue;
                }
                case.turn = begun.elapsed();
                let record = &mut cases[case.index];
                record::measure(record, case.prepared.as_ref(), &case.samples, &self.calibrated.calibration);
                if is_emulated {
                    record::emulated(record);
                }
                if case.samples.taken() == 1
                    && let Some((_, measured)) = &mut self.clock.known
                {
                    *measured += 1;
                }
                if STORED_AT.contains(&case.samples.taken()) {
                    self.store(record);
                } else {
                    self.writer.keep(Line::Case(Box::new(record.clone())));
                }
            }
            if turns == 0 {
                break;
            }
        }
    }
}
