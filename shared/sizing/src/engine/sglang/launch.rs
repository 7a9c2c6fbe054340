//! What the launch of a server decides before its pools are sized.

use super::classes;
use crate::engine::Query;

/// The GPU's memory decides how large a prefill chunk is (`arg_groups/memory_hook.py`): names of cards below 60 GiB, of
/// those above 160 GiB; every other card is in between.
const SMALL_CARDS: [&str; 9] = ["L4", "L40", "A10-", "A10G", "A40", "4090", "3090", "5090", "A100-40"];
const LARGE_CARDS: [&str; 4] = ["B200", "B300", "GB200", "GB300"];
/// Compute capability 10 and later.
const BLACKWELL: [&str; 8] = ["B100", "B200", "B300", "GB10", "RTX PRO 6000", "RTX 50", "5090", "5080"];

/// Settings of a launch with their defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    /// Ranks that share the heads of one layer: data-parallel attention gives each group all of them, and
    /// context-parallel ranks hold the same heads of different tokens.
    pub(super) attention_tp: u64,
    /// Groups of ranks with a pool of their own.
    pub(super) attention_dp: u64,
    /// Tokens of a page.
    pub(super) page: u64,
    /// Tokens of a prefill chunk.
    pub(super) chunked_prefill: u64,
    /// Whether the next batch is prepared while one runs.
    pub(super) overlap: Overlap,
    /// Whether the GPU is of compute capability 10 or later.
    pub(super) blackwell: bool,
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
        let gpu = settings.gpu.as_deref().unwrap_or("").to_ascii_uppercase();
        let is_one_of = |names: &[&str]| names.iter().any(|name| gpu.contains(name));
        let chunk = if is_one_of(&LARGE_CARDS) {
            16_384
        } else if is_one_of(&SMALL_CARDS) {
            4096
        } else {
            8192
        };
        let attention_dp = settings.dp.unwrap_or(1);
        Self {
            attention_tp: (settings.tp() / attention_dp / settings.dcp()).max(1),
            attention_dp,
            page: settings.block_size.unwrap_or_else(|| classes::default_page(query.architecture)),
            chunked_prefill: settings.max_num_batched_tokens.unwrap_or(chunk),
            overlap: if settings.async_scheduling == Some(false) { Overlap::Off } else { Overlap::On },
            blackwell: is_one_of(&BLACKWELL),
        }
    }
}
