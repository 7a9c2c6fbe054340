//! `kvscope serve` on a free port, with folders of its own.

use std::time::Duration;

use tempfile::TempDir;

use crate::child::Running;
use crate::command_line::command_at;

/// A running agent. It ends, and its folders go, with the value.
#[derive(Debug)]
pub struct Agent {
    address: String,
    _running: Running,
    _home: TempDir,
}

impl Agent {
    /// Starts an agent and waits until it has printed its address.
    pub fn start() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mut command = command_at(home.path());
        command.args(["serve", "--port", "0"]);
        // A desktop's browser must not open during a test.
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
        let (running, address) = Running::start(&mut command, Duration::from_secs(30), address_in);
        Self { address, _running: running, _home: home }
    }

    /// Where a user would point the browser, a token in the fragment included.
    pub fn address(&self) -> &str {
        &self.address
    }
}

fn address_in(line: &str) -> Option<String> {
    let from = &line[line.find("http://127.0.0.1:")?..];
    Some(from.split_whitespace().next()?.trim_end_matches(['.', ',', '"']).to_owned())
}
