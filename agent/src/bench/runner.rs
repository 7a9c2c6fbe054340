//! The protocol: calibrate, predict and store, prepare and check, then measure the cases in turns.

use std::time::{Duration, Instant, SystemTime};

use kvscope_protocol::run::{Cache, Case, Line, Machine, PlanRecord, Run, fit_half, put_fits, verdicts};
use kvscope_sizing::Tokens;
use kvscope_sizing::prediction::Calibration;

use super::backend::{Backend, Calibrated, CaseOrder, Layout, PreparedCase};
use super::calibration::{self, CalibrationLength};
use super::layers::{Limits, Need, Wave, waves};
use super::machine::Environment;
use super::plan::{CaseRequest, Divided, Plan, Progress, Stage};
use super::record;
use super::samples::{Sample, Samples, WANTED_SAMPLES};
use super::store::{RunWriter, Store};
use super::{BenchError, Interrupt, in_words, life, worker_time};

/// A case is warmed up by so many steps, or for so long where a step takes longer: clocks rise, address caches fill.
const WARM_UP_STEPS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(25);
/// Figures are stored when a case has this many samples, so that a killed run keeps them.
const STORED_AT: [usize; 4] = [3, WANTED_SAMPLES, 20, 30];
/// Random numbers are written this many times slower than memory is read, first touch included.
const FILL_SLOWNESS: f64 = 8.0;

/// What is measured after the cases of a run, and stored in its file, in the time of [`Plan::kept`].
pub(crate) type Further<'a> =
    dyn FnMut(&mut Run, &mut RunWriter, &mut dyn FnMut(Progress)) -> Result<(), BenchError> + 'a;

pub(crate) fn run(
    backend: &mut dyn Backend,
    plan: &Plan,
    requests: &[CaseRequest],
    store: &Store,
    progress: &mut dyn FnMut(Progress),
    interrupt: Interrupt<'_>,
) -> Result<Run, BenchError> {
    run_and(backend, plan, requests, store, progress, interrupt, &mut |_, _, _| Ok(()))
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
    let clock = Clock { started: Instant::now(), budget: plan.budget.saturating_sub(plan.kept) };
    let before = Environment::now();
    let machine = backend.machine();
    let started = SystemTime::now();
    progress(clock.progress(Stage::Calibrating, None));
    let time = calibration_time(clock.budget);
    let calibrated = calibration::obtain(backend, plan.calibration, time, store, interrupt)?;

    let mut run = begin(backend.name(), plan, requests, machine, &calibrated.calibration, started);
    let mut writer = life::create(&run, store)?;

    let mut session = Session {
        backend,
        plan,
        requests,
        calibrated: &calibrated,
        clock,
        writer: &mut writer,
        progress,
        interrupt,
    };
    let (jobs, groups) = session.choose(&mut run.cases)?;
    session.measure_all(&jobs, &groups, &mut run.cases)?;

    let fits = put_fits(&mut run.cases, &run.plan.fit_half);
    for case in run.cases.iter().filter(|case| fits.iter().any(|(form, _)| *form == case.form)) {
        writer.append(&Line::Case(Box::new(case.clone())))?;
    }
    run.verdicts = verdicts(&run.cases);
    further(&mut run, &mut writer, progress)?;
    life::end(&mut run, &mut writer, before, interrupt)?;
    progress(Progress { stage: Stage::Done, fraction: 1.0, remaining_seconds: 0.0, case: None });
    Ok(run)
}

/// A sixth of the budget, at most the quick form of a calibration.
fn calibration_time(budget: Duration) -> Duration {
    (budget / 6).clamp(Duration::from_millis(200), CalibrationLength::Quick.time())
}

fn begin(
    backend: &str,
    plan: &Plan,
    requests: &[CaseRequest],
    machine: Machine,
    calibration: &Calibration,
    started: SystemTime,
) -> Run {
    let mut forms: Vec<String> = Vec::new();
    for request in requests {
        if !forms.contains(&request.form) {
            forms.push(request.form.clone());
        }
    }
    let cases: Vec<Case> =
        requests.iter().enumerate().map(|(index, request)| record::blank(index, request)).collect();
    let fit_half = fit_half(&cases);
    let record = PlanRecord { budget_seconds: plan.budget.as_secs_f64(), forms, seed: plan.seed, fit_half };
    Run { cases, ..life::begin(backend, record, machine, Some(calibration.clone()), started) }
}

/// A case that can be run.
#[derive(Clone, Debug)]
struct Job {
    index: usize,
    /// As it was asked for, or with fewer heads.
    request: CaseRequest,
    layout: Layout,
    /// What it was scaled down to, in words.
    scaled: Option<String>,
}

/// A case in memory, with its samples.
struct Active {
    index: usize,
    prepared: Box<dyn PreparedCase>,
    empty_caches: bool,
    is_hot: bool,
    samples: Samples,
    /// Whether it can give no more samples that hold.
    failed: bool,
    /// How long the last turn took, emptying of caches included.
    turn: Duration,
}

impl Active {
    fn is_done(&self) -> bool {
        self.failed || self.samples.is_enough()
    }
}

#[derive(Clone, Copy)]
struct Clock {
    started: Instant,
    budget: Duration,
}

impl Clock {
    /// What is left, less what ending a run takes.
    fn left(&self) -> Duration {
        let reserve = (self.budget / 50).min(Duration::from_millis(300));
        self.budget.saturating_sub(self.started.elapsed()).saturating_sub(reserve)
    }

    fn progress(&self, stage: Stage, case: Option<usize>) -> Progress {
        let left = self.left().as_secs_f64();
        let passed = self.started.elapsed().as_secs_f64();
        Progress { stage, fraction: passed / (passed + left).max(1e-9), remaining_seconds: left, case }
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
}

impl Session<'_, '_> {
    /// Chooses layers, predicts every case and stores the predictions, or why a case is not run.
    fn choose(&mut self, cases: &mut [Case]) -> Result<(Vec<Job>, Vec<Wave>), BenchError> {
        let left = self.clock.left().as_secs_f64();
        // No more than a sixth of the time goes into filling state.
        let fill_rate = self.calibrated.calibration.ceilings.read_bytes_per_second / FILL_SLOWNESS;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive; `as` saturates"
        )]
        let by_time = (left / 6.0 * fill_rate) as u64;
        let memory = self.plan.state_limit.min(self.backend.free_state_bytes()).get();

        let (mut jobs, mut needs) = (Vec::new(), Vec::new());
        for (index, case) in cases.iter_mut().enumerate() {
            match self.job(index, memory) {
                Ok((job, need)) => {
                    jobs.push(job);
                    needs.push(need);
                }
                Err(why) => {
                    case.status = format!("skipped: {why}");
                    self.writer.append(&Line::Case(Box::new(case.clone())))?;
                }
            }
        }
        let largest_layer = needs.iter().map(|need| need.layer_bytes).max().unwrap_or(0);
        let limits = Limits {
            state_bytes: memory.min(by_time).max(largest_layer),
            // Two more than the samples wanted: the check and the warm-up. The rest is for a machine that slows down.
            step_seconds: left * 0.4 / (needs.len().max(1) * (WANTED_SAMPLES + 2)) as f64,
        };
        let groups = waves(&needs, limits);
        for (place, layers) in groups.iter().flat_map(|wave| &wave.cases) {
            let job = &jobs[*place];
            let case = &mut cases[job.index];
            record::predict(case, &job.request, &job.layout, *layers, self.calibrated)?;
            if let Some(what) = &job.scaled {
                case.warnings.push(format!(
                    "{what} were held and read, as many as memory allows; all figures are for those"
                ));
            }
            self.writer.append(&Line::Prediction(Box::new(case.clone())))?;
        }
        Ok((jobs, groups))
    }

    /// What one layer of a case needs, with fewer heads where memory asks, or why it cannot be run.
    fn job(&self, index: usize, memory: u64) -> Result<(Job, Need), String> {
        let request = &self.requests[index];
        if request.layers == 0 || request.batch == 0 || request.context.get() == 0 {
            return Err("layers, context and batch must be at least 1".to_owned());
        }
        let whole = self.layout(request)?;
        let (request, layout, scaled) = if whole.layer_bytes <= memory {
            (request.clone(), whole, None)
        } else {
            self.fewer_heads(request, memory).ok_or_else(|| self.too_large(request, memory))?
        };
        let demand = record::demand(&request, &layout, 1, &self.calibrated.calibration)
            .map_err(|error| error.to_string())?;
        let layers = match request.cache {
            Cache::Cold => request.layers,
            Cache::Hot => record::layers_in_cache(&layout, &request, &self.calibrated.calibration)?,
        };
        let need = Need { layer_bytes: layout.layer_bytes, layers, layer_seconds: demand.time.seconds };
        Ok((Job { index, request, layout, scaled }, need))
    }

    fn layout(&self, request: &CaseRequest) -> Result<Layout, String> {
        self.backend
            .layout(&request.shape, request.context.get(), request.batch)
            .map_err(|error| error.to_string())
    }

    /// The request with a half, a quarter and so on of its heads: the first of which one layer fits.
    fn fewer_heads(
        &self,
        request: &CaseRequest,
        memory: u64,
    ) -> Option<(CaseRequest, Layout, Option<String>)> {
        (1..10).map(|power| 1 << power).find_map(|by| {
            let Divided { shape, sizing, what } = request.sizing.divided(by)?;
            let smaller = CaseRequest { shape, sizing, ..request.clone() };
            let layout = self.layout(&smaller).ok().filter(|layout| layout.layer_bytes <= memory)?;
            Some((smaller, layout, Some(what)))
        })
    }

    fn too_large(&self, request: &CaseRequest, memory: u64) -> String {
        let fits = |context: u64| {
            let request = CaseRequest { context: Tokens::new(context), ..request.clone() };
            self.layout(&request).is_ok_and(|layout| layout.layer_bytes <= memory)
        };
        let (mut largest, mut too_large) = (0, request.context.get());
        while too_large - largest > 1 {
            let middle = largest + (too_large - largest) / 2;
            if fits(middle) {
                largest = middle;
            } else {
                too_large = middle;
            }
        }
        let advice = match largest {
            0 => "no context fits".to_owned(),
            _ => format!("the largest context that fits is {} tokens", Tokens::new(largest)),
        };
        format!("one layer is larger than the {} that state may take; {advice}", in_words(memory))
    }

    fn measure_all(&mut self, jobs: &[Job], groups: &[Wave], cases: &mut [Case]) -> Result<(), BenchError> {
        let mut cases_left: usize = groups.iter().map(|wave| wave.cases.len()).sum();
        for wave in groups {
            #[allow(clippy::cast_possible_truncation, reason = "counts of cases are small")]
            let share = self.clock.left() * wave.cases.len() as u32 / cases_left.max(1) as u32;
            cases_left -= wave.cases.len();
            let deadline = Instant::now() + share;
            let mut active = self.prepare(wave, jobs, cases, deadline)?;
            self.measure_in_turns(&mut active, cases, deadline)?;
            for case in &active {
                record::end(&mut cases[case.index], case.samples.taken(), self.interrupt.is_set());
                self.writer.append(&Line::Case(Box::new(cases[case.index].clone())))?;
            }
        }
        Ok(())
    }

    /// Fills the state of a wave's cases and checks each; what fails is stored with its reason.
    fn prepare(
        &mut self,
        wave: &Wave,
        jobs: &[Job],
        cases: &mut [Case],
        deadline: Instant,
    ) -> Result<Vec<Active>, BenchError> {
        let mut active = Vec::new();
        for (place, layers) in &wave.cases {
            let Job { index, request, .. } = &jobs[*place];
            let (index, case) = (*index, &mut cases[*index]);
            (self.progress)(self.clock.progress(Stage::Preparing, Some(index)));
            if self.interrupt.is_set() || Instant::now() >= deadline {
                record::end(case, 0, self.interrupt.is_set());
                self.writer.append(&Line::Case(Box::new(case.clone())))?;
                continue;
            }
            let order = CaseOrder {
                shape: request.shape,
                layers: *layers,
                context: request.context.get(),
                batch: request.batch,
                seed: self.plan.seed.wrapping_add(index as u64),
            };
            let mut prepared = match self.backend.prepare(&order) {
                Ok(prepared) => prepared,
                Err(error) => {
                    case.status = format!("failed: {error}");
                    self.writer.append(&Line::Case(Box::new(case.clone())))?;
                    continue;
                }
            };
            record::check(case, prepared.check(), prepared.asked_bytes());
            record::explain_resident(case, prepared.asked_bytes(), prepared.resident());
            if case.correct != Some(true) {
                record::measure(case, prepared.as_ref(), &Samples::default(), &self.calibrated.calibration);
                self.writer.append(&Line::Case(Box::new(case.clone())))?;
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
        Ok(active)
    }

    /// One warm-up, then one sample of every case in each round until all are steady or time is up.
    fn measure_in_turns(
        &mut self,
        active: &mut [Active],
        cases: &mut [Case],
        deadline: Instant,
    ) -> Result<(), BenchError> {
        for round in 0_usize.. {
            let mut turns = 0;
            for case in active.iter_mut().filter(|case| !case.is_done()) {
                if self.interrupt.is_set() {
                    return Ok(());
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
                if round == 0 {
                    let emptied = begun.elapsed();
                    let mut once = case.prepared.step();
                    for _ in 1..WARM_UP_STEPS {
                        if begun.elapsed() < WARM_UP {
                            once = case.prepared.step();
                        }
                    }
                    case.turn = emptied + once;
                    continue;
                }
                // Something else was in the caches since the last turn; a hot step follows one of its own.
                if case.is_hot {
                    case.prepared.step();
                }
                let before = worker_time::of_this_process();
                let elapsed = case.prepared.step();
                let processor = worker_time::of_this_process()
                    .zip(before)
                    .map(|(after, before)| after.saturating_sub(before));
                case.turn = begun.elapsed();
                case.samples.push(Sample::new(elapsed, processor));
                let record = &mut cases[case.index];
                record::measure(record, case.prepared.as_ref(), &case.samples, &self.calibrated.calibration);
                if STORED_AT.contains(&case.samples.taken()) {
                    self.writer.append(&Line::Case(Box::new(record.clone())))?;
                }
            }
            if turns == 0 {
                break;
            }
        }
        Ok(())
    }
}
