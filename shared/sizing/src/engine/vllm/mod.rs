//! vLLM's planner: pages, blocks, groups, the pool, and the lines that it prints.
//!
//! Sources: vLLM 0.33.0 (the modules named in each file here) and the answers of its planner, run on model metadata
//! without a GPU; older behaviour from user reports. [`rules`] states what changed.

mod align;
mod capacity;
mod checkpoint;
mod checks;
mod classes;
mod drafts;
mod formats;
mod group;
mod layers;
mod length;
mod lines;
mod modes;
mod own_dtype;
mod packed;
mod padding;
mod parts;
mod ranks;
mod rules;
mod runner;
mod spec;
mod storage;
mod windows;
mod worked;

use super::dtype::dtype_in;
use super::gpu::{Family, Gpu};
use super::pipeline::{LayerRange, shown_rank};
use super::share::Share;
use super::{EngineKind, Figure, Padding, PaddingOf, Profile, Quantity, Query};
use crate::architecture::Architecture;
use crate::engine::Engine;
use crate::format::StateFormat;
use crate::mixer::{Mixer, Recurrence};
use crate::settings::{MambaCacheMode, Settings};
use crate::warning::Warning;
use crate::{Bytes, BytesPerToken, Result, Tokens};
use checkpoint::Checkpoint;
use group::{Grouping, Policy};
use layers::{Blocks, LayerSet};
pub(super) use length::default_length;
use own_dtype::{LayersOf, keeps_own_dtype};
use ranks::Ranks;
use rules::{FitCheck, PackedBlock, Rules};
use spec::Flight;

/// The model and the settings, with what the engine assumes where nothing is set.
#[derive(Clone, Copy, Debug)]
struct Setup<'q> {
    architecture: &'q Architecture,
    settings: &'q Settings,
    rules: Rules,
    engine: &'q Engine,
    gpu: Gpu,
    model_dtype: StateFormat,
    cache_mode: MambaCacheMode,
    /// Whether K/V heads are in the model's dtype, whatever is set.
    own_dtype: bool,
}

impl Setup<'_> {
    /// The same for draft layers.
    fn for_drafts(&self) -> Self {
        Self { own_dtype: keeps_own_dtype(self.architecture, self.engine, LayersOf::Drafts), ..*self }
    }
}

/// What vLLM plans at start-up.
#[derive(Debug)]
pub(super) struct VllmPlan<'q> {
    settings: &'q Settings,
    rules: Rules,
    context: Option<Tokens>,
    batch: u64,
    share: Share,
    /// The longest request, where settings or config name it.
    max_model_len: Option<u64>,
    flight: Flight,
    blocks: Blocks,
    cache_mode: MambaCacheMode,
    /// Layers as they are before they are grouped, where the fit check counts those.
    in_check: Vec<LayerSet>,
    grouping: Grouping,
    ranks: Ranks,
    /// Whether any layer keeps a recurrent state.
    has_states: bool,
    /// The checkpoint that a prefill writes.
    checkpoint: Option<Checkpoint>,
    /// Why parts are kept otherwise than dense bytes have them.
    otherwise: Vec<(Quantity, String)>,
    /// How parts are stored; `None` for several formats.
    formats: Vec<(Quantity, Option<&'static str>)>,
    warnings: Vec<Warning>,
}

impl<'q> VllmPlan<'q> {
    /// Plans one query.
    ///
    /// # Errors
    ///
    /// Settings that do not fit the model (a format, ranks that do not divide heads), no longest length, an overflow.
    pub(super) fn new(query: &'q Query<'_>) -> Result<Self> {
        let (architecture, settings) = (query.architecture, query.settings);
        checks::launch(query)?;
        let rules = Rules::of(&query.engine);
        let mut warnings = Vec::new();
        let setup = Setup {
            architecture,
            settings,
            rules,
            engine: &query.engine,
            gpu: Gpu::of(settings),
            model_dtype: dtype_in(architecture, EngineKind::Vllm).format,
            cache_mode: modes::cache_mode(architecture, settings, rules, &mut warnings)?,
            own_dtype: keeps_own_dtype(architecture, &query.engine, LayersOf::Model),
        };
        warnings.extend(setup.gpu.warning(settings, "chooses back ends, blocks and batches"));
        setup.warn(&mut warnings);
        let blocks = setup.align()?;
        let policy = Policy {
            hybrid_manager: settings.hybrid_manager.unwrap_or_else(|| setup.hybrid_by_default()),
            block_outermost: setup.block_outermost(),
            rules,
        };
        let sets = setup.layer_sets(blocks)?;
        let in_check = match rules.fit_check {
            FitCheck::Layers => sets.clone(),
            _ => Vec::new(),
        };
        let grouping = group::group(sets, policy)?;
        let alignment = setup.block_alignment(blocks.attention)?;
        let ranks = Ranks::new(architecture, settings.pp(), &grouping, alignment)?;
        warnings.extend(shown_rank(ranks.layers(), ranks.block_bytes()));
        let flight = flight(query, rules, &grouping, &mut warnings);
        setup.check_layout(&grouping, flight, blocks.attention)?;
        if grouping.block != PackedBlock::Widest {
            let what = "this version prints how many requests fit by their bytes; their blocks are more, since groups are of \
                        different widths, and fewer requests fit";
            warnings.push(Warning::new("max_model_len", what));
        }
        let has_states = grouping.groups.iter().flat_map(|group| &group.sets).any(|set| set.spec.is_state());
        Ok(Self {
            settings,
            rules,
            context: query.context,
            batch: query.batch,
            share: Share { layers_on_rank: None, ..Share::of_ranks(query) },
            max_model_len: query.max_model_len().ok(),
            flight,
            blocks,
            in_check,
            cache_mode: setup.cache_mode,
            grouping,
            ranks,
            has_states,
            checkpoint: setup.checkpoint()?,
            otherwise: setup.kept_otherwise(policy),
            formats: setup.formats(),
            warnings,
        })
    }

    /// The longest request, which most figures need.
    fn longest(&self) -> Result<u64> {
        self.max_model_len.ok_or_else(|| super::needed("max_model_len"))
    }
}

impl Profile for VllmPlan<'_> {
    fn figure(&self, quantity: Quantity) -> Result<Option<Figure>> {
        let figure = match quantity {
            Quantity::SlopeBytesPerToken => Figure::Slope(self.slope()?),
            Quantity::FixedBytesPerRequest => Figure::Bytes(self.fixed()?),
            Quantity::ResidentBytes => Figure::Bytes(self.resident()?),
            part if part.is_of_resident() => Figure::Bytes(self.part(part)?),
            Quantity::UnusedWidthBytes => Figure::Bytes(self.unused_width()?),
            Quantity::NeededBytesOneRequest => Figure::Bytes(self.needed_bytes(self.longest()?)?),
            Quantity::MaxConcurrency => Figure::Ratio(self.max_concurrency(self.longest()?)?),
            Quantity::LoggedKvTokens => Figure::Tokens(Tokens::new(self.logged_tokens(self.longest()?)?)),
            Quantity::EstimatedMaxModelLen => {
                Figure::Tokens(Tokens::new(self.longest_length(self.longest()?)?))
            }
            Quantity::NumBlocks => Figure::Blocks(self.num_blocks()?),
            Quantity::AttentionBlockSize => Figure::Tokens(Tokens::new(self.blocks.attention)),
            Quantity::PaddingFraction => Figure::Ratio(self.padding_fraction()),
            Quantity::StateBlocksPerRequest => Figure::Blocks(self.state_blocks()?),
            _ => return Ok(None),
        };
        Ok(Some(figure))
    }

    fn share(&self) -> Share {
        self.share
    }

    fn layers(&self) -> Option<LayerRange> {
        self.ranks.shown()
    }

    fn has_drafts(&self) -> bool {
        self.ranks.shown_has_drafts()
    }

    fn kept_otherwise(&self, quantity: Quantity) -> Vec<String> {
        let own = self.otherwise.iter().filter(|(part, _)| *part == quantity);
        own.map(|(_, why)| why.clone()).collect()
    }

    fn ranks_of_tokens(&self, quantity: Quantity) -> u64 {
        match quantity {
            Quantity::KvBytes | Quantity::IndexBytes => self.flight.dcp,
            _ => 1,
        }
    }

    fn content(&self, quantity: Quantity) -> Result<Bytes> {
        self.content_of(quantity)
    }

    fn arithmetic(&self, quantity: Quantity) -> Result<Option<String>> {
        self.block_arithmetic(quantity)
    }

    fn terms(&self, quantity: Quantity) -> Result<Option<String>> {
        self.page_terms(quantity)
    }

    /// One request of the longest length; the null block is of the pool.
    fn padding_of(&self) -> Option<PaddingOf> {
        self.max_model_len.map(|length| PaddingOf { context: Tokens::new(length), batch: 1 })
    }

    fn padding(&self) -> Result<Vec<Padding>> {
        self.max_model_len.map_or_else(|| Ok(Vec::new()), |length| self.padding_rows(length))
    }

    fn held_padding(&self) -> Result<Vec<Padding>> {
        self.context.map_or_else(|| Ok(Vec::new()), |context| self.held_rows(context.get()))
    }

    fn resident_at(&self, context: Tokens) -> Option<Result<Bytes>> {
        Some(self.held_bytes(context.get()).and_then(|bytes| bytes.times(self.batch)))
    }

    fn decoding(&self) -> Result<Option<Bytes>> {
        self.context.map(|context| self.decoding(context.get())).transpose()
    }

    /// The block that is never handed out: every version's pool has it, whether the start-up check counts it or not
    /// (`block_pool.py`: `null_block = free_block_queue.popleft()`).
    fn pool_overhead(&self) -> Result<Bytes> {
        Ok(Bytes::new(self.widest_block()))
    }

    fn overhead_words(&self) -> &'static str {
        "a null block that is never handed out"
    }

    fn format_of(&self, quantity: Quantity) -> Option<&'static str> {
        self.formats.iter().find(|(known, _)| *known == quantity).and_then(|(_, format)| *format)
    }

    fn block(&self) -> Option<Bytes> {
        Some(Bytes::new(self.widest_block())).filter(|block| *block > Bytes::ZERO)
    }

    fn block_worked(&self) -> Result<Option<String>> {
        self.block_words()
    }

    fn unused_width_worked(&self) -> Result<Option<String>> {
        self.unused_width_words()
    }

    fn log_lines(&self) -> Result<Vec<String>> {
        self.lines()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.warnings.iter().cloned().chain(self.refusal_warning()).collect()
    }
}

impl Setup<'_> {
    /// Whether pages of several sizes lie side by side in one block: the layout of DeepSeek-V4 and of pooled indexers.
    fn block_outermost(&self) -> bool {
        self.architecture.mixers().any(|mixer| match mixer {
            Mixer::Compressed(_) | Mixer::IndexedFull(..) => true,
            Mixer::Dsa { index: Some(keys), .. } => keys.pool.get() > 1,
            _ => false,
        })
    }

    /// Whether windows and chunks keep only their tokens where nothing is said: chunks beside draft layers do not
    /// (`VllmConfig.__post_init__`).
    fn hybrid_by_default(&self) -> bool {
        let drafts = self.settings.draft_layers.is_some_and(|drafts| drafts > 0);
        !self.has_chunks() || (self.rules.chunks_apart && !drafts)
    }

    fn has_chunks(&self) -> bool {
        let mut mixers = self.architecture.mixers();
        mixers.any(|mixer| matches!(mixer, Mixer::Chunked { .. }))
    }

    fn warn(&self, warnings: &mut Vec<Warning>) {
        warnings.extend(self.class_warnings());
        warnings.extend(self.window_warning());
        warnings.extend(self.own_dtype_warning());
        if self.engine.at_least(&[0, 20, 1]) && !self.engine.at_least(&[0, 20, 2]) {
            let what = "0.20.0 prints the tokens of the pool by its groups and 0.20.2 by its requests; which of them 0.20.1 \
                        prints is not known, and the former is taken";
            warnings.push(Warning::new("engine", what));
        }
        if self.settings.max_model_len.is_none() {
            warnings.extend(length::warning(self.architecture, self.engine));
        }
        warnings.extend(self.format_warnings());
        if self.architecture.model_type() == Some("zaya") {
            let what = "no release of vLLM up to 0.33 has this class; the figures follow the pull request that adds it";
            warnings.push(Warning::new("model_type", what));
        }
        let has_delta = |mixer: &Mixer| matches!(mixer, Mixer::Recurrent(kept) if matches!(kept.recurrence, Recurrence::GatedDeltaNet { .. }));
        let asks = self.settings.state_dtype.is_some() || self.architecture.recurrent_dtype().is_some();
        if !self.rules.delta_state_apart && asks && self.mixers().any(has_delta) {
            let what = "this version of vLLM keeps gated DeltaNet's state in the convolution's format (conv_dtype, else the \
                        model's dtype), whatever is asked for it";
            warnings.push(Warning::new("state_dtype", what));
        }
        if self.replicates() {
            let what = "vLLM gives every rank all heads of this class; its alignment of pages to divided heads was not \
                        checked against an answer of its planner";
            warnings.push(Warning::new("tp", what));
        }
        if self.convolutions_are_windows() {
            let what = "vLLM's pages for these convolutions follow its source (0.26 and later) and were not checked \
                        against an answer of its planner";
            warnings.push(Warning::new("engine", what));
        }
        if self.settings.draft_tokens() > 0 && self.settings.draft_layers.is_none() {
            let what = "drafting is on, but not how many layers of this model's own it adds; none are counted (set draft_layers)";
            warnings.push(Warning::new("draft_layers", what));
        }
        let mixers = || self.architecture.mixers();
        if self.settings.hybrid_manager.is_none() && self.has_chunks() {
            let what = if self.hybrid_by_default() {
                "not given; vLLM keeps chunked layers to their chunk unless \
                 VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=0, and then every layer keeps all tokens \
                 (hybrid_manager=false)"
            } else {
                "not given; this version turns it off for chunked layers, or beside drafts, so every layer keeps all tokens"
            };
            warnings.push(Warning::new("hybrid_manager", what));
        }
        if mixers().any(|mixer| matches!(mixer, Mixer::IndexedFull(..)))
            || mixers().any(|mixer| matches!(mixer, Mixer::Compressed(attention) if attention.generation == crate::mixer::Generation::V41))
        {
            warnings.push(Warning::new("engine", "vLLM's pages for this mixer were not checked against an answer of its planner"));
        }
    }
}

/// A server's defaults by its GPU (vLLM 0.33, `EngineArgs.get_batch_defaults`).
struct BatchDefaults {
    tokens: u64,
    sequences: u64,
}

impl BatchDefaults {
    fn of(settings: &Settings, engine: &Engine) -> Self {
        let (gpu, rules) = (Gpu::of(settings), Rules::of(engine));
        // Of the slow ones GB10 alone is a Blackwell for workstations.
        let is_slow = gpu.slow && (rules.small_batches_on_gb10 || gpu.family != Family::Sm120);
        match gpu.gib {
            160.. if rules.large_batches => Self { tokens: 16_384, sequences: 1024 },
            70.. if !is_slow => Self { tokens: 8192, sequences: 1024 },
            _ => Self { tokens: 2048, sequences: 256 },
        }
    }
}

/// `max_num_seqs` of the server where nothing is set, no more than the tokens of a batch
/// (`_set_default_max_num_seqs_and_batched_tokens_args`).
pub(super) fn default_sequences(settings: &Settings, engine: &Engine) -> u64 {
    let defaults = BatchDefaults::of(settings, engine);
    defaults.sequences.min(settings.max_num_batched_tokens.unwrap_or(defaults.tokens))
}

/// `max_num_batched_tokens` of the server where nothing is set. A decoder with an encoder has its prefill in one piece, so its
/// longest request fits (`_set_default_max_num_seqs_and_batched_tokens_args`).
fn default_batched_tokens(architecture: &Architecture, engine: &Engine, settings: &Settings) -> u64 {
    let by_gpu = BatchDefaults::of(settings, engine).tokens;
    if architecture.encoder_layers().is_none() {
        return by_gpu;
    }
    by_gpu.max(settings.max_model_len.unwrap_or_else(|| default_length(architecture, engine).tokens))
}

/// Tokens in flight: a batch for each that may be scheduled and not yet settled.
fn flight(query: &Query<'_>, rules: Rules, grouping: &Grouping, warnings: &mut Vec<Warning>) -> Flight {
    let settings = query.settings;
    let by_default = || default_batched_tokens(query.architecture, &query.engine, settings);
    let batch_tokens = settings.max_num_batched_tokens.unwrap_or_else(by_default);
    let matters = grouping
        .groups
        .iter()
        .flat_map(|group| &group.sets)
        .any(|set| !set.spec.keeps_every_token() && !set.spec.is_state());
    if matters && settings.max_num_batched_tokens.is_none() {
        let what = format!("not given; {batch_tokens} is the server's default on this GPU");
        warnings.push(Warning::new("max_num_batched_tokens", what));
    }
    let overlapping = settings.async_scheduling.unwrap_or(rules.async_scheduling);
    let pp = settings.pp();
    // The older runner overlaps no pipeline (`VllmConfig.max_concurrent_batches`).
    let overlaps =
        overlapping && (pp == 1 || rules.newer_runner || runner::is_newer(query.architecture, &query.engine));
    let batches = if rules.batches_in_flight { pp + u64::from(overlaps) } else { 1 };
    Flight { tokens: batch_tokens.saturating_mul(batches), batches, batch_tokens, dcp: settings.dcp() }
}

/// The settings with as many tokens of an encoder's output as vLLM reserves, which asks nobody for their number; none where they
/// say it, or the config does, or nothing reads such output.
pub(super) fn with_encoder_tokens(
    architecture: &Architecture,
    engine: &Engine,
    settings: &Settings,
) -> Option<Settings> {
    let mut mixers = architecture.mixers();
    let is_open = mixers.any(|mixer| matches!(mixer, Mixer::Cross { encoder_tokens: None, .. }));
    if engine.kind() != EngineKind::Vllm || settings.encoder_tokens.is_some() || !is_open {
        return None;
    }
    let by_default = || default_batched_tokens(architecture, engine, settings);
    let batch = settings.max_num_batched_tokens.unwrap_or_else(by_default);
    Some(Settings { encoder_tokens: Some(batch), ..settings.clone() })
}

/// Groups of layers that vLLM makes of a query's model.
///
/// # Errors
///
/// Settings that do not fit the model.
pub(crate) fn groups_of_layers(query: &Query<'_>) -> Result<usize> {
    Ok(VllmPlan::new(query)?.grouping.groups.len())
}

/// Whether the token line of `engine`, a version of vLLM, is what the pool holds in requests of the longest length.
pub(crate) fn prints_capacity_in_tokens(engine: &super::Engine) -> bool {
    Rules::of(engine).group_aware_token_line
}

/// Bytes for each token of a block.
fn per_token(bytes: u64, tokens: u64) -> Result<BytesPerToken> {
    BytesPerToken::new(Bytes::new(bytes), tokens)
}
