use clap::Args;
use kvscope_sizing::UnitSystem;
use kvscope_sizing::plan::{CompressionAnswer, Given, Subject, compression_of};

use super::{Around, Asked, text};
use crate::cli::request::{Accounting, Contexts, hide_engines, takes_one_context};
use crate::failure::Failure;
use crate::model::Model;

#[derive(Args, Debug)]
#[command(mut_args(hide_engines), mut_args(takes_one_context))]
pub(super) struct Arguments {
    /// Catalogue ids, config.json or GGUF files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    #[command(flatten)]
    contexts: Contexts,
    /// What the link really moves: 25Gbps, 3GB/s
    #[arg(long, value_name = "RATE")]
    bandwidth: String,
    /// What a transfer takes to start
    #[arg(long, default_value = "0s", value_name = "TIME")]
    start: String,
    /// Time beside moving the state: prefill, the first steps
    #[arg(long, default_value = "0s", value_name = "TIME")]
    model_time: String,
    /// The longest time allowed
    #[arg(long, value_name = "TIME")]
    slo: Option<String>,
    /// The most points of accuracy that may be lost
    #[arg(long, value_name = "POINTS")]
    loss: Option<String>,
    /// A strategy with its ratio, the speed of encoding and decoding together, and the points that it loses, if known: zip=lossless:1.3:478GB/s:0; the published ones where none is given
    #[arg(long = "strategy", value_name = "NAME=METHOD:RATIO:RATE[:POINTS]")]
    strategies: Vec<String>,
    #[command(flatten)]
    accounting: Accounting,
    #[command(flatten)]
    moves: text::Moves,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Asked for Arguments {
    type Answer = Vec<CompressionAnswer>;

    fn answer(&self, around: &Around<'_>) -> Result<Vec<CompressionAnswer>, Failure> {
        answers(self, around)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, answers: &Vec<CompressionAnswer>) -> Result<(), Failure> {
        let text =
            |answer: &CompressionAnswer| text::of(&answer.sheet(UnitSystem::Decimal), self.moves.shows());
        super::print(answers, text, |answer| (&answer.model, &answer.warnings))
    }
}

fn answers(arguments: &Arguments, around: &Around<'_>) -> Result<Vec<CompressionAnswer>, Failure> {
    let settings = arguments.accounting.logical_settings()?;
    let strategies: Vec<&str> = arguments.strategies.iter().map(String::as_str).collect();
    let given = Given::of([
        ("bandwidth", Some(arguments.bandwidth.clone())),
        ("start", Some(arguments.start.clone())),
        ("model_time", Some(arguments.model_time.clone())),
        ("slo", arguments.slo.clone()),
        ("loss", arguments.loss.clone()),
    ]);
    let mut answers = Vec::new();
    for name in &arguments.models {
        let model = Model::load_from(around.files, name, arguments.accounting.unknown())?;
        let context = arguments.contexts.one_of(&model.architecture)?;
        let subject = Subject { model: &model.label, ..model.subject() };
        let answer = compression_of(&subject, &settings, context, &strategies, &given);
        answers.push(answer.map_err(|error| model.failure(&error))?);
    }
    Ok(answers)
}
