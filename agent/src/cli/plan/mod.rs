//! `kvscope plan`: one module a plan. Each asks the functions of `kvscope_sizing::plan`; the command line prints its answer and
//! the API sends it.

mod around;
mod capacity;
mod compress;
mod cost;
mod handover;
mod hardware;
mod label;
mod measured;
mod offload;
mod prefix;
mod query;
mod simulate;
mod text;

use clap::{Args, Subcommand};
use kvscope_sizing::Warning;
use serde::Serialize;

pub(crate) use around::Around;
pub(crate) use query::answer as answer_query;
#[cfg(test)]
pub(crate) use query::options;
pub(in crate::cli) use simulate::Question as ReplayQuestion;

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

/// One plan with what it was asked.
trait Asked {
    /// What `--json` prints and the API sends.
    type Answer: Serialize;

    fn answer(&self, around: &Around<'_>) -> Result<Self::Answer, Failure>;

    fn wants_json(&self) -> bool;

    fn print(&self, answer: &Self::Answer) -> Result<(), Failure>;
}

/// What is done with a plan, whichever it is.
trait Use {
    type Result;

    fn of<A: Asked>(self, asked: &A) -> Self::Result;
}

impl Plan {
    fn with<U: Use>(&self, to: U) -> U::Result {
        match self {
            Self::Capacity(asked) => to.of(asked),
            Self::Cost(asked) => to.of(asked),
            Self::Handover(asked) => to.of(asked),
            Self::Label(asked) => to.of(asked),
            Self::Hardware(asked) => to.of(asked),
            Self::Prefix(asked) => to.of(asked),
            Self::Compress(asked) => to.of(asked),
            Self::Offload(asked) => to.of(asked),
            Self::Simulate(asked) => to.of(asked),
        }
    }
}

struct Print;

impl Use for Print {
    type Result = Result<(), Failure>;

    fn of<A: Asked>(self, asked: &A) -> Self::Result {
        let answer = asked.answer(&Around::of_process()?)?;
        if asked.wants_json() { output::json(&answer) } else { asked.print(&answer) }
    }
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
    arguments.plan.with(Print)
}
