//! `kvscope plan`: one module a plan. Each asks the functions of `kvscope_sizing::plan` and prints their answer.

mod capacity;
mod compress;
mod cost;
mod handover;
mod hardware;
mod label;
mod offload;
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
    /// How many requests some GPUs hold, and what wrong formulas would admit
    Capacity(capacity::Arguments),
    /// Operations and bytes read of a decode step and a prefill, by part and layer
    Cost(cost::Arguments),
    /// What a prefill worker sends, how long that takes, and which link it needs
    Handover(handover::Arguments),
    /// What a scheduler should use instead of the prompt's length
    Label(label::Arguments),
    /// The GPUs and links that plans know, with their datasheet figures
    Hardware(hardware::Arguments),
    /// What a second request reuses of a first one, under each engine's rules and a disk store's
    Prefix(prefix::Arguments),
    /// Which compression pays at which bandwidth, and what it must not touch
    Compress(compress::Arguments),
    /// Restoring state from a tier against computing it again, and where each is quicker
    Offload(offload::Arguments),
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
        Plan::Capacity(arguments) => capacity::run(arguments),
        Plan::Handover(arguments) => handover::run(arguments),
        Plan::Label(arguments) => label::run(arguments),
        Plan::Cost(arguments) => cost::run(arguments),
        Plan::Hardware(arguments) => hardware::run(arguments),
        Plan::Prefix(arguments) => prefix::run(arguments),
        Plan::Compress(arguments) => compress::run(arguments),
        Plan::Offload(arguments) => offload::run(arguments),
        Plan::Simulate(arguments) => simulate::run(arguments),
    }
}
