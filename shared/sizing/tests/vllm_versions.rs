//! What releases of vLLM before the newest plan, by their own sources.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "in tests a panic is the report, and these figures are exact"
)]

use crate::support::asked::{catalogued, figure, report_of};
use kvscope_sizing::{Architecture, read_config};

fn of(id: &str, engine: &str, pairs: &[(&str, &str)], quantity: &str) -> f64 {
    figure(&catalogued(id), engine, pairs, quantity)
}

/// `_get_kv_cache_groups_uniform_page_size` of `v1/core/kv_cache_utils.py`: the rarest kind's layers (0.11), or the most frequent
/// kind's below 1.25 (0.12 to 0.17.1) and 1.5 times them (since 0.18.1). gpt-oss-120b has 18 windows, 18 full layers and here a draft
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

/// The same function: 4 windows and 3 full layers are close below 1.5 times (0.18.1) and not below 1.25 (0.17.1), so groups are of 4
/// layers or of 3. 1,200 pages of 16 × 2 × 64 × 2 = 4,096 B are 300 such blocks or 400.
#[test]
fn close_kinds_share_a_size_since_0_18() {
    let model = read_config(
        r#"{"num_hidden_layers": 7, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64, "sliding_window": 128,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
                "full_attention", "sliding_attention"], "max_position_embeddings": 1024, "dtype": "bfloat16"}"#,
    )
    .unwrap();
    let asked = [("available_kv_bytes", "4915200"), ("gpu", "H100"), ("block_size", "16")];
    let blocks = |engine: &str| figure(&model, engine, &asked, "num_blocks");
    assert_eq!((blocks("vllm@0.17.1"), blocks("vllm@0.18.1")), (400.0, 300.0));
}

/// `DeepseekV32ForCausalLM` of `model_executor/models/config.py`: 61 × (656 + 132) B where no format is set in 0.11.0, and with FP8 on
/// every GPU up to 0.17.1. In 0.18.1 `SM10x` prefers `FlashInfer`, which keeps rows of 576 B, up to 16 query heads a rank
/// (`_get_backend_priorities` of `platforms/cuda.py`), of which the model has 128; in 0.19.1 with FP8 always. `GlmMoeDsa`
/// keeps bf16 on `SM10x` before 0.32: 78 × 1,152 B and the index keys of 78 × 132 B.
#[test]
fn formats_of_latents_follow_the_release() {
    let slope = |id: &str, engine: &str, more: &[(&str, &str)]| of(id, engine, more, "slope_bytes_per_token");
    let scaled = f64::from(61 * (656 + 132));
    assert_eq!(slope("deepseek-v3.2", "vllm@0.11.0", &[]), scaled);
    assert_eq!(slope("deepseek-v3.2", "vllm@0.11.1", &[]), f64::from(61 * (1152 + 132)));
    let (fp8, raw) = ([("gpu", "B200"), ("kv_dtype", "fp8")], f64::from(61 * (576 + 132)));
    for (engine, tp, bytes) in [
        ("vllm@0.15.1", "8", scaled),
        ("vllm@0.17.1", "8", scaled),
        ("vllm@0.18.1", "4", scaled),
        ("vllm@0.18.1", "8", raw),
        ("vllm@0.19.1", "4", raw),
    ] {
        let asked = [&fp8[..], &[("tp", tp)]].concat();
        assert_eq!(slope("deepseek-v3.2", engine, &asked), bytes, "{engine} {tp}");
    }
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
    // 4 layers × ⌈65,536 / 672⌉ blocks and 27 states, each of 672 × 4,096 B.
    let needed = of("nemotron-nano-9b-v2", "vllm@0.11.0", &asked, "needed_bytes_one_request");
    assert_eq!(needed, f64::from((4 * 98 + 27) * 672 * 4096));
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

/// `check_enough_kv_cache_memory` of `v1/core/kv_cache_utils.py`: up to 0.13 every layer of a worker by itself; 0.14 to 0.18 the
/// blocks of the first group alone, as wide as in the whole model up to 0.16; since 0.19 those of all groups.
///
/// Pages are 16 × 2 × 64 × 2 = 4,096 B; windows take ⌈(127 + 2,048) / 16⌉ + 1 = 137 blocks, full layers 512. Three windows and two
/// full layers make groups of 2, 1 and 2 layers, which over two ranks are one layer wide on each.
#[test]
fn the_fit_check_follows_the_release() {
    let model = read_config(
        r#"{"num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64, "sliding_window": 128,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"],
            "max_position_embeddings": 8192, "dtype": "bfloat16"}"#,
    )
    .unwrap();
    let needed = |version: &str, pp: &str| {
        let asked = [("max_num_batched_tokens", "2048"), ("pp", pp), ("gpu", "H100"), ("block_size", "16")];
        figure(&model, &format!("vllm@{version}"), &asked, "needed_bytes_one_request")
    };
    let page = |blocks: u32| f64::from(blocks) * 4096.0;
    assert_eq!(["0.11.0", "0.13"].map(|version| needed(version, "1")), [page(3 * 137 + 2 * 512); 2]);
    assert_eq!(needed("0.13", "2"), page(2 * 137 + 512));
    assert_eq!(["0.14", "0.16", "0.18.1"].map(|version| needed(version, "1")), [page(2 * 137); 3]);
    assert_eq!(["0.16", "0.17"].map(|version| needed(version, "2")), [page(2 * 137), page(137)]);
    assert_eq!(needed("0.19.1", "1"), page(2 * (137 + 137 + 512)));
    let asked = [("max_num_batched_tokens", "2048"), ("available_kv_bytes", "5877760"), ("block_size", "16")];
    let longest = |version: &str| figure(&model, version, &asked, "estimated_max_model_len");
    assert_eq!(longest("vllm@0.13"), 8192.0);
    assert!(longest("vllm@0.19.1") < 8192.0);
}

/// `_report_kv_cache_config`: two lines up to 0.27, one since 0.28; and a state without prefixes is one block of `mamba_block_size`,
/// the longest length, in the older token line.
#[test]
fn capacity_lines_follow_the_release() {
    let mamba = read_config(
        r#"{"model_type": "mamba", "architectures": ["MambaForCausalLM"], "num_hidden_layers": 64, "hidden_size": 2560,
            "intermediate_size": 5120, "state_size": 16, "conv_kernel": 4, "dtype": "bfloat16"}"#,
    )
    .unwrap();
    let asked = [("available_kv_bytes", "4000000000"), ("max_model_len", "2048")];
    let lines = |version: &str| report_of(&mamba, version, &asked).log_lines;
    let blocks = figure(&mamba, "vllm@0.19.1", &asked, "num_blocks");
    let older = figure(&mamba, "vllm@0.19.1", &asked, "logged_kv_tokens");
    assert_eq!(older, blocks * 2048.0);
    assert_eq!(lines("vllm@0.27").len(), lines("vllm@0.28").len() + 1);
}

/// Pages had one head size up to 0.13 (`AttentionSpec.head_size`), and MiMo-V2-Flash pads V to it up to 0.19
/// (`models/mimo_v2_flash.py`): 9 layers of 4 heads of 192 + 192 values, and since 0.20 of 192 + 128.
#[test]
fn values_are_padded_to_keys_before_0_20() {
    let slope = |engine: &str| of("mimo-v2-flash", engine, &[("kv_dtype", "bf16")], "slope_bytes_per_token");
    assert_eq!(["vllm@0.15.1", "vllm@0.19.1"].map(slope), [f64::from(9 * 4 * (192 + 192) * 2); 2]);
    assert_eq!(slope("vllm@0.20.0"), f64::from(9 * 4 * (192 + 128) * 2));
}

/// `VllmConfig.max_concurrent_batches`: the older runner overlaps no pipeline, and before 0.29 it runs gpt-oss, which has experts;
/// Gemma 3 has none. A window of 128 takes ⌈(127 + 2 × 8,192) / 16⌉ + 1 = 1,033 blocks with two batches, 1,545 with three.
#[test]
fn the_older_runner_overlaps_no_pipeline() {
    let with_experts = |experts: u64| {
        read_config(&format!(
            r#"{{"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64, "sliding_window": 128,
                "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"],
                "max_position_embeddings": 131072, "dtype": "bfloat16", "num_local_experts": {experts}}}"#
        ))
        .unwrap()
    };
    let blocks = |experts: u64, engine: &str| {
        let asked = [("pp", "2"), ("max_num_batched_tokens", "8192"), ("gpu", "H100")];
        figure(&with_experts(experts), engine, &asked, "needed_bytes_one_request") / (2.0 * 4096.0)
    };
    assert_eq!(["vllm@0.26", "vllm@0.28"].map(|engine| blocks(32, engine)), [1033.0; 2]);
    assert_eq!(["vllm@0.29", "vllm@0.33"].map(|engine| blocks(32, engine)), [1545.0; 2]);
    assert_eq!(blocks(0, "vllm@0.26"), 1545.0);
}

/// `MambaStateDtypeCalculator.gated_delta_net_state_dtype`: one format for state and convolution up to 0.16. A layer of
/// Qwen3-Next keeps 32 × 128 × 128 values and 3 × 8,192 of its convolution.
#[test]
fn delta_states_have_the_convolutions_format_before_0_17() {
    let asked = [("state_dtype", "f32"), ("prefix_caching", "false"), ("context", "1000")];
    let of_state = |engine: &str| {
        let report = report_of(&catalogued("qwen3-next-80b-a3b"), engine, &asked);
        let told = report.warnings.iter().any(|warning| warning.field == "state_dtype");
        (figure(&catalogued("qwen3-next-80b-a3b"), engine, &asked, "attention_block_size"), told)
    };
    // The attention page of 2 × 2 × 256 × 2 B a token covers the state's: ⌈1,097,728 / 2,048⌉ and ⌈2,146,304 / 2,048⌉ tokens, in
    // steps of 16.
    assert_eq!(of_state("vllm@0.16.0"), (544.0, true));
    assert_eq!(of_state("vllm@0.17.1"), (1056.0, false));
}

/// Llama-3.1-8B: 131,072 tokens need 16 GiB and 8 GiB are there, so `_check_enough_kv_cache_memory` ends the start, and no capacity
/// is printed: 8 GiB hold 65,536 tokens, of which 0.29 and later leave a block of 16 out.
#[test]
fn a_refused_start_prints_no_capacity() {
    let asked = [("available_kv_bytes", "8589934592"), ("gpu", "H100")];
    let report = report_of(&catalogued("llama-3.1-8b"), "vllm@0.33", &asked);
    assert_eq!(
        report.log_lines,
        [
            "ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache is needed, which is \
             larger than the available KV cache memory (8.0 GiB). Based on the available memory, the estimated maximum model length \
             is 65520."
        ]
    );
    let told = |warning: &&kvscope_sizing::Warning| warning.field == "available_kv_bytes";
    assert!(report.warnings.iter().find(told).unwrap().message.contains("vLLM refuses to start"));
    let fits = [("available_kv_bytes", "8589934592"), ("gpu", "H100"), ("max_model_len", "65520")];
    let report = report_of(&catalogued("llama-3.1-8b"), "vllm@0.33", &fits);
    assert!(report.log_lines[0].starts_with("GPU KV cache size: "), "{:?}", report.log_lines);
    assert!(!report.warnings.iter().any(|warning| told(&warning)));
}

/// `resolve_kv_cache_dtype_string` of `utils/torch_utils.py` is there from 0.14 on, has NVFP4 from 0.20 on, and wants 8-bit schemes with
/// `dynamic` false; the first of scheme and algorithm that says anything decides. `Attention.__init__` follows the scheme of
/// `compressed-tensors` from 0.15 on, up to 0.21 whatever flag there is. A token of 2 heads of 128 values of K and V takes 512 B for each
/// byte of a value, or 2 × 2 × (64 + 8) B; one of 27 latents of 512 + 64 values 15,552 B.
#[test]
fn checkpoints_are_followed_by_release() {
    let slope = |shape: &str, quantization: &str, engine: &str, asked: &[(&str, &str)]| {
        let config = format!(
            r#"{{"num_attention_heads": 4, "dtype": "bfloat16", "max_position_embeddings": 4096, {shape},
            "quantization_config": {quantization}}}"#
        );
        figure(&read_config(&config).unwrap(), engine, asked, "slope_bytes_per_token")
    };
    let heads = r#""model_type": "llama", "num_hidden_layers": 1, "num_key_value_heads": 2, "head_dim": 128"#;
    let moonlight = r#""model_type": "deepseek_v3", "num_hidden_layers": 27, "num_key_value_heads": 4, "kv_lora_rank": 512,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128"#;
    let modelopt = |says: &str| format!(r#"{{"quant_method": "modelopt", {says}}}"#);
    let algorithm = |name: &str| modelopt(&format!(r#""kv_cache_quant_algo": "{name}""#));
    let scheme = |bits: u8, dynamic: &str| {
        modelopt(&format!(
            r#""kv_cache_scheme": {{"num_bits": {bits}, "type": "float", "dynamic": {dynamic}}}, "kv_cache_quant_algo": "FP8""#
        ))
    };
    let compressed =
        r#"{"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}"#;
    let (bf16, fp8, fp4) = (1024.0, 512.0, 288.0);
    for (quantization, engine, bytes) in [
        (&*algorithm("FP8"), "vllm@0.11.0", bf16),
        (&algorithm("FP8"), "vllm@0.13", bf16),
        (&algorithm("FP8"), "vllm@0.14.1", fp8),
        (&algorithm("NVFP4"), "vllm@0.19.1", bf16),
        (&algorithm("NVFP4"), "vllm@0.22.0", fp4),
        (&algorithm("INT8"), "vllm@0.33", bf16),
        (&scheme(8, "false"), "vllm@0.13", bf16),
        (&scheme(8, "false"), "vllm@0.14", fp8),
        (&scheme(8, "true"), "vllm@0.33", bf16),
        (&scheme(4, "true"), "vllm@0.19.1", bf16),
        (&scheme(4, "true"), "vllm@0.33", fp4),
        (compressed, "vllm@0.14.1", bf16),
        (compressed, "vllm@0.15.1", fp8),
        (compressed, "vllm@0.33", fp8),
    ] {
        assert_eq!(slope(heads, quantization, engine, &[]), bytes, "{engine} {quantization}");
    }
    for (quantization, engine, bytes) in [
        (&*algorithm("FP8"), "vllm@0.14.1", bf16),
        (compressed, "vllm@0.14.1", bf16),
        (compressed, "vllm@0.15.1", fp8),
        (compressed, "vllm@0.20.0", fp8),
        (compressed, "vllm@0.22.0", bf16),
        (compressed, "vllm@0.33", bf16),
    ] {
        let asked = [("kv_dtype", "bf16")];
        assert_eq!(slope(heads, quantization, engine, &asked), bytes, "{engine} {quantization}");
    }
    for (engine, bytes) in
        [("vllm@0.11.0", 31_104.0), ("vllm@0.13", 31_104.0), ("vllm@0.14", 15_552.0), ("vllm@0.33", 15_552.0)]
    {
        assert_eq!(slope(moonlight, &algorithm("FP8"), engine, &[]), bytes, "{engine}");
    }
}

/// The same, told: that a version does not follow a checkpoint, and that it does in spite of a flag.
#[test]
fn what_a_version_does_with_a_checkpoints_format_is_told() {
    let told = |quantization: &str, engine: &str, asked: &[(&str, &str)]| {
        let config = format!(
            r#"{{"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128, "dtype": "bfloat16",
            "max_position_embeddings": 4096, "quantization_config": {quantization}}}"#
        );
        let found = report_of(&read_config(&config).unwrap(), engine, asked).warnings;
        let own = found.into_iter().find(|warning| warning.field == "quantization_config");
        own.map_or(String::new(), |warning| warning.message)
    };
    let modelopt = r#"{"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}"#;
    let compressed =
        r#"{"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}"#;
    assert!(told(modelopt, "vllm@0.13", &[]).contains("does not follow the checkpoint's fp8"));
    assert_eq!(told(modelopt, "vllm@0.14", &[]), "");
    assert!(told(compressed, "vllm@0.20", &[("kv_dtype", "bf16")]).contains("whatever kv_dtype is"));
    assert_eq!(told(compressed, "vllm@0.20", &[]), "");
    assert_eq!(told(compressed, "vllm@0.22", &[("kv_dtype", "bf16")]), "");
}

/// Answers of `get_kv_cache_groups`, `get_kv_cache_config_from_groups`, `get_max_concurrency_for_kv_cache_config` and
/// `_max_memory_usage_bytes_from_groups` of these releases (`tests/oracle/ask_packed.py`), run with the cache specs of DeepSeek-V4, 131,072
/// tokens, batches of 8,192 (two in flight from 0.26 on) and 40 GB. Blocks by hand: 22 × 47,808 B up to 0.22, 22 × 37,440 + 21 × 8,640 + 20 × 1,728 B up to 0.26, then
/// 21 × (37,440 + 8,640) + 20 × 1,728 B; of V4-Pro 31 × 37,440 + 30 × 8,640 + 31 × 1,728 B in 0.23.
#[test]
fn packed_blocks_follow_the_release() {
    let asked = [
        ("available_kv_bytes", "40000000000"),
        ("max_model_len", "131072"),
        ("max_num_batched_tokens", "8192"),
        ("tp", "8"),
        ("gpu", "H100"),
    ];
    for (id, engine, blocks, counted, needed) in [
        ("deepseek-v4-flash", "vllm@0.20.2", 38_030.0, 3481.0, 4_066_166_016.0),
        ("deepseek-v4-flash", "vllm@0.22.0", 38_030.0, 3481.0, 4_066_166_016.0),
        ("deepseek-v4-flash", "vllm@0.23.0", 38_473.0, 3481.0, 4_066_166_016.0),
        ("deepseek-v4-flash", "vllm@0.25.1", 38_473.0, 3481.0, 4_066_166_016.0),
        ("deepseek-v4-flash", "vllm@0.26.0", 38_473.0, 6429.0, 7_566_476_544.0),
        ("deepseek-v4-flash", "vllm@0.27.0", 39_910.0, 7194.0, 7_566_476_544.0),
        ("deepseek-v4-flash", "vllm@0.28.0", 39_910.0, 7194.0, 7_566_476_544.0),
        ("deepseek-v4-pro", "vllm@0.20.2", 26_989.0, 3537.0, 5_729_597_568.0),
        ("deepseek-v4-pro", "vllm@0.23.0", 27_147.0, 3537.0, 5_729_597_568.0),
        ("deepseek-v4-pro", "vllm@0.26.0", 27_147.0, 6540.0, 10_661_853_312.0),
        ("deepseek-v4-pro", "vllm@0.28.0", 27_855.0, 7194.0, 10_661_853_312.0),
    ] {
        assert_eq!(of(id, engine, &asked, "num_blocks"), blocks, "{id} {engine}");
        assert_eq!(of(id, engine, &asked, "max_concurrency"), blocks / counted, "{id} {engine}");
        assert_eq!(of(id, engine, &asked, "needed_bytes_one_request"), needed, "{id} {engine}");
    }
    // 784,372 of 38,473 / 6,429 × 131,072.
    assert_eq!(of("deepseek-v4-flash", "vllm@0.26.0", &asked, "logged_kv_tokens"), 784_372.0);
}

/// `models/registry.py`: `Qwen4Exp…` came with 0.29, which a config without `architectures` says by its `model_type`.
#[test]
fn a_class_that_a_release_has_not_yet_is_told_by_its_type() {
    let told = |engine: &str| {
        let found =
            report_of(&catalogued("qwen3.8-flash-next"), engine, &[("max_model_len", "4096")]).warnings;
        let own = found.into_iter().find(|warning| warning.field == "architectures");
        own.map_or(String::new(), |warning| warning.message)
    };
    assert!(told("vllm@0.28").contains("no Qwen4ExpForCausalLM of its own yet (0.28 has none)"));
    assert_eq!(told("vllm@0.29"), "");
}

/// Up to 0.31 `MiMoV2Attention` is handed no cache configuration, so `--kv-cache-dtype fp8` changes nothing: 9 full layers × 4 × (192 + 128)
/// values of two bytes are 23,040 B; so it is with Falcon in every version, and with Baichuan's `ALiBi`.
#[test]
fn layers_that_are_told_no_format_keep_the_models_dtype() {
    let fp8 = [("kv_dtype", "fp8"), ("max_model_len", "32768"), ("max_num_batched_tokens", "8192")];
    let slope = |architecture: &Architecture, engine: &str| {
        let found = report_of(architecture, engine, &fp8);
        let told = found
            .warnings
            .iter()
            .any(|warning| warning.message.contains("changes nothing in this model's layers"));
        (figure(architecture, engine, &fp8, "slope_bytes_per_token"), told)
    };
    let mimo = catalogued("mimo-v2-flash");
    assert_eq!(slope(&mimo, "vllm@0.29"), (23_040.0, true));
    assert_eq!(slope(&mimo, "vllm@0.32"), (11_520.0, false));
    let baichuan = |class: &str, hidden: u64| {
        read_config(&format!(
            r#"{{"architectures": [{class:?}], "model_type": "baichuan", "hidden_size": {hidden}, "num_hidden_layers": 40,
            "num_attention_heads": 40, "head_dim": 128, "dtype": "bfloat16"}}"#
        ))
        .unwrap()
    };
    assert_eq!(slope(&baichuan("BaichuanForCausalLM", 5120), "vllm@0.24"), (819_200.0, true));
    assert_eq!(slope(&baichuan("BaichuanForCausalLM", 4096), "vllm@0.24"), (409_600.0, false));
    assert_eq!(slope(&baichuan("BaiChuanForCausalLM", 5120), "vllm@0.24"), (409_600.0, false));
    let falcon = r#"{"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71,
        "multi_query": true, "dtype": "bfloat16"}"#;
    assert_eq!(slope(&read_config(falcon).unwrap(), "vllm@0.33"), (8192.0, true));
}
