use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::hardware::{LinkClass, find_gpu, find_link, links};
use kvscope_sizing::plan::{ChosenLink, HandoverAt, HandoverPlan, HandoverQuestion, PrefillTime, handover};
use kvscope_sizing::{Bytes, UnitSystem};

use super::cost::TypeChoice;
use super::measured;
use super::quantity::{bit_rate_words, sensitivity_words, time_words};
use super::{Around, Asked};
use crate::cli::request::{Accounting, Contexts};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::Figures;

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
        let plans = std::slice::from_ref(answer);
        super::print(plans, text, |plan| (&plan.model, &plan.warnings))
    }
}

fn plan(arguments: &Arguments, around: &Around<'_>) -> Result<HandoverPlan, Failure> {
    let settings = arguments.accounting.logical_settings_and(&["tp"])?;
    let model = Model::load_from(around.files, &arguments.model, arguments.accounting.unknown())?;
    let contexts = arguments.contexts.given_or_usual(&model.architecture)?;
    let tp = settings.tp.unwrap_or(1);
    let alone = kvscope_sizing::Settings { tp: None, ..settings };
    let prefill = if arguments.prefill_seconds.is_empty() {
        PrefillTime::Estimated { percent: arguments.efficiency, types: arguments.types.types(&model)? }
    } else {
        PrefillTime::Given(&arguments.prefill_seconds)
    };
    let chosen = chosen_links(arguments, around)?;
    let question = HandoverQuestion {
        contexts: &contexts,
        settings: &alone,
        gpu: find_gpu(&arguments.gpu)?,
        count: arguments.count,
        tp,
        fleet: arguments.fleet,
        links: &chosen,
        blocks: arguments.blocks,
        prefill,
    };
    handover(&model.subject(), &question).map_err(|error| model.failure(&error))
}

fn chosen_links(arguments: &Arguments, around: &Around<'_>) -> Result<Vec<ChosenLink>, Failure> {
    let mut chosen = Vec::new();
    if let Some(text) = &arguments.bandwidth {
        let rate: Bytes = text.trim_end_matches("/s").parse()?;
        chosen.push(ChosenLink {
            link: format!("{text} a second"),
            grade: "given",
            source: "given".to_owned(),
            start_seconds: arguments.start_us * 1e-6,
            alpha_seconds: arguments.alpha_us * 1e-6,
            bytes_per_second: rate.get() as f64,
        });
    }
    for id in &arguments.link {
        chosen.push(ChosenLink::nominal(find_link(id)?));
    }
    if let Some(run) = &arguments.measured {
        chosen.extend(measured::named(around, run)?.into_iter().map(measured::Fitted::link));
    }
    if chosen.is_empty() {
        let peer = measured::newest(around, measured::Fitted::is_peer)?.unwrap_or_default();
        chosen.extend(peer.into_iter().map(measured::Fitted::link));
        let of_network = links()
            .iter()
            .filter(|link| matches!(link.class, LinkClass::Ethernet | LinkClass::Rdma | LinkClass::Nvlink));
        chosen.extend(of_network.map(ChosenLink::nominal));
    }
    Ok(chosen)
}

fn text(plan: &HandoverPlan) -> String {
    let from = plan.efficiency_percent.map_or_else(
        || "prefill times as given".to_owned(),
        |percent| format!("prefill times estimated at {percent} % of the datasheet's rate"),
    );
    let mut text = format!("{} from {} × {}, {from}\n\n", plan.model, plan.count, plan.gpu);
    text.push_str(&totals(plan).render());
    for at in &plan.at {
        let _ = writeln!(text, "\nat {} tokens\n{}", at.context, parts(at).render().trim_end());
        let _ = writeln!(text, "\n{}", times(at).render().trim_end());
    }
    let moved = &plan.sensitivities;
    let first = plan.at.first().and_then(|at| at.links.first());
    let of_link =
        first.map(|link| format!("the time after the prefill on {}, layer by layer", link.link.link));
    let lines = [
        sensitivity_words("the egress at the first length", &moved.egress, bit_rate_words),
        sensitivity_words(&of_link.unwrap_or_default(), &moved.layerwise_seconds, time_words),
    ];
    let mut lines: Vec<String> = lines.into_iter().flatten().collect();
    let links = plan.at.first().map_or(&[][..], |at| &at.links);
    let fitted = links.iter().map(|link| &link.link).filter(|link| link.grade == "fitted");
    lines.extend(fitted.map(|link| format!("{}: {}", link.link, link.source)));
    let _ = writeln!(text, "\n{}", lines.join("\n"));
    text
}

fn totals(plan: &HandoverPlan) -> Figures {
    let header = [
        "context",
        "payload",
        "bytes",
        "held by ranks",
        "prefill",
        "egress of an instance",
        "of the fleet",
        "needs at least",
    ];
    let mut table = Figures::new(0, &header).text_last();
    for at in &plan.at {
        table.row([
            at.context.to_string(),
            at.payload_bytes.display(UnitSystem::Decimal),
            at.payload_bytes.to_string(),
            at.held_by_ranks_bytes.display(UnitSystem::Decimal),
            time_words(at.prefill_seconds),
            bit_rate_words(at.egress_bytes_per_second),
            at.fleet_bytes_per_second.map_or("–".to_owned(), bit_rate_words),
            at.needs_link.clone().unwrap_or_else(|| "no known link".to_owned()),
        ]);
    }
    table
}

fn parts(at: &HandoverAt) -> Figures {
    let mut table = Figures::new(2, &["component", "format", "layers", "bytes", "held by ranks"]);
    for part in &at.components {
        table.row([
            part.kind.name().to_owned(),
            part.format.to_owned(),
            part.layers.to_string(),
            part.bytes.to_string(),
            part.held_by_ranks_bytes.to_string(),
        ]);
    }
    table
}

fn times(at: &HandoverAt) -> Figures {
    let header = ["link", "rate from", "after the prefill", "of the prefill", "layer by layer"];
    let mut table = Figures::new(2, &header);
    for link in &at.links {
        table.row([
            link.link.link.clone(),
            link.link.grade.to_owned(),
            time_words(link.seconds),
            format!("{:.1} %", 100.0 * link.share_of_prefill),
            time_words(link.layerwise_seconds),
        ]);
    }
    table
}
