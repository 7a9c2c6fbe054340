//! `kvscope plan`: one module a plan. Each asks the functions of `kvscope_sizing::plan` and prints their answer.

mod compress;
mod hardware;
mod prefix;
mod quantity;
mod simulate;

use clap::{Args, Subcommand};

use crate::failure::Failure;

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

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.plan {
        Plan::Hardware(arguments) => hardware::run(arguments),
        Plan::Prefix(arguments) => prefix::run(arguments),
        Plan::Compress(arguments) => compress::run(arguments),
        Plan::Simulate(arguments) => simulate::run(arguments),
    }
}
