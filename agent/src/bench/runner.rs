//! The protocol: calibrate, predict and store, prepare and check, then measure the cases in turns.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kvscope_protocol::run::{Case, Ended, Header, Line, Machine, PlanRecord, RUN_SCHEMA, Run, verdicts};
use kvscope_sizing::Tokens;
use kvscope_sizing::prediction::Calibration;

use super::backend::{Backend, Calibrated, CaseOrder, Layout, PreparedCase};
use super::layers::{Limits, Need, Wave, waves};
use super::machine::ProcessorTime;
use super::plan::{CaseRequest, Divided, Plan, Progress, Stage};
use super::record::{self, WANTED_SAMPLES};
use super::store::{RunWriter, Store};
use super::{BenchError, Interrupt, in_words, machine};

/// More samples than this show nothing new.
const MOST_SAMPLES: usize = 40;
/// A standard error of the mean below this is steady enough to stop.
const STEADY_ERROR: f64 = 0.0025;
/// Figures are stored when a case has this many samples, so that a killed run keeps them.
const STORED_AT: [usize; 4] = [3, WANTED_SAMPLES, 20, 30];
/// Random numbers are written this many times slower than memory is read, first touch included.
const FILL_SLOWNESS: f64 = 8.0;

pub(crate) fn run(
    backend: &mut dyn Backend,
    plan: &Plan,
    requests: &[CaseRequest],
    store: &Store,
    progress: &mut dyn FnMut(Progress),
    interrupt: Interrupt<'_>,
) -> Result<Run, BenchError> {
    if requests.is_empty() {
        return Err(BenchError::NoCases);
    }
    let clock = Clock { started: Instant::now(), budget: plan.budget };
    let processor_before = ProcessorTime::now();
    let machine = backend.machine();
    let started = SystemTime::now();
    progress(clock.progress(Stage::Calibrating, None));
    let calibrated = backend.calibrate(calibration_time(plan.budget), interrupt)?;

    let mut run = begin(backend.name(), plan, requests, machine, &calibrated.calibration, started);
    let mut writer = store.create(&run.run)?;
    writer.append(&Line::Header(Box::new(header(&run))))?;

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

    run.verdicts = verdicts(&run.cases);
    for verdict in &run.verdicts {
        writer.append(&Line::Verdict(Box::new(verdict.clone())))?;
    }
    run.ended = if interrupt.is_set() { Ended::Cancelled } else { Ended::Complete };
    run.machine.load_after = machine::load();
    run.machine.steal_share =
        ProcessorTime::now().zip(processor_before).and_then(|(now, before)| now.stolen_since(before));
    writer.append(&Line::End { ended: run.ended, machine: Box::new(run.machine.clone()) })?;
    progress(Progress { stage: Stage::Done, fraction: 1.0, remaining_seconds: 0.0, case: None });
    Ok(run)
}

/// A sixth of the budget, between 0.2 and 4 s.
fn calibration_time(budget: Duration) -> Duration {
    (budget / 6).clamp(Duration::from_millis(200), Duration::from_secs(4))
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
    let stamp = humantime::format_rfc3339_seconds(started).to_string();
    let nanoseconds = started.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    Run {
        run: format!("{}-{:04x}", stamp.replace(['-', ':'], ""), nanoseconds >> 14),
        schema: RUN_SCHEMA,
        backend: backend.to_owned(),
        started: stamp,
        ended: Ended::Interrupted,
        plan: PlanRecord { budget_seconds: plan.budget.as_secs_f64(), forms, seed: plan.seed },
        machine,
        calibration: Some(calibration.clone()),
        cases: requests.iter().enumerate().map(|(index, request)| record::blank(index, request)).collect(),
        transfers: Vec::new(),
        verdicts: Vec::new(),
    }
}

fn header(run: &Run) -> Header {
    Header {
        run: run.run.clone(),
        schema: run.schema,
        backend: run.backend.clone(),
        started: run.started.clone(),
        plan: run.plan.clone(),
        machine: run.machine.clone(),
        calibration: run.calibration.clone(),
    }
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
    samples: Vec<f64>,
    /// Whether it can give no more samples that hold.
    failed: bool,
    /// How long the last turn took, emptying of caches included.
    turn: Duration,
}

impl Active {
    fn is_done(&self) -> bool {
        let count = self.samples.len();
        let error =
            super::stats::coefficient_of_variation(&self.samples).map(|cv| cv / (count as f64).sqrt());
        self.failed
            || count >= MOST_SAMPLES
            || (count >= WANTED_SAMPLES && error.is_some_and(|error| error < STEADY_ERROR))
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
        let need = Need {
            layer_bytes: layout.layer_bytes,
            layers: request.layers,
            layer_seconds: demand.time.seconds,
        };
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
                record::end(&mut cases[case.index], case.samples.len(), self.interrupt.is_set());
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
            if case.correct != Some(true) {
                record::measure(case, prepared.as_ref(), &[], &self.calibrated.calibration);
                self.writer.append(&Line::Case(Box::new(case.clone())))?;
                continue;
            }
            let bytes = case.predicted.bytes.unwrap_or_default();
            active.push(Active {
                index,
                prepared,
                empty_caches: record::is_small_for_caches(bytes, &self.calibrated.calibration),
                samples: Vec::new(),
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
        for round in 0..=MOST_SAMPLES {
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
                let seconds = case.prepared.step().as_secs_f64();
                case.turn = begun.elapsed();
                // The first round warms up: clocks, address caches, and the estimate of a turn.
                if round == 0 {
                    continue;
                }
                case.samples.push(seconds);
                let record = &mut cases[case.index];
                record::measure(record, case.prepared.as_ref(), &case.samples, &self.calibrated.calibration);
                if STORED_AT.contains(&case.samples.len()) {
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
