use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kvscope_protocol::job::Job;
use serde::Deserialize;

use crate::bench::Store;

/// A process that was asked to stop ends itself before this, whatever it does; one that does not is ended.
const PATIENCE: Duration = Duration::from_millis(150);

/// The process that measures a job. It stops when its standard input ends: when it is asked to, and when this process dies.
#[derive(Debug)]
pub(super) struct Measuring {
    child: Arc<Mutex<Child>>,
    input: Option<ChildStdin>,
}

impl Measuring {
    /// Starts `program` with the arguments of `kvscope bench run`.
    pub(super) fn start(program: &Path, arguments: &[String], store: &Store) -> io::Result<(Self, Output)> {
        let mut command = Command::new(program);
        command.args(["bench", "run", "--watched"]).args(arguments);
        // The store's folder is `runs` below the home folder, wherever this process found that.
        if let Some(home) = store.folder().parent() {
            command.env("KVSCOPE_HOME", home);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = Output { lines: child.stdout.take(), errors: child.stderr.take() };
        Ok((Self { child: Arc::new(Mutex::new(child)), input }, output))
    }

    /// Asks it to stop, and ends it where it does not do so soon.
    pub(super) fn stop(&mut self) {
        if self.input.take().is_none() {
            return;
        }
        let child = Arc::clone(&self.child);
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            // One that has ended already is not ended again.
            let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
        });
    }

    /// How it ended; call it when its output has.
    pub(super) fn wait(self) -> io::Result<ExitStatus> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).wait()
    }
}

/// What the process prints.
#[derive(Debug)]
pub(super) struct Output {
    lines: Option<ChildStdout>,
    errors: Option<ChildStderr>,
}

impl Output {
    /// Tells every progress until the process prints no more; then the last error that it named.
    pub(super) fn follow(self, mut tell: impl FnMut(Progress)) -> Option<String> {
        let errors = self.errors.map(|pipe| std::thread::spawn(move || last_error(pipe)));
        for line in self.lines.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()).map_while(Result::ok)
        {
            if let Ok(progress) = serde_json::from_str(&line) {
                tell(progress);
            }
        }
        errors.and_then(|thread| thread.join().ok()).flatten()
    }
}

/// The last line that names an error, without the program's name.
fn last_error(pipe: impl Read) -> Option<String> {
    let lines = BufReader::new(pipe).lines().map_while(Result::ok);
    lines.filter_map(|line| Some(line.strip_prefix("kvscope: ")?.to_owned())).last()
}

/// A line of `kvscope bench run --watched`.
#[derive(Debug, Deserialize)]
pub(super) struct Progress {
    stage: String,
    fraction: f64,
    remaining_seconds: f64,
    case: Option<u64>,
    cases: u64,
    measured: u64,
    run: Option<String>,
}

impl Progress {
    pub(super) fn put_into(self, job: &mut Job) {
        job.stage = Some(self.stage);
        job.fraction = self.fraction;
        job.remaining_seconds = Some(self.remaining_seconds);
        (job.case, job.cases, job.measured) = (self.case, self.cases, self.measured);
        job.run = self.run.or(job.run.take());
    }
}
