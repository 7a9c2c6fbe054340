//! Engine profiles: what an inference engine at a version reserves for a model, and the lines that it prints.
//!
//! Each engine is one module with one [`Profile`]: a plan made once from a [`Query`], from which figures, padding and
//! log lines are read. What changed between versions of an engine is data beside its rules. `model_type` and
//! `architectures` are fields of a config and may choose a rule; a catalogue id may not.

mod differences;
mod dtype;
mod fit;
mod fit_notes;
mod fit_words;
mod formats;
mod gpu;
mod length;
mod llama_cpp;
mod logical;
mod naive;
mod name;
mod pipeline;
mod quantity;
mod report;
mod reserved;
mod sglang;
mod shard;
mod share;
mod size;
mod transformers;
mod trtllm;
mod unused;
mod vllm;

pub use fit::{Room, largest_batch_in, largest_context_in, settings_in};
pub(crate) use fit::{Taken, reserved_each};
pub use fit_notes::{Bound, Launch};
pub use name::{Engine, EngineKind, Version};
pub use quantity::{Figure, Quantity};
pub use report::{EngineReport, Padding, PaddingOf, Unanswered};
pub use reserved::{
    Reservation, ReservedPart, Rest, logical_bytes, logical_curve, reservation, reserved_bytes,
    reserved_curve,
};
pub use share::{ranks, request_groups};
pub use size::{EngineSize, size_in_engine};
pub use unused::has_setting;
pub(crate) use vllm::{groups_of_layers, prints_capacity_in_tokens};

use crate::architecture::Architecture;
use crate::settings::Settings;
use crate::warning::Warning;
use crate::{Bytes, Error, Result, Tokens};
use pipeline::LayerRange;
use shard::Split;
use share::Share;

/// What is asked of an engine profile.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// The model.
    pub architecture: &'a Architecture,
    /// The engine and its version.
    pub engine: Engine,
    /// Tokens of one request; zero is allowed and means its fixed part.
    pub context: Option<Tokens>,
    /// Concurrent requests.
    pub batch: u64,
    /// Everything else.
    pub settings: &'a Settings,
}

/// A memory between caches and state slots.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Division {
    /// What caches have.
    pub(crate) caches: Bytes,
    /// Slots of recurrent state of all groups; `None` where the engine makes no such pool.
    pub(crate) state_slots: Option<u64>,
}

/// Whether a launch runs a batch at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Served {
    /// It does.
    Whole,
    /// Its caches or state slots are too few.
    NoRoom,
    /// There is room, and the launch admits fewer requests.
    NotAdmitted,
}

/// What an engine plans for one query. Made once, read for every figure.
pub(crate) trait Profile {
    /// One quantity; `None` where this engine has no such figure.
    ///
    /// # Errors
    ///
    /// A missing setting that the figure needs (kind [`crate::ErrorKind::Setting`]), or an overflow.
    fn figure(&self, quantity: Quantity) -> Result<Option<Figure>>;

    /// What the rank that holds most has of the query.
    fn share(&self) -> Share;

    /// Layers of the rank that figures are of, where it is one of several pipeline ranks.
    fn layers(&self) -> Option<LayerRange> {
        None
    }

    /// Whether draft layers are on the rank that figures are of.
    fn has_drafts(&self) -> bool {
        true
    }

    /// Requests that the batch's bytes have room for, where they are not those of the share.
    fn room_for(&self) -> u64 {
        self.share().requests
    }

    /// Requests that the engine starts with at most, whatever fits.
    fn most_requests(&self) -> Option<u64> {
        None
    }

    /// How ranks share the heads of the share's layers.
    fn split(&self) -> Split {
        Split::even(self.share().tp)
    }

    /// Why a part is kept otherwise than dense bytes have it, formats and padding apart.
    fn kept_otherwise(&self, _quantity: Quantity) -> Vec<String> {
        Vec::new()
    }

    /// Context-parallel ranks that share the tokens of a part, each of which holds tokens of its own.
    fn ranks_of_tokens(&self, _quantity: Quantity) -> u64 {
        1
    }

    /// How the values of a part are stored, where that is one format; of states, the recurrent state.
    fn format_of(&self, _quantity: Quantity) -> Option<&'static str> {
        None
    }

    /// Layers of the rank that hold a part, each as many bytes, where they are not those that the model says.
    fn layers_holding(&self, _quantity: Quantity) -> Option<u64> {
        None
    }

    /// Of the batch's bytes at the context that `quantity` counts: those that hold state, which are all but the rows of
    /// [`Self::held_padding`].
    fn content(&self, quantity: Quantity) -> Result<Bytes>;

    /// How bytes come about that are no product of tokens, layers and requests.
    fn arithmetic(&self, _quantity: Quantity) -> Result<Option<String>> {
        Ok(None)
    }

    /// The same by what makes a part up, for parts that are no product of tokens at another length either.
    fn terms(&self, _quantity: Quantity) -> Result<Option<String>> {
        Ok(None)
    }

    /// The requests that [`Self::padding`] is counted for; `None` where it is of the pools.
    fn padding_of(&self) -> Option<PaddingOf>;

    /// Where reserved bytes hold no state.
    fn padding(&self) -> Result<Vec<Padding>> {
        Ok(Vec::new())
    }

    /// Of the resident bytes of the batch at the context: those that hold no state.
    fn held_padding(&self) -> Result<Vec<Padding>> {
        self.padding()
    }

    /// Whether a launch with `memory` runs the batch at once, where the engine divides it between pools; `None` where reserved
    /// bytes say it.
    fn fits(&self, _memory: Bytes) -> Result<Option<Served>> {
        Ok(None)
    }

    /// Divides `memory` between caches and state slots as a launch does.
    ///
    /// # Errors
    ///
    /// A memory that is less than the state slots take.
    fn divide(&self, memory: Bytes) -> Result<Division> {
        Ok(Division { caches: memory, state_slots: None })
    }

    /// Says how `memory` is divided between pools, where no setting does.
    fn warn_of_memory(&self, _memory: Bytes) -> Result<Option<Warning>> {
        Ok(None)
    }

    /// The context from which parts grow with every token, where up to there they are the least that a launch makes.
    fn grows_from(&self) -> Result<Option<Tokens>> {
        Ok(None)
    }

    /// Resident bytes of the batch at another context, where this plan would be the same there.
    fn resident_at(&self, _context: Tokens) -> Option<Result<Bytes>> {
        None
    }

    /// Bytes of the batch while it decodes, where the engine admits it with room for more.
    fn decoding(&self) -> Result<Option<Bytes>> {
        Ok(None)
    }

    /// Bytes that the pool has once, whatever it holds, beside what it reserves for requests.
    fn pool_overhead(&self) -> Result<Bytes> {
        Ok(Bytes::ZERO)
    }

    /// What those bytes are, in words.
    fn overhead_words(&self) -> &'static str {
        "what the pool has, whatever it holds"
    }

    /// Bytes of one block, where all that is reserved comes in blocks of one size.
    fn block(&self) -> Option<Bytes> {
        None
    }

    /// How the bytes of one block come about.
    fn block_worked(&self) -> Result<Option<String>> {
        Ok(None)
    }

    /// How the bytes of blocks that no part has come about.
    fn unused_width_worked(&self) -> Result<Option<String>> {
        Ok(None)
    }

    /// The lines that the engine would print about its memory.
    fn log_lines(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Assumptions of the plan.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }
}

impl<'a> Query<'a> {
    /// A query whose context and batch are those of the settings.
    ///
    /// # Errors
    ///
    /// A setting that is out of range.
    pub fn new(architecture: &'a Architecture, engine: Engine, settings: &'a Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self {
            architecture,
            engine,
            context: settings.context.map(Tokens::new),
            batch: settings.batch.unwrap_or(1),
            settings,
        })
    }

    /// The longest request: `max_model_len`, else the config's limit, as the engine derives it.
    pub(crate) fn max_model_len(&self) -> Result<u64> {
        if let Some(length) = self.settings.max_model_len {
            return Ok(length);
        }
        let length = match self.engine.kind() {
            EngineKind::Vllm => Some(vllm::default_length(self.architecture, &self.engine).tokens),
            EngineKind::SgLang => Some(sglang::default_length(self.architecture)),
            _ => self.architecture.max_context().map(crate::Fact::get),
        };
        length.ok_or_else(|| needed("max_model_len"))
    }

    /// The same for what is no figure of a length: llama.cpp plans for a length in any case, which may be one token where
    /// neither query nor config names one.
    pub(crate) fn at_some_length(&self) -> Self {
        let needs_one = self.engine.kind() == EngineKind::LlamaCpp
            && self.settings.n_ctx.is_none()
            && self.architecture.max_context().is_none();
        Query { context: self.context.or(needs_one.then(|| Tokens::new(self.batch.max(1)))), ..self.clone() }
    }

    /// The context, for a figure that cannot do without.
    pub(crate) fn need_context(&self) -> Result<Tokens> {
        self.context.ok_or_else(|| needed("context"))
    }

    /// The context of one of the `…_bytes` figures: state and cross-attention are the same at every length.
    pub(crate) fn context_for(&self, quantity: Quantity) -> Result<Tokens> {
        match quantity {
            Quantity::StateBytes | Quantity::CrossBytes => Ok(self.context.unwrap_or_default()),
            _ => self.need_context(),
        }
    }
}

/// The error of a figure whose setting is absent.
pub(crate) fn needed(name: &str) -> Error {
    if name.contains(" or ") {
        return Error::setting(name, "none is given, and this figure needs one; add it with --set");
    }
    let remedy = if name == "context" { "--context …".to_owned() } else { format!("--set {name}=…") };
    Error::setting(name, format!("not given, and this figure needs it; add {remedy}"))
}

/// Makes the plan of the query's engine.
fn profile<'q>(query: &'q Query<'_>) -> Result<Box<dyn Profile + 'q>> {
    formats::check(query)?;
    match query.engine.kind() {
        EngineKind::Vllm => Ok(Box::new(vllm::VllmPlan::new(query)?)),
        EngineKind::LlamaCpp => Ok(Box::new(llama_cpp::LlamaPlan::new(query)?)),
        EngineKind::TrtLlm => trtllm::plan(query),
        EngineKind::Transformers => transformers::plan(query),
        EngineKind::Logical => {
            let rules = logical::DenseRules::logical(query);
            Ok(Box::new(logical::DensePlan::new(query, rules)?))
        }
        EngineKind::SgLang => Ok(Box::new(sglang::SgLangPlan::new(query)?)),
    }
}

/// One figure of the query's engine.
///
/// # Errors
///
/// A quantity that the engine does not have, a setting that is missing or does not fit the model, or an overflow.
pub fn answer(query: &Query<'_>, quantity: Quantity) -> Result<Figure> {
    let figure =
        profile(query)?.figure(quantity).map_err(|error| error.for_setting(largest_setting(query)))?;
    figure.ok_or_else(|| {
        let what = format!("{} has no figure of that name", query.engine.kind().name());
        Error::setting(quantity.name(), what)
    })
}

/// The setting that makes figures as large as they are.
fn largest_setting(query: &Query<'_>) -> &'static str {
    if query.batch > 1 { "batch" } else { "context" }
}

/// Every figure of the query's engine that the settings allow, where its padding goes, and what it would print.
///
/// # Errors
///
/// Settings that do not fit the model, or an overflow. A missing setting is no error here: it is listed in
/// [`EngineReport::unanswered`].
pub fn report(query: &Query<'_>) -> Result<EngineReport> {
    let plan = profile(query)?;
    let mut figures = Vec::new();
    let mut unanswered = Vec::new();
    for quantity in Quantity::ALL {
        match plan.figure(quantity) {
            Ok(Some(figure)) => figures.push((quantity, figure)),
            Ok(None) => {}
            Err(error) if error.kind() == crate::ErrorKind::Setting => {
                unanswered.push(Unanswered { quantity, why: error.to_string() });
            }
            Err(error) => return Err(error.for_setting(largest_setting(query))),
        }
    }
    Ok(EngineReport {
        engine: query.engine.clone(),
        max_model_len: query.max_model_len().ok().map(Tokens::new),
        figures,
        unanswered,
        padding_of: plan.padding_of(),
        padding: plan.padding()?,
        log_lines: plan.log_lines()?,
        warnings: all_warnings(query, plan.as_ref()),
    })
}

/// The warnings of [`report`] without its figures.
///
/// # Errors
///
/// Settings that do not fit the model, or an overflow.
pub fn warnings(query: &Query<'_>) -> Result<Vec<Warning>> {
    let query = &query.at_some_length();
    Ok(all_warnings(query, profile(query)?.as_ref()))
}

/// The same without what is said of settings that change nothing.
///
/// # Errors
///
/// As [`warnings`].
pub(crate) fn assumptions(query: &Query<'_>) -> Result<Vec<Warning>> {
    let query = &query.at_some_length();
    Ok(assumed(query, profile(query)?.as_ref()))
}

/// Says where requests are longer than the launch allows.
fn too_long(query: &Query<'_>) -> Option<Warning> {
    let (longest, context) = query.settings.max_model_len.zip(query.context)?;
    let refused = has_setting(query.engine.kind(), "max_model_len") && context.get() > longest;
    refused.then(|| {
        let message = format!(
            "{} tokens, but each request has {context}; {} refuses such requests",
            crate::group_digits(longest),
            query.engine.kind().name()
        );
        Warning::new("max_model_len", message)
    })
}

fn all_warnings(query: &Query<'_>, plan: &dyn Profile) -> Vec<Warning> {
    let mut warnings = assumed(query, plan);
    let unused = unused::warnings(query, &warnings);
    warnings.extend(unused);
    warnings
}

fn assumed(query: &Query<'_>, plan: &dyn Profile) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = query.engine.warning().into_iter().collect();
    warnings.extend(dtype::warning(query));
    warnings.extend(plan.warnings());
    warnings.extend(too_long(query));
    warnings
}
