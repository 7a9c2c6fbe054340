use serde::Serialize;

use super::super::simulation::{
    Compare, Rates, Replay, Request, Simulation, StateSizes, StoreTier, Trace, simulate,
};
use super::super::{Given, Moving, Subject};
use crate::settings::Settings;
use crate::size::StateModel;
use crate::warning::Warning;
use crate::{Bytes, Error, Result, Tokens, counted, group_digits, parse_count};

/// Tokens of a block of the public traces.
const USUAL_BLOCK: u64 = 512;
/// Tokens of the longest block that is asked for.
const LONGEST_BLOCK: u64 = 1 << 20;

/// Requests with what they are called.
#[derive(Clone, Debug)]
pub struct NamedTrace {
    /// The file, or how they were made.
    pub label: String,
    /// The requests.
    pub trace: Trace,
}

/// What `kvscope plan simulate` answers of one model.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationAnswer {
    /// Catalogue id or path.
    pub model: String,
    /// What the requests are called.
    pub trace: String,
    /// What the replay found.
    #[serde(flatten)]
    pub simulation: Simulation,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// Replays requests over the tiers that were typed.
///
/// # Errors
///
/// An option that cannot be read, or what the plan refuses.
pub fn simulation_of(
    subject: &Subject<'_>,
    settings: &Settings,
    named: &NamedTrace,
    tiers: &[&str],
    given: &Given,
    optimum: Compare,
    moving: Moving,
) -> Result<SimulationAnswer> {
    let state = StateModel::new(subject.architecture, settings)?;
    let block = named.trace.block_tokens();
    let tiers: Vec<StoreTier> = tiers.iter().map(|text| tier(text, &state, block)).collect::<Result<_>>()?;
    if let Some(name) = twice(&tiers) {
        let what = format!("{name:?} is given twice; leave one out or name it otherwise");
        return Err(Error::setting("tier", what));
    }
    let simulation = simulate(&Replay {
        trace: &named.trace,
        state: &state,
        tiers: &tiers,
        prefetch_blocks: given.count("prefetch", 0)?,
        rates: rates(given)?,
        optimum,
        moving,
    })?;
    Ok(SimulationAnswer {
        model: subject.model.to_owned(),
        trace: named.label.clone(),
        simulation,
        warnings: state.warnings().iter().cloned().chain(too_long(subject, &named.trace)).collect(),
    })
}

fn twice(tiers: &[StoreTier]) -> Option<&str> {
    let names = || tiers.iter().map(|tier| tier.name.as_str());
    names()
        .enumerate()
        .find(|(place, name)| names().take(*place).any(|before| before == *name))
        .map(|(_, name)| name)
}

/// Says how many requests the model could not run.
fn too_long(subject: &Subject<'_>, trace: &Trace) -> Option<Warning> {
    let limit = subject.architecture.max_context()?;
    let is_longer =
        |request: &&Request| request.input_tokens.saturating_add(request.output_tokens) > limit.get();
    let longer = trace.requests().iter().filter(is_longer).count() as u64;
    let what = format!(
        "{} of the trace are longer than the model's {}; they are replayed all the same",
        counted(longer, "request", "requests"),
        Tokens::new(limit.get()).counted()
    );
    (longer > 0).then(|| Warning::new(limit.source().place(), what))
}

/// Tokens of a block, as they were typed.
///
/// # Errors
///
/// No number, or more than any context has.
pub fn typed_block(given: &Given) -> Result<Tokens> {
    let block = given.count("block", USUAL_BLOCK)?;
    if block > LONGEST_BLOCK {
        let most = group_digits(LONGEST_BLOCK);
        return Err(Error::setting("block", format!("more than {most} tokens are no block; give fewer")));
    }
    Tokens::context(block).map_err(|error| Error::setting("block", error.what()))
}

/// Made requests, as many as were typed and no more than `most`; none where no number of them was typed.
///
/// # Errors
///
/// No number, or more than `most`.
pub fn typed_trace(given: &Given, most: u64) -> Result<Option<NamedTrace>> {
    let Some(requests) = given.some_count("synthetic")? else { return Ok(None) };
    let shown = group_digits(requests);
    if requests > most {
        let what = format!("{shown} requests are more than {}", group_digits(most));
        return Err(Error::setting("synthetic", what));
    }
    let seed = given.count("seed", 1)?;
    let trace = Trace::synthetic(requests, typed_block(given)?, seed)?;
    Ok(Some(NamedTrace { label: format!("{shown} made requests, seed {seed}"), trace }))
}

fn rates(given: &Given) -> Result<Option<Rates>> {
    match (given.some_number("prefill_rate")?, given.some_number("decode_rate")?) {
        (Some(prefill_tokens_per_second), Some(decode_tokens_per_second)) => {
            Ok(Some(Rates { prefill_tokens_per_second, decode_tokens_per_second }))
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err(Error::setting("decode_rate", "give it with prefill_rate")),
        (None, Some(_)) => Err(Error::setting("prefill_rate", "give it with decode_rate")),
    }
}

/// `gpu=40GB`, `gpu=1000blocks`, `ssd=unlimited`
fn tier(text: &str, state: &StateModel, block: Tokens) -> Result<StoreTier> {
    let form = || {
        let what = format!("{text:?} is not NAME=SIZE, such as gpu=40GB, gpu=1000blocks or ssd=unlimited");
        Error::setting("tier", what)
    };
    let (name, size) = text.split_once('=').ok_or_else(form)?;
    let size = size.trim();
    let capacity_bytes = if size == "unlimited" {
        None
    } else if let Some(blocks) = size.strip_suffix("blocks") {
        let blocks = parse_count(blocks.trim()).map_err(|_| form())?;
        Some(StateSizes::of(state, block)?.block_bytes.times(blocks)?)
    } else {
        Some(Bytes::given(size).map_err(|_| form())?)
    };
    if name.trim().is_empty() {
        return Err(Error::setting("tier", format!("{text:?} has no name; write gpu=40GB")));
    }
    Ok(StoreTier { name: name.trim().to_owned(), capacity_bytes })
}
