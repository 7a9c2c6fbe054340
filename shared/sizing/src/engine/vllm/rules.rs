//! What changed between versions of vLLM, as differences from the newest.

use crate::engine::Engine;

/// The rules of one version. [`Rules::NEWEST`] is 0.33; older versions are that with the changes of
/// [`Rules::of`] undone.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one change between versions, named and independent"
)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Rules {
    /// Windows and chunks reserve for every batch in flight; else for one.
    pub(super) batches_in_flight: bool,
    /// The token line is concurrency × longest length; else blocks ÷ groups × smallest block.
    pub(super) group_aware_token_line: bool,
    /// A block of packed pages is as wide as its widest group; else it has room for one page of every size.
    pub(super) widest_packed_block: bool,
    /// The fit check leaves one block out, the one that the pool never hands out.
    pub(super) null_block_in_check: bool,
    /// Gated DeltaNet and Mamba-2 export states inside a prefill, which takes one more page in align mode.
    pub(super) prefill_checkpoints: bool,
    /// FP8 caches of 512-wide heads take 64-token blocks on SM90.
    pub(super) wide_fp8_blocks: bool,
    /// Prefix caching is on for hybrids where nothing is said.
    pub(super) hybrid_prefix_caching: bool,
    /// Nemotron-H keeps its recurrent state in f32 where the checkpoint says nothing.
    pub(super) nemotron_f32_state: bool,
    /// A state for every block (`mamba_cache_mode = all`) is gone.
    pub(super) no_all_mode: bool,
    /// Scheduling overlaps with running where nothing is said.
    pub(super) async_scheduling: bool,
    /// Model classes that this version no longer has.
    pub(super) gone_classes: &'static [(&'static str, &'static str)],
}

/// Model classes without a successor, with the last version that had them.
const GONE: &[(&str, &str)] = &[
    ("MiniMaxText01ForCausalLM", "0.32 or earlier"),
    ("MiniMaxM1ForCausalLM", "0.32 or earlier"),
    ("BambaForCausalLM", "0.23"),
    ("Plamo2ForCausalLM", "0.26"),
];

impl Rules {
    /// vLLM 0.33: `v1/core/kv_cache_planning.py`, `v1/kv_cache_interface.py`, `platforms/interface.py`, and answers of
    /// its planner.
    const NEWEST: Self = Self {
        batches_in_flight: true,
        group_aware_token_line: true,
        widest_packed_block: true,
        null_block_in_check: true,
        prefill_checkpoints: true,
        wide_fp8_blocks: true,
        hybrid_prefix_caching: true,
        nemotron_f32_state: true,
        no_all_mode: true,
        async_scheduling: true,
        gone_classes: GONE,
    };

    /// The rules of `engine`. Where reports do not say which version between two brought a change, the later one is
    /// taken: 0.28 was seen without prefill checkpoints, 0.22 with the older packing, and so on.
    pub(super) fn of(engine: &Engine) -> Self {
        let mut rules = Self::NEWEST;
        let before = |parts: &[u32]| !engine.at_least(parts);
        if before(&[0, 33]) {
            rules.widest_packed_block = false;
            rules.null_block_in_check = false;
            rules.prefill_checkpoints = false;
            rules.wide_fp8_blocks = false;
            rules.hybrid_prefix_caching = false;
            rules.no_all_mode = false;
            rules.gone_classes = &[];
        }
        // A user's need grew from 45.79 to 70.79 GiB between 0.25.1 and 0.26.
        if before(&[0, 26]) {
            rules.batches_in_flight = false;
        }
        if before(&[0, 21]) {
            rules.group_aware_token_line = false;
        }
        // Nemotron-Nano-9B-v2 ran with bf16 states in the versions of 2025.
        if before(&[0, 14]) {
            rules.nemotron_f32_state = false;
            rules.async_scheduling = false;
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_is_the_newest_with_changes_undone() {
        let of = |text: &str| Rules::of(&text.parse().unwrap());
        assert_eq!(of("vllm"), Rules::NEWEST);
        assert_eq!(of("vllm@0.33.0"), Rules::NEWEST);
        assert!(of("vllm@0.26.0").batches_in_flight && !of("vllm@0.25.1").batches_in_flight);
        assert!(of("vllm@0.21").group_aware_token_line && !of("vllm@0.20").group_aware_token_line);
        assert!(!of("vllm@0.11").nemotron_f32_state);
    }
}
