//! What the launch of a server decides before its pools are sized.

use super::classes;
use crate::engine::Query;
use crate::engine::shard::Split;
use crate::settings::Settings;
use crate::warning::Warning;
use crate::{Error, Result};

/// The GPU's memory decides how large a prefill chunk is (`arg_groups/memory_hook.py`): names of cards below 20 GiB, of
/// those below 60 GiB (the driver names a 40 GB card `A100-SXM4-40GB`), of those above 160 GiB; others are in between.
const SMALLEST_CARDS: [&str; 6] = ["5080", "5070", "4080", "4070", "3080", "T4"];
const SMALL_CARDS: [&str; 11] =
    ["L4", "L40", "L20", "A10-", "A10G", "A40", "4090", "3090", "5090", "A100-40", "40GB"];
const LARGE_CARDS: [&str; 5] = ["B100", "B200", "B300", "GB200", "GB300"];
/// Compute capability 10 and later.
const BLACKWELL: [&str; 8] = ["B100", "B200", "B300", "GB10", "RTX PRO 6000", "RTX 50", "5090", "5080"];
/// Cards that are in none of those lists: between 60 and 160 GiB, before compute capability 10.
const MIDDLE_CARDS: [&str; 8] = ["H100", "H200", "H800", "H20", "GH200", "A100", "A800", "GB10"];
/// Of the Blackwell cards, compute capability 10 itself.
const SM100: [&str; 3] = ["B100", "B200", "B300"];

/// Requests that a launch admits where nothing is set: DeepSeek-V4 (`deepseek_v4_hook.py`) and drafting
/// (`speculative_hook.py`) set a number, every other launch leaves it to the pools.
const V4_REQUESTS: u64 = 256;
const DRAFTING_REQUESTS: u64 = 48;

/// Settings of a launch with their defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    /// How ranks share the heads of one layer: data-parallel attention gives each group all of them, and
    /// context-parallel ranks hold the same K/V heads of different tokens.
    pub(super) split: Split,
    /// Context-parallel ranks that the pool's tokens are spread over: none where windows have a pool of their own
    /// (`logical_token_capacity`).
    pub(super) dcp: u64,
    /// Groups of ranks with a pool of their own.
    pub(super) attention_dp: u64,
    /// Ranks of a group.
    pub(super) group: u64,
    /// Tokens of a page.
    pub(super) page: u64,
    /// Tokens of a prefill chunk of one group.
    pub(super) chunked_prefill: u64,
    /// Whether the next batch is prepared while one runs; pipeline ranks do not.
    pub(super) overlap: Overlap,
    /// Whether the GPU is of compute capability 10 or later.
    pub(super) blackwell: bool,
    /// Whether the GPU is of compute capability 10.
    pub(super) is_sm100: bool,
    /// Requests of all groups, where they are set.
    pub(super) requests: Option<u64>,
    /// Whether this version can size DeepSeek-V4's window pool by its requests (0.5.21 and later).
    pub(super) caps_v4: bool,
}

/// Whether scheduling overlaps with running.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Overlap {
    /// Two batches are in flight.
    On,
    /// One batch at a time.
    Off,
}

/// Says which card is taken where none is given, or one that no rule knows.
pub(super) fn gpu_warning(settings: &Settings) -> Option<Warning> {
    let Some(gpu) = settings.gpu.as_deref() else {
        let message = "not given; an H100 is assumed, which decides record layouts and prefill chunks";
        return Some(Warning::new("gpu", message));
    };
    let name = gpu.to_ascii_uppercase();
    let lists: [&[&str]; 5] = [&SMALLEST_CARDS, &SMALL_CARDS, &LARGE_CARDS, &MIDDLE_CARDS, &BLACKWELL];
    let known = lists.into_iter().flatten().any(|part| name.contains(part));
    (!known).then(|| Warning::new("gpu", format!("no rule knows {gpu:?}; the figures are those of an H100")))
}

/// Refuses ranks that cannot be: groups of data-parallel attention and context-parallel ranks are parts of the
/// tensor-parallel ones (`handle_data_parallelism`, `initialize_model_parallel`).
///
/// # Errors
///
/// The setting that does not fit.
pub(super) fn check_ranks(settings: &Settings) -> Result<()> {
    let (tp, dcp, groups) = (settings.tp(), settings.dcp(), settings.dp.unwrap_or(1));
    if !tp.is_multiple_of(groups) {
        let what = format!(
            "{groups} groups of data-parallel attention must divide the {tp} tensor-parallel ranks, which they share out; \
             SGLang refuses this"
        );
        return Err(Error::setting("dp", what));
    }
    if !tp.is_multiple_of(dcp) {
        let what = format!(
            "{dcp} context-parallel ranks must divide the {tp} tensor-parallel ones, whose ranks they are; SGLang refuses \
             this"
        );
        return Err(Error::setting("dcp", what));
    }
    let group = tp / groups;
    if group.is_multiple_of(dcp) {
        return Ok(());
    }
    // SGLang divides K/V heads by `attn_tp // dcp` (`get_num_kv_heads`), and has no rule where that is nothing.
    let what = format!(
        "{dcp} context-parallel ranks hold the tokens of one request, but a group of data-parallel attention has {}; no rule \
         says how several groups share them",
        crate::state::counted(group, "rank", "ranks")
    );
    Err(Error::setting("dcp", what))
}

impl Launch {
    pub(super) fn new(query: &Query<'_>) -> Self {
        let settings = query.settings;
        let gpu = settings.gpu.as_deref().unwrap_or("").to_ascii_uppercase();
        let is_one_of = |names: &[&str]| names.iter().any(|name| gpu.contains(name));
        let chunk = if is_one_of(&LARGE_CARDS) {
            16_384
        } else if is_one_of(&SMALLEST_CARDS) {
            2048
        } else if is_one_of(&SMALL_CARDS) {
            4096
        } else {
            8192
        };
        let attention_dp = settings.dp.unwrap_or(1);
        let group = settings.tp() / attention_dp;
        let uniform = classes::pool_kind(query.architecture) == classes::PoolKind::Uniform;
        let dcp = if uniform { settings.dcp() } else { 1 };
        let overlaps = settings.async_scheduling != Some(false) && settings.pp() == 1;
        Self {
            split: Split { recurrent_tp: group, ..Split::even(group / dcp) },
            dcp,
            attention_dp,
            group,
            page: settings.block_size.unwrap_or_else(|| classes::default_page(query.architecture)),
            chunked_prefill: settings.max_num_batched_tokens.unwrap_or(chunk) / attention_dp,
            overlap: if overlaps { Overlap::On } else { Overlap::Off },
            blackwell: is_one_of(&BLACKWELL),
            is_sm100: is_one_of(&SM100),
            requests: settings.max_running_requests.or_else(|| default_requests(query)),
            caps_v4: query.engine.at_least(&[0, 5, 21]),
        }
    }
}

/// Says how many requests a launch admits at once where it sets the number itself.
pub(super) fn requests_warning(query: &Query<'_>) -> Option<Warning> {
    let requests = default_requests(query).filter(|_| query.settings.max_running_requests.is_none())?;
    let message =
        format!("not given; this launch admits {requests} requests at once, which pools and fits count");
    Some(Warning::new("max_running_requests", message))
}

fn default_requests(query: &Query<'_>) -> Option<u64> {
    if classes::pool_kind(query.architecture) == classes::PoolKind::V4 {
        return Some(V4_REQUESTS);
    }
    (query.settings.draft_tokens() > 0).then_some(DRAFTING_REQUESTS)
}
