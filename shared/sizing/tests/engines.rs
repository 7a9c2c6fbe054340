//! Engine profiles other than those of vLLM and llama.cpp, against figures that the engines' planners print or that are
//! derived by hand.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::float_cmp,
    reason = "the figures are exact: whole numbers below 2^53, or halves and quarters"
)]

use crate::support::asked;

use asked::{catalogued, figure, report_of, settings};
use kvscope_sizing::engine::{Figure, Query, answer, report};
use kvscope_sizing::{Architecture, Settings, Tokens, catalogue, find_entry, read_config};

const LLAMA_8B: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096, "max_position_embeddings": 131072}"#;

fn has_windows(architecture: &Architecture) -> bool {
    figure(architecture, "logical", &[("context", "1000000")], "window_bytes") > 0.0
}

/// SGLang 0.5.23's configurator with an explicit number of requests: 3899.25 and 5586.75 B for a token of V4-Flash and
/// V4-Pro. By hand for Flash: 21 × (37440 / 64 / 4 + 132 / 4) + 20 × 1728 / 2 / 128.
#[test]
fn sglang_cells_of_deepseek_v4() {
    for (id, cell) in [("deepseek-v4-flash", 3899.25), ("deepseek-v4-pro", 5586.75)] {
        let architecture = catalogued(id);
        let capped = [("max_running_requests", "32"), ("block_size", "256")];
        assert_eq!(figure(&architecture, "sglang", &capped, "pool_bytes_per_token"), cell, "{id}");
        assert_eq!(figure(&architecture, "sglang", &capped, "slope_bytes_per_token"), cell, "{id}");
    }
    // Without a number of requests a tenth of the tokens have windows: 43 × 585 B and 21 rings of 8 rows of 10240 B.
    let flash = catalogued("deepseek-v4-flash");
    let by_ratio = 3899.25 + 0.1 * (43.0 * 585.0 + 21.0 * 8.0 / 256.0 * 10_240.0);
    let found = figure(&flash, "sglang@0.5.23", &[], "pool_bytes_per_token");
    assert!((found - by_ratio).abs() < 1e-9, "{found}");
}

/// Gemma-3 is not in SGLang's list: 62 layers × 8 heads × 2 × 128 × 2 B at tensor parallelism 2, windows included, with
/// a warning. gpt-oss is: 18 × 8 × 128 × 2 B, and windows that stop growing.
#[test]
fn sglang_has_window_pools_for_some_classes_only() {
    let gemma = read_config(
        r#"{"architectures": ["Gemma3ForCausalLM"], "text_config": {"model_type": "gemma3_text",
            "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
            "sliding_window": 1024, "sliding_window_pattern": 6}}"#,
    )
    .unwrap();
    let asked = [("tp", "2"), ("kv_dtype", "bf16")];
    assert_eq!(figure(&gemma, "sglang", &asked, "slope_bytes_per_token"), 253_952.0);
    assert!(
        report_of(&gemma, "sglang", &asked).warnings.iter().any(|warning| warning.field == "architectures")
    );
    let flagged = read_config(
        r#"{"architectures": ["OwnForCausalLM"], "model_type": "own", "is_hybrid_swa": true,
            "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
            "sliding_window": 128, "layer_types": ["full_attention", "sliding_attention"]}"#,
    )
    .unwrap();
    // Four fifths of a token of windows come with every token: 2048 + 0.8 × 2048 B. A pool must have more than a window
    // and a page, 130 tokens, of which 163 tokens are the least full pool; up to there nothing grows.
    assert_eq!(figure(&flagged, "sglang", &[], "slope_bytes_per_token"), 3686.4);
    assert_eq!(figure(&flagged, "sglang", &[], "fixed_bytes_per_request"), 0.0);
    let short = [("context", "100")];
    assert_eq!(figure(&flagged, "sglang", &short, "slope_bytes_per_token"), 0.0);
    let least = 163.0 * 2048.0 + (163.0_f64 * 0.8 * 2048.0).ceil();
    assert_eq!(figure(&flagged, "sglang", &short, "resident_bytes"), least);
    assert_eq!(figure(&flagged, "sglang", &short, "fixed_bytes_per_request"), least);
}

/// Without a radix cache an explicit number of requests caps the window pool:
/// 4 × (128 + 128 + 64 + 64) + 2 × 8192 + 64 tokens, whole pages of 64.
#[test]
fn sglang_caps_the_window_pool_by_requests() {
    let architecture = catalogued("gpt-oss-120b");
    let asked = [
        ("kv_dtype", "bf16"),
        ("block_size", "64"),
        ("radix_cache", "false"),
        ("max_running_requests", "4"),
        ("available_kv_bytes", "10000000000"),
    ];
    let window: u64 = 4 * (128 + 128 + 64 + 64) + 2 * 8192 + 64;
    let layer = 8 * 2 * 64 * 2;
    let left = 10_000_000_000 - window * 18 * layer;
    let tokens = left / (18 * layer) / 64 * 64;
    assert_eq!(figure(&architecture, "sglang", &asked, "logged_kv_tokens"), tokens as f64);
    // With the radix cache the ratio decides again.
    let cell = 18.0 * layer as f64 * 1.8;
    let by_ratio: Vec<(&str, &str)> =
        asked.iter().copied().filter(|(name, _)| *name != "radix_cache").collect();
    let expected = (10_000_000_000.0 / cell / 64.0).floor() * 64.0;
    assert_eq!(figure(&architecture, "sglang", &by_ratio, "logged_kv_tokens"), expected);
}

/// A pool that was sized from a budget fits it, apart from its padding page, and wastes less than a page.
#[test]
fn sglang_pools_fill_their_budget() {
    for entry in catalogue() {
        let Ok(architecture) = entry.architecture() else { continue };
        let asked = [
            ("available_kv_bytes", "60000000000"),
            ("max_running_requests", "16"),
            ("max_model_len", "32768"),
        ];
        let settings = settings(&asked);
        let query = Query::new(&architecture, "sglang".parse().unwrap(), &settings).unwrap();
        let whole = |quantity: &str| answer(&query, quantity.parse().unwrap()).ok().map(Figure::as_f64);
        let Some((tokens, cell)) = whole("logged_kv_tokens").zip(whole("pool_bytes_per_token")) else {
            continue;
        };
        let page = whole("attention_block_size").unwrap();
        assert!(tokens * cell <= 60e9, "{}: {tokens} × {cell}", entry.id);
        assert_eq!(tokens % page, 0.0, "{}", entry.id);
    }
}

/// Qwen3.6-35B at tensor parallelism 2: 30 × (16 × 128 × 128 × 4 + 3 × 4096 × 2) B of state a request; bf16 on request.
#[test]
fn sglang_keeps_state_in_f32() {
    let architecture = read_config(
        r#"{"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 40,
            "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16,
            "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4, "torch_dtype": "bfloat16"}"#,
    )
    .unwrap();
    let fixed = |pairs: &[(&str, &str)]| figure(&architecture, "sglang", pairs, "fixed_bytes_per_request");
    let conv = 3 * 4096 * 2;
    assert_eq!(fixed(&[("tp", "2")]), f64::from(30 * (16 * 128 * 128 * 4 + conv)));
    assert_eq!(fixed(&[("tp", "2"), ("state_dtype", "bf16")]), f64::from(30 * (16 * 128 * 128 * 2 + conv)));
    // 40 slots and the one that padded batches write to.
    let slots = figure(&architecture, "sglang", &[("state_slots", "40")], "state_bytes");
    assert_eq!(slots, 41.0 * f64::from(30 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)));
    // llama.cpp keeps both parts in f32, undivided; logical bytes follow the model's dtype.
    let llama = figure(&architecture, "llama.cpp", &[("context", "256")], "state_bytes");
    assert_eq!(llama, f64::from(30 * (32 * 128 * 128 * 4 + 3 * 8192 * 4)));
    let logical = figure(&architecture, "logical", &[("context", "256")], "state_bytes");
    assert_eq!(logical, f64::from(30 * (32 * 128 * 128 * 2 + 3 * 8192 * 2)));
}

/// Qwen3.5-397B over 8 ranks: 45 of 60 layers keep a state of 8 × 128 × 128 f32 values and 3 × 1536 bf16 ones. A request
/// takes five slots (`_calculate_mamba_ratio`: 3, and 2 that overlapping batches write to), and the pool one more.
#[test]
fn sglang_reserves_every_state_slot_of_a_request() {
    let architecture = catalogued("qwen3.5-397b-a17b");
    let with =
        |pairs: &[(&'static str, &'static str)]| [&[("tp", "8"), ("context", "100000")], pairs].concat();
    let state = f64::from(45 * (8 * 128 * 128 * 4 + 3 * 1536 * 2));
    assert_eq!(figure(&architecture, "sglang", &with(&[]), "fixed_bytes_per_request"), state);
    assert_eq!(figure(&architecture, "sglang", &with(&[]), "state_bytes"), 6.0 * state);
    assert_eq!(figure(&architecture, "sglang", &with(&[("batch", "3")]), "state_bytes"), 16.0 * state);
    assert_eq!(
        figure(&architecture, "sglang", &with(&[("radix_cache", "false")]), "state_bytes"),
        2.0 * state
    );
    let kv = figure(&architecture, "sglang", &with(&[]), "kv_bytes");
    assert_eq!(figure(&architecture, "sglang", &with(&[]), "resident_bytes"), kv + 6.0 * state);
    // Beside 20 GB of caches a launch gives states nine tenths of that: 18e9 / 24,007,680 B are 749 slots with the padded
    // one, which admit 748 / 5 requests (`_handle_max_mamba_cache`, mamba_full_memory_ratio 0.9).
    let budget = with(&[("available_kv_bytes", "20GB")]);
    assert_eq!(state, 24_007_680.0);
    assert_eq!(figure(&architecture, "sglang", &budget, "max_running_requests"), 149.0);
    let told = report_of(&architecture, "sglang", &budget).warnings;
    assert!(
        told.iter().any(|warning| warning.field == "state_slots" && warning.message.contains("748 slots"))
    );
    // A pool of given tokens says nothing of slots.
    let found = report_of(&architecture, "sglang", &with(&[("pool_tokens", "100000")]));
    let admitted = "max_running_requests".parse().unwrap();
    let why = &found.unanswered.iter().find(|row| row.quantity == admitted).unwrap().why;
    assert!(why.starts_with("state_slots: not given"), "{why}");
    let given = with(&[("available_kv_bytes", "20GB"), ("state_slots", "40")]);
    assert_eq!(figure(&architecture, "sglang", &given, "max_running_requests"), 8.0);
}

/// `configure_kv_cache_dtype` of SGLang: the FP8 K/V of `ModelOpt`'s and of plain FP8 configs (`Fp8Config.from_config`) is
/// followed where nothing is set, other names are not: 32 × 2 × 8 × 128 B and twice that. vLLM reads `ModelOpt`'s alone.
#[test]
fn sglang_follows_the_fp8_of_a_checkpoint() {
    let of = |engine: &str, method: &str, algorithm: &str, pairs: &[(&str, &str)]| {
        let mut config: serde_json::Value = serde_json::from_str(LLAMA_8B).unwrap();
        config["torch_dtype"] = "bfloat16".into();
        config["quantization_config"] =
            serde_json::json!({"quant_method": method, "kv_cache_quant_algo": algorithm});
        figure(&read_config(&config.to_string()).unwrap(), engine, pairs, "slope_bytes_per_token")
    };
    let slope = |algorithm: &str, pairs: &[(&str, &str)]| of("sglang", "modelopt", algorithm, pairs);
    assert_eq!(of("sglang", "fp8", "FP8", &[]), 65_536.0);
    assert_eq!(of("vllm", "fp8", "FP8", &[]), 131_072.0);
    assert_eq!(slope("FP8", &[]), 65_536.0);
    assert_eq!(slope("NVFP4", &[]), 131_072.0);
    // TensorRT-LLM takes what a pre-quantised checkpoint has: NVFP4 is half a byte and a scale for 16 values.
    assert_eq!(of("trtllm", "modelopt", "FP8", &[]), 65_536.0);
    assert_eq!(of("trtllm", "modelopt", "NVFP4", &[]), 36_864.0);
    assert_eq!(of("trtllm", "modelopt", "FP8", &[("kv_dtype", "fp8")]), 65_536.0);
    let mut config: serde_json::Value = serde_json::from_str(LLAMA_8B).unwrap();
    config["quantization_config"] =
        serde_json::json!({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"});
    let settings = settings(&[("kv_dtype", "bf16")]);
    let architecture = read_config(&config.to_string()).unwrap();
    let query = Query::new(&architecture, "trtllm".parse().unwrap(), &settings).unwrap();
    let refused = report(&query).unwrap_err().to_string();
    assert!(refused.starts_with("kv_dtype: bf16 is set, but the checkpoint's K/V are fp8"), "{refused}");
    assert_eq!(slope("FP8", &[("kv_dtype", "bf16")]), 131_072.0);
}

/// A card decides layouts and chunks, so an assumed one is named.
#[test]
fn an_assumed_gpu_is_told() {
    let architecture = catalogued("deepseek-v4.1-flash");
    for engine in ["vllm", "sglang"] {
        let told = |pairs: &[(&str, &str)]| {
            let found = report_of(&architecture, engine, pairs);
            found.warnings.iter().any(|warning| warning.field == "gpu" && warning.message.contains("H100"))
        };
        assert!(told(&[]) && told(&[("gpu", "abacus")]), "{engine}");
        assert!(!told(&[("gpu", "B200")]) && !told(&[("gpu", "NVIDIA H200")]), "{engine}");
    }
}

/// The pool configurator caps DeepSeek-V4's windows by requests, a launch does not: the report names both.
#[test]
fn sglang_names_the_cap_that_its_launch_does_not_set() {
    let architecture = catalogued("deepseek-v4-flash");
    let told = |pairs: &[(&str, &str)]| {
        let found = report_of(&architecture, "sglang", pairs);
        let told = found.warnings.into_iter().find(|warning| warning.field == "max_running_requests");
        told.map_or(String::new(), |warning| warning.message)
    };
    assert!(told(&[("max_running_requests", "32")]).starts_with("caps the window pool"));
    // `deepseek_v4_hook.py`
    assert!(told(&[]).starts_with("not given; this launch takes 256"));
    let launched = [("max_running_requests", "32"), ("swa_full_tokens_ratio", "0.1")];
    assert_eq!(told(&launched), "");
    let cell = |pairs: &[(&str, &str)]| figure(&architecture, "sglang", pairs, "pool_bytes_per_token");
    assert_eq!(cell(&launched), cell(&[]));
}

/// Ratios by hand: 32 query heads for 8 K/V heads; 2 × 512 values for 576; 4 windows of five layers at full length.
#[test]
fn naive_formulas() {
    let llama = read_config(LLAMA_8B).unwrap();
    let factor = |architecture: &Architecture, formula: &str, context: &str| {
        let asked = [("naive", formula), ("context", context)];
        figure(architecture, "logical", &asked, "overestimate_factor")
    };
    assert_eq!(factor(&llama, "mha_heads", "1000"), 4.0);
    assert_eq!(factor(&llama, "all_layers_full", "1000"), 1.0);
    let v2_lite = read_config(
        r#"{"model_type": "deepseek_v2", "num_hidden_layers": 27, "num_attention_heads": 16,
            "num_key_value_heads": 16, "hidden_size": 2048, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128, "v_head_dim": 128}"#,
    )
    .unwrap();
    assert_eq!(factor(&v2_lite, "mla_as_kv", "1000"), 1024.0 / 576.0);
    assert_eq!(factor(&v2_lite, "mla_as_mha", "1000"), 2.0 * 16.0 * 128.0 / 576.0);
    let windows = read_config(
        r#"{"model_type": "own", "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 8,
            "head_dim": 64, "sliding_window": 100, "layer_types": ["sliding_attention", "sliding_attention",
            "sliding_attention", "sliding_attention", "full_attention"]}"#,
    )
    .unwrap();
    assert_eq!(factor(&windows, "windows_full", "1000"), 5000.0 / 1400.0);
    assert_eq!(factor(&windows, "windows_full", "50"), 1.0);
}

/// Latents are the same on every tensor-parallel rank and divided by pipeline ranks: 31 and 30 of 61 layers.
#[test]
fn logical_ranks() {
    let v3 = catalogued("deepseek-v3");
    let slope = |pairs: &[(&str, &str)]| figure(&v3, "logical", pairs, "slope_bytes_per_token");
    assert_eq!(slope(&[("tp", "8")]), 70_272.0);
    assert_eq!(slope(&[("pp", "2")]), 31.0 * 1152.0);
    assert_eq!(slope(&[("layers_on_rank", "3")]), 3.0 * 1152.0);
    assert_eq!(slope(&[("draft_layers", "1")]), 62.0 * 1152.0);
    let llama = read_config(LLAMA_8B).unwrap();
    let asked = [("tp", "4"), ("pp", "2"), ("context", "1000"), ("batch", "3")];
    assert_eq!(figure(&llama, "logical", &asked, "resident_bytes"), f64::from(16 * 2 * 2 * 128 * 2 * 3000));
    let error = |pairs: &[(&str, &str)]| {
        let settings = settings(pairs);
        let query = Query::new(&llama, "logical".parse().unwrap(), &settings).unwrap();
        answer(&query, "slope_bytes_per_token".parse().unwrap()).unwrap_err()
    };
    assert_eq!(error(&[("pp", "33")]).place(), Some("pp"));
    assert_eq!(error(&[("layers_on_rank", "33")]).place(), Some("layers_on_rank"));
}

/// TensorRT-LLM: whole blocks of 32 tokens; attention data parallelism leaves each rank all heads.
#[test]
fn trtllm_blocks_and_ranks() {
    let llama = read_config(LLAMA_8B).unwrap();
    let resident = |pairs: &[(&str, &str)]| figure(&llama, "trtllm", pairs, "resident_bytes");
    let token = f64::from(32 * 2 * 8 * 128 * 2);
    assert_eq!(resident(&[("context", "100")]), token * 128.0);
    assert_eq!(resident(&[("context", "100"), ("block_size", "64")]), token * 128.0);
    assert_eq!(resident(&[("context", "128"), ("tp", "8")]), token / 8.0 * 128.0);
    assert_eq!(resident(&[("context", "128"), ("tp", "8"), ("dp", "8")]), token * 128.0);
    let padding = report_of(&llama, "trtllm", &[("context", "100")]).padding;
    assert_eq!(padding.iter().map(|row| row.bytes.get()).sum::<u64>(), 28 * 131_072);
}

/// A prompt of 100000 tokens passes 12 whole intervals of 8192: twelve states of 30 × (32 × 128 × 128 + 3 × 8192) × 2 B.
#[test]
fn states_kept_for_prefix_reuse() {
    let architecture = read_config(
        r#"{"model_type": "qwen3_next", "num_hidden_layers": 40, "num_attention_heads": 16,
            "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
            "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4}"#,
    )
    .unwrap();
    let asked = [("context", "100000"), ("checkpoint_interval", "8192")];
    let states = figure(&architecture, "logical", &asked, "checkpoint_bytes");
    assert_eq!(states, 12.0 * f64::from(30 * (32 * 128 * 128 + 3 * 8192) * 2));
}

/// Cross-attention takes its length from the setting: 8 layers × 2 × 8 × 128 × 4 B × 6404.
#[test]
fn cross_attention_needs_the_encoders_length() {
    let vision = read_config(
        r#"{"model_type": "mllama", "text_config": {"model_type": "mllama_text_model", "num_hidden_layers": 40,
            "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
            "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]}}"#,
    )
    .unwrap();
    for engine in ["logical", "llama.cpp", "trtllm"] {
        let asked = [("context", "256"), ("cross_dtype", "f32"), ("encoder_tokens", "6404")];
        assert_eq!(figure(&vision, engine, &asked, "cross_bytes"), 419_692_544.0, "{engine}");
    }
    let settings = settings(&[("context", "256")]);
    let query = Query::new(&vision, "logical".parse().unwrap(), &settings).unwrap();
    let error = answer(&query, "cross_bytes".parse().unwrap()).unwrap_err();
    assert_eq!(error.place(), Some("encoder_tokens"));
}

/// Past every window, unsharded and in equal formats, no engine reserves less than the state itself. vLLM's index layers
/// are its own test.
#[test]
fn engines_reserve_at_least_the_state() {
    let context = Tokens::new(200_000);
    for entry in catalogue() {
        let Ok(architecture) = entry.architecture() else { continue };
        let context_text = context.get().to_string();
        let asked = [
            ("context", context_text.as_str()),
            ("n_ctx", context_text.as_str()),
            ("index_dtype", "fp4"),
            ("state_dtype", "f32"),
            ("conv_dtype", "f32"),
        ];
        let settings = settings(&asked);
        let resident = |engine: &str| {
            let query = Query::new(&architecture, engine.parse().unwrap(), &settings).ok()?;
            answer(&query, "resident_bytes".parse().unwrap()).ok()?.whole()
        };
        let Some(logical) = resident("logical") else { continue };
        for engine in ["llama.cpp", "trtllm", "transformers", "sglang"] {
            let reserved = resident(engine).unwrap_or_else(|| panic!("{} in {engine}", entry.id));
            if engine == "transformers" && has_windows(&architecture) {
                // Its windows hold a token less: the newest is added by each step.
                continue;
            }
            assert!(reserved >= logical, "{} in {engine}: {reserved} < {logical}", entry.id);
        }
    }
}

/// A list of what an engine keeps is not computed, which is not the same as an empty one.
#[test]
fn components_under_an_engine_are_null() {
    let architecture = find_entry("llama-3.1-8b").unwrap().architecture().unwrap();
    let settings = Settings::default();
    let size = kvscope_sizing::engine::size_in_engine(
        "own",
        &architecture,
        &"vllm".parse().unwrap(),
        Some(Tokens::new(4096)),
        1,
        &settings,
    );
    let json = serde_json::to_value(size.unwrap()).unwrap();
    assert_eq!(json.get("components"), Some(&serde_json::Value::Null));
    assert!(json["logical"]["components"].as_array().is_some_and(|rows| !rows.is_empty()));
}
