use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use kvscope_kernels::{Nvrtc, SOURCES, TARGETS, Target, Usage, usages};
use serde::Serialize;

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
    let Command::Check(check) = &arguments.command;
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
