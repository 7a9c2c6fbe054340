//! How many tests passed and failed, read from what a test runner prints.

use std::fmt;
use std::ops::AddAssign;
use std::process::Command;

use crate::error::{Error, Result};
use crate::process;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
}

/// Runs a test runner and adds up its results.
///
/// A runner that fails without a failed test (it did not compile, or a test binary died) is an error.
pub(crate) fn run(command: &mut Command) -> Result<Tally> {
    let (status, text) = process::tee(command)?;
    let tally = Tally::read(&text);
    if !status.success() && tally.failed == 0 {
        return Err(Error::Failed { command: process::shown(command), status: status.to_string() });
    }
    if tally == Tally::default() && !text.contains("running 0 tests") {
        let detail = "no test results".to_owned();
        return Err(Error::Unexpected { command: process::shown(command), detail });
    }
    Ok(tally)
}

impl Tally {
    /// Adds up the closing lines of nextest (`Summary [ 0.1s] 5 tests run: 4 passed, 1 failed, 2 skipped`) and of
    /// `cargo test`, one a binary (`test result: ok. 3 passed; 0 failed; 0 ignored; …`). What nextest shows of a failed test ends
    /// with such a line too, which its summary has counted.
    fn read(text: &str) -> Self {
        let mut total = Self::default();
        let lines: Vec<String> = text.lines().map(without_colours).collect();
        let is_of_nextest = lines.iter().any(|line| line.trim_start().starts_with("Summary ["));
        for line in lines {
            if let Some(summary) = line.trim_start().strip_prefix("Summary [") {
                total += Self::of_nextest(summary);
            } else if let Some(result) = line.split("test result: ").nth(1).filter(|_| !is_of_nextest) {
                total += Self {
                    passed: number_before(result, " passed").unwrap_or(0),
                    failed: number_before(result, " failed").unwrap_or(0),
                };
            }
        }
        total
    }

    /// What did not pass failed, timed out, or was never run because the runner gave up.
    fn of_nextest(summary: &str) -> Self {
        let run =
            number_before(summary, " tests run").or_else(|| number_before(summary, " test run")).unwrap_or(0);
        let passed = number_before(summary, " passed").unwrap_or(0);
        Self { passed, failed: run.saturating_sub(passed) }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

fn number_before(text: &str, words: &str) -> Option<u32> {
    let before = &text[..text.find(words)?];
    let start = before.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    before[start..].parse().ok()
}

/// Drops terminal escape sequences of the form `ESC [ … m`.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\x1b') {
        plain.push_str(&rest[..at]);
        rest = rest[at..].find('m').map_or("", |end| &rest[at + end + 1..]);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nextest_counts_what_did_not_pass_as_failed() {
        let text = "    Starting 7 tests\n     Summary [   1.234s] 7 tests run: 5 passed (1 slow), 1 failed, 1 timed out, 2 skipped\n";
        assert_eq!(Tally::read(text), Tally { passed: 5, failed: 2 });
        let shown = format!("    test result: FAILED. 0 passed; 1 failed; 0 ignored\n{text}");
        assert_eq!(Tally::read(&shown), Tally { passed: 5, failed: 2 });
        let stopped = "     Summary [   0.100s] 3/9 tests run: 2 passed, 1 failed, 0 skipped\n";
        assert_eq!(Tally::read(stopped), Tally { passed: 2, failed: 7 });
        let one = "\x1b[32;1m     Summary\x1b[0m [   0.003s] \x1b[1m1\x1b[0m test run: \x1b[1m1\x1b[0m \x1b[32;1mpassed\x1b[0m, 0 skipped";
        assert_eq!(Tally::read(one), Tally { passed: 1, failed: 0 });
    }

    #[test]
    fn cargo_test_prints_one_line_a_binary_and_all_count() {
        let text = "running 3 tests\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
                    running 2 tests\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(Tally::read(text), Tally { passed: 4, failed: 1 });
    }

    #[test]
    fn a_runner_that_dies_without_a_failed_test_is_an_error() {
        let mut died = Command::new("rustc");
        assert!(matches!(run(died.arg("--no-such-option")), Err(Error::Failed { .. })));
        let mut silent = Command::new("rustc");
        assert!(matches!(run(silent.arg("--version")), Err(Error::Unexpected { .. })));
    }
}
