//! `kvscope serve` on a free port, with folders of its own.

use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::child::Running;
use crate::command_line::binary;

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
        let mut command = Command::new(binary());
        command.args(["serve", "--port", "0"]);
        for name in
            ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "LOCALAPPDATA"]
        {
            command.env(name, home.path());
        }
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
