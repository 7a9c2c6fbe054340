//! The command line: one module a command. Each computes everything first and prints last.

mod bench;
mod cases;
mod chart;
mod claims;
mod compare;
mod describe;
mod doctor;
mod explain;
mod fit;
mod kernels;
mod layers;
mod log;
mod models;
mod plan;
mod request;
mod reserved;
mod serve;
mod setting_names;
mod size;

use std::process::ExitCode;

use clap::{Command as Cli, CommandFactory, FromArgMatches, Parser, Subcommand};

#[cfg(test)]
pub(crate) use plan::options as plan_options;
pub(crate) use plan::{Around as AroundPlan, answer_query as answer_plan};

use crate::failure::Failure;
use crate::output;

#[derive(Debug, Parser)]
#[command(
    name = "kvscope",
    version,
    about = "Shows how the inference state of a language model grows, and measures whether that holds on this machine"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the catalogue: every version with its slope, fixed part and form
    Models(models::Arguments),
    /// Bytes of state at chosen contexts
    Size(size::Arguments),
    /// The largest context and batch whose state fits a number of bytes
    Fit(fit::Arguments),
    /// What each layer keeps
    Layers(layers::Arguments),
    /// Two versions side by side: what moved the slope, and by how much
    Compare(compare::Arguments),
    /// The three layers of metadata that a scheduler or a cache manager reads, as one JSON document
    Describe(describe::Arguments),
    /// What growth means: capacity, cost, prefix reuse, hand-over, offload, compression, scheduling, replays
    Plan(Box<plan::Arguments>),
    /// Published figures beside the computed ones, with a verdict each
    Claims(claims::Arguments),
    /// The derivation of every figure: formula, config fields, values
    Explain(explain::Arguments),
    /// Run case files: what engines did against what is computed here
    Cases(cases::Arguments),
    /// A figure as a file: pictures, data, tables for papers
    Chart(Box<chart::Arguments>),
    /// A start-up log of an engine: what each line means, recomputed, with the differences
    Log(log::Arguments),
    /// Measure this machine, predicted first
    Bench(bench::Arguments),
    /// The GPU kernels: what they take of a chip
    Kernels(kernels::Arguments),
    /// What this machine has for measuring on a GPU, and what is missing
    Doctor(doctor::Arguments),
    /// Serve the explorer and the API on this machine's loopback address
    Serve(serve::Arguments),
}

/// Reads the arguments of `kvscope bench run` as the command does, without running anything.
pub(crate) fn check_bench_run(arguments: &[String], store: &crate::bench::Store) -> Result<(), Failure> {
    bench::check(arguments, store)
}

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let parsed = with_negative_numbers(Arguments::command()).try_get_matches();
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            output::error(&usage(&error));
            return ExitCode::from(2);
        }
        Err(help) => {
            // clap puts this before every text that it did not make itself.
            let text = help.to_string();
            return finish(output::figures(text.strip_prefix("error: ").unwrap_or(&text)));
        }
    };
    finish(dispatch(arguments.command))
}

/// Lets every option take `-1` as its value, so that the option itself says what it takes.
fn with_negative_numbers(command: Cli) -> Cli {
    command
        .mut_args(|argument| {
            let takes_values = argument.get_action().takes_values();
            argument.allow_negative_numbers(takes_values)
        })
        .mut_subcommands(with_negative_numbers)
}

fn finish(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(&failure);
            failure.exit_code()
        }
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Models(arguments) => models::run(&arguments),
        Command::Size(arguments) => size::run(&arguments),
        Command::Fit(arguments) => fit::run(&arguments),
        Command::Layers(arguments) => layers::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Describe(arguments) => describe::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Claims(arguments) => claims::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Cases(arguments) => cases::run(&arguments),
        Command::Chart(arguments) => chart::run(&arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Kernels(arguments) => kernels::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
    }
}

/// clap's message in one line, without its usage block.
fn usage(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"))
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .collect();
    if text.trim_start().starts_with("Shows how") || lines.is_empty() {
        return "no command given; try `kvscope --help`".to_owned();
    }
    lines.join(" ").trim_start_matches("error: ").to_owned()
}
