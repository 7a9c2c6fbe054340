//! Runs jobs in the programs that the build script made.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Job, Watch};

/// Rising, falling, and three shuffled ones.
pub const ORDERS: [u32; 5] = [0, 1, 2, 3, 4];

/// The buffers that a job asked for, of one order of threads.
pub type Results = Vec<Vec<u8>>;

/// A program that ended otherwise than it should.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What it wrote to its standard error.
    pub report: String,
}

/// Runs a job in one program, for each of these orders.
pub fn run(program: &str, job: &Job, orders: &[u32]) -> Result<Vec<Results>, Failure> {
    let folder = tempfile::tempdir().expect("a folder for a job");
    let (at, result) = (folder.path().join("job"), folder.path().join("result"));
    fs::write(&at, job.bytes(orders)).expect("a job can be written");
    let output = Command::new(Path::new(env!("OUT_DIR")).join(program))
        .args([&at, &result])
        // Reports of races name lines; the default exit status of each tool is not 0.
        .output()
        .expect("the build script made this program");
    if !output.status.success() {
        let report = format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        return Err(Failure { report });
    }
    let bytes = fs::read(&result).expect("a job that succeeds leaves its result");
    let mut rest = &bytes[..];
    let mut take = |length: &usize| {
        let (buffer, others) = rest.split_at(*length);
        rest = others;
        buffer.to_vec()
    };
    let results = orders.iter().map(|_| job.wanted().iter().map(&mut take).collect()).collect();
    assert!(rest.is_empty(), "the result holds more than was asked for");
    Ok(results)
}

/// Runs a job in every program and gives its result: all orders of threads must give the same, and nothing may be found
/// by those that watch.
pub fn run_everywhere(job: &Job) -> Results {
    for watch in [Watch::Memory, Watch::Races] {
        if let Err(failure) = run(watch.program(), job, &ORDERS[2..3]) {
            panic!("{watch:?}: {}", failure.report);
        }
    }
    run_plain(job)
}

/// Runs a job in the plain program in every order, which must give the same.
pub fn run_plain(job: &Job) -> Results {
    let mut results =
        run(Watch::Nothing.program(), job, &ORDERS).unwrap_or_else(|failure| panic!("{}", failure.report));
    let first = results.swap_remove(0);
    assert!(results.iter().all(|other| *other == first), "the result depends on the order of threads");
    first
}
