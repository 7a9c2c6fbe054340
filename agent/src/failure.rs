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
        Self { status: 2, message: one_line(&message.to_string()) }
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

/// What was typed may hold control characters, which would break the line or move the cursor: they are escaped.
fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for letter in message.chars() {
        if letter.is_control() { line.extend(letter.escape_default()) } else { line.push(letter) }
    }
    line
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_whatever_was_typed() {
        assert_eq!(Failure::input("no/such\n\u{1b}[2Jfile: 漢").to_string(), "no/such\\n\\u{1b}[2Jfile: 漢");
    }
}
