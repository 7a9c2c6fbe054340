//! A program that runs beside a test and ends with it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A process that is killed when the value goes.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts a program and waits for a line of its output in which `find` sees what it is after.
    ///
    /// Panics with all that was printed when the program ends first or the time is up.
    pub(crate) fn start<T>(
        command: &mut Command,
        patience: Duration,
        find: impl Fn(&str) -> Option<T>,
    ) -> (Self, T) {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let (sender, lines) = mpsc::channel();
        forward(child.stdout.take().expect("stdout is piped"), sender.clone());
        forward(child.stderr.take().expect("stderr is piped"), sender);
        let running = Self { child };

        let end = Instant::now() + patience;
        let mut seen = String::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = lines.recv_timeout(left) else {
                panic!("{name} did not print what the test waits for; it printed:\n{seen}");
            };
            if let Some(found) = find(&line) {
                return (running, found);
            }
            seen.push_str(&line);
            seen.push('\n');
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads to the end, so that the program never blocks on a full pipe after the test stopped listening.
fn forward(pipe: impl Read + Send + 'static, lines: mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
    });
}
