use clap::Args;
use kvscope_sizing::plan::compression::{CompressionPlan, Method, Strategy, Transfer, compress, published};
use kvscope_sizing::{Settings, UnitSystem, Warning};
use serde::Serialize;

use super::quantity::{
    bytes_per_second, number, rate_words, seconds, sensitivity_words, three_digits, time_words, whole,
};
use super::{Around, Asked};
use crate::cli::request::{Accounting, Contexts};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::Figures;

#[derive(Args, Debug)]
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
pub(super) struct Answer {
    model: String,
    bandwidth_bytes_per_second: f64,
    settings: Settings,
    strategies: Vec<Strategy>,
    #[serde(flatten)]
    plan: CompressionPlan,
    warnings: Vec<Warning>,
}

impl Asked for Arguments {
    type Answer = Vec<Answer>;

    fn answer(&self, around: &Around<'_>) -> Result<Vec<Answer>, Failure> {
        answers(self, around)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, answers: &Vec<Answer>) -> Result<(), Failure> {
        super::print(answers, text, |answer| (&answer.model, &answer.warnings))
    }
}

fn answers(arguments: &Arguments, around: &Around<'_>) -> Result<Vec<Answer>, Failure> {
    let settings = arguments.accounting.logical_settings()?;
    let transfer = arguments.transfer()?;
    let strategies = match arguments.strategies.as_slice() {
        [] => published()?,
        given => given.iter().map(|text| strategy(text)).collect::<Result<_, _>>()?,
    };
    let mut answers = Vec::new();
    for name in &arguments.models {
        let model = Model::load_from(around.files, name, arguments.accounting.unknown())?;
        let context = arguments.contexts.one_of(&model.architecture)?;
        let state = model.state(&settings)?;
        let plan =
            compress(&state, context, &transfer, &strategies).map_err(|error| model.failure(&error))?;
        answers.push(Answer {
            model: model.label.clone(),
            bandwidth_bytes_per_second: transfer.bytes_per_second,
            settings: settings.clone(),
            strategies: strategies.clone(),
            plan,
            warnings: state.warnings().to_vec(),
        });
    }
    Ok(answers)
}

impl Arguments {
    fn transfer(&self) -> Result<Transfer, Failure> {
        let slo = self.slo.as_ref().map(|text| seconds("slo", text)).transpose()?;
        let loss = self.loss.as_ref().map(|text| number("loss", text)).transpose()?;
        Ok(Transfer {
            model_seconds: seconds("model-time", &self.model_time)?,
            bytes_per_second: bytes_per_second("bandwidth", &self.bandwidth)?,
            start_seconds: seconds("start", &self.start)?,
            accuracy_floor_points: loss,
            slo_seconds: slo,
        })
    }
}

/// `zip=lossless:1.3:478GB/s:0`
fn strategy(text: &str) -> Result<Strategy, Failure> {
    let known = || Method::ALL.map(Method::name).join(", ");
    let form = || {
        Failure::input(format!(
            "strategy: {text:?} is not NAME=METHOD:RATIO:RATE[:POINTS] with a method of {}",
            known()
        ))
    };
    let (name, rest) = text.split_once('=').ok_or_else(form)?;
    let parts: Vec<&str> = rest.split(':').collect();
    let (method, ratio, rate, loss) = match parts.as_slice() {
        [method, ratio, rate] => (method, ratio, rate, None),
        [method, ratio, rate, loss] => (method, ratio, rate, Some(number("strategy", loss)?)),
        _ => return Err(form()),
    };
    Ok(Strategy {
        name: name.trim().to_owned(),
        method: Method::named(method.trim()).ok_or_else(form)?,
        ratio: number("strategy", ratio)?,
        codec_bytes_per_second: bytes_per_second("strategy", rate)?,
        accuracy_loss_points: loss,
        source: "given".to_owned(),
    })
}

fn text(answer: &Answer) -> String {
    let plan = &answer.plan;
    let mut parts = vec![format!(
        "{}: {} tokens, {} to send at {}",
        answer.model,
        plan.context_tokens,
        plan.transfer_bytes.display(UnitSystem::Decimal),
        rate_words(answer.bandwidth_bytes_per_second)
    )];
    parts.push(components(plan));
    parts.push(options(plan));
    parts.push(segments(plan));
    parts.extend(sensitivity_words("the time", &plan.sensitivities, time_words));
    let sources = answer.strategies.iter().map(|one| format!("{}: {}", one.name, one.source));
    parts.extend(sources.filter(|line| !line.ends_with(": given")));
    format!("{}\n", parts.join("\n").trim_end())
}

fn components(plan: &CompressionPlan) -> String {
    let header = ["component", "format", "bytes", "may be touched by", "must not, because"];
    let mut table = Figures::new(2, &header).text_last();
    for component in &plan.components {
        let may: Vec<&str> =
            component.methods.iter().filter(|one| one.applies).map(|one| one.method.name()).collect();
        let why = component.methods.iter().find_map(|one| one.why).unwrap_or("–");
        table.row([
            component.kind.name().to_owned(),
            component.format.to_owned(),
            component.bytes.display(UnitSystem::Decimal),
            may.join(", "),
            why.to_owned(),
        ]);
    }
    table.render()
}

fn options(plan: &CompressionPlan) -> String {
    let header = ["option", "touched", "sent", "ratio", "encode, decode", "time", "pays below", ""];
    let mut table = Figures::new(1, &header).text_last();
    for option in &plan.options {
        let note = match &option.refused {
            Some(why) => why.clone(),
            None if plan.winner.as_deref() == Some(option.name.as_str()) => "fastest".to_owned(),
            None => String::new(),
        };
        table.row([
            option.name.clone(),
            option.touched_bytes.display(UnitSystem::Decimal),
            whole(option.sent_bytes).display(UnitSystem::Decimal),
            format!("{}×", three_digits(option.whole_ratio)),
            time_words(option.codec_seconds),
            time_words(option.seconds),
            option.pays_below_bytes_per_second.map_or("–".to_owned(), rate_words),
            note,
        ]);
    }
    table.render()
}

fn segments(plan: &CompressionPlan) -> String {
    let mut table = Figures::new(1, &["fastest", "from", "to"]);
    for one in &plan.by_bandwidth {
        table.row([
            one.fastest.clone(),
            rate_words(one.from_bytes_per_second),
            one.to_bytes_per_second.map_or("any rate".to_owned(), rate_words),
        ]);
    }
    table.render()
}
