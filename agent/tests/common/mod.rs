//! What tests of processes share.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PATIENCE: Duration = Duration::from_mins(1);

/// A process that does not outlive its test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn kvscope(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvscope"));
    command.env("KVSCOPE_HOME", home).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn json(home: &Path, arguments: &[&str]) -> Value {
    let output = kvscope(home).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The file of the only run.
pub(crate) fn run_file(home: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(home.join("runs")).ok()?;
    files
        .map(|file| file.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
}
