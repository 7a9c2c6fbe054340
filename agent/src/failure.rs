//! How a command fails: one line, and an exit status.

use std::fmt;
use std::process::ExitCode;

/// The exit status of a process that was ended by Ctrl-C, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    /// Bad usage or input: exit status 2.
    pub(crate) fn input(message: impl fmt::Display) -> Self {
        Self { status: 2, message: message.to_string() }
    }

    /// A check that failed, or a machine that did not do its part: exit status 1.
    pub(crate) fn check(message: impl fmt::Display) -> Self {
        Self { status: 1, message: message.to_string() }
    }

    /// Someone asked it to stop: the exit status that shells give to Ctrl-C.
    pub(crate) fn interrupted(message: impl fmt::Display) -> Self {
        Self { status: INTERRUPTED, message: message.to_string() }
    }

    /// The exit status.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<kvscope_sizing::Error> for Failure {
    fn from(error: kvscope_sizing::Error) -> Self {
        Self::input(error)
    }
}
