//! A run that was interrupted, one whose time is short, and one whose disk is full.

use super::*;
use crate::bench::plan::Resumed;

#[test]
fn a_resumed_run_measures_what_is_missing_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let (mut backend, cancel) = (Fake::new(), AtomicBool::new(false));
    let requests = [request(160), request(320)];
    let mut stop = |progress: Progress| {
        cancel.store(progress.measured == 2, std::sync::atomic::Ordering::Relaxed);
    };
    let run = go(&mut backend, &requests, &store, &mut stop, &cancel).unwrap();
    assert_eq!(run.ended, Ended::Cancelled);
    // As if the first case had had its samples.
    let mut whole = run.cases[0].clone();
    whole.status = "ok".to_owned();
    let text = store.text(&run.run).unwrap();
    let line = kvscope_protocol::run::Line::Case(Box::new(whole.clone()));
    let text = text + &serde_json::to_string(&line).unwrap() + "\n";
    std::fs::write(folder.path().join(format!("{}.jsonl", run.run)), &text).unwrap();
    let stored = store.show(&run.run).unwrap().run;
    assert!(!stored.cases[0].is_missing() && stored.cases[1].is_missing());

    let resumed = Some(Resumed { run: stored.clone(), cases: vec![1] });
    let plan = Plan { resumed, ..Plan::new(Duration::from_secs(5)) };
    let cancel = AtomicBool::new(false);
    let resumed = runner::run(
        &mut Fake::new(),
        &plan,
        &requests[1..],
        &store,
        &mut |_| (),
        Interrupt { cancel: &cancel },
    )
    .unwrap();
    assert_eq!((resumed.ended, &resumed.run), (Ended::Complete, &run.run));
    assert_eq!((resumed.cases.len(), &resumed.cases[0].measured), (2, &whole.measured));
    assert_eq!((resumed.cases[1].case, resumed.cases[1].status.as_str()), (1, "ok"));
    assert!(resumed.notes.iter().any(|note| note.contains("for 1 of 2 cases")), "{:?}", resumed.notes);
    let after = store.text(&run.run).unwrap();
    assert!(after.starts_with(&text), "what was stored stays");
    let read = store.show(&run.run).unwrap();
    assert_eq!((read.warnings.len(), &read.run.cases), (0, &resumed.cases));
    assert_eq!((read.run.notes, read.run.verdicts), (resumed.notes, resumed.verdicts));
    // The prediction of what is measured again is stored before its measurement.
    let new: Vec<serde_json::Value> =
        after[text.len()..].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&new[0]["line"], &new[1]["line"]), (&"resumed".into(), &"prediction".into()));
}

#[test]
fn preparing_takes_half_of_the_time_and_what_is_left_out_says_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut backend = Fake { preparing: Duration::from_millis(300), ..Fake::new() };
    let plan = Plan { calibration: CalibrationUse::New, ..Plan::new(Duration::from_secs(1)) };
    let requests: Vec<CaseRequest> = [160, 320, 480, 640, 800, 960, 1120, 1280].map(request).to_vec();
    let cancel = AtomicBool::new(false);
    let run = runner::run(&mut backend, &plan, &requests, &store, &mut |_| (), Interrupt { cancel: &cancel })
        .unwrap();
    let measured = run.cases.iter().filter(|case| case.measured.is_some()).count();
    let prepared = run.cases.iter().filter(|case| case.correct.is_some()).count();
    assert!((1..8).contains(&measured), "{measured}");
    assert_eq!(measured, prepared, "what is prepared is measured");
    assert_eq!(run.ended, Ended::Partial);
    for case in run.cases.iter().filter(|case| case.measured.is_none()) {
        assert_eq!(case.status, "partial: the budget was used up before the first sample");
        assert_eq!(case.warnings, [""; 0], "nothing was held, read or checked");
    }
    let spent = run.spent.unwrap();
    assert!(spent.preparing_seconds >= 0.3 && spent.whole_seconds >= spent.preparing_seconds, "{spent:?}");
    let note = format!("{} of 8 cases have no figure or too few samples: of ", 8 - measured);
    assert!(run.notes[0].starts_with(&note), "{:?}", run.notes);
    let summary = &store.list().unwrap()[0];
    assert_eq!(summary.state(), format!("partial: {measured} of 8 measured"));
}

#[test]
fn a_full_disk_fails_the_case_and_says_so_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    // Header and predictions fit, and no case after them.
    let whole = go(&mut Fake::new(), &[request(160)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
    let text = store.text(&whole.run).unwrap();
    let room = text.split_inclusive('\n').take(2).map(str::len).sum::<usize>() as u64 + 200;
    let store = store.with_room(room);
    let run = go(&mut Fake::new(), &[request(160)], &store, &mut |_| (), &AtomicBool::new(false)).unwrap();
    let status = &run.cases[0].status;
    assert!(status.starts_with("failed: not stored: ") && status.contains(".jsonl"), "{status}");
    assert_eq!(run.ended, Ended::Interrupted);
    assert!(run.notes[0].starts_with("the end of the run is not stored: "), "{:?}", run.notes);
    let read = store.show(&run.run).unwrap();
    assert_eq!((read.warnings.len(), read.run.cases.len()), (0, 1));
    assert!(read.run.cases[0].is_missing());
}
