use clap::Args;
use kvscope_sizing::{Bytes, LargestContext, Tokens, UnitSystem};
use serde::Serialize;

use super::request::{Accounting, Contexts, warn};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Catalogue ids, config.json or GGUF files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    /// Bytes for state, after weights and everything else: 80GB, 40GiB
    #[arg(long, value_name = "BYTES")]
    memory: String,
    #[command(flatten)]
    contexts: Contexts,
    #[command(flatten)]
    accounting: Accounting,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What fits, in logical bytes: found by inverting the growth function, exact to one token and one request.
#[derive(Debug, Serialize)]
struct Fit {
    model: String,
    memory_bytes: Bytes,
    engine: &'static str,
    batch: u64,
    /// Tokens that fit for each request of the batch; null where not even the fixed part fits.
    largest_context: Option<Tokens>,
    /// Whether `largest_context` is the longest that is accepted, because growth ends or the memory is ample.
    unbounded: bool,
    max_context: Option<u64>,
    batches: Vec<BatchAt>,
}

#[derive(Debug, Serialize)]
struct BatchAt {
    context: Tokens,
    /// Requests that fit; null where a request holds nothing.
    largest_batch: Option<u64>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.accounting.logical_settings()?;
    let memory: Bytes = arguments.memory.parse()?;
    let batch = arguments.contexts.batch()?;
    let contexts = arguments.contexts.tokens()?;
    let mut fits = Vec::new();
    let mut warnings = Vec::new();
    for name in &arguments.models {
        let model = Model::load_checked(name, arguments.accounting.unknown())?;
        let state = model.state(&settings)?;
        let failed = |error: kvscope_sizing::Error| model.failure(&error);
        let (largest_context, unbounded) =
            match state.largest_context(memory, batch, Tokens::MAX).map_err(failed)? {
                LargestContext::Nothing => (None, false),
                LargestContext::Budget { tokens } => (Some(tokens), false),
                LargestContext::Limit { tokens } => (Some(tokens), true),
            };
        let at = |context: &Tokens| {
            Ok(BatchAt {
                context: *context,
                largest_batch: state.largest_batch(memory, *context).map_err(failed)?,
            })
        };
        fits.push(Fit {
            model: model.label.clone(),
            memory_bytes: memory,
            engine: "logical",
            batch,
            largest_context,
            unbounded,
            max_context: model.architecture.max_context().map(kvscope_sizing::Fact::get),
            batches: contexts.iter().map(at).collect::<Result<_, Failure>>()?,
        });
        warnings.extend(
            model.architecture.warnings().iter().map(|warning| (model.label.clone(), warning.clone())),
        );
    }
    if arguments.json {
        return output::json(&fits);
    }
    output::figures(&table(&fits, memory, batch).render())?;
    warn(warnings.iter().map(|(label, warning)| (label.as_str(), warning)));
    Ok(())
}

fn table(fits: &[Fit], memory: Bytes, batch: u64) -> Figures {
    let requests = if batch == 1 { "one request".to_owned() } else { format!("{batch} requests") };
    let longest = format!("longest context, {requests} in {}", memory.display(UnitSystem::Decimal));
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
