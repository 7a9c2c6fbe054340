//! SGLang: pools of token slots that are sized from a budget of bytes, and slots of recurrent state.
//!
//! Source: SGLang 0.5.23, `model_executor/pool_configurator.py` (cells and pools), `mem_cache/kv_cache_configurator.py`
//! (requests, state slots), `mem_cache/allocation_sizing.py` (request table), `configs/mamba_utils.py` (state shapes),
//! `configs/model_config.py` (which classes get a pool for windows).

mod checks;
mod classes;
mod held;
mod launch;
mod length;
mod pool;
mod rank;
mod requests;
mod served;
mod serving;
mod slots;
mod uniform;
mod v4;
mod v4_layout;
mod window_size;
mod windowed;

use super::dtype::formats_in;
use super::gpu::Gpu;
use super::logical::{checkpoint_bytes, stored_states};
use super::naive::Naive;
use super::pipeline::{LayerRange, Surplus, fullest, rank_ranges};
use super::shard::Split;
use super::share::Share;
use super::{Division, EngineKind, Figure, Padding, PaddingOf, Profile, Quantity, Query, Served, needed};
use crate::fact::Source;
use crate::format::StateFormat;
use crate::settings::{Formats, Settings};
use crate::state::{ComponentKind, counted};
use crate::warning::Warning;
use crate::{Bytes, Error, Result, Tokens, group_digits};
use launch::Launch;
pub(super) use length::default_length;
use pool::{PoolParts, PoolTokens};
use rank::Rank;

/// What SGLang plans for one launch.
pub(super) struct SgLangPlan<'q> {
    query: &'q Query<'q>,
    settings: Settings,
    launch: Launch,
    /// Slots that the output of a request's encoder takes.
    encoder: u64,
    /// Pipeline ranks, first rank first.
    ranks: Vec<Rank>,
    /// The one that holds most, which figures are of.
    shown: usize,
    warnings: Vec<Warning>,
}

impl<'q> SgLangPlan<'q> {
    pub(super) fn new(query: &'q Query<'q>) -> Result<Self> {
        checks::ranks(query.settings)?;
        let mut warnings: Vec<Warning> = Gpu::of(query.settings)
            .warning(query.settings, "decides record layouts and prefill chunks")
            .into_iter()
            .collect();
        let launch = Launch::new(query);
        checks::launch(query, &launch)?;
        warnings.extend(classes::page_warning(query.architecture, query.settings, &launch));
        warnings.extend(served::warning(query.architecture));
        warnings.extend(launch::requests_warning(query, &launch));
        warnings.extend(classes::warnings(query.architecture));
        if query.settings.max_model_len.is_none() {
            warnings.extend(length::warning(query.architecture));
        }
        let settings = with_defaults(query, &launch);
        warnings.extend(launch::drafts_warning(&settings));
        let encoder = classes::encoder_tokens(query.architecture, &settings)?;
        if settings.draft_tokens() > 0 && settings.draft_layers.is_none() {
            let message =
                "drafting is on, but not how many layers it adds; none are counted (set draft_layers)";
            warnings.push(Warning::new("draft_layers", message));
        }
        let formats = formats_in(query.architecture, EngineKind::SgLang, &settings);
        let ranges = rank_ranges(query.architecture, &settings, Surplus::Last)?;
        let rank = |layers| Rank::new(query.architecture, &formats, (&settings, &launch), layers);
        let ranks = ranges.into_iter().map(rank).collect::<Result<Vec<_>>>()?;
        let mut plan = Self { query, settings, launch, encoder, ranks, shown: 0, warnings };
        plan.shown = fullest(&plan.bytes_of_ranks());
        plan.warnings.extend(plan.warn_of_ranks()?);
        if plan.has_pools() && plan.tokens().is_ok_and(|tokens| tokens.full == 0) {
            return Err(plan.no_room());
        }
        plan.warnings.extend(plan.share().warning(query.batch));
        if plan.has_state()? {
            checks::slots(&plan.settings, &plan.launch)?;
            plan.warn_of_states()?;
        }
        Ok(plan)
    }

    fn tokens(&self) -> Result<PoolTokens> {
        self.tokens_on(self.rank())
    }

    /// State of one request, over all linear layers of the rank.
    fn state_bytes_per_slot(&self) -> Result<Bytes> {
        checkpoint_bytes(self.state())
    }

    /// Bytes of the pool of state slots that serves the batch.
    fn state_pool(&self) -> Result<Bytes> {
        self.state_pool_on(self.rank())
    }

    /// The same on any rank. One slot more takes what padded batches write.
    fn state_pool_on(&self, rank: &Rank) -> Result<Bytes> {
        let state = checkpoint_bytes(&rank.state)?;
        if state == Bytes::ZERO {
            return Ok(Bytes::ZERO);
        }
        state.times(self.slots_of_batch()?.saturating_add(1))
    }

    /// State slots that one admitted request takes: its own, and those that are kept for reuse.
    fn slots_per_request(&self) -> u64 {
        requests::state_slots_per_request(&self.settings, &self.launch)
    }

    /// Bytes of the rank's preallocated pools that `quantity` counts. `pool_bytes` has the state slots that are set, or that a
    /// launch makes beside a budget.
    fn pool_part_on(&self, rank: &Rank, quantity: Quantity) -> Result<Bytes> {
        let parts = rank.pool.parts(self.tokens_on(rank)?, &self.launch)?;
        let known = self.settings.state_slots.is_some() || self.settings.pool_tokens.is_none();
        let slots = match (quantity, self.launch_slots()?.filter(|_| known)) {
            (Quantity::PoolBytes, None) => Bytes::ZERO,
            (Quantity::PoolBytes, Some(slots)) => {
                checkpoint_bytes(&rank.state)?.times(slots.saturating_add(1))?
            }
            _ => self.state_pool_on(rank)?,
        };
        PoolParts { state: slots.plus(parts.state)?, ..parts }.of(quantity)
    }

    /// Bytes of all preallocated pools on the rank that has most.
    fn pool_bytes(&self) -> Result<Bytes> {
        self.ranks
            .iter()
            .try_fold(Bytes::ZERO, |most, rank| Ok(most.max(self.pool_part_on(rank, Quantity::PoolBytes)?)))
    }

    /// Tokens of a request that one rank holds, those of its encoder among them, in whole pages of `page`.
    fn own_tokens(&self, n: Tokens, page: u64) -> u64 {
        n.get().saturating_add(self.encoder).div_ceil(self.launch.dcp).next_multiple_of(page)
    }

    /// Bytes that one layer's component of a request of `n` tokens takes on one rank, in whole pages of `page` tokens.
    /// Context-parallel ranks hold different tokens of a cache, and each the index keys of all of them
    /// (`allocation_sizing.py`: pages of requests are `page_size × dcp` tokens).
    fn held_by(&self, component: &crate::StateComponent, n: Tokens, page: u64) -> Result<Bytes> {
        let (ranks, own) = (self.launch.dcp, self.own_tokens(n, page));
        match super::shard::quantity_of(component.kind) {
            Quantity::WindowBytes if !self.pool().has_window_pool() => component.growth.entry().times(own),
            Quantity::KvBytes => component.bytes(Tokens::new(own)),
            Quantity::IndexBytes => component.bytes(Tokens::new(own.saturating_mul(ranks))),
            _ => component.bytes(n),
        }
    }

    /// Of given pools, or of the smallest that serve the batch.
    fn part(&self, quantity: Quantity) -> Result<Bytes> {
        if self.settings.pool_tokens.is_some() {
            return self.pool_part_on(self.rank(), quantity);
        }
        self.serving_part(quantity, self.query.context_for(quantity)?)
    }

    fn max_running_requests(&self) -> Result<u64> {
        let capacity = match (self.settings.available_kv_bytes, self.settings.pool_tokens) {
            (None, None) => None,
            _ => Some(self.tokens()?.full),
        };
        let slots = if self.has_state()? {
            Some(self.launch_slots()?.ok_or_else(|| needed("state_slots")))
        } else {
            None
        };
        let admitted =
            requests::admitted(&self.settings, &self.launch, capacity, slots, || self.query.max_model_len())?;
        if admitted > 0 { Ok(admitted) } else { Err(self.no_room()) }
    }

    /// `MemoryPoolConfig`: "Not enough memory" without a token; half of one admits no request either.
    fn no_room(&self) -> Error {
        let field = if self.settings.pool_tokens.is_some() { "pool_tokens" } else { "available_kv_bytes" };
        Error::setting(field, "the pools admit no request, and SGLang refuses to start; set more")
    }

    /// Requests that have a row of the request table: those that are admitted, be the pools as large as they may where
    /// nothing sizes them.
    fn table_rows(&self) -> Result<u64> {
        match requests::asked(&self.launch).filter(|_| !self.has_pools()) {
            None => self.max_running_requests(),
            Some(asked) => {
                let slots = if self.has_state()? { self.fixed_slots() } else { None };
                Ok(slots.map_or(asked, |slots| asked.min(slots / self.slots_per_request())))
            }
        }
    }

    /// Whether something says how large the pools are.
    fn has_pools(&self) -> bool {
        self.settings.pool_tokens.is_some() || self.settings.available_kv_bytes.is_some()
    }

    fn has_state(&self) -> Result<bool> {
        Ok(self.charged_state()? > Bytes::ZERO)
    }

    fn naive(&self) -> Result<Figure> {
        let naive = Naive {
            architecture: self.query.architecture,
            engine: self.query.engine.kind(),
            rank: self.state(),
            settings: &self.settings,
            context: self.query.need_context()?,
            batch: self.share().requests,
        };
        naive.factor(self.part(Quantity::ResidentBytes)?)
    }
}

/// SGLang keeps recurrent state in f32 unless `mamba_ssm_dtype` says otherwise, and convolution state in bf16, whatever
/// the model's type (`mamba2_state_dtype`).
fn with_defaults(query: &Query<'_>, launch: &Launch) -> Settings {
    let (architecture, asked) = (query.architecture, query.settings);
    let mut settings = asked.clone();
    let formats: Formats = architecture.formats(asked);
    let asked_for = matches!(formats.recurrent().source,
        Source::Field { path } if path.ends_with("mamba_ssm_dtype") || path.ends_with("mamba_ssm_cache_dtype"));
    if asked.state_dtype.is_none() && !asked_for {
        settings.state_dtype = Some(StateFormat::F32);
    }
    settings.conv_dtype = Some(asked.conv_dtype.unwrap_or(StateFormat::Bf16));
    settings.mamba_radix_strategy =
        asked.mamba_radix_strategy.or_else(|| classes::radix_strategy(query, launch));
    classes::resolve_latent_format(architecture, &mut settings, launch);
    settings
}

impl Profile for SgLangPlan<'_> {
    fn figure(&self, quantity: Quantity) -> Result<Option<Figure>> {
        Ok(Some(match quantity {
            Quantity::SlopeBytesPerToken => Figure::Slope(self.slope()?),
            Quantity::PoolBytesPerToken => Figure::Slope(self.pool_bytes_per_token()?),
            Quantity::FixedBytesPerRequest => Figure::Bytes(self.fixed()?),
            part if part.is_of_resident() => Figure::Bytes(self.part(part)?),
            Quantity::PoolBytes => Figure::Bytes(self.pool_bytes()?),
            Quantity::LoggedKvTokens => {
                let (tokens, ranks) = (self.tokens()?.full, self.launch.dcp);
                let all = tokens.checked_mul(ranks);
                Figure::Tokens(Tokens::new(
                    all.ok_or_else(|| Error::overflow(format!("{tokens} tokens × {ranks} ranks")))?,
                ))
            }
            Quantity::AttentionBlockSize => Figure::Tokens(Tokens::new(self.launch.page)),
            Quantity::MaxRunningRequests => Figure::Requests(self.max_running_requests()?),
            Quantity::StateBlocksPerRequest if self.has_state()? => Figure::Blocks(self.slots_per_request()),
            Quantity::RequestTableBytes => {
                let (rows, length) = (self.table_rows()?, self.query.max_model_len()?);
                Figure::Bytes(requests::table_bytes(&self.settings, &self.launch, rows, length)?)
            }
            Quantity::CheckpointBytes => {
                let state = self.charged_state()?;
                Figure::Bytes(stored_states(self.query, state, self.share().requests)?)
            }
            Quantity::OverestimateFactor => self.naive()?,
            _ => return Ok(None),
        }))
    }

    fn share(&self) -> Share {
        Share::of_groups(self.query, self.launch.attention_dp, self.launch.group)
    }

    fn layers(&self) -> Option<LayerRange> {
        Some(self.rank().layers.clone()).filter(|_| self.ranks.len() > 1)
    }

    fn split(&self) -> Split {
        self.launch.split
    }

    fn layers_holding(&self, quantity: Quantity) -> Option<u64> {
        let drafts = self.settings.draft_layers.is_some_and(|drafts| drafts > 0);
        self.state().equal_layers(quantity).filter(|_| !drafts)
    }

    fn kept_otherwise(&self, quantity: Quantity) -> Vec<String> {
        let borrows = self.state().classes().iter().any(|class| class.borrows);
        let of_layers = matches!(quantity, Quantity::KvBytes | Quantity::WindowBytes);
        let mut found = Vec::new();
        if borrows && of_layers {
            found.push("layers that use another layer's cache have room for one too".to_owned());
        }
        match quantity {
            Quantity::KvBytes if self.encoder > 0 => found.push(format!(
                "{} tokens of the encoder's output have slots before those of the text, and every layer has room for both",
                group_digits(self.encoder)
            )),
            Quantity::CrossBytes => found.push("it lies in those slots".to_owned()),
            _ => {}
        }
        if self.query.context.is_some() && self.is_short_of(quantity) {
            found.push("the pool that is set has no room for all of it".to_owned());
        }
        found
    }

    fn ranks_of_tokens(&self, quantity: Quantity) -> u64 {
        match quantity {
            Quantity::KvBytes | Quantity::WindowBytes => self.launch.dcp,
            _ => 1,
        }
    }

    fn format_of(&self, quantity: Quantity) -> Option<&'static str> {
        self.rank().state.format_of(quantity)
    }

    fn content(&self, quantity: Quantity) -> Result<Bytes> {
        self.held_content(quantity)
    }

    /// The slots of the state pool, where nothing else is state, and pages of pools.
    fn arithmetic(&self, quantity: Quantity) -> Result<Option<String>> {
        let state = self.state_bytes_per_slot()?;
        if quantity != Quantity::StateBytes || state == Bytes::ZERO {
            return match self.query.context.filter(|_| self.settings.pool_tokens.is_none()) {
                Some(n) => self.pool().worked(quantity, self.serving(n)?),
                None => Ok(None),
            };
        }
        if self.part(quantity)? != self.state_pool()? {
            return Ok(None);
        }
        let all = self.slots_of_batch()?;
        let slots = match self.fixed_slots() {
            Some(slots) if slots == all => group_digits(slots),
            _ => format!("{} × {}", self.share().requests, self.slots_per_request()),
        };
        Ok(Some(format!("({slots} + 1) slots × {} B; {}", group_digits(state.get()), self.slot_words()?)))
    }

    fn terms(&self, quantity: Quantity) -> Result<Option<String>> {
        self.slots_worked(quantity)
    }

    fn padding_of(&self) -> Option<PaddingOf> {
        let context = self.query.context.filter(|_| !self.has_pools())?;
        Some(PaddingOf { context, batch: self.query.batch })
    }

    /// Of the pools, where something sizes them, else of the batch.
    fn padding(&self) -> Result<Vec<Padding>> {
        if !self.has_pools() {
            return if self.query.context.is_some() { self.held_rows() } else { Ok(Vec::new()) };
        }
        let mut found = Vec::new();
        if self.launch_slots()?.is_some() {
            found.extend(self.padded_slot()?);
        }
        let empty = self.pool().parts(
            PoolTokens { full: 0, window: self.tokens()?.window.map(|_| 0), rings: 0 },
            &self.launch,
        )?;
        let pages = empty.kv.plus(empty.index)?.plus(empty.window)?;
        if pages > Bytes::ZERO {
            let why = "each pool has one page more, which padded batches write to".to_owned();
            let what = format!("page of {}", counted(self.launch.page, "token", "tokens"));
            found.push(Padding { what, bytes: pages, why });
        }
        Ok(found)
    }

    fn held_padding(&self) -> Result<Vec<Padding>> {
        self.held_rows()
    }

    fn fits(&self, memory: Bytes) -> Result<Option<Served>> {
        self.serves(memory).map(Some)
    }

    fn divide(&self, memory: Bytes) -> Result<Division> {
        let Some(shares) = self.shares(memory)? else {
            let what = format!("{memory} are less than the state slots of a launch take");
            return Err(Error::setting("state_slots", what));
        };
        let state_slots = shares.slots.map(|slots| slots.saturating_mul(self.launch.attention_dp));
        Ok(Division { caches: shares.caches, state_slots })
    }

    fn warn_of_memory(&self, memory: Bytes) -> Result<Option<Warning>> {
        self.states_of_memory(memory)
    }

    fn grows_from(&self) -> Result<Option<Tokens>> {
        match self.query.context.filter(|_| self.settings.pool_tokens.is_none()) {
            Some(n) => self.grows_from(n),
            None => Ok(None),
        }
    }

    fn resident_at(&self, context: Tokens) -> Option<Result<Bytes>> {
        if self.settings.pool_tokens.is_some() {
            return Some(self.pool_part_on(self.rank(), Quantity::ResidentBytes));
        }
        // Which rank holds most may change with the context.
        Some(self.ranks.iter().try_fold(Bytes::ZERO, |most, rank| {
            Ok(most.max(self.serving_part_on(rank, Quantity::ResidentBytes, context)?))
        }))
    }

    fn log_lines(&self) -> Result<Vec<String>> {
        if !self.has_pools() {
            return Ok(Vec::new());
        }
        let tokens = self.tokens()?;
        let alone = self.settings.pool_tokens.is_none() && self.ranks.len() == 1;
        let budget = self.settings.available_kv_bytes.filter(|_| alone);
        let mut lines = self.pool().log_lines(tokens, &self.settings, budget)?;
        let context = self.query.max_model_len().ok();
        if let (Ok(requests), Some(context)) = (self.max_running_requests(), context) {
            lines.push(format!(
                "max_total_num_tokens={}, chunked_prefill_size={}, max_running_requests={requests}, context_len={context}",
                tokens.full, self.launch.chunked_prefill
            ));
        }
        Ok(lines)
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.warnings.clone();
        warnings.extend(self.pool().warnings(self.query.architecture));
        warnings.extend(self.too_small());
        warnings
    }
}

/// Whether it lies in a slot of the state pool.
fn is_slot_state(kind: ComponentKind) -> bool {
    matches!(kind, ComponentKind::RecurrentState | ComponentKind::ConvState)
}
