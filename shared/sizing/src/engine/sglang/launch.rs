//! What the launch of a server decides before its pools are sized.

use super::{classes, default_length, requests};
use crate::engine::Query;
use crate::engine::gpu::{Family, Gpu};
use crate::engine::shard::Split;
use crate::settings::Settings;
use crate::warning::Warning;

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
    /// Tokens of the longest request, which a pool has slots for that keeps no bytes of them (`_zero_kv_max_tokens`).
    pub(super) context_tokens: u64,
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

impl Launch {
    pub(super) fn new(query: &Query<'_>) -> Self {
        let settings = query.settings;
        let gpu = Gpu::of(settings);
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
            page: classes::page(query.architecture, settings),
            chunked_prefill: settings.max_num_batched_tokens.unwrap_or_else(|| prefill_chunk(gpu))
                / attention_dp,
            overlap: if overlaps { Overlap::On } else { Overlap::Off },
            blackwell: gpu.is_blackwell(),
            is_sm100: gpu.family == Family::Sm100,
            requests: settings.max_running_requests.or_else(|| default_requests(query)),
            context_tokens: settings.max_model_len.unwrap_or_else(|| default_length(query.architecture)),
            caps_v4: query.engine.at_least(&[0, 5, 21]),
        }
    }
}

/// Tokens of a prefill chunk where nothing is set, by the memory of the card (`handle_gpu_memory_settings`).
fn prefill_chunk(gpu: Gpu) -> u64 {
    match gpu.gib {
        160.. => 16_384,
        60.. => 8192,
        20.. => 4096,
        _ => 2048,
    }
}

/// Says how many requests a launch admits at once where it sets the number itself, and where groups of data-parallel
/// attention cannot share the number evenly.
pub(super) fn requests_warning(query: &Query<'_>, launch: &Launch) -> Option<Warning> {
    let (requests, groups) = (launch.requests?, launch.attention_dp);
    let mut said = Vec::new();
    if query.settings.max_running_requests.is_none() {
        said.push(format!(
            "not given; this launch takes {requests}, which pools and fits count; tokens and state slots may admit fewer"
        ));
    }
    if !requests.is_multiple_of(groups) {
        let each = requests::asked(launch)?;
        said.push(format!(
            "{groups} groups of data-parallel attention admit {each} of {requests} each, {} together: SGLang rounds down, but \
             gives each at least one",
            each.saturating_mul(groups)
        ));
    }
    (!said.is_empty()).then(|| Warning::new("max_running_requests", said.join("; ")))
}

/// Drafts beside pipeline ranks start only on a server for prefills (`check_pipeline_parallel_compat`).
pub(super) fn drafts_warning(settings: &Settings) -> Option<Warning> {
    (settings.pp() > 1 && settings.draft_tokens() > 0).then(|| {
        let message =
            "with pipeline ranks SGLang drafts only on a server for prefills, or with SGLANG_ENABLE_PP_SPEC=1";
        Warning::new("num_speculative_tokens", message)
    })
}

fn default_requests(query: &Query<'_>) -> Option<u64> {
    if classes::pool_kind(query.architecture) == classes::PoolKind::V4 {
        return Some(V4_REQUESTS);
    }
    (query.settings.draft_tokens() > 0).then_some(DRAFTING_REQUESTS)
}
