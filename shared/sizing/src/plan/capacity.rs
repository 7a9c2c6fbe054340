//! How many requests some GPUs hold: the answer of `kvscope plan capacity`.

mod mixed;

use serde::Serialize;

pub use mixed::MixCapacity;

use super::memory::{Memory, MemoryQuestion};
use super::mix::Mix;
use super::wrong::{Right, WrongFormula, wrong_formulas};
use super::{Moving, Sensitivity, Subject, sensitivities, sensitivity};
use crate::architecture::Architecture;
use crate::engine::{
    Engine, EngineKind, Query, Room, Taken, assumptions, ranks, request_groups, reserved_each,
};
use crate::settings::Settings;
use crate::size::StateModel;
use crate::state::counted;
use crate::warning::Warning;
use crate::{Bytes, Error, LargestContext, Result, Tokens};

/// What is asked of a number of GPUs.
#[derive(Clone, Debug)]
pub struct CapacityQuestion<'a> {
    /// Their memory and what fills it beside state. Its `weight_ranks` may be more than the engine's ranks (experts spread
    /// over all GPUs).
    pub memory: MemoryQuestion<'a>,
    /// Whose accounting.
    pub engine: Engine,
    /// Formats, ranks and pools.
    pub settings: &'a Settings,
    /// Lengths that are asked for.
    pub contexts: &'a [Tokens],
    /// A mix of lengths, beside them.
    pub mix: Option<Mix>,
    /// What a GPU costs an hour, in any currency.
    pub price_per_hour: Option<f64>,
    /// Whether inputs are moved.
    pub moving: Moving,
}

/// What fits some GPUs.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityPlan {
    /// Catalogue id or path.
    pub model: String,
    /// The GPU's id.
    pub gpu: String,
    /// How many.
    pub count: u64,
    /// Whose accounting.
    pub engine: Engine,
    /// The settings.
    pub settings: Settings,
    /// GPUs that share a request.
    pub ranks: u64,
    /// Groups of such GPUs in one copy of the model, each with requests of its own.
    pub groups: u64,
    /// Copies of the model.
    pub replicas: u64,
    /// One GPU's memory.
    pub memory: Memory,
    /// The longest single request; null where not even its fixed part fits.
    pub largest_context: Option<Tokens>,
    /// Whether the config's limit is what bounds it.
    pub largest_context_is_limit: bool,
    /// What the config allows.
    pub max_context: Option<Tokens>,
    /// Requests at each length that was asked for.
    pub at: Vec<CapacityAt>,
    /// Requests of the mix.
    pub mix: Option<MixCapacity>,
    /// The most requests at each length, doubling from 1Ki.
    pub frontier: Vec<FrontierPoint>,
    /// What wrong formulas would admit at the first length.
    pub wrong_formulas: Vec<WrongFormula>,
    /// What a tenth of each input does to the requests of the first length, the most important first.
    pub sensitivities: Vec<Sensitivity>,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// Requests of one length.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityAt {
    /// Tokens of each.
    pub context: Tokens,
    /// Bytes that one request more takes on one GPU.
    pub bytes_per_request_and_gpu: Bytes,
    /// Bytes of a GPU's state that stand beside any number of requests.
    pub once_bytes_per_gpu: Bytes,
    /// Requests at once on all GPUs; null where a request holds nothing.
    pub requests: Option<u64>,
    /// The same for each GPU.
    pub requests_per_gpu: Option<f64>,
    /// What a request costs an hour.
    pub price_per_request_hour: Option<f64>,
}

/// The most requests of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FrontierPoint {
    /// Tokens of each.
    pub context: Tokens,
    /// Requests on all GPUs; null where a request holds nothing.
    pub requests: Option<u64>,
}

/// What fits.
///
/// # Errors
///
/// GPUs that the ranks do not divide, a length beyond the model's, an engine or settings that do not fit the model, or weights
/// of unknown size. A model that does not fit is an answer.
pub fn capacity(subject: &Subject<'_>, question: &CapacityQuestion<'_>) -> Result<CapacityPlan> {
    let settings = question.settings;
    let ranks = ranks(question.engine.kind(), settings);
    let count = question.memory.count;
    if count == 0 {
        return Err(Error::setting("count", "0 GPUs hold nothing; give at least 1"));
    }
    if ranks == 0 || !count.is_multiple_of(ranks) {
        let what = format!("{count} GPUs are no multiple of the {ranks} that share a request (tp × pp)");
        return Err(Error::setting("count", what));
    }
    let query = Query::new(subject.architecture, question.engine.clone(), settings)?;
    let limit = longest_request(&query);
    let longest = question.mix.as_ref().map(Mix::longest);
    for n in question.contexts.iter().copied().chain(longest) {
        if let Some(limit) = limit.filter(|limit| n > *limit) {
            let stated = subject.architecture.max_context().map(crate::Fact::get);
            let by = match settings.max_model_len {
                Some(_) => "max_model_len allows".to_owned(),
                None if stated == Some(limit.get()) => "the config allows".to_owned(),
                None => format!("{} takes by default", question.engine),
            };
            let what = format!(
                "{n} tokens is beyond the {} that {by}; give at most those, or set max_model_len",
                limit.short()
            );
            return Err(Error::setting("context", what));
        }
    }
    let memory = question.memory.fill(subject)?;
    let spread = Spread::of(question.engine.kind(), &question.memory, subject.architecture);
    let state = StateModel::new(subject.architecture, settings)?;
    let held = memory.state_bytes.map(|bytes| spread.held(bytes)).transpose()?;
    let ranks = ranks * spread.gpus;
    let groups = request_groups(question.engine.kind(), settings);
    let asking = Asking { query, state: &state, memory: held, spread, groups, replicas: count / ranks };
    let largest = asking.largest_context(limit)?;
    let at = question.contexts.iter().map(|n| asking.at(*n, count, question.price_per_hour));
    let at = at.collect::<Result<Vec<_>>>()?;
    let frontier = asking.frontier(limit)?;
    let mix = question.mix.as_ref().map(|mix| asking.mix(mix, &frontier)).transpose()?;
    let wrong = match (at.first(), held) {
        (Some(first), Some(room)) => asking.wrong(subject, settings, first, room)?,
        _ => Vec::new(),
    };
    let moved = || at.first().map_or_else(Vec::new, |at| asking.sensitivities(&memory, at));
    let sensitivities = question.moving.rows(moved);
    let warnings = asking.warnings(&at)?;
    Ok(CapacityPlan {
        model: subject.model.to_owned(),
        gpu: question.memory.gpu.id.clone(),
        count,
        engine: question.engine.clone(),
        settings: settings.clone(),
        ranks: ranks / groups,
        groups,
        replicas: asking.replicas,
        largest_context: match largest {
            LargestContext::Nothing => None,
            LargestContext::Budget { tokens } | LargestContext::Limit { tokens } => Some(tokens),
        },
        largest_context_is_limit: matches!(largest, LargestContext::Limit { .. }),
        max_context: limit,
        at,
        mix,
        frontier,
        wrong_formulas: wrong,
        sensitivities,
        warnings,
        memory,
    })
}

/// Each once, in the order in which they came.
fn distinct(all: Vec<Warning>) -> Vec<Warning> {
    let mut told = Vec::with_capacity(all.len());
    for warning in all {
        if !told.contains(&warning) {
            told.push(warning);
        }
    }
    told
}

/// How the layers of one model are spread over GPUs: llama.cpp gives each a run of whole layers with their cells
/// (`--split-mode layer`, its default), which are taken to be of one size. Other engines divide every layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    /// GPUs that hold one model between them.
    pub(super) gpus: u64,
    /// All layers.
    layers: u64,
    /// Layers of the GPU with most: of equal shares of the layers and the output behind them, the first.
    most: u64,
}

impl Spread {
    pub(super) fn of(engine: EngineKind, memory: &MemoryQuestion<'_>, architecture: &Architecture) -> Self {
        let gpus = if engine == EngineKind::LlamaCpp { memory.weight_ranks } else { 1 };
        let layers = (architecture.layer_count() as u64).max(1);
        Self { gpus, layers, most: (layers + 1).div_ceil(gpus).min(layers) }
    }

    /// What all GPUs hold of state where the fullest holds so much.
    pub(super) fn held(self, fullest: Bytes) -> Result<Bytes> {
        Ok(Bytes::new(fullest.times(self.layers)?.get() / self.most))
    }

    /// What the fullest GPU holds of so much.
    fn share(self, all: Bytes) -> Bytes {
        let share = (u128::from(all.get()) * u128::from(self.most)).div_ceil(u128::from(self.layers));
        Bytes::new(u64::try_from(share).unwrap_or(u64::MAX))
    }

    /// The whole over the fullest GPU's part.
    fn parts(self) -> f64 {
        self.layers as f64 / self.most as f64
    }
}

/// The longest request: the setting, what the engine derives of the config (a scaled `RoPE` among it), else the config's own.
fn longest_request(query: &Query<'_>) -> Option<Tokens> {
    query.max_model_len().ok().map(Tokens::new)
}

struct Asking<'a> {
    query: Query<'a>,
    state: &'a StateModel,
    /// Bytes for state on one GPU, or on all that layers are spread over.
    memory: Option<Bytes>,
    /// GPUs that hold the layers of one model between them, whose bytes are asked for together.
    spread: Spread,
    /// Groups of ranks in one copy of the model.
    groups: u64,
    replicas: u64,
}

impl Asking<'_> {
    fn room(&self, memory: Bytes) -> Room<'_> {
        Room { query: self.query.clone(), state: self.state, memory }
    }

    /// What requests of one length take on one GPU.
    fn taken(&self, n: Tokens) -> Result<Taken> {
        self.room(Bytes::ZERO).taken(n)
    }

    /// Bytes of one request, of several lengths.
    fn each(&self, lengths: &[Tokens]) -> Result<Vec<Bytes>> {
        if self.query.engine.is_dense(self.query.settings) {
            return lengths.iter().map(|n| self.state.resident(*n, 1)).collect();
        }
        reserved_each(&self.query, lengths)
    }

    /// Requests on all GPUs, of those of one copy.
    fn on_all(&self, requests: u64) -> Result<u64> {
        requests.checked_mul(self.replicas).ok_or_else(|| Error::overflow("requests on all GPUs"))
    }

    fn requests(&self, n: Tokens) -> Result<Option<u64>> {
        self.memory.map_or(Ok(Some(0)), |memory| self.requests_in(memory, n))
    }

    fn requests_in(&self, memory: Bytes, n: Tokens) -> Result<Option<u64>> {
        let of_one = self.room(memory).largest_batch(n)?;
        of_one.map(|requests| self.on_all(requests)).transpose()
    }

    fn largest_context(&self, limit: Option<Tokens>) -> Result<LargestContext> {
        let Some(memory) = self.memory else { return Ok(LargestContext::Nothing) };
        self.room(memory).largest_context_up_to(limit.unwrap_or(Tokens::MAX))
    }

    fn at(&self, n: Tokens, count: u64, price_per_hour: Option<f64>) -> Result<CapacityAt> {
        let requests = self.requests(n)?;
        let price = price_per_hour.map(|price| super::positive("price", price)).transpose()?;
        let some = requests.filter(|requests| *requests > 0);
        if price.is_some_and(|price| !(price * count as f64).is_finite()) {
            let what = "more than can be counted for all GPUs; give what one costs an hour";
            return Err(Error::setting("price", what));
        }
        let taken = self.taken(n)?;
        Ok(CapacityAt {
            context: n,
            bytes_per_request_and_gpu: self.spread.share(taken.each),
            once_bytes_per_gpu: self.spread.share(taken.once),
            requests,
            requests_per_gpu: requests.map(|requests| requests as f64 / count as f64),
            price_per_request_hour: price
                .zip(some)
                .map(|(price, requests)| price * count as f64 / requests as f64),
        })
    }

    fn frontier(&self, limit: Option<Tokens>) -> Result<Vec<FrontierPoint>> {
        let limit = limit.map_or(1 << 20, Tokens::get);
        let doubled = std::iter::successors(Some(1024_u64), |n| n.checked_mul(2)).take_while(|n| *n < limit);
        let points = doubled.chain([limit]).map(|n| {
            let context = Tokens::new(n);
            Ok(FrontierPoint { context, requests: self.requests(context)? })
        });
        points.collect()
    }

    /// What formulas make of one group of ranks, each as ranks would divide what it keeps.
    fn wrong(
        &self,
        subject: &Subject<'_>,
        settings: &Settings,
        first: &CapacityAt,
        room: Bytes,
    ) -> Result<Vec<WrongFormula>> {
        let Some(requests) = first.requests else { return Ok(Vec::new()) };
        // Ranks that the engine does not have divide nothing, nor do those of other groups.
        let divided = match self.query.engine.kind() {
            EngineKind::LlamaCpp => Settings { tp: None, pp: None, dcp: None, ..settings.clone() },
            _ => Settings { tp: settings.tp.map(|tp| tp / self.groups), ..settings.clone() },
        };
        let taken = self.taken(first.context)?;
        let groups = self.replicas * self.groups;
        let right = Right {
            each: taken.each,
            room: Bytes::new(room.get().saturating_sub(taken.once.get())),
            requests: requests / groups,
            groups,
        };
        let mut all = wrong_formulas(subject, &divided, first.context, right)?;
        for formula in &mut all {
            for bytes in
                [&mut formula.bytes_per_request, &mut formula.wasted_bytes, &mut formula.overcommitted_bytes]
            {
                *bytes = self.spread.share(*bytes);
            }
        }
        Ok(all)
    }

    /// What was assumed, and what stands beside requests of these lengths: whatever bounds them besides the memory, and how
    /// many have blocks while they decode.
    fn warnings(&self, at: &[CapacityAt]) -> Result<Vec<Warning>> {
        let mut all = self.state.warnings().to_vec();
        if self.query.engine.is_dense(self.query.settings) {
            return Ok(all);
        }
        all.extend(assumptions(&self.query)?);
        if self.spread.gpus > 1 {
            let (most, layers) = (self.spread.most, counted(self.spread.layers, "layer", "layers"));
            let what =
                format!("the fullest GPU has {most} of {layers}; weights are taken to be shared evenly");
            all.push(Warning::new("count", what));
        }
        let Some(memory) = self.memory else { return Ok(distinct(all)) };
        let room = self.room(memory);
        all.extend(room.division()?);
        for CapacityAt { context: n, requests, .. } in at {
            let of_one = requests.map(|requests| requests / self.replicas);
            let Some(most) = of_one.filter(|most| *most > 0) else { continue };
            let remarks = room.remarks(*n, most)?;
            all.extend(remarks.into_iter().map(|remark| Warning::new("requests", remark)));
        }
        Ok(distinct(all))
    }

    fn sensitivities(&self, memory: &Memory, at: &CapacityAt) -> Vec<Sensitivity> {
        let bytes = |bytes: Bytes| bytes.get() as f64;
        let share = 1.0 - bytes(memory.left_free_bytes) / bytes(memory.memory_bytes).max(1.0);
        let inputs = [
            ("memory", bytes(memory.memory_bytes)),
            ("share of the memory", share),
            ("weights", bytes(memory.weight_bytes)),
            ("activations", bytes(memory.activation_bytes)),
            ("graphs", bytes(memory.graph_bytes)),
            ("context", at.context.get() as f64),
            ("bytes of a request", 1.0),
        ];
        sensitivities(&inputs, |of| {
            let left = of[0] * of[1].min(1.0) - of[2] - of[3] - of[4];
            // Requests of more bytes are as many as fit less memory.
            let room = sensitivity::count((left / of[6]).max(0.0))?;
            let room = self.spread.held(Bytes::new(room)).ok()?;
            let requests = self.requests_in(room, sensitivity::tokens(of[5])?).ok()??;
            Some(requests as f64)
        })
    }
}
