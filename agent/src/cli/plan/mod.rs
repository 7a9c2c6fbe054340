//! `kvscope plan`: one module a plan. Each asks the functions of `kvscope_sizing::plan` and prints their answer.

mod hardware;

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
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.plan {
        Plan::Hardware(arguments) => hardware::run(arguments),
    }
}
