mod notes;

use clap::Args;
use kvscope_sizing::engine::{self, Bound, Engine, EngineKind, Launch, Query, Room, ranks};
use kvscope_sizing::{Bytes, LargestContext, Settings, Tokens, UnitSystem, Warning};
use serde::Serialize;

use super::request::{Request, warn};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    request: Request,
    /// Bytes for state, after weights and everything else: 80GB, 40GiB
    #[arg(long, value_name = "BYTES")]
    memory: String,
}

/// What fits, found by inverting the growth function or what the engine reserves: exact to one token and one request.
#[derive(Debug, Serialize)]
struct Fit {
    model: String,
    memory_bytes: Bytes,
    engine: Engine,
    settings: Settings,
    batch: u64,
    /// Tokens that fit for each request of the batch; null where not even the fixed part fits.
    largest_context: Option<Tokens>,
    /// Whether `largest_context` is the longest that is accepted, because growth ends or the memory is ample.
    unbounded: bool,
    max_context: Option<u64>,
    batches: Vec<BatchAt>,
    /// Bytes of the memory that the pool has once, whatever it holds; null where there are none.
    once_bytes: Option<Bytes>,
    /// What those bytes are.
    once_why: Option<&'static str>,
    /// How a launch divides the memory between caches and state slots; null where it does not.
    launch: Option<Launch>,
    /// Where nothing fits: the tokens that do with `max_running_requests` set to the batch.
    largest_context_with_fewest_requests: Option<Tokens>,
    warnings: Vec<Warning>,
}

#[derive(Debug, Serialize)]
struct BatchAt {
    context: Tokens,
    /// Requests that fit; null where a request holds nothing.
    largest_batch: Option<u64>,
    /// What keeps one more from being run; null where nothing does.
    bounded_by: Option<Bound>,
    /// Requests that the memory has blocks for while they decode, where they are admitted with room for more.
    decoding_batch: Option<u64>,
    /// Bytes that each holds then.
    decoding_bytes_each: Option<Bytes>,
    /// What stands beside them, in words.
    remarks: Vec<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.request.accounting.settings()?;
    let engine = arguments.request.accounting.engine()?;
    let memory = Bytes::given(&arguments.memory)?;
    let batch = arguments.request.batch.count()?;
    let contexts = arguments.request.contexts.tokens()?;
    let mut fits = Vec::new();
    let mut warnings = Vec::new();
    for name in &arguments.request.models {
        let model = Model::load_checked(name, arguments.request.accounting.unknown())?;
        let question = Question { engine: &engine, settings: &settings, memory, batch, contexts: &contexts };
        let (fit, doubts) = question.answer(&model).map_err(|error| model.failure(&error))?;
        fits.push(fit);
        warnings.extend(doubts.into_iter().map(|warning| (model.shown.clone(), warning)));
    }
    if arguments.request.json {
        return output::json(&fits);
    }
    if arguments.request.csv {
        output::figures(&exact_rows(&fits).csv())?;
    } else {
        let table = table(&fits, &shown(memory, &arguments.memory), batch).render();
        output::figures(&format!("{table}{}", notes::text(&fits)))?;
    }
    warn(warnings.iter().map(|(label, warning)| (label.as_str(), warning)));
    Ok(())
}

/// What is asked of each model.
struct Question<'a> {
    engine: &'a Engine,
    settings: &'a Settings,
    memory: Bytes,
    batch: u64,
    contexts: &'a [Tokens],
}

impl Question<'_> {
    fn answer(&self, model: &Model) -> kvscope_sizing::Result<(Fit, Vec<Warning>)> {
        let state = model.state_in(self.settings)?;
        let mut query = Query::new(&model.architecture, self.engine.clone(), self.settings)?;
        query.batch = self.batch;
        let room = Room { query: query.clone(), state: &state, memory: self.memory };
        let largest = room.largest_context()?;
        let (largest_context, unbounded) = match largest {
            LargestContext::Nothing => (None, false),
            LargestContext::Budget { tokens } => (Some(tokens), false),
            LargestContext::Limit { tokens } => (Some(tokens), true),
        };
        let batches = self
            .contexts
            .iter()
            .map(|context| batch_at(&room, *context))
            .collect::<kvscope_sizing::Result<_>>()?;
        let mut warnings = state.warnings().to_vec();
        if !room.is_dense() {
            let asked = Query { context: largest_context.filter(|_| !unbounded), ..query.clone() };
            warnings.extend(engine::warnings(&asked)?);
            warnings.extend(room.division()?);
        }
        let once = room.once()?;
        let fewest = if largest_context.is_none() { room.with_fewest_requests()? } else { None };
        let fit = Fit {
            model: model.shown.clone(),
            memory_bytes: self.memory,
            engine: self.engine.clone(),
            settings: self.settings.clone(),
            batch: self.batch,
            largest_context,
            unbounded,
            max_context: model.architecture.max_context().map(kvscope_sizing::Fact::get),
            batches,
            once_bytes: once.map(|(bytes, _)| bytes),
            once_why: once.map(|(_, why)| why),
            launch: room.launch()?,
            largest_context_with_fewest_requests: fewest,
            warnings: warnings.clone(),
        };
        Ok((fit, warnings))
    }
}

fn batch_at(room: &Room<'_>, context: Tokens) -> kvscope_sizing::Result<BatchAt> {
    let largest_batch = room.largest_batch(context)?;
    let decoding = room.while_decoding(context)?;
    Ok(BatchAt {
        context,
        largest_batch,
        bounded_by: largest_batch.map(|requests| room.bound(context, requests)).transpose()?,
        decoding_batch: decoding.map(|(requests, _)| requests),
        decoding_bytes_each: decoding.map(|(_, each)| each),
        remarks: largest_batch.map_or_else(|| Ok(Vec::new()), |most| room.remarks(context, most))?,
    })
}

/// Bytes in the system of units that they were asked in.
fn shown(memory: Bytes, asked: &str) -> String {
    UnitSystem::named_in(asked).map_or_else(|| memory.to_string(), |system| memory.display(system))
}

fn table(fits: &[Fit], memory: &str, batch: u64) -> Figures {
    let requests = if batch == 1 { "one request".to_owned() } else { format!("{batch} requests") };
    let place = fits.first().map_or(String::new(), place);
    let longest = format!("longest context, {requests} in {memory}{place}");
    let mut header = vec!["model".to_owned(), longest, "config allows".to_owned()];
    if let Some(fit) = fits.first() {
        header.extend(fit.batches.iter().map(|at| format!("requests of {}", at.context.short())));
    }
    let mut table = Figures::new(1, &header.iter().map(String::as_str).collect::<Vec<_>>());
    for fit in fits {
        let longest = match (fit.largest_context, fit.unbounded) {
            (None, _) => "does not fit".to_owned(),
            (Some(_), true) => "any length".to_owned(),
            (Some(tokens), false) => tokens.to_string(),
        };
        let allowed = fit.max_context.map_or("–".to_owned(), |limit| Tokens::new(limit).to_string());
        let batches = fit
            .batches
            .iter()
            .map(|at| at.largest_batch.map_or("any number".to_owned(), kvscope_sizing::group_digits));
        table.row([fit.model.clone(), longest, allowed].into_iter().chain(batches));
    }
    table
}

/// ` on one rank of 8, vllm@0.33`
fn place(fit: &Fit) -> String {
    let kind = fit.engine.kind();
    let ranks = ranks(kind, &fit.settings);
    let rank = if ranks > 1 { format!(" on one rank of {ranks}") } else { String::new() };
    if kind == EngineKind::Logical { rank } else { format!("{rank}, {}", fit.engine) }
}

/// A row for each context, or one without.
fn exact_rows(fits: &[Fit]) -> Figures {
    let header = [
        "model",
        "engine",
        "memory_bytes",
        "batch",
        "largest_context_tokens",
        "unbounded",
        "max_context_tokens",
        "context_tokens",
        "largest_batch",
    ];
    let mut rows = Figures::new(2, &header);
    let count = |count: Option<u64>| count.map_or(String::new(), |count| count.to_string());
    for fit in fits {
        let row = [
            fit.model.clone(),
            fit.engine.to_string(),
            fit.memory_bytes.get().to_string(),
            fit.batch.to_string(),
            count(fit.largest_context.map(Tokens::get)),
            fit.unbounded.to_string(),
            count(fit.max_context),
        ];
        if fit.batches.is_empty() {
            rows.row(row.into_iter().chain([String::new(), String::new()]));
            continue;
        }
        for at in &fit.batches {
            rows.row(row.clone().into_iter().chain([at.context.get().to_string(), count(at.largest_batch)]));
        }
    }
    rows
}
