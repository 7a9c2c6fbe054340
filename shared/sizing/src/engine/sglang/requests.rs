//! How many requests run at once, and the table of their token slots.

use super::launch::{Launch, Overlap};
use crate::engine::needed;
use crate::settings::{MambaRadixStrategy, Settings};
use crate::units::truncated;
use crate::{Bytes, Result};

/// Columns of the request table beyond the context.
const EXTRA_COLUMNS: u64 = 4;
/// Bytes of one token slot's number.
const SLOT_NUMBER_BYTES: u64 = 4;
/// The least and the most requests that a pool is estimated to need.
const ESTIMATE: (u64, u64) = (2048, 4096);

/// Slots that one running request takes of the state pool: its own; with a radix cache two more for states that are
/// kept; with the extra buffer those that the next states are written to (`_calculate_mamba_ratio`). The strategy's
/// default is the plan's to resolve (`classes::radix_strategy`).
pub(super) fn state_slots_per_request(settings: &Settings, launch: &Launch) -> u64 {
    if settings.radix_cache == Some(false) {
        return 1;
    }
    3 + match settings.mamba_radix_strategy {
        None | Some(MambaRadixStrategy::NoBuffer) => 0,
        Some(MambaRadixStrategy::ExtraBufferLazy) => 1,
        Some(MambaRadixStrategy::ExtraBuffer) => 1 + u64::from(launch.overlap == Overlap::On),
    }
}

/// The number of requests that the launch sets, for one group of data-parallel attention: `max(1, max_num_reqs //
/// attn_dp_size)` (`resolve_max_num_reqs`).
pub(super) fn asked(launch: &Launch) -> Option<u64> {
    launch.requests.map(|requests| (requests / launch.attention_dp).max(1))
}

/// Requests that are admitted at once: what was asked or estimated from the pool's tokens, at most half the tokens, and
/// at most what the `slots` of a model with recurrent state allow (`resolve_max_num_reqs`).
///
/// # Errors
///
/// Neither tokens nor requests are known, or the slots are not.
pub(super) fn admitted(
    settings: &Settings,
    launch: &Launch,
    capacity: Option<u64>,
    slots: Option<Result<u64>>,
    context: impl Fn() -> Result<u64>,
) -> Result<u64> {
    let by_tokens = match (asked(launch), capacity) {
        (Some(asked), Some(tokens)) => Some(asked.min(tokens / 2)),
        (Some(asked), None) => Some(asked),
        (None, Some(tokens)) => Some(estimated(tokens, context()?).min(tokens / 2)),
        (None, None) => None,
    };
    let Some(slots) = slots else {
        return by_tokens.ok_or_else(|| needed("max_running_requests or available_kv_bytes"));
    };
    let by_state = slots? / state_slots_per_request(settings, launch);
    Ok(by_tokens.map_or(by_state, |tokens| tokens.min(by_state)))
}

/// 512 requests of the longest context for every context that the pool holds, computed in floating point as the engine
/// does.
pub(super) fn estimated(tokens: u64, context: u64) -> u64 {
    truncated(tokens as f64 / context.max(1) as f64 * 512.0).clamp(ESTIMATE.0, ESTIMATE.1)
}

/// A row for every request and one for padded batches; a column for every token, four more and the drafts'. Pages and
/// drafts together need what two decode steps allocate and the rest of a page (`get_req_to_token_extra_context_len`).
pub(super) fn table_bytes(
    settings: &Settings,
    launch: &Launch,
    requests: u64,
    context: u64,
) -> Result<Bytes> {
    let drafts = settings.draft_tokens();
    let page = launch.page.saturating_mul(launch.dcp);
    let mut extra = EXTRA_COLUMNS + drafts;
    if drafts > 0 && page > 1 {
        extra = extra.max(2 * drafts + page - 1);
    }
    Bytes::new(SLOT_NUMBER_BYTES).times(requests.saturating_add(1))?.times(context.saturating_add(extra))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user's log: 40 slots, the extra buffer, 8 requests. Pipeline ranks do not overlap: `max_mamba_cache_size // 4`.
    #[test]
    fn slots_of_one_request() {
        let model =
            r#"{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 64}"#;
        let architecture = crate::read_config(model).unwrap();
        let of = |pairs: &[(&str, &str)]| {
            let mut settings = Settings::default();
            for (name, value) in pairs {
                settings.set(name, value).unwrap();
            }
            let engine = "sglang@0.5.23".parse().unwrap();
            let query = crate::engine::Query::new(&architecture, engine, &settings).unwrap();
            state_slots_per_request(&settings, &Launch::new(&query))
        };
        assert_eq!(of(&[("radix_cache", "false")]), 1);
        assert_eq!(of(&[]), 3);
        assert_eq!(of(&[("mamba_radix_strategy", "no_buffer")]), 3);
        assert_eq!(of(&[("mamba_radix_strategy", "extra_buffer_lazy")]), 4);
        assert_eq!(of(&[("mamba_radix_strategy", "extra_buffer")]), 5);
        assert_eq!(of(&[("mamba_radix_strategy", "extra_buffer"), ("async_scheduling", "false")]), 4);
        assert_eq!(of(&[("mamba_radix_strategy", "extra_buffer"), ("pp", "2")]), 4);
    }

    /// int(tokens / context × 512), between 2048 and 4096.
    #[test]
    fn requests_are_estimated_from_the_pool() {
        assert_eq!(estimated(100_000, 131_072), 2048);
        assert_eq!(estimated(1_000_000, 131_072), 3906);
        assert_eq!(estimated(10_000_000, 131_072), 4096);
    }
}
