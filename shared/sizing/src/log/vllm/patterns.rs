//! Figures of vLLM's lines, each between two fixed texts.

use crate::log::printed::Unit;
use crate::log::topic::{Pattern, Topic};

pub(super) const PATTERNS: &[Pattern] = &[
    Pattern::new(Topic::Weights, "Model loading took", Unit::GiB, "GiB"),
    Pattern::new(Topic::Weights, "Loading model weights took", Unit::GiB, "GB"),
    Pattern::new(Topic::Graphs, "Estimated CUDA graph memory:", Unit::GiB, "GiB"),
    Pattern::new(Topic::Graphs, "CUDA graph pool memory:", Unit::GiB, "GiB (actual)"),
    Pattern::new(Topic::Available, "Available KV cache memory:", Unit::GiB, "GiB"),
    Pattern::new(Topic::Available, "available KV cache memory (", Unit::GiB, "GiB)"),
    Pattern::new(Topic::Available, "kv_cache_size=", Unit::GiB, "GiB"),
    Pattern::new(Topic::Available, "memory reserved for KV Cache is", Unit::GiB, "GiB"),
    // A size that is given in place of a profile, and the worker of processors.
    within("as specified by kv_cache_memory_bytes", Topic::Available, "reserved", Unit::GiB, "GiB memory"),
    within("GiB for KV cache", Topic::Available, "Explicitly set (", Unit::GiB, "/"),
    within("GiB for KV cache", Topic::Available, "Auto set (", Unit::GiB, "/"),
    within("VLLM_CPU_KVCACHE_SPACE not set", Topic::Available, "Using", Unit::GiB, "GiB for KV cache"),
    Pattern::new(Topic::AttentionBlock, "Setting attention block size to", Unit::Tokens, "tokens"),
    Pattern::new(Topic::StatePadding, "Padding mamba page size by", Unit::Percent, "%"),
    within("padding layers", Topic::PaddingLayers, "Add ", Unit::Layers, "padding layers"),
    within("padding layers", Topic::PaddingFraction, "may waste at most", Unit::Percent, "%"),
    Pattern::new(Topic::SchedulerBlock, "kv lcm block sizes", Unit::Tokens, ""),
    Pattern::new(Topic::Blocks, "GPU blocks:", Unit::Blocks, ""),
    Pattern::new(Topic::Blocks, "# cuda blocks:", Unit::Blocks, ""),
    Pattern::new(Topic::Blocks, "# rocm blocks:", Unit::Blocks, ""),
    Pattern::new(Topic::Blocks, "# xpu blocks:", Unit::Blocks, ""),
    Pattern::new(Topic::Blocks, "# cpu blocks:", Unit::Blocks, ""),
    within("num_gpu_blocks_override=", Topic::Blocks, "Overriding num_gpu_blocks=", Unit::Blocks, "with"),
    Pattern::new(Topic::Override, "num_gpu_blocks_override=", Unit::Blocks, ""),
    Pattern::new(Topic::Override, "'num_gpu_blocks_override':", Unit::Blocks, ""),
    Pattern::new(Topic::Tokens, "GPU KV cache size:", Unit::Tokens, "tokens"),
    Pattern::new(Topic::Tokens, "CPU KV cache size:", Unit::Tokens, "tokens"),
    Pattern::new(Topic::Tokens, "XPU KV cache size:", Unit::Tokens, "tokens"),
    Pattern::new(Topic::Tokens, "TPU KV cache size:", Unit::Tokens, "tokens"),
    Pattern::new(Topic::Tokens, " + host KV cache size:", Unit::Tokens, "tokens"),
    Pattern::new(
        Topic::StorableTokens,
        "maximum number of tokens that can be stored in KV cache (",
        Unit::Tokens,
        ")",
    ),
    Pattern::new(Topic::LongestLength, "estimated maximum model length is", Unit::Tokens, ""),
    Pattern::new(Topic::HostBytes, "HiSparse HMA:", Unit::GiB, "GiB host source"),
    within("SimpleCPUOffloadScheduler:", Topic::HostBytes, "CPU blocks (", Unit::GiB, "GB"),
    within("SimpleCPUOffloadScheduler:", Topic::HostBytes, "offload blocks (", Unit::GiB, "GB"),
];

/// A figure of a line in which another text must stand as well.
const fn within(
    within: &'static str,
    topic: Topic,
    before: &'static str,
    unit: Unit,
    after: &'static str,
) -> Pattern {
    Pattern { topic, within, before, unit, after }
}
