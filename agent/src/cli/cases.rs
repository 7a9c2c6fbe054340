use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::cases::run_cases;

use crate::failure::Failure;
use crate::input::{label, read_text};
use crate::output;

/// Hundreds of thousands of cases.
const LARGEST_CASES: u64 = 256 << 20;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Case files, one JSON object a line, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut outcomes = Vec::new();
    for file in &arguments.files {
        let text = read_text(file, LARGEST_CASES, "split the file")?;
        let found = run_cases(&text).map_err(|error| Failure::input(format!("{}: {error}", label(file))))?;
        if found.is_empty() {
            return Err(Failure::input(format!(
                "{}: no case in it; one JSON object a line is expected",
                label(file)
            )));
        }
        outcomes.extend(found);
    }
    let counted = || outcomes.iter().filter(|outcome| !outcome.unverified);
    let failed = counted().filter(|outcome| !outcome.ok).count();
    let passed = counted().count() - failed;
    if arguments.json {
        output::json(&outcomes)?;
    } else {
        let mut text = String::new();
        for outcome in &outcomes {
            writeln!(text, "{}", outcome.line()).expect("writing to a string");
        }
        writeln!(text, "{passed} passed, {failed} failed").expect("writing to a string");
        output::figures(&text)?;
    }
    match failed {
        0 => Ok(()),
        _ => Err(Failure::check(format!("{failed} of {} cases failed", passed + failed))),
    }
}
