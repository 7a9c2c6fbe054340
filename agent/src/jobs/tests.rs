//! The queue with programs that behave as `kvscope bench run --watched` may: well, deaf, and broken.

use std::fs;
use std::time::{Duration, Instant};

use super::*;

struct Queue {
    jobs: Jobs,
    folder: tempfile::TempDir,
}

/// A queue whose jobs are measured by a shell script.
fn queue(script: &str) -> Queue {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let store = Store::open(folder.path().join("runs")).unwrap();
    Queue { jobs: Jobs::new(store, program).unwrap(), folder }
}

fn request() -> JobRequest {
    serde_json::from_value(serde_json::json!({"forms": ["gqa"], "lengths": ["4Ki"]})).unwrap()
}

impl Queue {
    fn wait(&self, job: &str, wanted: impl Fn(&Job) -> bool) -> Job {
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let found = self.jobs.find(job).unwrap();
            if wanted(&found) {
                return found;
            }
            assert!(Instant::now() < patience, "{found:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

const PROGRESS: &str = r#"echo '{"stage":"measuring","fraction":0.5,"remaining_seconds":3.5,"case":1,"cases":4,"measured":1,"run":"a-1"}'"#;

#[test]
fn a_job_tells_what_its_process_says_and_ends_with_it() {
    let queue = queue(&format!("{PROGRESS}\necho \"$@\" > \"$KVSCOPE_HOME/asked\""));
    let job = queue.jobs.start(&request()).unwrap();
    assert_eq!((job.state, job.about.as_str()), (JobState::Queued, "gqa"));
    let done = queue.wait(&job.job, |job| !job.is_live());
    assert_eq!(
        (done.state, done.run.as_deref(), done.measured, done.cases),
        (JobState::Done, Some("a-1"), 1, 4)
    );
    let asked = fs::read_to_string(queue.folder.path().join("asked")).unwrap();
    assert_eq!(asked.trim(), "bench run --watched --forms=gqa --lengths=4Ki");

    // Queued, running, measuring, done; every event is the whole job, and the numbers rise from 1.
    let (events, goes_on) = queue.jobs.events_after(&job.job, 0).unwrap();
    assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(!goes_on && events[3].job.contains("\"done\""));
    let (rest, _) = queue.jobs.events_after(&job.job, 2).unwrap();
    assert_eq!(rest, events[2..]);
}

#[test]
fn one_goes_on_at_a_time_and_one_that_waits_is_cancelled_at_once() {
    // It goes on until its standard input ends.
    let queue = queue(&format!("{PROGRESS}\ncat"));
    let first = queue.jobs.start(&request()).unwrap();
    let second = queue.jobs.start(&request()).unwrap();
    queue.wait(&first.job, |job| job.stage.is_some());
    assert_eq!(queue.jobs.find(&second.job).unwrap().state, JobState::Queued);
    assert_eq!(queue.jobs.cancel(&second.job).unwrap().state, JobState::Cancelled);
    queue.jobs.cancel(&first.job).unwrap();
    assert_eq!(queue.wait(&first.job, |job| !job.is_live()).state, JobState::Cancelled);
    assert_eq!(queue.jobs.list().iter().map(|job| &job.job).collect::<Vec<_>>(), [&second.job, &first.job]);
}

#[test]
fn a_process_that_does_not_listen_is_ended() {
    // It would go on for a minute.
    let queue = queue(&format!("{PROGRESS}\nexec sleep 60"));
    let job = queue.jobs.start(&request()).unwrap();
    queue.wait(&job.job, |job| job.stage.is_some());
    queue.jobs.cancel(&job.job).unwrap();
    assert_eq!(queue.wait(&job.job, |job| !job.is_live()).state, JobState::Cancelled);
}

#[test]
fn a_process_that_fails_says_why_and_the_queue_goes_on() {
    let queue = queue("echo 'warning: old' >&2; echo 'kvscope: the system refused 5 bytes' >&2; exit 1");
    let job = queue.jobs.start(&request()).unwrap();
    let failed = queue.wait(&job.job, |job| !job.is_live());
    assert_eq!(
        (failed.state, failed.message.as_deref()),
        (JobState::Failed, Some("the system refused 5 bytes"))
    );
    let next = queue.jobs.start(&request()).unwrap();
    assert_eq!(queue.wait(&next.job, |job| !job.is_live()).state, JobState::Failed);
    fs::remove_file(queue.folder.path().join("program")).unwrap();
    let gone = queue.jobs.start(&request()).unwrap();
    let message = queue.wait(&gone.job, |job| !job.is_live()).message.unwrap();
    assert!(message.starts_with("the process that measures did not start: "), "{message}");
}

#[test]
fn what_cannot_be_run_is_refused_with_the_command_line_s_words_and_no_file_is_read() {
    let queue = queue("exit 0");
    let refusal = |request: serde_json::Value| {
        let request: JobRequest = serde_json::from_value(request).unwrap();
        queue.jobs.start(&request).unwrap_err().to_string()
    };
    for (request, words) in [
        (serde_json::json!({"forms": ["gpa"]}), "gpa"),
        (serde_json::json!({"forms": ["gqa"], "budget_seconds": 1}), "budget: 1s is outside 5s to 24h"),
        (serde_json::json!({"forms": ["gqa"], "batch": 0}), "batch: 0"),
        (serde_json::json!({"forms": ["gqa"], "models": {"gqa": "/etc/passwd"}}), "/etc/passwd"),
        (serde_json::json!({"tiers": ["dram"], "states": ["/etc/passwd"]}), "/etc/passwd"),
        (serde_json::json!({"states": ["qwen3-8b"]}), "--tiers"),
        (serde_json::json!({"tiers": ["dram"], "states": ["qwen3-8b"], "engine": "sglang"}), "engine: "),
        (serde_json::json!({"resume": "a-1"}), "no stored run is called"),
    ] {
        let said = refusal(request);
        assert!(said.contains(words), "{said}");
    }
    assert!(queue.jobs.list().is_empty());
}
