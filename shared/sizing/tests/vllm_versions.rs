//! What releases of vLLM before the newest plan, by their own sources.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "in tests a panic is the report, and these figures are exact"
)]

use crate::support::asked::{catalogued, figure};

fn of(id: &str, engine: &str, pairs: &[(&str, &str)], quantity: &str) -> f64 {
    figure(&catalogued(id), engine, pairs, quantity)
}

/// `_get_kv_cache_groups_uniform_page_size` of `v1/core/kv_cache_utils.py`: the rarest kind's layers (0.11), or the most frequent
/// kind's below 1.25 (0.12 to 0.15) and 1.5 times them (since 0.19). gpt-oss-120b has 18 windows, 18 full layers and here a draft
/// layer: 40 GiB are 72,817 blocks of 9 pages of 16,384 B × 4 in 0.11, and a request of 131,072 tokens takes 2 × 8,192 of them and
/// a window's 521 (pull request 29303 prints the 17 padding layers of this).
#[test]
fn groups_follow_the_rarest_kind_in_0_11() {
    let asked = [
        ("draft_layers", "1"),
        ("available_kv_bytes", "42949672960"),
        ("max_num_batched_tokens", "8192"),
        ("gpu", "H100"),
    ];
    let blocks = |engine: &str| of("gpt-oss-120b", engine, &asked, "num_blocks");
    assert_eq!((blocks("vllm@0.11.0"), blocks("vllm@0.15.1")), (72_817.0, 68_985.0));
    assert_eq!(of("gpt-oss-120b", "vllm@0.11.0", &asked, "max_concurrency"), 72_817.0 / 16_905.0);
}

/// `DeepseekV32ForCausalLM` of `model_executor/models/config.py`: 61 × (656 + 132) B where no format is set in 0.11.0, and with FP8 on
/// every GPU up to 0.15.1. `GlmMoeDsa` keeps bf16 on `SM10x` before 0.32: 78 × 1,152 B and the index keys of 78 × 132 B.
#[test]
fn formats_of_latents_follow_the_release() {
    let slope = |id: &str, engine: &str, more: &[(&str, &str)]| of(id, engine, more, "slope_bytes_per_token");
    let scaled = f64::from(61 * (656 + 132));
    assert_eq!(slope("deepseek-v3.2", "vllm@0.11.0", &[]), scaled);
    assert_eq!(slope("deepseek-v3.2", "vllm@0.11.1", &[]), f64::from(61 * (1152 + 132)));
    assert_eq!(slope("deepseek-v3.2", "vllm@0.15.1", &[("gpu", "B200"), ("kv_dtype", "fp8")]), scaled);
    assert_eq!(slope("glm-5.1", "vllm@0.31", &[("gpu", "B200")]), f64::from(78 * (1152 + 132)));
    assert!(slope("glm-5.1", "vllm@0.32", &[("gpu", "B200")]) < f64::from(78 * 1152));
}

/// `MambaModelConfig` of `model_executor/models/config.py`: without prefixes no mode, with them one; 0.11.0 keeps none of hybrids.
#[test]
fn modes_hang_on_prefixes() {
    let blocks =
        |id: &str, engine: &str, asked: &[(&str, &str)]| of(id, engine, asked, "state_blocks_per_request");
    let off = [("prefix_caching", "false"), ("mamba_cache_mode", "align")];
    assert_eq!(blocks("granite-4.0-h-small", "vllm@0.33", &off), 9.0);
    let chosen = [("prefix_caching", "true"), ("mamba_cache_mode", "none")];
    assert_eq!(blocks("qwen3-next-80b-a3b", "vllm@0.19.1", &chosen), 6.0);
    let asked = [("prefix_caching", "true"), ("max_model_len", "65536")];
    assert_eq!(of("nemotron-nano-9b-v2", "vllm@0.11.0", &asked, "needed_bytes_one_request"), 1_156_055_040.0);
}

/// `MambaSpec.max_memory_usage_bytes` of `v1/kv_cache_interface.py`: no pages for drafts before 0.15, and before 0.22 none beside a
/// state for every block.
#[test]
fn drafts_have_state_pages_since_0_15() {
    let drafts = |count: &'static str, length: &'static str| {
        [("num_speculative_tokens", count), ("max_model_len", length)]
    };
    let blocks =
        |engine: &str| of("qwen3-next-80b-a3b", engine, &drafts("2", "65536"), "state_blocks_per_request");
    assert_eq!((blocks("vllm@0.11.0"), blocks("vllm@0.15.1")), (3.0, 9.0));
    let nemotron = |engine: &str| {
        let asked = [&drafts("3", "2048")[..], &[("mamba_cache_mode", "all")]].concat();
        of("nemotron-nano-9b-v2", engine, &asked, "state_blocks_per_request")
    };
    assert_eq!((nemotron("vllm@0.15.1"), nemotron("vllm@0.22")), (7.0, 28.0));
}

/// `EngineArgs.get_batch_defaults`: 16,384 tokens on GPUs of 160 GiB since 0.28, and 2,048 on GB10 since 0.33. Gemma-3-27B reserves
/// 52 windows for 8,192 tokens in 0.26 to 0.32 on both.
#[test]
fn batches_follow_gpu_and_release() {
    let needed =
        |engine: &str, gpu: &str| of("gemma-3-27b", engine, &[("gpu", gpu)], "needed_bytes_one_request");
    assert_eq!(needed("vllm@0.26", "B200"), 19_301_662_720.0);
    assert_eq!(needed("vllm@0.30", "GB10"), needed("vllm@0.30", "H100"));
    assert!(needed("vllm@0.33", "GB10") < needed("vllm@0.33", "H100"));
    assert!(needed("vllm@0.28", "B200") > needed("vllm@0.28", "H100"));
}

/// `platforms/cuda.py` before 0.20: `FlashMLA` takes blocks of 64 on SM90; on `SM10x` CUTLASS takes 128 in 0.11 and `FlashInfer` 64 in 0.15.
#[test]
fn blocks_of_latents_were_forced() {
    let block = |engine: &str, gpu: &str| of("deepseek-v3", engine, &[("gpu", gpu)], "attention_block_size");
    assert_eq!((block("vllm@0.15.1", "H100"), block("vllm@0.15.1", "B200")), (64.0, 64.0));
    assert_eq!((block("vllm@0.11.0", "H100"), block("vllm@0.11.0", "B200")), (64.0, 128.0));
}
