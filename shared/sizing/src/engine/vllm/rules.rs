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
    /// How wide a block of packed pages is, and how wide the fit check takes it to be.
    pub(super) packed_block: PackedBlock,
    pub(super) packed_block_in_check: PackedBlock,
    /// The fit check leaves one block out, the one that the pool never hands out.
    pub(super) null_block_in_check: bool,
    /// Gated DeltaNet exports states inside a prefill, which takes one more page in align mode.
    pub(super) gdn_checkpoints: bool,
    /// The same for Mamba-2.
    pub(super) mamba2_checkpoints: bool,
    /// The same for KDA with a bounded gate.
    pub(super) kda_checkpoints: bool,
    /// Drafts of several modules keep their re-read tokens of a window.
    pub(super) retained_tokens: bool,
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
    /// Blocks of hybrids are multiples of what kernels read; else of numbers that the models' configs set.
    pub(super) aligned_by_kernels: bool,
    /// Chunked layers keep only their chunk where nothing is said
    /// (`VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE` is 1).
    pub(super) chunks_apart: bool,
    /// Blocks of hybrids with latents are multiples of 128 tokens.
    pub(super) latents_of_128: bool,
    /// Prefixes of classes that can have a state for every block keep one (mode all); else all keep the last (mode align).
    pub(super) all_for_prefixes: bool,
    /// The same, but not beside drafts.
    pub(super) drafts_without_all: bool,
    /// There is the mode align; else prefixes of the other classes are not kept.
    pub(super) has_align: bool,
    /// `YaRN` leaves the longest length as the config states it; else it stretches it.
    pub(super) yarn_unscaled: bool,
    /// The longest length of `LongRoPE` is the one that the model was trained on first.
    pub(super) longrope_unscaled: bool,
    /// Kinds of layers share a group size where the most frequent has less than this many times the layers of the rarest.
    pub(super) close_groups: (u64, u64),
    /// DeepSeek-V3.2 keeps the scaled row of 656 B where no format is set.
    pub(super) scaled_rows_by_default: bool,
    /// Where the FP8 flag means that row for sparse latents.
    pub(super) scaled_rows: ScaledRows,
    /// Classes of GLM-5 keep FP8 latents on `SM10x` where no format is set.
    pub(super) glm_fp8_on_sm100: bool,
    /// Tokens of a block of latents that `SM10x` forces before blocks followed what kernels read.
    pub(super) forced_sm100_block: u64,
    /// Prefixes of hybrids can be kept at all.
    pub(super) hybrid_prefixes: bool,
    /// Drafts take state blocks of their own, and so they do with a state for every block.
    pub(super) drafts_of_states: bool,
    pub(super) drafts_of_all_states: bool,
    /// What a checkpoint says of its state's format is read.
    pub(super) checkpoint_states: bool,
    /// GPUs of 160 GiB and more have batches of 16,384 tokens.
    pub(super) large_batches: bool,
    /// GB10 has small batches in spite of its memory.
    pub(super) small_batches_on_gb10: bool,
    /// Gated `DeltaNet` has a format for its state apart from the convolution's.
    pub(super) delta_state_apart: bool,
    /// V of heads is as wide as the model says; else as wide as K, but in openPangu since 0.14.
    pub(super) values_as_wide_as_stated: bool,
    pub(super) pangu_values_as_stated: bool,
    /// A pipeline's batches overlap with scheduling in every class; else where the newer model runner is the default.
    pub(super) newer_runner: bool,
    /// What the fit check counts.
    pub(super) fit_check: FitCheck,
    /// Tokens and concurrency are printed in one line; else in two.
    pub(super) one_capacity_line: bool,
    /// What becomes of pages of several sizes.
    pub(super) unequal_pages: UnequalPages,
    /// Where context-parallel ranks cannot share the tokens of several groups.
    pub(super) unshared_groups: UnsharedGroups,
    /// Where FP4 heads are read.
    pub(super) nvfp4_heads: Nvfp4Heads,
    /// A batch must have room for a block where prefixes keep the last state (`validate_block_size`).
    pub(super) block_in_batch: bool,
    /// Sparse latents have a record of FP4.
    pub(super) sparse_nvfp4: bool,
    /// The only blocks that can be set (`BlockSize` of `config/cache.py`); none for any.
    pub(super) blocks: &'static [u64],
}

/// What the start-up check counts of a request of the longest length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FitCheck {
    /// The blocks of every group, which it holds (`_max_memory_usage_bytes_from_groups`).
    Groups,
    /// Those of the group of the first layer alone, and so too little where there are several.
    FirstGroup,
    /// The same, each block as wide as in the whole model whatever a pipeline rank has of it.
    FirstGroupOfModel,
    /// Every layer by itself, without the padding of groups (`max_memory_usage_bytes` of the layers).
    Layers,
}

/// How wide a block is in which pages of several sizes lie side by side.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum PackedBlock {
    /// A page of every size of the growing caches, as often as any group has layers of one size (`layer_tuple_page_bytes` ×
    /// `num_layer_tuples`).
    EverySize,
    /// Pages of each size, as many as the group has that has most layers of it (`_bucket_layers_by_page_size`).
    MostOfEachSize,
    /// As wide as the widest group (`_get_packed_kv_cache_layout`).
    #[default]
    Widest,
}

/// GPUs on which the FP8 flag means the scaled row for sparse latents: those where `FlashMLA` reads them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ScaledRows {
    /// All but `SM10x`.
    OffSm100,
    /// And `SM10x` where a rank has more query heads than these (`_get_backend_priorities` of `platforms/cuda.py`).
    OnSm100Above(u64),
    /// All.
    Everywhere,
}

/// Several groups whose tokens context-parallel ranks cannot share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum UnsharedGroups {
    /// Those of which prefixes are kept (`HybridKVCacheCoordinator`).
    WithPrefixes,
    /// All (`resolve_kv_cache_block_sizes` of `v1/core/kv_cache_utils.py`).
    All,
    None,
}

/// GPUs on which a back end reads K/V heads in FP4.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Nvfp4Heads {
    /// The flag is there, and every launch with it ends.
    Nowhere,
    /// `SM10x`.
    OnSm100,
    /// And the others, but for heads of 64 values and for context-parallel ranks.
    Everywhere,
}

/// What becomes of pages of several sizes (`unify_kv_cache_spec_page_size`), each with what those before it do.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
pub(super) enum UnequalPages {
    /// A launch is refused.
    Refused,
    /// Pages that divide the largest have larger blocks.
    LargerBlocks,
    /// Other pages of K/V heads are padded.
    PaddedHeads,
    /// And those of states.
    PaddedStates,
    /// Beside latents whose pages can have neither, windows are kept like full attention.
    WholeWindows,
}

impl Rules {
    /// vLLM 0.33: `v1/core/kv_cache_planning.py`, `v1/kv_cache_interface.py`, `platforms/interface.py`, and answers of
    /// its planner.
    const NEWEST: Self = Self {
        batches_in_flight: true,
        group_aware_token_line: true,
        packed_block: PackedBlock::Widest,
        packed_block_in_check: PackedBlock::Widest,
        null_block_in_check: true,
        gdn_checkpoints: true,
        mamba2_checkpoints: true,
        kda_checkpoints: true,
        retained_tokens: true,
        wide_fp8_blocks: true,
        hybrid_prefix_caching: true,
        nemotron_f32_state: true,
        no_all_mode: true,
        async_scheduling: true,
        chunks_apart: true,
        aligned_by_kernels: true,
        latents_of_128: true,
        all_for_prefixes: false,
        drafts_without_all: false,
        has_align: true,
        yarn_unscaled: true,
        longrope_unscaled: true,
        close_groups: (3, 2),
        scaled_rows_by_default: false,
        scaled_rows: ScaledRows::OffSm100,
        glm_fp8_on_sm100: true,
        forced_sm100_block: 64,
        hybrid_prefixes: true,
        drafts_of_states: true,
        drafts_of_all_states: true,
        checkpoint_states: true,
        large_batches: true,
        small_batches_on_gb10: true,
        delta_state_apart: true,
        values_as_wide_as_stated: true,
        pangu_values_as_stated: true,
        newer_runner: true,
        fit_check: FitCheck::Groups,
        one_capacity_line: true,
        unequal_pages: UnequalPages::WholeWindows,
        unshared_groups: UnsharedGroups::None,
        nvfp4_heads: Nvfp4Heads::Everywhere,
        block_in_batch: false,
        sparse_nvfp4: true,
        blocks: &[],
    };

    /// The rules of `engine`: what each release was seen to bring, undone for those before it.
    ///
    /// Source: the Python sources of the releases 0.11 to 0.33 (`v1/core/kv_cache_utils.py`, `v1/kv_cache_interface.py`,
    /// `config/model.py`, `config/cache.py`, the layers named in each place).
    pub(super) fn of(engine: &Engine) -> Self {
        let mut rules = Self::NEWEST;
        let before = |parts: &[u32]| !engine.at_least(parts);
        if before(&[0, 33]) {
            rules.gdn_checkpoints = false;
            rules.small_batches_on_gb10 = false;
        }
        if before(&[0, 32]) {
            rules.mamba2_checkpoints = false;
            rules.no_all_mode = false;
            rules.glm_fp8_on_sm100 = false;
            rules.nvfp4_heads = Nvfp4Heads::OnSm100;
        }
        if before(&[0, 31]) {
            rules.wide_fp8_blocks = false;
        }
        if before(&[0, 30]) {
            rules.sparse_nvfp4 = false;
            rules.yarn_unscaled = false;
        }
        if before(&[0, 29]) {
            rules.newer_runner = false;
            rules.kda_checkpoints = false;
            rules.null_block_in_check = false;
            rules.packed_block_in_check = PackedBlock::EverySize;
        }
        if before(&[0, 28]) {
            rules.retained_tokens = false;
            rules.hybrid_prefix_caching = false;
            rules.all_for_prefixes = true;
            rules.large_batches = false;
            rules.one_capacity_line = false;
        }
        if before(&[0, 27]) {
            rules.latents_of_128 = false;
            rules.packed_block = PackedBlock::MostOfEachSize;
            rules.unequal_pages = UnequalPages::PaddedStates;
            rules.block_in_batch = true;
        }
        // A user's need grew from 45.79 to 70.79 GiB between 0.25.1 and 0.26.
        if before(&[0, 26]) {
            rules.batches_in_flight = false;
            rules.unequal_pages = UnequalPages::PaddedHeads;
            rules.unshared_groups = UnsharedGroups::All;
        }
        if before(&[0, 24]) {
            rules.unequal_pages = UnequalPages::LargerBlocks;
        }
        // 0.20.0 raises; 0.21 has no wheel and its kernels were not read.
        if before(&[0, 21]) {
            rules.nvfp4_heads = Nvfp4Heads::Nowhere;
        }
        if before(&[0, 23]) {
            rules.packed_block = PackedBlock::EverySize;
        }
        if before(&[0, 22]) {
            rules.drafts_of_all_states = false;
        }
        if before(&[0, 19]) {
            rules.scaled_rows = ScaledRows::OnSm100Above(16);
            rules.fit_check = FitCheck::FirstGroup;
        }
        if before(&[0, 18]) {
            rules.close_groups = (5, 4);
            rules.scaled_rows = ScaledRows::Everywhere;
            rules.blocks = &[1, 8, 16, 32, 64, 128, 256];
        }
        if before(&[0, 17]) {
            rules.block_in_batch = false;
            rules.fit_check = FitCheck::FirstGroupOfModel;
            rules.delta_state_apart = false;
        }
        rules.drafts_without_all = before(&[0, 22]) && !before(&[0, 20]);
        // 0.20.0 prints the older line and 0.20.2 the newer one; 0.20 alone stands for its first release.
        let patched = engine.at_least(&[0, 20, 2]) && before(&[0, 20, u32::MAX]);
        if before(&[0, 21]) && !patched {
            rules.group_aware_token_line = false;
        }
        if before(&[0, 20]) {
            rules.nemotron_f32_state = false;
            rules.unshared_groups = UnsharedGroups::WithPrefixes;
            rules.values_as_wide_as_stated = false;
            // Users' logs of 0.19 have the line from `config.py`, those of 0.20 from `interface.py`.
            rules.aligned_by_kernels = false;
        }
        if before(&[0, 15]) {
            rules.has_align = false;
            rules.drafts_of_states = false;
        }
        if before(&[0, 12]) {
            rules.unequal_pages = UnequalPages::Refused;
            rules.close_groups = (1, 1);
        }
        if before(&[0, 11, 1]) {
            rules.blocks = &[1, 8, 16, 32, 64, 128];
            rules.longrope_unscaled = false;
            rules.scaled_rows_by_default = true;
            rules.forced_sm100_block = 128;
            rules.hybrid_prefixes = false;
        }
        if before(&[0, 14]) {
            rules.fit_check = FitCheck::Layers;
            rules.pangu_values_as_stated = false;
            rules.checkpoint_states = false;
            rules.async_scheduling = false;
            rules.chunks_apart = false;
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
        assert!(of("vllm@0.28").hybrid_prefix_caching && !of("vllm@0.27.1").hybrid_prefix_caching);
        assert!(!of("vllm@0.28").all_for_prefixes && of("vllm@0.27").all_for_prefixes);
        let checks =
            ["0.13", "0.14", "0.16", "0.17", "0.18.1", "0.19"].map(|version| of(&format!("vllm@{version}")));
        assert_eq!(
            checks.map(|rules| rules.fit_check),
            [
                FitCheck::Layers,
                FitCheck::FirstGroupOfModel,
                FitCheck::FirstGroupOfModel,
                FitCheck::FirstGroup,
                FitCheck::FirstGroup,
                FitCheck::Groups
            ]
        );
        let without = ["0.19.1", "0.20", "0.21", "0.22"].map(|version| of(&format!("vllm@{version}")));
        assert_eq!(without.map(|rules| rules.drafts_without_all), [false, true, true, false]);
        assert!(of("vllm@0.27").latents_of_128 && !of("vllm@0.26").latents_of_128);
        assert!(of("vllm@0.15").has_align && !of("vllm@0.14").has_align);
        assert!(of("vllm@0.30").yarn_unscaled && !of("vllm@0.29").yarn_unscaled);
        assert!(of("vllm@0.11.1").longrope_unscaled && !of("vllm@0.11.0").longrope_unscaled);
        assert!(of("vllm@0.21").group_aware_token_line && !of("vllm@0.20").group_aware_token_line);
        assert!(of("vllm@0.20.2").group_aware_token_line && !of("vllm@0.20.0").group_aware_token_line);
        assert!(of("vllm@0.29").null_block_in_check && !of("vllm@0.28").null_block_in_check);
        let packed =
            ["0.22", "0.23", "0.26", "0.27", "0.28", "0.29"].map(|version| of(&format!("vllm@{version}")));
        let (every, most, widest) =
            (PackedBlock::EverySize, PackedBlock::MostOfEachSize, PackedBlock::Widest);
        assert_eq!(packed.map(|rules| rules.packed_block), [every, most, most, widest, widest, widest]);
        assert_eq!(
            packed.map(|rules| rules.packed_block_in_check),
            [every, every, every, every, every, widest]
        );
        assert!(of("vllm@0.32").mamba2_checkpoints && !of("vllm@0.31").mamba2_checkpoints);
        assert!(of("vllm@0.32").no_all_mode && !of("vllm@0.31").no_all_mode);
        assert!(!of("vllm@0.32").gdn_checkpoints);
        assert!(of("vllm@0.31").wide_fp8_blocks && !of("vllm@0.30").wide_fp8_blocks);
        assert!(of("vllm@0.29").kda_checkpoints && !of("vllm@0.28").kda_checkpoints);
        assert!(of("vllm@0.28").retained_tokens && !of("vllm@0.27.1").retained_tokens);
        assert!(of("vllm@0.14").async_scheduling && !of("vllm@0.13").async_scheduling);
        assert!(of("vllm@0.14").chunks_apart && !of("vllm@0.13").chunks_apart);
        assert!(of("vllm@0.20").aligned_by_kernels && !of("vllm@0.19").aligned_by_kernels);
        assert!(of("vllm@0.20").nemotron_f32_state && !of("vllm@0.19").nemotron_f32_state);
    }
}
