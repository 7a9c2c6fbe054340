//! `kvscope plan`: one module a plan. Each asks the functions of `kvscope_sizing::plan` and prints their answer.

mod compress;
mod hardware;
mod prefix;
mod quantity;
mod simulate;

use clap::{Args, Subcommand};
use kvscope_sizing::Warning;

use super::request::warn_of_all;
use crate::failure::Failure;
use crate::output;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(subcommand)]
    plan: Plan,
}

#[derive(Debug, Subcommand)]
enum Plan {
    /// The GPUs and links that plans know, with their datasheet figures
    Hardware(hardware::Arguments),
    /// What a second request reuses of a first one, under each engine's rules and a disk store's
    Prefix(prefix::Arguments),
    /// Which compression pays at which bandwidth, and what it must not touch
    Compress(compress::Arguments),
    /// A request trace replayed over tiers: what is found, evicted and moved
    Simulate(simulate::Arguments),
}

/// Prints what a plan answers for each model, one after the other, and the warnings of all.
fn print<A>(
    answers: &[A],
    text: impl Fn(&A) -> String,
    warnings: impl Fn(&A) -> (&str, &[Warning]),
) -> Result<(), Failure> {
    output::figures(&answers.iter().map(text).collect::<Vec<_>>().join("\n"))?;
    warn_of_all(answers.iter().map(warnings));
    Ok(())
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.plan {
        Plan::Hardware(arguments) => hardware::run(arguments),
        Plan::Prefix(arguments) => prefix::run(arguments),
        Plan::Compress(arguments) => compress::run(arguments),
        Plan::Simulate(arguments) => simulate::run(arguments),
    }
}
