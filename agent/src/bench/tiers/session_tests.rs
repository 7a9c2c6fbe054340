use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use kvscope_protocol::run::{Ended, PlanRecord, Run, TierName, is_missing_transfer};
use kvscope_sizing::{Settings, Tokens, find_entry};
use serde_json::Value;

use super::declared::chosen;
use super::room::Room;
use super::session::{Open, Session};
use super::*;
use crate::bench::plan::Progress;
use crate::bench::store::Store;
use crate::bench::{Interrupt, life, machine};

fn plan(home: &Path, tiers: &[TierName], seconds: u64) -> TierPlan {
    TierPlan {
        tiers: tiers.to_vec(),
        states: Vec::new(),
        asked: Vec::new(),
        folder: home.join("tiers"),
        budget: Duration::from_secs(seconds),
        seed: 5,
    }
}

fn state(model: &str, engine: &str, context: u64) -> StateLayout {
    let architecture = find_entry(model).unwrap().architecture().unwrap();
    let engine = engine.parse().unwrap();
    StateLayout::of(model, &architecture, &engine, Tokens::new(context), &Settings::default()).unwrap()
}

/// A run in which tiers are opened by `open` and the system has this room.
fn run_in(plan: &TierPlan, home: &Path, room: Room, open: &Open<'_>) -> Run {
    let store = Store::open(home.join("runs")).unwrap();
    let mut run = life::begin("cpu", PlanRecord::default(), machine::describe(), None, SystemTime::now());
    let mut writer = life::create(&run, &store).unwrap();
    let cancel = AtomicBool::new(false);
    let mut session = Session {
        plan,
        room,
        open,
        begun: Instant::now(),
        preparing: Duration::ZERO,
        known: Progress::default(),
        writer: &mut writer,
        progress: &mut |_| {},
        interrupt: Interrupt { cancel: &cancel },
    };
    session.measure_all(&mut run);
    run
}

const PLENTY: Room = Room { memory: 64 << 30, disk: 64 << 30, file: None };

fn dram(_: TierName, pages: usize) -> io::Result<Box<dyn Tier>> {
    Ok(Box::new(Dram::new(pages)?))
}

fn of<'r>(run: &'r Run, tier: &'r str) -> impl Iterator<Item = &'r Value> {
    run.transfers.iter().filter(move |transfer| transfer["tier"] == tier)
}

fn files_left(folder: &Path) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn a_run_over_tiers_is_stored_with_what_failed_and_leaves_no_file() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path().join("runs")).unwrap();
    let plan = plan(home.path(), &[TierName::Dram, TierName::Cache], 3);
    let run = run_tiers(&plan, None, &store, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    let is_whole = !run.transfers.iter().any(is_missing_transfer);
    assert_eq!(run.ended, if is_whole { Ended::Complete } else { Ended::Partial });
    let of: Vec<&str> = run.verdicts.iter().map(|verdict| verdict.of.as_str()).collect();
    assert_eq!(of, ["dram", "cache"]);
    let read = store.show(&run.run).unwrap();
    assert_eq!((read.warnings.len(), &read.run.transfers), (0, &run.transfers));
    assert!(run.transfers.iter().all(|transfer| transfer["medium"].as_str().unwrap().starts_with("memory")));
    assert_eq!(files_left(&plan.folder), ["lock"]);
}

#[test]
fn a_cancelled_run_says_so_and_keeps_what_it_declared() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path().join("runs")).unwrap();
    let mut plan = plan(home.path(), &[TierName::Dram], 60);
    plan.states.push(state("minimax-m2.7", "vllm", 64));
    let run = run_tiers(&plan, None, &store, &mut |_| {}, &AtomicBool::new(true)).unwrap();
    assert_eq!((run.ended, run.transfers.len()), (Ended::Cancelled, 84 + 4));
    let status = "partial: the run was cancelled before the first sample";
    assert!(run.transfers.iter().all(|transfer| transfer["status"] == status), "{:?}", run.transfers);
}

/// MiniMax-M2.7 at 50 tokens: four blocks of 16 tokens, 4,063,232 B or 992 pages each.
#[test]
fn a_state_is_predicted_before_it_goes_to_a_tier_and_asks_for_what_was_predicted() {
    let home = tempfile::tempdir().unwrap();
    let mut plan = plan(home.path(), &[TierName::Dram], 8);
    plan.states.push(state("minimax-m2.7", "vllm", 50));
    let run = run_in(&plan, home.path(), Room { memory: 80_000_000, ..PLENTY }, &dram);
    let states: Vec<&Value> = run.transfers.iter().filter(|transfer| !transfer["state"].is_null()).collect();
    assert_eq!(states.len(), 4);
    for one in &states {
        let blocks = one["blocks"].as_u64().unwrap();
        assert_eq!(one["state"]["blocks_total"], 4);
        assert_eq!(one["predicted"]["bytes"], blocks * 4_063_232, "{one}");
        assert_eq!(one["predicted"]["grade"], "fitted");
        assert_eq!((one["fit_half"].as_bool(), one["fitted"].is_null()), (Some(false), true));
        if !one["measured"].is_null() {
            assert_eq!(one["measured"]["asked_bytes"], one["predicted"]["bytes"]);
        }
    }
    // In the file: declared, predicted, and only then measured, in this order.
    let text = Store::open(home.path().join("runs")).unwrap().text(&run.run).unwrap();
    let number = states[0]["transfer"].as_u64().unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["transfer"] == number)
        .collect();
    let steps: Vec<(bool, bool)> =
        lines.iter().map(|line| (line["predicted"].is_null(), line["measured"].is_null())).collect();
    assert_eq!(steps[..2], [(true, true), (false, true)], "{steps:?}");
    assert!(run.verdicts.iter().any(|verdict| verdict.of == "dram"));
}

#[test]
fn what_does_not_fit_is_refused_or_scaled_down_before_anything_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let mut plan = plan(home.path(), &[TierName::Dram, TierName::Cache], 2);
    plan.states.push(state("minimax-m2.7", "vllm", 1600));
    let asked = std::cell::RefCell::new(Vec::new());
    let open = |tier: TierName, pages: usize| {
        asked.borrow_mut().push((tier, pages));
        dram(tier, pages)
    };
    // A quarter of the memory is 20 MB: the smallest tier of 16 MiB, and four of the 100 blocks. The disk has room for
    // nothing.
    let room = Room { memory: 80_000_000, disk: 3_000_000, file: None };
    let run = run_in(&plan, home.path(), room, &open);
    // Time may allow fewer of those four.
    let asked = asked.into_inner();
    assert_eq!((asked.len(), asked[0]), (2, (TierName::Dram, 4096)));
    assert!(asked[1].0 == TierName::Dram && asked[1].1 <= 4 * 992, "{asked:?}");
    for one in of(&run, "dram").filter(|one| one["state"].is_null()) {
        let too_large = one["bytes"].as_u64().unwrap() > 4 << 20;
        let status = one["status"].as_str().unwrap();
        let words = "skipped: memory leaves 20.0 MB for a tier; the largest transfer that fits is 4.19 MB";
        assert_eq!(status == words, too_large, "{one}");
    }
    let limit = room.of(TierName::Dram);
    let (parts, why) = chosen(&plan.states[0], limit, &[const { None }; 4], Duration::from_mins(2)).unwrap();
    let words =
        "4 of 100 blocks were laid out, as many as fit: memory leaves 20.0 MB; all figures are for those";
    assert_eq!((parts[0].blocks, why.as_deref()), (4, Some(words)));
    for one in of(&run, "cache") {
        let words = if one["state"].is_null() {
            "skipped: the disk leaves 3.00 MB, and a tier of 16.8 MB is the smallest"
        } else {
            "skipped: one block takes 4.06 MB and the disk leaves 3.00 MB; not one block fits"
        };
        assert_eq!(one["status"], words, "{one}");
    }
}

/// Ends like a peer whose process is gone, at its `left`th transfer.
#[derive(Debug)]
struct Closing {
    tier: Dram,
    left: usize,
}

impl Tier for Closing {
    fn method(&self) -> String {
        self.tier.method()
    }

    fn transfer(&mut self, moves: &mut [Move<'_>], interrupt: Interrupt<'_>) -> io::Result<()> {
        if self.left == 0 {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the peer closed the connection"));
        }
        self.left -= 1;
        self.tier.transfer(moves, interrupt)
    }
}

#[test]
fn a_tier_that_ends_fails_its_own_transfers_and_the_next_tier_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let plan = plan(home.path(), &[TierName::Peer, TierName::Dram], 4);
    let open = |tier: TierName, pages: usize| -> io::Result<Box<dyn Tier>> {
        match tier {
            TierName::Peer => Ok(Box::new(Closing { tier: Dram::new(pages)?, left: 1 })),
            _ => dram(tier, pages),
        }
    };
    let room = Room { memory: 80_000_000, ..PLENTY };
    let run = run_in(&plan, home.path(), room, &open);
    // The first transfer fills the tier.
    let failed = of(&run, "peer").filter(|one| one["status"] == "failed: the peer closed the connection");
    assert!(failed.count() > 0);
    assert!(of(&run, "peer").all(|one| one["measured"].is_null()));
    assert!(of(&run, "dram").all(|one| !one["status"].as_str().unwrap().starts_with("failed")));
}

#[test]
fn a_tier_that_cannot_be_had_says_why_in_each_of_its_transfers() {
    let home = tempfile::tempdir().unwrap();
    let mut plan = plan(home.path(), &[TierName::File], 2);
    plan.states.push(state("minimax-m2.7", "vllm", 16));
    let open = |_: TierName, _: usize| -> io::Result<Box<dyn Tier>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the file system has no direct I/O; choose a folder on another one",
        ))
    };
    let run = run_in(&plan, home.path(), PLENTY, &open);
    let words = "failed: the file system has no direct I/O; choose a folder on another one";
    assert!(run.transfers.iter().all(|one| one["status"] == words), "{:?}", run.transfers);
}

#[test]
fn without_a_folder_for_files_the_other_tiers_go_on() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path().join("runs")).unwrap();
    // No folder can be made below a file.
    std::fs::write(home.path().join("tiers"), "").unwrap();
    let plan = plan(home.path(), &[TierName::File, TierName::Dram], 2);
    let run = run_tiers(&plan, None, &store, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    for one in of(&run, "file") {
        let status = one["status"].as_str().unwrap();
        assert!(status.starts_with("failed: ") && status.contains("/tiers: "), "{status}");
    }
    assert!(of(&run, "dram").all(|one| !one["status"].as_str().unwrap().starts_with("failed")));
}

#[test]
fn transfers_that_a_full_disk_does_not_take_have_failed_and_the_run_comes_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    // The header fits, and no declaration after it.
    let store = Store::open(home.path().join("runs")).unwrap().with_room(8 << 10);
    let plan = plan(home.path(), &[TierName::Dram], 2);
    let run = run_tiers(&plan, None, &store, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    for one in &run.transfers {
        let status = one["status"].as_str().unwrap();
        assert!(status.starts_with("failed: not stored: ") && one["measured"].is_null(), "{status}");
    }
    let read = store.show(&run.run).unwrap();
    assert_eq!((read.warnings.len(), read.run.transfers.len()), (0, 0));
}

#[test]
fn a_stored_run_goes_on_with_the_transfers_that_it_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path().join("runs")).unwrap();
    let mut plan = plan(home.path(), &[TierName::Dram], 60);
    plan.states.push(state("minimax-m2.7", "vllm", 64));
    let cancel = AtomicBool::new(false);
    let mut asked = 0;
    // Warm-up and a sample of every block; then some of the second.
    let mut stop = |_: Progress| {
        asked += 1;
        cancel.store(asked > 84 * 2 + 40, std::sync::atomic::Ordering::Relaxed);
    };
    let mut before = run_tiers(&plan, None, &store, &mut stop, &cancel).unwrap();
    assert_eq!((before.ended, before.transfers.len()), (Ended::Cancelled, 84 + 4));
    // As if two had had all of their samples, and one had failed.
    for (place, status) in [(3, "ok"), (4, "unsteady"), (5, "failed: the peer closed the connection")] {
        before.transfers[place]["status"] = status.into();
    }
    plan.budget = Duration::from_secs(4);
    let after = run_tiers(&plan, Some(&before), &store, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!((&after.run, after.transfers.len()), (&before.run, before.transfers.len()));
    for place in 3..6 {
        let measured =
            |run: &Run| (run.transfers[place]["measured"].clone(), run.transfers[place]["status"].clone());
        assert_eq!(measured(&after), measured(&before));
    }
    assert_ne!(after.transfers[0]["measured"], before.transfers[0]["measured"]);
    assert!(after.notes.iter().any(|note| note.starts_with("resumed ")), "{:?}", after.notes);
    assert_eq!(store.show(&after.run).unwrap().run.verdicts, after.verdicts);
}

/// Runs one test of this program in a process of its own, with this in its environment.
fn child(test: &str, home: &Path, before: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new("sh")
        .args(["-c", &format!("{before} exec \"$0\" --exact \"$1\" --ignored --nocapture")])
        .arg(program)
        .arg(format!("bench::tiers::session_tests::{test}"))
        .env("KVSCOPE_TEST_HOME", home)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn home_of_child() -> std::path::PathBuf {
    std::env::var_os("KVSCOPE_TEST_HOME").expect("run by another test").into()
}

#[test]
#[ignore = "a process that another test starts and kills"]
fn holds_a_file_until_it_is_killed() {
    let folder = TierFolder::open(&home_of_child()).unwrap();
    let _tier = FileTier::create(&folder, 16, Through::PageCache).unwrap();
    std::fs::write(home_of_child().join("ready"), "").unwrap();
    std::thread::sleep(Duration::from_mins(1));
}

#[test]
fn what_a_killed_process_left_goes_at_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    let mut process = child("holds_a_file_until_it_is_killed", home.path(), "");
    let begun = Instant::now();
    while !home.path().join("ready").exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the process did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let number = process.id();
    process.kill().unwrap();
    process.wait().unwrap();
    std::fs::remove_file(home.path().join("ready")).unwrap();
    let left = home.path().join(format!("{number}-0"));
    assert!(left.join("cached").exists(), "a kill leaves the file");
    let next = TierFolder::open(home.path()).unwrap();
    assert!(!left.exists() && next.path().exists());
}

#[test]
#[ignore = "a process that another test starts with a limit of file sizes"]
fn measures_under_a_limit_of_file_sizes() {
    let home = home_of_child();
    let store = Store::open(home.join("runs")).unwrap();
    let mut plan = plan(&home, &[TierName::File], 2);
    plan.states.push(state("minimax-m2.7", "vllm", 64));
    let run = run_tiers(&plan, None, &store, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    std::fs::write(home.join("status"), run.transfers.last().unwrap()["status"].as_str().unwrap()).unwrap();
    std::fs::write(home.join("first"), run.transfers[0]["status"].as_str().unwrap()).unwrap();
}

/// The kernel ends a process that makes a file larger than `ulimit -f` allows (getrlimit(2), `RLIMIT_FSIZE`); this one
/// refuses in time. Blocks of `ulimit -f` are 512 B in a POSIX shell: 2 MiB.
#[test]
fn a_limit_of_file_sizes_refuses_and_does_not_end_the_process() {
    let home = tempfile::tempdir().unwrap();
    let mut process = child("measures_under_a_limit_of_file_sizes", home.path(), "ulimit -f 4096;");
    assert!(process.wait().unwrap().success());
    let read = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap();
    let words = "the limit of file sizes (ulimit -f) leaves 2.10 MB";
    assert_eq!(read("first"), format!("skipped: {words}, and a tier of 16.8 MB is the smallest"));
    assert_eq!(read("status"), format!("skipped: one block takes 4.06 MB and {words}; not one block fits"));
}
