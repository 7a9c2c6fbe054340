//! vLLM's rules against what its planner, its sources and its users' logs state, where no case row does.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::asked;

use asked::{catalogued, report_of, settings};
use kvscope_sizing::engine::{EngineReport, Figure, Quantity, Query, answer, report};
use kvscope_sizing::{Settings, catalogue, find_entry, read_config};

fn model(id: &str, engine: &str, given: &[(&str, &str)]) -> EngineReport {
    report_of(&catalogued(id), engine, given)
}

fn whole(report: &EngineReport, quantity: Quantity) -> u64 {
    report.figure(quantity).and_then(Figure::whole).unwrap_or_else(|| panic!("{quantity:?}: {report:?}"))
}

fn block(id: &str, given: &[(&str, &str)]) -> u64 {
    whole(&model(id, "vllm@0.33", given), Quantity::AttentionBlockSize)
}

/// Asserts the bytes of one block: a pool of a thousand holds a thousand, and one byte less holds 999.
fn assert_block_bytes(id: &str, given: &[(&str, &str)], expected: u64) {
    let blocks = |pool: u64| {
        let text = pool.to_string();
        let mut all = given.to_vec();
        all.push(("available_kv_bytes", &text));
        whole(&model(id, "vllm@0.33", &all), Quantity::NumBlocks)
    };
    assert_eq!((blocks(expected * 1000), blocks(expected * 1000 - 1)), (1000, 999), "{id}: {expected} B");
}

/// Planner of vLLM 0.33: attention blocks of hybrids, by prefix caching, back end and drafts.
#[test]
fn attention_blocks_of_hybrids() {
    assert_eq!(block("qwen3.6-27b", &[("prefix_caching", "false")]), 784);
    assert_eq!(block("qwen3.6-27b", &[("prefix_caching", "false"), ("kv_dtype", "fp8")]), 1568);
    assert_eq!(block("qwen3.6-27b", &[("prefix_caching", "true")]), 832);
    assert_eq!(block("qwen3.6-27b", &[("prefix_caching", "true"), ("gdn_prefill_backend", "triton")]), 784);
    assert_eq!(block("qwen3-next-80b-a3b", &[("prefix_caching", "true")]), 576);
    assert_eq!(block("qwen3-next-80b-a3b", &[("prefix_caching", "false")]), 544);
    let kimi = |given: &[(&str, &str)]| block("kimi-linear-48b-a3b", given);
    assert_eq!(kimi(&[]), 1920);
    assert_eq!(kimi(&[("tp", "2")]), 1024);
    assert_eq!(kimi(&[("tp", "4"), ("num_speculative_tokens", "2")]), 512);
}

/// `HybridAttentionMambaModelConfig` of vLLM before 0.20: latents align blocks to 64, heads of 256 to 32 on `SM10x`
/// (<https://github.com/vllm-project/vllm/pull/27994>), all others to 16. Kimi-Linear on two ranks has 960 in a user's log: a
/// state of 16 × 128 × 128 × 4 + 3 × 6144 × 2 = 1,085,440 B is 943 tokens of 1152 B. Qwen3.5-27B: 48 × 128 × 128 × 4 +
/// 3 × 10,240 × 2 = 3,207,168 B are 783 of 4096 B.
#[test]
fn attention_blocks_of_hybrids_before_0_20() {
    for (id, given, expected) in [
        ("kimi-linear-48b-a3b", &[("tp", "2")] as &[_], 960),
        ("qwen3.5-27b", &[("gpu", "H100")], 784),
        ("qwen3.5-27b", &[("gpu", "B200")], 800),
    ] {
        assert_eq!(
            whole(&model(id, "vllm@0.19", given), Quantity::AttentionBlockSize),
            expected,
            "{id} {given:?}"
        );
    }
    assert_eq!(
        whole(&model("qwen3.5-27b", "vllm@0.20", &[("gpu", "B200")]), Quantity::AttentionBlockSize),
        784
    );
}

/// The block before alignment is a choice of the back end, which the GPU decides.
#[test]
fn attention_blocks_by_back_end() {
    for (id, gpu, format, expected) in [
        ("llama-3.1-8b", "H100-80GB", "bf16", 16),
        ("llama-3.1-8b", "B200", "fp8", 16),
        ("deepseek-v3", "H100-80GB", "bf16", 16),
        ("deepseek-v3", "H100-80GB", "fp8", 64),
        ("deepseek-v3", "B200", "bf16", 32),
        ("deepseek-v3.2", "H100-80GB", "bf16", 64),
        ("deepseek-v3.2", "B200", "fp8", 64),
        ("deepseek-v4-flash", "H100-80GB", "fp8_ds_mla", 256),
        ("gemma-4-26b-a4b", "H100-80GB", "fp8", 64),
        ("gemma-4-26b-a4b", "H100-80GB", "bf16", 16),
        ("gemma-4-26b-a4b", "B200", "fp8", 16),
    ] {
        assert_eq!(block(id, &[("gpu", gpu), ("kv_dtype", format)]), expected, "{id} on {gpu} in {format}");
    }
}

/// One flag, two sizes: FlashMLA's sparse kernels on SM90 rewrite fp8 to 656-byte rows, FlashInfer's on SM100 keep 576.
#[test]
fn rows_of_sparse_latents_by_gpu() {
    let slope = |id: &str, given: &[(&str, &str)]| {
        whole(&model(id, "vllm@0.33", given), Quantity::SlopeBytesPerToken)
    };
    assert_eq!(slope("deepseek-v3.2", &[]), 61 * (1152 + 132));
    assert_eq!(slope("deepseek-v3.2", &[("gpu", "B200")]), 61 * (1152 + 132));
    assert_eq!(slope("deepseek-v3.2", &[("kv_dtype", "fp8"), ("gpu", "H100-80GB")]), 61 * (656 + 132));
    assert_eq!(slope("deepseek-v3.2", &[("kv_dtype", "fp8"), ("gpu", "B200")]), 61 * (576 + 132));
    assert_eq!(slope("deepseek-v3.2", &[("kv_dtype", "nvfp4")]), 61 * (352 + 132));
    assert_eq!(slope("glm-5.1", &[("gpu", "B200")]), 78 * (576 + 132));
    assert_eq!(slope("glm-5.1", &[("gpu", "H100-80GB")]), 78 * (1152 + 132));
}

/// Bytes of one block as the planner gave them: DeepSeek-V4, Gemma 4 without the hybrid manager, Qwen3.6 with a draft
/// layer (17 pages of its attention group, not of 16-layer state groups), and hetero heads that add up.
#[test]
fn bytes_of_one_block() {
    assert_block_bytes("deepseek-v4-flash", &[], 1_002_240);
    assert_block_bytes("deepseek-v4-pro", &[], 1_435_968);
    assert_block_bytes("gemma-4-26b-a4b", &[("hybrid_manager", "false")], 3_604_480);
    let draft = [("prefix_caching", "false"), ("draft_layers", "1"), ("num_speculative_tokens", "1")];
    let page = block("qwen3.6-27b", &draft) * 4096;
    assert_block_bytes("qwen3.6-27b", &draft, 17 * page);
}

/// Padding that users saw: 1 of 29, 1 of 20, 3 of 48.
#[test]
fn padding_layers() {
    let fraction = |id: &str, given: &[(&str, &str)]| {
        model(id, "vllm@0.33", given).figure(Quantity::PaddingFraction).unwrap().as_f64()
    };
    assert!((fraction("gemma-3-4b", &[]) - 1.0 / 29.0).abs() < 1e-12);
    assert!((fraction("kimi-linear-48b-a3b", &[]) - 1.0 / 20.0).abs() < 1e-12);
    assert!((fraction("qwen3.6-27b", &[("draft_layers", "1")]) - 3.0 / 48.0).abs() < 1e-12);
}

/// State pages of one request: planner of vLLM 0.33.
#[test]
fn state_pages_of_one_request() {
    let pages = |id: &str, engine: &str, given: &[(&str, &str)]| {
        whole(&model(id, engine, given), Quantity::StateBlocksPerRequest)
    };
    let align = ("prefix_caching", "true");
    // Three groups: 3 pages each where FlashInfer exports states, 2 with Triton, 1 without prefix caching.
    assert_eq!(pages("qwen3.6-27b", "vllm@0.33", &[align]), 9);
    assert_eq!(pages("qwen3.6-27b", "vllm@0.33", &[align, ("gdn_prefill_backend", "triton")]), 6);
    assert_eq!(pages("qwen3.6-27b", "vllm@0.27", &[align]), 6);
    assert_eq!(pages("qwen3.6-27b", "vllm@0.33", &[("prefix_caching", "false")]), 3);
    assert_eq!(pages("kimi-linear-48b-a3b", "vllm@0.33", &[align]), 6);
    // Mamba-2 always has the extra page; 24 layers beside 4 make six groups.
    assert_eq!(pages("nemotron-h-8b", "vllm@0.33", &[align]), 18);
}

/// 8192 tokens in flight over 16-token blocks, although the encoder has 1500 positions: 512 blocks a layer group.
#[test]
fn cross_attention_reserves_a_whole_batch() {
    let whisper = r#"{"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "d_model": 1280,
        "decoder_layers": 32, "decoder_attention_heads": 20, "encoder_layers": 32, "encoder_attention_heads": 20,
        "num_hidden_layers": 32, "max_source_positions": 1500, "max_target_positions": 448, "is_encoder_decoder": true,
        "torch_dtype": "float16"}"#;
    let report = report_of(
        &read_config(whisper).unwrap(),
        "vllm@0.33",
        &[("max_model_len", "448"), ("max_num_batched_tokens", "8192"), ("prefix_caching", "false")],
    );
    // 28 blocks for 448 tokens and 512 for the encoder; a block has 32 pages of 20 × 128 × 2 B × 16 tokens.
    assert_eq!(whole(&report, Quantity::NeededBytesOneRequest), (28 + 512) * 32 * 20 * 128 * 2 * 16);
    // Without chunked prefill the batch holds the longest request (`max(max_model_len, default)`): 1,250 blocks, as many as its own.
    let report = report_of(
        &read_config(whisper).unwrap(),
        "vllm@0.33",
        &[("max_model_len", "20000"), ("prefix_caching", "false")],
    );
    assert_eq!(whole(&report, Quantity::NeededBytesOneRequest), 2 * 1250 * 32 * 20 * 128 * 2 * 16);
}

/// Nemotron-NAS: layers of 8, 4 and no K/V heads share one block, which holds the sum of their pages.
#[test]
fn layers_of_unequal_heads_add_up_in_one_block() {
    let config = r#"{"model_type": "nemotron-nas", "architectures": ["DeciLMForCausalLM"], "hidden_size": 8192,
        "num_hidden_layers": 3, "num_attention_heads": 64, "num_key_value_heads": null, "torch_dtype": "bfloat16",
        "block_configs": [
            {"attention": {"n_heads_in_group": 8, "no_op": false}, "ffn": {"no_op": false}},
            {"attention": {"n_heads_in_group": null, "no_op": true}, "ffn": {"no_op": false}},
            {"attention": {"n_heads_in_group": 16, "no_op": false}, "ffn": {"no_op": false}}]}"#;
    let report = report_of(&read_config(config).unwrap(), "vllm@0.33", &[("max_model_len", "4096")]);
    assert_eq!(whole(&report, Quantity::NeededBytesOneRequest), 4096 * (8 + 4) * 128 * 2 * 2);
}

/// Three pipeline ranks with overlapping scheduling hold four batches in flight.
#[test]
fn batches_in_flight() {
    let needed = |given: &[(&str, &str)]| {
        let mut all = vec![("max_model_len", "131072"), ("max_num_batched_tokens", "8192")];
        all.extend_from_slice(given);
        whole(&model("gpt-oss-120b", "vllm@0.33", &all), Quantity::NeededBytesOneRequest)
    };
    let blocks = |batches: u64| 8192 + (127 + batches * 8192_u64).div_ceil(16) + 1;
    let page = 16 * 8 * 128 * 2;
    assert_eq!(needed(&[("async_scheduling", "false")]), blocks(1) * 18 * page);
    assert_eq!(needed(&[("async_scheduling", "true")]), blocks(2) * 18 * page);
    assert_eq!(needed(&[("async_scheduling", "true"), ("pp", "3")]), blocks(4) * 6 * page);
}

#[test]
fn what_a_report_says_beside_figures() {
    let pool = [("prefix_caching", "false"), ("available_kv_bytes", "20937965568")];
    let report = model("qwen3.6-27b", "vllm@0.33", &pool);
    let line = "GPU KV cache size: 315,658 tokens, Maximum concurrency for 262,144 tokens per request: 1.20x";
    assert!(report.log_lines.iter().any(|found| found == line), "{:?}", report.log_lines);
    let names: Vec<&str> = report.padding.iter().map(|row| row.what.as_str()).collect();
    assert!(names.contains(&"state pages") && names.contains(&"null block"), "{names:?}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((json["num_blocks"].as_u64(), json["attention_block_size"].as_u64()), (Some(407), Some(784)));
    // Without a pool its figures are listed with what they lack.
    let report = model("qwen3.6-27b", "vllm@0.33", &[]);
    assert!(report.figure(Quantity::NumBlocks).is_none());
    assert!(report.unanswered.iter().any(|missing| missing.why.starts_with("available_kv_bytes: ")));
}

#[test]
fn classes_that_a_version_no_longer_has_are_warned_about() {
    let warned = |engine: &str| {
        let report = model("minimax-text-01", engine, &[]);
        report.warnings.iter().any(|warning| warning.message.contains("MiniMaxText01ForCausalLM"))
    };
    assert!(warned("vllm@0.33"));
    assert!(!warned("vllm@0.11"));
}

#[test]
fn settings_that_do_not_fit_the_model_are_named() {
    let error = |id: &str, given: &[(&str, &str)]| {
        let architecture = find_entry(id).unwrap().architecture().unwrap();
        let settings = settings(given);
        let query = Query::new(&architecture, "vllm".parse().unwrap(), &settings).unwrap();
        answer(&query, Quantity::AttentionBlockSize).unwrap_err().to_string()
    };
    // 48 query heads on 8 K/V heads; 32 on 8.
    assert!(error("minimax-m2.7", &[("tp", "3")]).starts_with("tp: 3 ranks cannot share 8 heads"));
    assert!(error("llama-3.1-8b", &[("tp", "3")]).starts_with("tp: 3 ranks do not divide 32 query heads"));
    assert!(error("llama-3.1-8b", &[("kv_dtype", "fp8_ds_mla")]).starts_with("kv_dtype: "));
}

/// The whole catalogue is planned, on one rank and on eight, and what is reserved is never less than what is held.
#[test]
fn every_version_is_planned() {
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        for given in
            [&[("tp", "1")][..], &[("tp", "2"), ("pp", "2")], &[("gpu", "B200"), ("draft_layers", "0")]]
        {
            let mut settings = settings(given);
            settings.available_kv_bytes = Some(1 << 37);
            settings.max_model_len = Some(65_536);
            let query = Query::new(&architecture, "vllm".parse().unwrap(), &settings).unwrap();
            let report = report(&query).unwrap_or_else(|error| panic!("{}: {error}", entry.id));
            assert!(whole(&report, Quantity::NumBlocks) > 0, "{}", entry.id);
            let longest = whole(&report, Quantity::EstimatedMaxModelLen);
            assert_eq!(longest, 65_536, "{}", entry.id);
        }
    }
}

/// The longest length fits the pool less one block, and one token more does not.
#[test]
fn the_longest_length_fits_and_one_token_more_does_not() {
    for id in [
        "llama-3.1-8b",
        "gpt-oss-120b",
        "gemma-4-31b",
        "deepseek-v4-flash",
        "qwen3.6-27b",
        "kimi-linear-48b-a3b",
    ] {
        for pool in [3_u64 << 30, 5 << 30, 11 << 30] {
            let with = |length: u64, quantity: Quantity| {
                let (pool, length) = (pool.to_string(), length.to_string());
                let given = [("available_kv_bytes", pool.as_str()), ("max_model_len", length.as_str())];
                whole(&model(id, "vllm@0.33", &given), quantity)
            };
            let longest = with(1 << 20, Quantity::EstimatedMaxModelLen);
            if longest == 0 || longest == 1 << 20 {
                continue;
            }
            // A pool that holds one block more or less shows the width of one.
            let blocks = with(1 << 20, Quantity::NumBlocks);
            let needed = with(longest, Quantity::NeededBytesOneRequest);
            let more = with(longest + 1, Quantity::NeededBytesOneRequest);
            assert!(needed / (pool / blocks) < blocks, "{id}: {needed} of {pool}");
            assert!(more > needed && more > pool - pool / (blocks - 1), "{id}: {more} of {pool}");
        }
    }
}

/// A config without a length has its class's (`FalconH1Config.max_position_embeddings` of transformers 5.19), and without one of
/// those 2,048 tokens (`_get_and_verify_max_len`: `default_max_len`), which is told.
#[test]
fn without_a_length_there_are_those_of_the_class_else_2048_tokens() {
    let shape = r#""num_hidden_layers": 4, "hidden_size": 2048, "dtype": "bfloat16",
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128"#;
    let plain = read_config(&format!("{{{shape}}}")).unwrap();
    let open = report_of(&plain, "vllm@0.33", &[]);
    assert!(
        open.warnings.iter().any(|warning| warning.message.contains("takes 2,048")),
        "{:?}",
        open.warnings
    );
    // 2048 tokens × 4 layers × 2 × 2 heads × 128 × 2 B
    assert_eq!(whole(&open, Quantity::NeededBytesOneRequest), 2048 * 4 * 2 * 2 * 128 * 2);
    let config = format!(
        r#"{{"model_type": "falcon_h1", {shape}, "mamba_d_ssm": 3072,
        "mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_d_conv": 4}}"#
    );
    let architecture = read_config(&config).unwrap();
    assert!(architecture.max_context().is_none(), "what a class takes limits no one");
    for mode in ["all", "none"] {
        let of = |more: &[(&str, &str)]| {
            report_of(&architecture, "vllm@0.20", &[&[("mamba_cache_mode", mode)][..], more].concat())
        };
        let (open, given) = (of(&[]), of(&[("max_model_len", "8192")]));
        for quantity in [Quantity::StateBlocksPerRequest, Quantity::NeededBytesOneRequest] {
            assert_eq!(whole(&open, quantity), whole(&given, quantity), "{mode}");
        }
        assert_eq!(open.padding, given.padding);
        let told = "takes 8,192 (max_position_embeddings absent: 8192, the default of the falcon_h1 configuration class)";
        assert!(open.warnings.iter().any(|warning| warning.message.contains(told)), "{:?}", open.warnings);
    }
}

/// A quantised checkpoint that asks for FP8 K/V gets it where nothing is set (vLLM 0.33, `resolve_kv_cache_dtype_string` and
/// `Attention.__init__`): 16 tokens × 2 heads × (64 + 64) bytes a layer, half of bf16. Latents follow modelopt's exporter alone.
#[test]
fn a_checkpoint_may_ask_for_its_kv_format() {
    let page = |shape: &str, quantization: &str, given: &[(&str, &str)]| {
        let config = format!(
            r#"{{"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 4, "dtype": "bfloat16", {shape},
            "quantization_config": {quantization}}}"#
        );
        let mut all = vec![("max_model_len", "16"), ("prefix_caching", "false")];
        all.extend_from_slice(given);
        whole(&report_of(&read_config(&config).unwrap(), "vllm@0.33", &all), Quantity::NeededBytesOneRequest)
    };
    let heads = r#""num_key_value_heads": 2, "head_dim": 64"#;
    let modelopt = r#"{"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}"#;
    let nested = r#"{"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "FP8"}}"#;
    let scheme = r#"{"quant_method": "compressed-tensors",
        "kv_cache_scheme": {"type": "float", "num_bits": 8, "strategy": "tensor"}}"#;
    for asks in [modelopt, nested, scheme] {
        assert_eq!(page(heads, asks, &[]), 16 * 2 * 128, "{asks}");
        assert_eq!(page(heads, asks, &[("kv_dtype", "bf16")]), 16 * 2 * 128 * 2, "{asks}");
    }
    assert_eq!(page(heads, r#"{"quant_method": "fp8", "kv_cache_quant_algo": null}"#, &[]), 16 * 2 * 128 * 2);
    // 512 + 64 values: SM90's kernels take FP8 latents in blocks of 64 tokens.
    let latent = r#""kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128"#;
    assert_eq!(page(latent, modelopt, &[]), 64 * 576);
    assert_eq!(page(latent, scheme, &[]), 16 * 576 * 2);
}

/// vLLM 0.33, `models/registry.py`: Bamba was last in 0.23.
#[test]
fn a_class_that_is_gone_is_told_from_the_next_version_on() {
    let config = r#"{"architectures": ["BambaForCausalLM"], "model_type": "bamba", "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "hidden_size": 512, "dtype": "bfloat16",
        "attn_layer_indices": [1], "mamba_n_heads": 16, "mamba_d_head": 64, "mamba_d_state": 64, "mamba_n_groups": 1,
        "mamba_d_conv": 4}"#;
    let architecture = read_config(config).unwrap();
    let told = |engine: &str| {
        let warnings = report_of(&architecture, engine, &[("max_model_len", "4096")]).warnings;
        warnings.iter().any(|warning| warning.message.contains("last: 0.23"))
    };
    assert!(told("vllm@0.33") && told("vllm@0.24") && !told("vllm@0.23.0"));
}

/// An encoder keeps nothing of a text that it sees at once; a pool then has the one block that is never handed out.
#[test]
fn an_encoder_keeps_nothing() {
    let config = r#"{"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12,
        "dtype": "float32"}"#;
    let given = [("max_model_len", "512"), ("available_kv_bytes", "1000000000")];
    let planned = report_of(&read_config(config).unwrap(), "vllm@0.33", &given);
    assert_eq!(whole(&planned, Quantity::NumBlocks), 1);
    assert_eq!(whole(&planned, Quantity::NeededBytesOneRequest), 0);
    let decoder = read_config(&config.replacen('{', r#"{"is_decoder": true, "#, 1)).unwrap();
    assert!(whole(&report_of(&decoder, "vllm@0.33", &given), Quantity::NeededBytesOneRequest) > 0);
}

/// `MiniCPM3` runs without MLA in vLLM: 2 × 40 × (64 + 32) × 2 B a layer. Without the width of K it is no latent either.
#[test]
fn vllm_refuses_to_expand_heads_of_unknown_width() {
    let config = |nope: &str| {
        format!(
            r#"{{"model_type": "minicpm3", "num_hidden_layers": 2, "num_attention_heads": 40,
                "num_key_value_heads": 40, "hidden_size": 2560, "kv_lora_rank": 256, "qk_rope_head_dim": 32,
                "v_head_dim": 64, {nope} "max_position_embeddings": 32768, "torch_dtype": "bfloat16"}}"#
        )
    };
    let expanded = read_config(&config(r#""qk_nope_head_dim": 64,"#)).unwrap();
    let slope = report_of(&expanded, "vllm", &[]).figure(Quantity::SlopeBytesPerToken).unwrap().as_f64();
    assert!((slope - f64::from(2 * 2 * 40 * (64 + 32) * 2)).abs() < 1e-9);
    let partial = read_config(&config("")).unwrap();
    let settings = Settings::default();
    let query = Query::new(&partial, "vllm".parse().unwrap(), &settings).unwrap();
    assert_eq!(report(&query).unwrap_err().place(), Some("qk_nope_head_dim"));
}
