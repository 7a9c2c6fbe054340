//! The protocol against a backend whose steps take exactly as long as they are told.

mod bad_luck;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use kvscope_protocol::run::{Cache, Ended, Machine, Run};
use kvscope_sizing::cost::StepCost;
use kvscope_sizing::prediction::{Calibration, CeilingSpread, Ceilings, ReadPoint, Unsteady};
use kvscope_sizing::{Bytes, KvFormat, Tokens};

use super::backend::{Backend, Calibrated, CaseOrder, Check, Layout, PreparedCase, Probe, Resident, Timed};
use super::calibration::CalibrationUse;
use super::plan::{CaseRequest, CaseSizing, Divided, Plan, Progress};
use super::shape::{FormShape, GqaShape, TokenRange};
use super::store::Store;
use super::{BenchError, Interrupt, runner};

/// Pages of 16 tokens of 64 bytes a layer: 1 KiB a page.
struct Fake {
    largest_relative_error: f64,
    steps: Rc<Cell<usize>>,
    prepared: Rc<Cell<u64>>,
    emptied: usize,
    refuses_memory: bool,
    refuses_emptying: bool,
    buffer: u64,
    kernel_instructions: &'static str,
    calibrated: usize,
    date: SystemTime,
    read_now: f64,
    unsteady: bool,
    cache: u64,
    preparing: Duration,
}

impl Fake {
    fn new() -> Self {
        Self {
            largest_relative_error: 1e-6,
            steps: Rc::default(),
            prepared: Rc::default(),
            emptied: 0,
            refuses_memory: false,
            refuses_emptying: false,
            buffer: 1024,
            kernel_instructions: "wide",
            calibrated: 0,
            date: SystemTime::now(),
            read_now: 1e9,
            unsteady: false,
            cache: 256,
            preparing: Duration::ZERO,
        }
    }
}

impl Backend for Fake {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn machine(&self) -> Machine {
        Machine::default()
    }

    fn calibrate(&mut self, _time: Duration, interrupt: Interrupt<'_>) -> Result<Calibrated, BenchError> {
        interrupt.check()?;
        let ceilings = Ceilings {
            read_bytes_per_second: 1e9,
            flops_per_second: 1e12,
            read_by_working_set: vec![ReadPoint {
                working_set_bytes: Bytes::new(4096),
                bytes_per_second: 4e9,
            }],
            ..Ceilings::default()
        };
        let calibration = Calibration {
            date: humantime::format_rfc3339_seconds(self.date).to_string(),
            ceilings,
            relative_spread: CeilingSpread::default(),
            last_level_cache_bytes: Some(Bytes::new(self.cache)),
            workers: 1,
            unsteady: self
                .unsteady
                .then(|| Unsteady { of: "core".to_owned(), sentence: "core 0 was shared".to_owned() })
                .into_iter()
                .collect(),
        };
        self.calibrated += 1;
        Ok(Calibrated { calibration, buffer: Bytes::new(self.buffer), instructions: "wide".to_owned() })
    }

    fn probe(&mut self) -> Result<Probe, BenchError> {
        Ok(Probe { read_bytes_per_second: self.read_now, flops_per_second: 1e12 })
    }

    fn free_state_bytes(&self) -> Bytes {
        Bytes::new(1 << 20)
    }

    fn layout(&self, shape: &FormShape, context: u64, batch: u64) -> Result<Layout, BenchError> {
        let FormShape::Gqa(gqa) = shape else { panic!("only one form is asked for") };
        let pages = context.div_ceil(16);
        Ok(Layout {
            layer_bytes: pages * 1024 * batch * gqa.kv_heads / 4,
            padding_bytes: (pages * 16 - context) * 64 * batch * gqa.kv_heads / 4,
            padding_reason: "whole pages",
            launches: 1,
            instructions: self.kernel_instructions,
        })
    }

    fn prepare(&mut self, order: &CaseOrder) -> Result<Box<dyn PreparedCase>, BenchError> {
        if self.refuses_memory {
            return Err(BenchError::Memory { bytes: 1, why: "no".to_owned() });
        }
        std::thread::sleep(self.preparing);
        let bytes = self.layout(&order.shape, order.context, order.batch)?.layer_bytes * order.layers;
        self.prepared.set(self.prepared.get() + bytes);
        Ok(Box::new(FakeCase { bytes, error: self.largest_relative_error, steps: Rc::clone(&self.steps) }))
    }

    fn empty_caches(&mut self) -> Result<(), BenchError> {
        if self.refuses_emptying {
            return Err(BenchError::Memory { bytes: 1, why: "no".to_owned() });
        }
        self.emptied += 1;
        Ok(())
    }
}

struct FakeCase {
    bytes: u64,
    error: f64,
    steps: Rc<Cell<usize>>,
}

impl PreparedCase for FakeCase {
    fn asked_bytes(&self) -> Bytes {
        Bytes::new(self.bytes)
    }

    fn resident(&self) -> Option<Resident> {
        None
    }

    fn check(&mut self) -> Result<Check, BenchError> {
        Ok(Check { largest_relative_error: self.error, part: Some("the first of 2 requests".to_owned()) })
    }

    /// 1 GB/s, as predicted, give or take 1 %.
    fn step(&mut self) -> Result<Timed, BenchError> {
        self.steps.set(self.steps.get() + 1);
        let wobble = if self.steps.get().is_multiple_of(2) { 1.01 } else { 0.99 };
        Ok(Timed::on_processors(Duration::from_secs_f64(self.bytes as f64 / 1e9 * wobble)))
    }
}

/// 64 bytes a token for 4 heads.
#[derive(Debug)]
struct Flat {
    heads: u64,
}

impl CaseSizing for Flat {
    fn state_bytes(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<Bytes> {
        Ok(Bytes::new(16 * self.heads * layers * context.get() * batch))
    }

    fn borrowed_bytes(&self, _layers: u64, _context: Tokens, _batch: u64) -> kvscope_sizing::Result<Bytes> {
        Ok(Bytes::ZERO)
    }

    fn cost(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<StepCost> {
        Ok(StepCost { read_bytes: self.state_bytes(layers, context, batch)?, ..StepCost::default() })
    }

    fn divided(&self, by: u64) -> Option<Divided> {
        let heads = self.heads / by;
        let what = format!("{heads} of {} heads", self.heads);
        (heads > 0).then(|| Divided { shape: shape(heads), sizing: Arc::new(Self { heads }), what })
    }
}

fn shape(kv_heads: u64) -> FormShape {
    FormShape::Gqa(GqaShape {
        query_heads: 4,
        kv_heads,
        k_width: 16,
        v_width: 16,
        range: TokenRange::All,
        k_format: KvFormat::Bf16,
        v_format: KvFormat::Bf16,
    })
}

fn request(context: u64) -> CaseRequest {
    CaseRequest {
        form: "gqa".to_owned(),
        shape: shape(4),
        layers: 4,
        model: "a-model".to_owned(),
        context: Tokens::new(context),
        batch: 2,
        cache: Cache::Cold,
        sizing: Arc::new(Flat { heads: 4 }),
    }
}

fn go(
    backend: &mut Fake,
    requests: &[CaseRequest],
    store: &Store,
    progress: &mut dyn FnMut(Progress),
    cancel: &AtomicBool,
) -> Result<Run, BenchError> {
    let plan = Plan { calibration: CalibrationUse::New, ..Plan::new(Duration::from_secs(5)) };
    runner::run(backend, &plan, requests, store, progress, Interrupt { cancel })
}

/// The stored lines as they are.
fn lines(store: &Store, run: &Run) -> Vec<serde_json::Value> {
    store.text(&run.run).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn figures_are_stored_after_their_predictions_and_read_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut backend = Fake::new();
    let run =
        go(&mut backend, &[request(160), request(33)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
    assert_eq!(run.ended, Ended::Complete);
    let stored = store.show(&run.run).unwrap();
    assert!(stored.warnings.is_empty());
    assert_eq!((&stored.run.cases, &stored.run.verdicts), (&run.cases, &run.verdicts));

    let lines = lines(&store, &run);
    assert_eq!(lines[0]["line"], "header");
    let predicted = lines.iter().rposition(|line| line["line"] == "prediction").unwrap();
    let measured = lines.iter().position(|line| line["line"] == "case").unwrap();
    assert_eq!(predicted, 2);
    assert!(predicted < measured);
    for line in &lines {
        if line["line"] == "prediction" {
            assert!(line["measured"].is_null() && line["predicted"]["seconds"].is_f64(), "{line}");
        }
    }

    // 4 layers × 2 requests × 160 tokens × 64 bytes, at 1 GB/s.
    let case = &run.cases[0];
    assert_eq!(case.predicted.bytes, Some(Bytes::new(81_920)));
    assert_eq!(case.measured.as_ref().unwrap().asked_bytes, Bytes::new(81_920));
    assert!((case.predicted.seconds.unwrap() - 81.92e-6).abs() < 1e-12);
    assert!(case.time_error().unwrap().abs() < 0.011);
    assert_eq!((case.status.as_str(), case.correct), ("ok", Some(true)));
    assert!(case.measured.as_ref().unwrap().seconds.n >= 10);

    // 33 tokens take 3 pages of 16: 15 more tokens of 64 bytes, 4 layers, 2 requests.
    let case = &run.cases[1];
    assert_eq!(case.predicted.page_padding_bytes, Some(Bytes::new(7_680)));
    assert_eq!(case.measured.as_ref().unwrap().asked_bytes, Bytes::new(33 * 64 * 8 + 7_680));
    assert_eq!(run.verdicts[0].points, 2);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut backend = Fake::new();
    let run = go(&mut backend, &[request(1 << 20)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
    assert_eq!(backend.prepared.get(), 0);
    // 1 MiB / (2 requests × 1 KiB a page) = 512 pages of 16 tokens; a quarter of the heads is not enough either.
    assert_eq!(
        run.cases[0].status,
        "skipped: one layer is larger than the 1.05 MB that state may take; the largest context that fits is 8,192 tokens"
    );
    assert_eq!((run.cases[0].measured.as_ref(), run.cases[0].predicted.seconds), (None, None));
}

#[test]
fn where_a_layer_does_not_fit_fewer_heads_are_held_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut backend = Fake::new();
    // 10,240 tokens × 2 × 64 bytes are 1.25 MiB; half of it fits in 1 MiB.
    let run = go(&mut backend, &[request(10_240)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
    let case = &run.cases[0];
    assert_eq!(case.predicted.bytes, Some(Bytes::new(10_240 * 2 * 32)));
    assert_eq!(case.measured.as_ref().unwrap().asked_bytes, Bytes::new(10_240 * 2 * 32));
    let told = case.warnings.iter().any(|warning| warning.starts_with("2 of 4 heads were held"));
    assert!(told, "{:?}", case.warnings);
}

#[test]
fn a_wrong_result_voids_the_figure() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for error in [0.01, f64::NAN, f64::INFINITY] {
        let mut backend = Fake { largest_relative_error: error, ..Fake::new() };
        let run = go(&mut backend, &[request(64)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
        let case = &run.cases[0];
        assert_eq!((case.status.as_str(), case.correct), ("failed: wrong result", Some(false)));
        assert!(case.measured.is_none() && case.bandwidth_share.is_none());
        assert_eq!((backend.steps.get(), run.verdicts[0].points), (0, 0));
    }
}

#[test]
fn refused_memory_fails_the_case_and_not_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut backend = Fake { refuses_memory: true, ..Fake::new() };
    let run = go(&mut backend, &[request(64)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
    assert!(run.cases[0].status.starts_with("failed: the system refused"), "{}", run.cases[0].status);
    assert_eq!(run.ended, Ended::Complete);
}

#[test]
fn cancelling_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let (mut backend, cancel) = (Fake::new(), AtomicBool::new(false));
    let steps = Rc::clone(&backend.steps);
    let mut stop_after_five = |_: Progress| {
        if steps.get() == 7 {
            cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let run = go(&mut backend, &[request(64)], &store, &mut stop_after_five, &cancel).unwrap();
    assert_eq!(run.ended, Ended::Cancelled);
    // The eighth step was already begun; the first three warmed up.
    assert_eq!(run.cases[0].measured.as_ref().unwrap().seconds.n, 5);
    assert!(
        run.cases[0].warnings.iter().any(|warning| warning == "the run was cancelled after 5 samples of 10")
    );

    let run = go(&mut Fake::new(), &[request(64)], &store, &mut |_| (), &AtomicBool::new(true));
    assert!(matches!(run, Err(BenchError::Cancelled)));
}

#[test]
fn small_states_have_their_caches_emptied_before_each_step() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    // The cache is 256 B: four times that is one page's 1 KiB. 16 tokens × 64 B × 8 is above, 1 token × 64 × 8 below.
    for (context, emptied) in [(16, false), (1, true)] {
        let mut backend = Fake::new();
        let run =
            go(&mut backend, &[request(context)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
        // Once before the three steps that warm up, then before each.
        assert_eq!(backend.emptied, if emptied { backend.steps.get() - 2 } else { 0 });
        assert_eq!(
            run.cases[0].warnings.iter().any(|warning| warning.contains("caches are emptied")),
            emptied
        );
    }
}

#[test]
fn a_buffer_that_caches_could_hold_is_named_and_nothing_small_is_called_cold() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    // Four times the cache of 256 B is 1,024 B: one byte less does not reach.
    for (buffer, context, warnings, cache) in [
        (1024, 16, 0, Cache::Cold),
        (1024, 1, 0, Cache::Cold),
        (1023, 16, 1, Cache::Cold),
        (1023, 1, 2, Cache::Hot),
    ] {
        let mut backend = Fake { buffer, ..Fake::new() };
        let run =
            go(&mut backend, &[request(context)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
        let case = &run.cases[0];
        assert_eq!(case.cache, cache, "buffer {buffer}, context {context}");
        let told = case.warnings.iter().filter(|warning| warning.contains("1.02 kB")).count();
        assert_eq!(told, warnings, "{:?}", case.warnings);
        if buffer == 1023 {
            assert!(!case.warnings.iter().any(|warning| warning.contains("caches are emptied")));
        }
    }
}

#[test]
fn caches_that_cannot_be_emptied_void_the_case() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut backend = Fake { refuses_emptying: true, ..Fake::new() };
    let run = go(&mut backend, &[request(1)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
    let case = &run.cases[0];
    assert!(case.status.starts_with("failed: caches could not be emptied"), "{}", case.status);
    assert!(case.measured.is_none());
    assert_eq!(backend.steps.get(), 0);
}

#[test]
fn a_narrower_kernel_and_a_check_of_one_request_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (kernel, differs) in [("wide", false), ("narrow", true)] {
        let mut backend = Fake { kernel_instructions: kernel, ..Fake::new() };
        let run = go(&mut backend, &[request(16)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
        let told = |words: &str| run.cases[0].warnings.iter().any(|warning| warning.contains(words));
        assert_eq!(told("the kernel runs with narrow"), differs);
        assert!(told("the first of 2 requests"));
    }
}

#[test]
fn a_calibration_is_used_again_while_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let run = |backend: &mut Fake| {
        let (plan, cancel) = (Plan::new(Duration::from_secs(5)), AtomicBool::new(false));
        runner::run(backend, &plan, &[request(160)], &store, &mut |_| (), Interrupt { cancel: &cancel })
            .unwrap();
        backend.calibrated
    };
    assert_eq!(run(&mut Fake::new()), 1, "there is none yet");
    assert_eq!(run(&mut Fake::new()), 0);
    assert_eq!(store.list().unwrap().len(), 2, "it is no run");
    // The machine reads at four fifths of what it did.
    assert_eq!(run(&mut Fake { read_now: 0.8e9, ..Fake::new() }), 1);
    let old = SystemTime::now() - Duration::from_hours(40 * 24);
    let mut backend = Fake { date: old, read_now: 0.5e9, ..Fake::new() };
    assert_eq!(run(&mut backend), 1);
    assert_eq!(run(&mut Fake::new()), 1, "what is stored now is 40 days old");
    std::fs::write(store.calibration_path("cpu"), "{").unwrap();
    assert_eq!(run(&mut Fake::new()), 1, "what cannot be read is measured again");
}

#[test]
fn an_unsteady_calibration_marks_every_case_and_is_not_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for _ in 0..2 {
        let mut backend = Fake { unsteady: true, ..Fake::new() };
        let (plan, cancel) = (Plan::new(Duration::from_secs(5)), AtomicBool::new(false));
        let run = runner::run(
            &mut backend,
            &plan,
            &[request(160)],
            &store,
            &mut |_| (),
            Interrupt { cancel: &cancel },
        )
        .unwrap();
        assert_eq!(run.cases[0].status, "unsteady: core 0 was shared");
        assert_eq!((run.verdicts[0].points, run.verdicts[0].unsteady), (0, 1));
        assert_eq!(backend.calibrated, 1);
    }
}

#[test]
fn hot_cases_are_predicted_where_their_state_lies_and_keep_their_caches() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let requests = [request(16), CaseRequest { cache: Cache::Hot, ..request(16) }];
    // One layer is a page of 1 KiB for each of 2 requests: half of 8 KiB holds two layers, half of 2 KiB none.
    let mut backend = Fake { cache: 8192, ..Fake::new() };
    let run = go(&mut backend, &requests, &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
    let [cold, hot] = &run.cases[..] else { panic!("two cases") };
    assert_eq!((cold.layers_measured, hot.cache, hot.layers_measured), (4, Cache::Hot, 2));
    // 8 KiB at 1 GB/s from memory, 4 KiB at 4 GB/s from the cache.
    assert!((cold.predicted.seconds.unwrap() - 8192e-9).abs() < 1e-15);
    assert!((hot.predicted.seconds.unwrap() - 1024e-9).abs() < 1e-15);
    assert!(!hot.warnings.iter().any(|warning| warning.contains("caches are emptied")));

    let mut backend = Fake { cache: 2048, ..Fake::new() };
    let run = go(&mut backend, &requests, &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
    assert!(run.cases[1].status.starts_with("skipped: one layer takes 2.05 kB"), "{}", run.cases[1].status);
}

#[test]
fn the_half_of_a_fit_is_declared_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let requests: Vec<CaseRequest> = [160, 320, 480, 640].map(request).to_vec();
    let run = go(&mut Fake::new(), &requests, &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
    assert_eq!(lines(&store, &run)[0]["plan"]["fit_half"], serde_json::json!([0, 2]));
    let used: Vec<bool> = run.cases.iter().map(|case| case.fitted.unwrap().used).collect();
    assert_eq!(used, [true, false, true, false]);
    // Steps are as predicted, give or take 1 %; four in turns put all of one sign into one half.
    let fit = run.verdicts[0].fit.as_ref().unwrap();
    assert!(fit.judged == 2 && fit.median_error < 0.021, "{fit:?}");
    assert_eq!(store.show(&run.run).unwrap().run.cases, run.cases);
}

#[test]
fn nothing_to_run_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let run = go(&mut Fake::new(), &[], &store, &mut |_| (), &AtomicBool::new(false));
    assert!(matches!(run, Err(BenchError::NoCases)));
}
