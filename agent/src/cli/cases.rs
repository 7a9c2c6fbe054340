use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::cases::run_cases;

use crate::failure::Failure;
use crate::input::{label, read_text};
use crate::output;

/// Hundreds of thousands of cases.
const LARGEST_CASES: u64 = 256 << 20;

const FORMAT: &str = "\
A case is one JSON object on one line:
  {\"id\":\"gqa-slope\",\"model\":\"llama-3.1-8b\",\"engine\":\"logical\",\"settings\":{},\"quantity\":\"slope_bytes_per_token\",\"value\":131072,\"unit\":\"B\",\"rel_tol\":0}
  id        one word of its own
  model     a catalogue id; or config, an object with the fields of a config.json
  engine    logical, vllm@X.Y, sglang@X.Y.Z, llama.cpp, trtllm, transformers
  settings  by the names of --set; what is absent has the engine's default
  quantity  a name of engine_report in `size --engine … --json`; or load_error, whose value is the key that must be named
  unit      B, tokens, blocks, requests, or x for a ratio
  rel_tol   relative tolerance, 0 where the value is exact
title, url, why, evidence, derivation, unverified and unverified_reason are for people; an unverified case is not counted.";

#[derive(Args, Debug)]
#[command(after_help = FORMAT)]
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
