//! Runs and the server as processes: killed, resumed, cancelled, watched, idle.
#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "a test binary documents nothing")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use common::{Running, json, kvscope, run_file, until};
use serde_json::Value;

fn case_lines(file: &Path) -> usize {
    fs::read_to_string(file)
        .unwrap_or_default()
        .lines()
        .filter(|line| line.contains("\"line\":\"case\""))
        .count()
}

/// Small cases and a calibration of seconds, which takes a sixth of the budget.
const RUN: [&str; 6] = ["bench", "run", "--forms=gqa", "--lengths=64,128,192,256", "--budget=40s", "--json"];

#[test]
fn a_run_that_is_killed_keeps_its_cases_and_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let mut running = Running(kvscope(home).args(RUN).spawn().unwrap());
    let file = until("a figure", || run_file(home).filter(|file| case_lines(file) > 0));
    running.0.kill().unwrap();
    running.0.wait().unwrap();

    let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
    let before = json(home, &["bench", "show", &name, "--json"]);
    assert_eq!(before["ended"], "interrupted");
    assert_eq!(before["cases"].as_array().unwrap().len(), 4, "every case is known");
    assert!(before["cases"].as_array().unwrap().iter().any(|case| !case["measured"].is_null()));
    let whole = |run: &Value| -> Vec<Value> {
        let cases = run["cases"].as_array().unwrap().iter();
        cases.filter(|case| !case["status"].as_str().unwrap().starts_with("partial")).cloned().collect()
    };
    let kept = whole(&before);

    // What a kill leaves in the middle of a line.
    let mut text = fs::read(&file).unwrap();
    text.extend_from_slice(b"{\"line\":\"case\",\"ca");
    fs::write(&file, text).unwrap();
    let after = json(home, &["bench", "run", "--resume", &name, "--budget", "20s", "--json"]);
    assert_eq!((&after["run"], &after["ended"]), (&before["run"], &Value::from("complete")));
    assert!(after["cases"].as_array().unwrap().iter().all(|case| !case["measured"].is_null()), "{after}");
    for case in kept {
        let now = &after["cases"][usize::try_from(case["case"].as_u64().unwrap()).unwrap()];
        assert_eq!(now["measured"], case["measured"], "what was whole is not measured again");
    }
    let again = kvscope(home).args(["bench", "run", "--resume", &name]).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("no case of run"));
}

#[test]
fn a_run_without_a_terminal_tells_its_progress_in_a_few_lines() {
    let home = tempfile::tempdir().unwrap();
    let output = kvscope(home.path())
        .args(["bench", "run", "--forms=gqa", "--lengths=64", "--budget=5s"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let lines = said.lines().filter(|line| line.ends_with(" s left")).count();
    assert!((1..12).contains(&lines), "{said}");
    assert!(said.contains("calibrating"), "{said}");
    assert!(!said.contains('\u{1b}') && !said.contains('\r'), "{said:?}");
}

struct Server {
    process: Running,
    address: String,
    home: tempfile::TempDir,
}

fn serve() -> Server {
    let home = tempfile::tempdir().unwrap();
    let mut process = Running(kvscope(home.path()).args(["serve", "--port", "0"]).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(process.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().trim().trim_end_matches('/').to_owned();
    Server { process, address, home }
}

impl Server {
    fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-Kvscope: 1\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}

const JOB: &str = r#"{"forms": ["gqa"], "lengths": ["64", "128", "192", "256"], "budget_seconds": 40}"#;

#[test]
fn a_job_is_measured_beside_the_server_and_cancelled_with_what_it_has() {
    let server = serve();
    let job = server.ask("POST", "/api/v1/jobs", JOB);
    let path = format!("/api/v1/jobs/{}", job["job"].as_str().unwrap());
    let running = until("a figure", || {
        Some(server.ask("GET", &path, "")).filter(|job| job["measured"].as_u64() > Some(0))
    });
    let run = format!("/api/v1/runs/{}", running["run"].as_str().unwrap());
    assert_eq!(server.ask("GET", &run, "")["ended"], "running");
    assert_eq!(server.ask("DELETE", &run, "")["code"], "running");
    server.ask("DELETE", &path, "");
    let ended =
        until("the end", || Some(server.ask("GET", &path, "")).filter(|job| job["state"] != "running"));
    assert_eq!(ended["state"], "cancelled");
    let stored = server.ask("GET", &run, "");
    assert_eq!((&stored["ended"], stored["cases"].as_array().unwrap().len()), (&Value::from("cancelled"), 4));
}

#[test]
fn a_job_is_told_who_measures_already_and_goes_on_after_a_kill() {
    let server = serve();
    let home = server.home.path();
    let mut other = Running(kvscope(home).args(RUN).spawn().unwrap());
    until("the run", || run_file(home));
    let ended = |job: &Value| {
        let path = format!("/api/v1/jobs/{}", job["job"].as_str().unwrap());
        until("the end", || {
            Some(server.ask("GET", &path, ""))
                .filter(|job| job["state"] != "queued" && job["state"] != "running")
        })
    };
    let refused = ended(&server.ask("POST", "/api/v1/jobs", JOB));
    let words = format!("another measurement goes on: process {}, kvscope bench run, since ", other.0.id());
    assert!(refused["message"].as_str().unwrap().starts_with(&words), "{refused}");
    assert_eq!((&refused["state"], &refused["run"]), (&Value::from("failed"), &Value::Null));
    other.0.kill().unwrap();
    other.0.wait().unwrap();
    let small = r#"{"forms": ["gqa"], "lengths": ["64"], "budget_seconds": 5}"#;
    assert_eq!(ended(&server.ask("POST", "/api/v1/jobs", small))["state"], "done");
}

#[test]
fn what_measures_ends_with_a_server_that_is_killed() {
    let mut server = serve();
    let job = server.ask("POST", "/api/v1/jobs", JOB);
    let path = format!("/api/v1/jobs/{}", job["job"].as_str().unwrap());
    until("the run", || server.ask("GET", &path, "")["run"].as_str().map(str::to_owned));
    server.process.0.kill().unwrap();
    server.process.0.wait().unwrap();
    // The process lets go of the file when it ends.
    let name = run_file(server.home.path()).unwrap().file_stem().unwrap().to_str().unwrap().to_owned();
    until("the end", || {
        let run = json(server.home.path(), &["bench", "show", &name, "--json"]);
        (run["ended"] == "cancelled").then_some(())
    });
}

/// The resident set that the system shows, in bytes: 40 MiB is the limit.
#[test]
fn an_idle_server_is_small() {
    let server = serve();
    assert_eq!(server.ask("GET", "/api/v1/health", "")["name"], "kvscope");
    assert!(server.ask("GET", "/api/v1/runs", "").as_array().unwrap().is_empty());
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.0.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kibibytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kibibytes < 36 << 10, "{kibibytes} KiB");
}
