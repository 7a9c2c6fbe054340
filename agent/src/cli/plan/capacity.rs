use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::engine::{EngineKind, ranks};
use kvscope_sizing::hardware::find_gpu;
use kvscope_sizing::plan::{CapacityPlan, CapacityQuestion, MemoryQuestion, Mix, capacity};
use kvscope_sizing::{Bytes, Tokens, UnitSystem, group_digits, parse_count};

use super::cost::TypeChoice;
use super::quantity::sensitivity_words;
use super::{Around, Asked};
use crate::cli::request::{Accounting, Contexts};
use crate::failure::Failure;
use crate::input::Files;
use crate::model::Model;
use crate::output::Figures;

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
        super::print(std::slice::from_ref(answer), text, |plan| (&plan.model, &plan.warnings))
    }
}

fn plan(arguments: &Arguments, around: &Around<'_>) -> Result<CapacityPlan, Failure> {
    let engine = arguments.accounting.engine()?;
    let mut settings = arguments.accounting.settings()?;
    let count = arguments.count;
    // All GPUs share each request unless ranks are given; llama.cpp has no such ranks.
    let gives_ranks = settings.tp.is_some() || settings.pp.is_some() || settings.dcp.is_some();
    if !gives_ranks && count > 1 && engine.kind() != EngineKind::LlamaCpp {
        settings.tp = Some(count);
    }
    let model = Model::load_from(around.files, &arguments.model, arguments.accounting.unknown())?;
    let contexts = arguments.contexts.given_or_usual(&model.architecture)?;
    let bytes = |text: &Option<String>| text.as_deref().map(Bytes::given).transpose();
    let batch_tokens = parse_count(&arguments.batch_tokens).map_err(wrong_batch_tokens)?;
    let batch_tokens = Tokens::context(batch_tokens).map_err(|error| wrong_batch_tokens(error.what()))?;
    let question = CapacityQuestion {
        memory: MemoryQuestion {
            gpu: find_gpu(&arguments.gpu)?,
            count,
            memory: bytes(&arguments.memory)?,
            weights: bytes(&arguments.weights)?,
            types: arguments.types.types(&model)?,
            weight_ranks: arguments.weights_over.unwrap_or_else(|| ranks(engine.kind(), &settings)),
            share_percent: arguments.memory_percent,
            batch_tokens: batch_tokens.get(),
            activations: bytes(&arguments.activations)?,
            graphs: arguments.graphs.parse()?,
        },
        engine,
        settings: &settings,
        contexts: &contexts,
        mix: arguments.mix.as_deref().map(|given| mix(given, around.files)).transpose()?,
        price_per_hour: arguments.price,
    };
    capacity(&model.subject(), &question).map_err(|error| model.failure(&error))
}

fn wrong_batch_tokens(why: impl std::fmt::Display) -> Failure {
    Failure::input(format!("batch_tokens: {why}"))
}

/// `lognormal:9.9,1,128,128Ki`, `4Ki,32Ki`, or a file.
fn mix(given: &str, files: Files<'_>) -> Result<Mix, Failure> {
    let wrong = |what: String| Failure::input(format!("mix: {what}"));
    let Some(parts) = given.strip_prefix("lognormal:") else {
        let listed: Result<Vec<u64>, _> = given.split(',').map(|length| parse_count(length.trim())).collect();
        if let Ok(lengths) = listed {
            return Ok(Mix::listed(lengths)?);
        }
        let text = files.read_text(given, LARGEST_LIST, "a list has a length a line");
        let text = text.map_err(|failure| wrong(failure.to_string()))?;
        let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
        let length = |(at, line): (usize, &str)| {
            parse_count(line).map_err(|what| wrong(format!("{given}: line {}: {what}", at + 1)))
        };
        return Ok(Mix::listed(lines.map(length).collect::<Result<_, _>>()?)?);
    };
    let parts: Vec<&str> = parts.split(',').map(str::trim).collect();
    let [mu, sigma, from, to] = parts.as_slice() else {
        return Err(wrong(format!("{given:?} is not lognormal:MU,SIGMA,FROM,TO")));
    };
    let number = |text: &str| text.parse::<f64>().map_err(|_| wrong(format!("{text:?} is no number")));
    let tokens = |text: &str| parse_count(text).map_err(&wrong);
    Ok(Mix::log_normal(number(mu)?, number(sigma)?, tokens(from)?, tokens(to)?)?)
}

fn text(plan: &CapacityPlan) -> String {
    let replicas =
        if plan.replicas == 1 { String::new() } else { format!(", {} copies of the model", plan.replicas) };
    let mut text = format!(
        "{} on {} × {}, {}, {} ranks share a request{replicas}\n\n{}",
        plan.model,
        plan.count,
        plan.gpu,
        plan.engine,
        plan.ranks,
        memory(plan).render()
    );
    if let Some(why) = &plan.memory.does_not_fit {
        let _ = writeln!(text, "\ndoes not fit: {why}");
        return text;
    }
    let longest = match plan.largest_context {
        None => "none: not even its fixed part fits".to_owned(),
        Some(tokens) if plan.largest_context_is_limit => {
            format!("{tokens} tokens, which is all that is allowed")
        }
        Some(tokens) => format!("{tokens} tokens"),
    };
    let _ = writeln!(text, "\nlongest single request: {longest}\n\n{}", requests(plan).render().trim_end());
    if let Some(mix) = &plan.mix {
        let _ = writeln!(
            text,
            "\n{}: {} requests at once on average, {} if all were the longest; mean {:.0} tokens",
            mix.lengths,
            count_of(mix.requests),
            count_of(mix.requests_at_longest),
            mix.mean_tokens
        );
    }
    if !plan.wrong_formulas.is_empty() {
        let _ = writeln!(text, "\n{}", wrong(plan).render().trim_end());
    }
    if let Some(line) =
        sensitivity_words("the requests of the first length", &plan.sensitivities, |requests| {
            format!("{requests:.0}")
        })
    {
        let _ = writeln!(text, "\n{line}");
    }
    text
}

fn memory(plan: &CapacityPlan) -> Figures {
    let mut table = Figures::new(1, &["on each GPU", "rounded", "bytes", "figures"]).text_last();
    let memory = &plan.memory;
    let none = || "–".to_owned();
    let mut row = |name: &str, bytes: Option<Bytes>, from: &str| {
        let rounded = bytes.map_or_else(none, |bytes| bytes.display(UnitSystem::Decimal));
        table.row([
            name.to_owned(),
            rounded,
            bytes.map_or_else(none, |bytes| bytes.to_string()),
            from.to_owned(),
        ]);
    };
    row("memory", Some(memory.memory_bytes), "datasheet or given");
    row("left free", Some(memory.left_free_bytes), "share of the memory");
    row("weights", Some(memory.weight_bytes), memory.weights_from);
    row("activations", Some(memory.activation_bytes), memory.activations_from);
    row("graphs", Some(memory.graph_bytes), "assumed or given");
    row(
        "state",
        memory.state_bytes,
        if memory.state_bytes.is_some() { "what is left" } else { "nothing is left" },
    );
    table
}

fn requests(plan: &CapacityPlan) -> Figures {
    let header =
        ["context", "a request on each GPU", "requests", "requests a GPU", "price of a request and hour"];
    let mut table = Figures::new(0, &header);
    for at in &plan.at {
        table.row([
            at.context.to_string(),
            at.bytes_per_request_and_gpu.display(UnitSystem::Decimal),
            count_of(at.requests),
            at.requests_per_gpu.map_or("any number".to_owned(), |requests| format!("{requests:.2}")),
            at.price_per_request_hour.map_or("–".to_owned(), |price| format!("{price:.4}")),
        ]);
    }
    for point in &plan.frontier {
        table.row([
            point.context.to_string(),
            "–".to_owned(),
            count_of(point.requests),
            "–".to_owned(),
            "–".to_owned(),
        ]);
    }
    table
}

fn wrong(plan: &CapacityPlan) -> Figures {
    let header = ["taken for", "a request", "factor", "admits", "wasted", "overcommitted"];
    let mut table = Figures::new(1, &header);
    for formula in &plan.wrong_formulas {
        table.row([
            formula.taken_for.clone(),
            formula.bytes_per_request.display(UnitSystem::Decimal),
            format!("{:.2} ×", formula.factor),
            group_digits(formula.admits),
            formula.wasted_bytes.display(UnitSystem::Decimal),
            formula.overcommitted_bytes.display(UnitSystem::Decimal),
        ]);
    }
    table
}

fn count_of(requests: Option<u64>) -> String {
    requests.map_or("any number".to_owned(), group_digits)
}
