use clap::{Arg, Args};
use kvscope_sizing::plan::{
    ChosenLink, Given, HandoverPlan, Measured, MeasuredLink, Moving, handover_of, network_links, typed_links,
};
use kvscope_sizing::{UnitSystem, Warning};

use super::cost::TypeChoice;
use super::measured;
use super::{Around, Asked, text};
use crate::cli::request::{Accounting, Contexts, hide_engines};
use crate::failure::Failure;
use crate::model::Model;

/// What a prefill's time is estimated with.
const OF_ESTIMATE: [&str; 4] = ["efficiency", "weight_dtype", "expert_dtype", "core_dtype"];

#[derive(Args, Debug)]
#[command(mut_args(hide_engines), mut_args(shows_ranks))]
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
    /// GPU of the prefill instances: h200, see `kvscope plan hardware`
    #[arg(long, value_name = "GPU")]
    gpu: String,
    /// GPUs of one instance
    #[arg(long, default_value_t = 8, value_name = "N")]
    count: u64,
    /// GPUs that prefill, of all instances together
    #[arg(long, value_name = "N")]
    fleet: Option<u64>,
    /// Links by their names, with commas; where none is given that to another process as this machine's newest run of
    /// `kvscope bench run --tiers peer` measured it, and every network link
    #[arg(long, value_delimiter = ',', value_name = "LINK")]
    link: Vec<String>,
    /// The links of a run of `kvscope bench run --tiers`; of the newest one of this machine, where none is named
    #[arg(long, num_args = 0..=1, default_missing_value = measured::NEWEST, value_name = "RUN")]
    measured: Option<String>,
    /// A link of your own by its bytes a second: 23GB, 137GB
    #[arg(long, value_name = "BYTES")]
    bandwidth: Option<String>,
    /// Microseconds until its first byte
    #[arg(long, default_value_t = 0.0, requires = "bandwidth", value_name = "MICROSECONDS")]
    start_us: f64,
    /// Microseconds that each block adds on it
    #[arg(long, default_value_t = 0.0, requires = "bandwidth", value_name = "MICROSECONDS")]
    alpha_us: f64,
    /// Blocks that a payload is sent in; where it is not given those of 16 tokens, or of whole compression groups
    #[arg(long, value_name = "N")]
    blocks: Option<u64>,
    /// Seconds of the prefill, one for each context, measured or published
    #[arg(long, value_delimiter = ',', value_name = "SECONDS", conflicts_with_all = OF_ESTIMATE)]
    prefill_seconds: Vec<f64>,
    /// Percent of the datasheet's rate that a prefill reaches, where no seconds are given
    #[arg(long, default_value_t = 40.0, value_name = "PERCENT")]
    efficiency: f64,
    #[command(flatten)]
    moves: text::Moves,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The ranks of an instance are asked for here; nothing else of an engine is.
fn shows_ranks(option: Arg) -> Arg {
    let is_hidden = option.is_hide_set() && option.get_id() != "tp";
    option.hide(is_hidden)
}

impl Asked for Arguments {
    type Answer = HandoverPlan;

    fn answer(&self, around: &Around<'_>) -> Result<HandoverPlan, Failure> {
        plan(self, around)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, answer: &HandoverPlan) -> Result<(), Failure> {
        let text = |plan: &HandoverPlan| text::of(&plan.sheet(UnitSystem::Decimal), self.moves.shows());
        super::print(std::slice::from_ref(answer), text, |plan| (&plan.model, &plan.warnings))
    }
}

fn plan(arguments: &Arguments, around: &Around<'_>) -> Result<HandoverPlan, Failure> {
    let settings = arguments.accounting.logical_settings_and(&["tp"])?;
    let model = Model::load_from(around.files, &arguments.model, arguments.accounting.unknown())?;
    let contexts = arguments.contexts.given_or_usual(&model.architecture)?;
    let given = arguments.given();
    let (chosen, left_out) = chosen_links(arguments, &given, around)?;
    let plan = handover_of(&model.subject(), &settings, &contexts, &chosen, &given, Moving::Inputs);
    let mut plan = plan.map_err(|error| model.failure(&error))?;
    plan.warnings.extend(left_out);
    Ok(plan)
}

impl Arguments {
    fn given(&self) -> Given {
        let joined = |texts: Vec<String>| Some(texts.join(","));
        let mut given = self.types.given();
        for (name, text) in [
            ("gpu", Some(self.gpu.clone())),
            ("count", Some(self.count.to_string())),
            ("fleet", self.fleet.map(|gpus| gpus.to_string())),
            ("link", joined(self.link.clone())),
            ("bandwidth", self.bandwidth.clone()),
            ("start_us", Some(self.start_us.to_string())),
            ("alpha_us", Some(self.alpha_us.to_string())),
            ("blocks", self.blocks.map(|blocks| blocks.to_string())),
            ("prefill_seconds", joined(self.prefill_seconds.iter().map(f64::to_string).collect())),
            ("efficiency", Some(self.efficiency.to_string())),
        ] {
            given.set(name, text.as_deref().unwrap_or_default());
        }
        given
    }
}

/// The links, and what of measured ones could not be used.
fn chosen_links(
    arguments: &Arguments,
    given: &Given,
    around: &Around<'_>,
) -> Result<(Vec<ChosenLink>, Vec<Warning>), Failure> {
    let mut chosen = typed_links(given)?;
    let mut found = match &arguments.measured {
        Some(run) => measured::named(around, run)?,
        None => Measured::default(),
    };
    let is_none_given = chosen.is_empty() && found.measured.is_empty();
    if is_none_given {
        found = measured::newest(around, MeasuredLink::is_peer)?;
    }
    chosen.extend(found.measured.iter().map(MeasuredLink::as_link));
    if is_none_given {
        chosen.extend(network_links());
    }
    Ok((chosen, found.warnings))
}
