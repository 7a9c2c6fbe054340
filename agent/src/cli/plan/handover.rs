use clap::Args;
use kvscope_sizing::UnitSystem;
use kvscope_sizing::plan::{ChosenLink, Given, HandoverPlan, handover_of, network_links, typed_links};

use super::cost::TypeChoice;
use super::measured;
use super::{Around, Asked, text};
use crate::cli::request::{Accounting, Contexts};
use crate::failure::Failure;
use crate::model::Model;

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
    #[arg(long, value_delimiter = ',', value_name = "SECONDS")]
    prefill_seconds: Vec<f64>,
    /// Percent of the datasheet's rate that a prefill reaches, where no seconds are given
    #[arg(long, default_value_t = 40.0, value_name = "PERCENT")]
    efficiency: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
        let text = |plan: &HandoverPlan| text::of(&plan.sheet(UnitSystem::Decimal));
        super::print(std::slice::from_ref(answer), text, |plan| (&plan.model, &plan.warnings))
    }
}

fn plan(arguments: &Arguments, around: &Around<'_>) -> Result<HandoverPlan, Failure> {
    let settings = arguments.accounting.logical_settings_and(&["tp"])?;
    let model = Model::load_from(around.files, &arguments.model, arguments.accounting.unknown())?;
    let contexts = arguments.contexts.given_or_usual(&model.architecture)?;
    let given = arguments.given();
    let chosen = chosen_links(arguments, &given, around)?;
    handover_of(&model.subject(), &settings, &contexts, &chosen, &given)
        .map_err(|error| model.failure(&error))
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

fn chosen_links(
    arguments: &Arguments,
    given: &Given,
    around: &Around<'_>,
) -> Result<Vec<ChosenLink>, Failure> {
    let mut chosen = typed_links(given)?;
    if let Some(run) = &arguments.measured {
        chosen.extend(measured::named(around, run)?.into_iter().map(measured::Fitted::link));
    }
    if chosen.is_empty() {
        let peer = measured::newest(around, measured::Fitted::is_peer)?.unwrap_or_default();
        chosen.extend(peer.into_iter().map(measured::Fitted::link));
        chosen.extend(network_links());
    }
    Ok(chosen)
}
