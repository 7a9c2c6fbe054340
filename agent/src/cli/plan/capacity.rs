use clap::Args;
use kvscope_sizing::plan::{CapacityPlan, Given, Mix, Moving, capacity_of, typed_mix};
use kvscope_sizing::{UnitSystem, parse_count};

use super::cost::TypeChoice;
use super::{Around, Asked, text};
use crate::cli::request::{Accounting, Contexts};
use crate::failure::Failure;
use crate::input::Files;
use crate::model::Model;

/// A list of lengths is no larger than this.
const LARGEST_LIST: u64 = 64 << 20;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Catalogue id, config.json or GGUF file, folder, or - for standard input
    #[arg(value_name = "MODEL")]
    model: String,
    #[command(flatten)]
    contexts: Contexts,
    #[command(flatten)]
    accounting: Accounting,
    #[command(flatten)]
    types: TypeChoice,
    /// GPU by its id: h200, see `kvscope plan hardware`
    #[arg(long, value_name = "GPU")]
    gpu: String,
    /// How many of them
    #[arg(long, default_value_t = 1, value_name = "N")]
    count: u64,
    /// Memory of one, where it is not the datasheet's: 143GB
    #[arg(long, value_name = "BYTES")]
    memory: Option<String>,
    /// Percent of the memory that the engine takes
    #[arg(long, default_value_t = 90, value_name = "PERCENT")]
    memory_percent: u64,
    /// Bytes of all weights, where they are known: 689GB
    #[arg(long, value_name = "BYTES")]
    weights: Option<String>,
    /// GPUs that share one copy of the weights, where experts are spread over more than tp × pp
    #[arg(long, value_name = "N")]
    weights_over: Option<u64>,
    /// Bytes of activations on each GPU, where they are known
    #[arg(long, value_name = "BYTES")]
    activations: Option<String>,
    /// Tokens of the largest prefill batch, from which activations are estimated
    #[arg(long, default_value = "8192", value_name = "TOKENS")]
    batch_tokens: String,
    /// Bytes of captured graphs and communication buffers on each GPU
    #[arg(long, default_value = "2GiB", value_name = "BYTES")]
    graphs: String,
    /// A mix of lengths: lognormal:MU,SIGMA,FROM,TO, lengths with commas, or a file with a length a line
    #[arg(long, value_name = "MIX")]
    mix: Option<String>,
    /// Price of a GPU for an hour, in any currency
    #[arg(long, value_name = "PRICE")]
    price: Option<f64>,
    #[command(flatten)]
    moves: text::Moves,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Asked for Arguments {
    type Answer = CapacityPlan;

    fn answer(&self, around: &Around<'_>) -> Result<CapacityPlan, Failure> {
        plan(self, around)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, answer: &CapacityPlan) -> Result<(), Failure> {
        let text = |plan: &CapacityPlan| text::of(&plan.sheet(UnitSystem::Decimal), self.moves.shows());
        super::print(std::slice::from_ref(answer), text, |plan| (&plan.model, &plan.warnings))
    }
}

fn plan(arguments: &Arguments, around: &Around<'_>) -> Result<CapacityPlan, Failure> {
    let engine = arguments.accounting.engine()?;
    let settings = arguments.accounting.settings()?;
    let model = Model::load_from(around.files, &arguments.model, arguments.accounting.unknown())?;
    let contexts = arguments.contexts.given_or_usual(&model.architecture)?;
    let mix = arguments.mix.as_deref().map(|given| mix(given, around.files)).transpose()?;
    capacity_of(&model.subject(), engine, &settings, &contexts, mix, &arguments.given(), Moving::Inputs)
        .map_err(|error| model.failure(&error))
}

impl Arguments {
    fn given(&self) -> Given {
        let mut given = self.types.given();
        for (name, text) in [
            ("gpu", Some(self.gpu.clone())),
            ("count", Some(self.count.to_string())),
            ("memory", self.memory.clone()),
            ("memory_percent", Some(self.memory_percent.to_string())),
            ("weights", self.weights.clone()),
            ("weights_over", self.weights_over.map(|ranks| ranks.to_string())),
            ("activations", self.activations.clone()),
            ("batch_tokens", Some(self.batch_tokens.clone())),
            ("graphs", Some(self.graphs.clone())),
            ("price", self.price.map(|price| price.to_string())),
        ] {
            given.set(name, text.as_deref().unwrap_or_default());
        }
        given
    }
}

/// A list or a distribution as it is typed, else a file with a length a line.
fn mix(given: &str, files: Files<'_>) -> Result<Mix, Failure> {
    if let Some(mix) = typed_mix(given)? {
        return Ok(mix);
    }
    let wrong = |what: String| Failure::input(format!("mix: {what}"));
    let text = files.read_text(given, LARGEST_LIST, "a list has a length a line");
    let text = text.map_err(|failure| wrong(failure.to_string()))?;
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let length = |(at, line): (usize, &str)| {
        parse_count(line).map_err(|what| wrong(format!("{given}: line {}: {what}", at + 1)))
    };
    Ok(Mix::listed(lines.map(length).collect::<Result<_, _>>()?)?)
}
