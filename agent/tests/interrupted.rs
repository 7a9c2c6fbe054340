//! Runs that are cancelled or killed in every stage: what is stored, what is left behind, and how they go on.
#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "a test binary documents nothing")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Running, json, kvscope, run_file, until};
use serde_json::Value;

/// A run that tells its progress in JSON and stops when its standard input ends.
fn watched(home: &Path, arguments: &[&str]) -> Running {
    let mut command = kvscope(home);
    let own = arguments.iter().all(|argument| !argument.starts_with("--budget")).then_some("--budget=30s");
    command.args(["bench", "run", "--watched"]).args(own).args(arguments).stdin(Stdio::piped());
    Running(command.spawn().unwrap())
}

/// The first progress that is as wanted.
fn progress(running: &mut Running, wanted: impl Fn(&Value) -> bool) -> Value {
    let lines = BufReader::new(running.0.stdout.as_mut().unwrap()).lines();
    let mut read = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    read.find(wanted).expect("it is told before the end")
}

/// Ends standard input, and waits for the end of the process.
fn cancel(running: &mut Running) {
    drop(running.0.stdin.take());
    let status = running.0.wait().unwrap();
    assert_eq!(status.code(), Some(130), "it ends by itself");
}

fn kill(running: &mut Running) {
    running.0.kill().unwrap();
    running.0.wait().unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The only run, as it is shown.
fn shown(home: &Path) -> Value {
    let list = json(home, &["bench", "list", "--json"]);
    assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
    json(home, &["bench", "show", list[0]["run"].as_str().unwrap(), "--json"])
}

#[test]
fn a_calibration_tells_what_is_left_of_the_run_and_a_cancelled_or_killed_one_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for end in [cancel, kill] {
        let mut run = watched(home, &["--forms=gqa", "--lengths=64"]);
        let left = |progress: &Value| progress["remaining_seconds"].as_f64().unwrap();
        let first = progress(&mut run, |progress| progress["stage"] == "calibrating");
        let later = progress(&mut run, |progress| left(progress) < left(&first));
        assert_eq!(later["stage"], "calibrating");
        assert!(later["fraction"].as_f64() > first["fraction"].as_f64(), "{later}");
        end(&mut run);
        assert_eq!(json(home, &["bench", "list", "--json"]), serde_json::json!([]));
        assert_eq!(names(&home.join("runs")), ["measuring.lock"]);
    }
}

#[test]
fn a_run_that_is_cancelled_while_it_fills_its_state_ends_by_itself_and_says_so() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let mut run = watched(home, &["--forms=gqa", "--lengths=256Ki"]);
    progress(&mut run, |progress| progress["stage"] == "preparing");
    cancel(&mut run);
    let run = shown(home);
    assert_eq!((&run["ended"], run["cases"].as_array().unwrap().len()), (&Value::from("cancelled"), 1));
}

#[test]
fn ctrl_c_stores_what_was_measured_and_says_how_it_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let arguments = ["bench", "run", "--tiers=dram", "--budget=600s"];
    let mut run = Running(kvscope(home).args(arguments).spawn().unwrap());
    let file = until("the run", || run_file(home));
    until("a transfer", || fs::read_to_string(&file).unwrap().contains("\"samples_seconds\"").then_some(()));
    let sent = Command::new("kill").args(["-INT", &run.0.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
    let mut said = String::new();
    std::io::Read::read_to_string(run.0.stderr.as_mut().unwrap(), &mut said).unwrap();
    let stored = shown(home);
    let words = format!("kvscope bench run --resume {}", stored["run"].as_str().unwrap());
    assert!(said.lines().last().unwrap().contains(&words), "{said}");
    assert_eq!(stored["ended"], "cancelled");
}

/// Transfers that have figures.
fn measured(run: &Value) -> Vec<&Value> {
    let transfers = run["transfers"].as_array().unwrap().iter();
    transfers.filter(|one| one["status"] == "ok" || one["status"] == "unsteady").collect()
}

#[test]
fn a_run_that_is_killed_in_a_tier_leaves_no_file_and_goes_on_with_what_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let arguments =
        ["--tiers=cache,dram", "--state=minimax-m2.7", "--lengths=64", "--set=kv_dtype=fp8", "--budget=300s"];
    let mut run = watched(home, &arguments);
    let file = until("the run", || run_file(home));
    until("a figure", || fs::read_to_string(&file).unwrap().contains("\"status\":\"ok\"").then_some(()));
    kill(&mut run);
    assert_eq!(names(&home.join("tiers")).len(), 2, "a kill leaves its folder beside the lock");
    let before = shown(home);
    assert_eq!(
        (&before["ended"], &before["plan"]["tiers"]),
        (&"interrupted".into(), &serde_json::json!(["cache", "dram"]))
    );
    assert_eq!(before["transfers"].as_array().unwrap().len(), 2 * (84 + 4));

    let name = before["run"].as_str().unwrap();
    let after = json(home, &["bench", "run", "--resume", name, "--budget=20s", "--json"]);
    assert_eq!(names(&home.join("tiers")), ["lock"]);
    assert_eq!((&after["run"], after["transfers"].as_array().unwrap().len()), (&before["run"], 2 * (84 + 4)));
    for kept in measured(&before) {
        let now = &after["transfers"][usize::try_from(kept["transfer"].as_u64().unwrap()).unwrap()];
        assert_eq!((&now["measured"], &now["status"]), (&kept["measured"], &kept["status"]));
    }
    assert!(measured(&after).len() > measured(&before).len());
    let state = &after["transfers"].as_array().unwrap().last().unwrap()["state"];
    // MiniMax-M2.7 in fp8: 62 layers × 2 × 8 heads × 128 values × 1 B × 16 tokens.
    assert_eq!(state["parts"][0]["block_bytes"], 62 * 2 * 8 * 128 * 16);
    assert_eq!(shown(home)["transfers"], after["transfers"]);
}

#[test]
fn a_run_that_is_killed_between_its_cases_goes_on_with_its_tiers_too() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let mut run = watched(home, &["--forms=gqa", "--lengths=64,128", "--tiers=dram", "--budget=300s"]);
    let file = until("the run", || run_file(home));
    until("a figure", || fs::read_to_string(&file).unwrap().contains("\"line\":\"case\"").then_some(()));
    kill(&mut run);
    let name = file.file_stem().unwrap().to_str().unwrap();
    let mut run = watched(home, &["--resume", name, "--budget=120s"]);
    let stored = || fs::read_to_string(&file).unwrap();
    until("a transfer", || {
        stored()
            .lines()
            .any(|line| line.contains("\"tier\":\"dram\"") && line.contains("samples"))
            .then_some(())
    });
    cancel(&mut run);
    let after = shown(home);
    assert_eq!(after["cases"].as_array().unwrap().len(), 2);
    assert!(after["transfers"].as_array().unwrap().iter().any(|one| !one["measured"].is_null()));
    let notes = after["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().starts_with("resumed ")), "{notes:?}");
}
