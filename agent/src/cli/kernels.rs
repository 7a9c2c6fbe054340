use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use kvscope_kernels::{Nvrtc, SOURCES, TARGETS, Target, Usage, usages};
use serde::Serialize;

use crate::bench::{self, Outcome};
use crate::failure::Failure;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile all kernels and list registers, shared memory, stack and spills; needs NVRTC, but no GPU
    Check(Check),
    /// Run every kernel and shape on this machine's GPU and compare each with the f64 reference
    Selftest(Selftest),
}

#[derive(Args, Debug)]
struct Selftest {
    /// Only the lines that contain this text, such as `kda` or `in fp8`; everything where left out
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    only: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Check {
    /// Targets, separated by commas; all chips where left out
    #[arg(long, value_delimiter = ',', value_name = "TARGET")]
    arch: Vec<Target>,
    /// Fail where a kernel spills more bytes of registers
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    max_spill: u32,
    /// The folder with NVRTC's library
    #[arg(long, value_name = "DIR")]
    nvrtc: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One kernel on one target.
#[derive(Debug, Serialize)]
struct Row {
    kernel: String,
    target: &'static str,
    registers: u32,
    shared_bytes: u32,
    stack_bytes: u32,
    spill_bytes: u32,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Check(arguments) => check(arguments),
        Command::Selftest(arguments) => selftest(arguments),
    }
}

/// A line for each shape as it is done, and how many were wrong.
fn selftest(arguments: &Selftest) -> Result<(), Failure> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let begun = Instant::now();
    let is_emulated = bench::selftest(&arguments.only, &mut |outcome: Outcome| {
        if !arguments.json {
            // Whoever reads no more of it still gets the exit status.
            let _ = output::figures(&line(&outcome));
        }
        outcomes.push(outcome);
    })
    .map_err(Failure::check)?;
    if outcomes.is_empty() {
        let said = format!(
            "no line of the selftest contains `{}`; run it without --only to see them all",
            arguments.only
        );
        return Err(Failure::input(said));
    }
    if arguments.json {
        output::json(&SelftestReport { emulated: is_emulated, outcomes: &outcomes })?;
    }
    let wrong = outcomes.iter().filter(|outcome| !outcome.correct).count();
    let kernels: BTreeSet<&str> =
        outcomes.iter().flat_map(|o| o.kernels.iter().map(String::as_str)).collect();
    let how = if is_emulated { "emulated, " } else { "" };
    output::note(&format!(
        "{how}{} shapes, {} kernels, {wrong} wrong, {:.1} s",
        outcomes.len(),
        kernels.len(),
        begun.elapsed().as_secs_f64()
    ));
    if wrong > 0 {
        let first = outcomes.iter().find(|outcome| !outcome.correct).map_or("", |outcome| &outcome.what);
        return Err(Failure::check(format!(
            "{wrong} of {} shapes are wrong, the first of them {first}",
            outcomes.len()
        )));
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct SelftestReport<'a> {
    /// Whether it ran without a GPU: results hold, and nothing is said of a device.
    emulated: bool,
    outcomes: &'a [Outcome],
}

/// `ok     3.1e-4  gqa, keys of 128 and values of 128 in bf16  [gqa_bf16_128_128 combine]`
fn line(outcome: &Outcome) -> String {
    let verdict = if outcome.correct { "ok   " } else { "wrong" };
    let error = outcome.largest_relative_error.map_or_else(|| "–".to_owned(), |error| format!("{error:.1e}"));
    let detail = outcome.detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"));
    format!("{verdict}  {error:>7}  {}{detail}  [{}]\n", outcome.what, outcome.kernels.join(" "))
}

fn check(check: &Check) -> Result<(), Failure> {
    let targets = chips(&check.arch)?;
    let nvrtc = Nvrtc::find(check.nvrtc.as_deref()).map_err(Failure::check)?;
    let mut rows = Vec::new();
    for target in targets {
        for source in SOURCES {
            if output::is_terminal() {
                output::progress(&format!("{} for {}", source.name, target.name()));
            }
            let compiled = nvrtc.compile(&source, target);
            if output::is_terminal() {
                output::progress_done();
            }
            let compiled = compiled.map_err(Failure::check)?;
            rows.extend(usages(&compiled.log).into_iter().map(|usage| Row::of(usage, target)));
        }
    }
    if check.json {
        output::json(&rows)?;
    } else {
        output::figures(&table(&rows, &nvrtc))?;
    }
    let over = rows.iter().filter(|row| row.spill_bytes > check.max_spill).collect::<Vec<_>>();
    match over.first() {
        None => Ok(()),
        Some(first) => Err(Failure::check(format!(
            "{} kernels spill more than {} bytes, the first of them {} on {}",
            over.len(),
            check.max_spill,
            first.kernel,
            first.target
        ))),
    }
}

/// What was asked for, or every chip; PTX has no registers yet.
fn chips(asked_for: &[Target]) -> Result<Vec<Target>, Failure> {
    if let Some(portable) = asked_for.iter().find(|target| target.is_portable()) {
        let name = portable.name();
        return Err(Failure::input(format!(
            "{name} is PTX, of which a driver makes code; name a chip: sm_90a"
        )));
    }
    if asked_for.is_empty() {
        return Ok(TARGETS.into_iter().filter(|target| !target.is_portable()).collect());
    }
    Ok(asked_for.to_vec())
}

impl Row {
    fn of(usage: Usage, target: Target) -> Self {
        Self {
            target: target.name(),
            registers: usage.registers,
            shared_bytes: usage.shared_bytes,
            stack_bytes: usage.stack_bytes,
            spill_bytes: usage.spill_bytes(),
            kernel: usage.kernel,
        }
    }
}

fn table(rows: &[Row], nvrtc: &Nvrtc) -> String {
    let mut figures = Figures::new(2, &["kernel", "target", "registers", "shared B", "stack B", "spills B"]);
    for row in rows {
        let numbers = [row.registers, row.shared_bytes, row.stack_bytes, row.spill_bytes];
        let names = [row.kernel.clone(), row.target.to_owned()];
        figures.row(names.into_iter().chain(numbers.map(|number| number.to_string())));
    }
    let mut text = figures.render();
    writeln!(text, "NVRTC {} from {}", nvrtc.version(), nvrtc.path()).expect("writing to a string");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_chips_are_meant_where_none_is_named_and_ptx_is_refused() {
        let all = chips(&[]).unwrap();
        assert_eq!((all.len(), all[0].name()), (8, "sm_80"));
        let one: Vec<Target> = vec!["sm_90a".parse().unwrap()];
        assert_eq!(chips(&one).unwrap(), one);
        let error = chips(&["compute_80".parse().unwrap()]).unwrap_err().to_string();
        assert!(error.contains("compute_80 is PTX"), "{error}");
    }
}
