//! Launches that an engine's own checks refuse are refused with the setting that does not fit, and those beside them are sized.

#![allow(clippy::float_cmp, reason = "figures of whole bytes and tokens are exact")]

use kvscope_sizing::engine::{Query, report};

use crate::support::asked::{catalogued, figure, report_of, settings};

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn refusal(id: &str, engine: &str, pairs: Pairs<'_>) -> Option<String> {
    let (architecture, settings) = (catalogued(id), settings(pairs));
    let query = Query::new(&architecture, engine.parse().unwrap(), &settings).unwrap();
    report(&query).err().map(|error| error.to_string())
}

/// Each with where the refusal has to begin, or nothing where the engine starts.
fn check(rows: &[(&str, &str, Pairs<'_>, &str)]) {
    for (id, engine, pairs, start) in rows {
        let found = refusal(id, engine, pairs);
        let is_right = match &found {
            Some(why) => !start.is_empty() && why.starts_with(start),
            None => start.is_empty(),
        };
        assert!(is_right, "{id} {engine} {pairs:?}: {found:?}");
    }
}

/// vLLM, `unify_kv_cache_spec_page_size`: 0.23.0 raises where a page does not divide the largest, and 0.24.0 pads it. With 8 bits and
/// 4 B of scale a head, Gemma-4's windows take 16 × 8 × 2 × (256 + 4) = 66,560 B and its full layers 16 × 2 × 2 × (512 + 4) = 33,024 B.
/// 0.11.1 has nothing for unequal pages, as bf16's 131,072 and 65,536 B are; 0.12.0 doubles the block.
#[test]
fn pages_that_a_release_of_vllm_cannot_make_equal() {
    let scales = ("kv_dtype", "int8_per_token_head");
    let refused = "engine: this version of vLLM cannot make layers' pages of";
    check(&[
        ("gemma-4-26b-a4b", "vllm@0.23.0", &[scales], &format!("{refused} 33,024 and 66,560 B equal")),
        ("gemma-4-26b-a4b", "vllm@0.23.0", &[scales, ("hybrid_manager", "false")], ""),
        ("gemma-4-26b-a4b", "vllm@0.24.0", &[scales], ""),
        ("gemma-4-26b-a4b", "vllm@0.11.1", &[], &format!("{refused} 65,536 and 131,072 B equal")),
        ("gemma-4-26b-a4b", "vllm@0.12.0", &[], ""),
        ("gpt-oss-120b", "vllm@0.11.0", &[], ""),
    ]);
}

/// vLLM 0.11 to 0.33, `SlidingWindowSpec.max_memory_usage_bytes`: "DCP not support sliding window"; the managers of chunks and, up to
/// 0.19, the coordinator of several groups say the same where prefixes are looked up. `resolve_kv_cache_block_sizes` of 0.20.0 to 0.25.1:
/// "Hybrid KV cache groups with multiple block sizes do not support context parallelism", which 0.26.0 no longer says.
#[test]
fn context_parallel_ranks_beside_windows() {
    let ranks = |tp, dcp| [("tp", tp), ("dcp", dcp)];
    let with = |ranks: [(&'static str, &'static str); 2], more| [&ranks[..], &[more]].concat();
    let (oss, llama, qwen) = (ranks("16", "2"), ranks("40", "5"), ranks("8", "2"));
    let (off, on) = (("prefix_caching", "false"), ("prefix_caching", "true"));
    let refused = "dcp: vLLM refuses context-parallel ranks beside";
    check(&[
        ("gpt-oss-120b", "vllm@0.22", &oss, &format!("{refused} sliding windows")),
        ("gpt-oss-120b", "vllm@0.33", &oss, &format!("{refused} sliding windows")),
        ("gpt-oss-120b", "vllm@0.33", &with(oss, ("hybrid_manager", "false")), ""),
        ("llama-4-scout", "vllm@0.33", &llama, &format!("{refused} chunks")),
        ("llama-4-scout", "vllm@0.33", &with(llama, off), ""),
        ("qwen3.5-27b", "vllm@0.19.1", &with(qwen, on), &format!("{refused} states")),
        ("qwen3.5-27b", "vllm@0.19.1", &with(qwen, off), ""),
        ("qwen3.5-27b", "vllm@0.20", &with(qwen, on), &format!("{refused} several groups")),
        ("qwen3.5-27b", "vllm@0.20", &with(qwen, off), &format!("{refused} several groups")),
        ("qwen3.5-27b", "vllm@0.25.1", &with(qwen, off), &format!("{refused} several groups")),
        ("qwen3.5-27b", "vllm@0.26", &with(qwen, on), ""),
        ("qwen3.5-27b", "vllm@0.26", &with(qwen, off), ""),
        ("kimi-k2.6", "vllm@0.23", &ranks("8", "8"), ""),
    ]);
}

/// `VllmConfig` of 0.17.1 to 0.26.0: in mode align a batch has room for a block, and Qwen3.5-27B's has 784 tokens; 0.16.0 has
/// that assertion not yet and 0.27.0 no more. `MambaCacheMode` of 0.32 is align or none, and `BlockSize` of 0.11.0
/// a list up to 128, of 0.11.1 to 0.17.1 up to 256. `validate_nvfp4_kv_cache_with_mla`, and `nvfp4_ds_mla` from
/// 0.30 on.
#[test]
fn modes_and_formats_that_vllm_does_not_start_with() {
    let small = [("prefix_caching", "true"), ("max_num_batched_tokens", "512")];
    let (all, fp4) = ([("mamba_cache_mode", "all")], [("kv_dtype", "nvfp4")]);
    let no_room = "max_num_batched_tokens: a batch of 512 tokens has no room for a block of 784";
    let latents = "kv_dtype: vLLM refuses nvfp4 for these latents";
    check(&[
        ("qwen3.5-27b", "vllm@0.16.0", &small, ""),
        ("qwen3.5-27b", "vllm@0.17.1", &small, no_room),
        ("qwen3.5-27b", "vllm@0.26.0", &small, no_room),
        ("qwen3.5-27b", "vllm@0.27.0", &small, ""),
        ("falcon-h1-34b", "vllm@0.32", &all, "mamba_cache_mode: vLLM has no mode all"),
        (
            "falcon-h1-34b",
            "vllm@0.32",
            &[("prefix_caching", "false"), all[0]],
            "mamba_cache_mode: vLLM has no mode all",
        ),
        ("falcon-h1-34b", "vllm@0.31", &all, ""),
        ("qwen3.5-27b", "vllm@0.31", &all, "mamba_cache_mode: vLLM refuses all for Qwen"),
        (
            "qwen3-8b",
            "vllm@0.11.0",
            &[("block_size", "256")],
            "block_size: 256 tokens; this version of vLLM takes",
        ),
        ("qwen3-8b", "vllm@0.11.1", &[("block_size", "256")], ""),
        ("qwen3-8b", "vllm@0.17.1", &[("block_size", "48")], "block_size: 48 tokens"),
        ("qwen3-8b", "vllm@0.18.1", &[("block_size", "48")], ""),
        ("kimi-k2.6", "vllm@0.33", &fp4, latents),
        ("deepseek-v3.2", "vllm@0.29", &fp4, latents),
        (
            "deepseek-v3.2",
            "vllm@0.29",
            &[("k_dtype", "nvfp4"), ("v_dtype", "nvfp4")],
            "k_dtype: vLLM refuses nvfp4 for these latents",
        ),
        (
            "qwen3-8b",
            "vllm@0.33",
            &[("k_dtype", "fp8_ds_mla"), ("v_dtype", "fp8_ds_mla")],
            "k_dtype: fp8_ds_mla is a record of latents",
        ),
        ("deepseek-v3.2", "vllm@0.30", &fp4, ""),
    ]);
}

/// vLLM, `v1/attention/backends/flashinfer.py`: 0.20.0 raises "nvfp4 KV cache is not yet supported", also where the checkpoint asks for
/// it; `validate_nvfp4_kv_cache_with_mla` refuses what a checkpoint asks for latents.
#[test]
fn fp4_that_vllm_does_not_start_with() {
    let fp4 = [("kv_dtype", "nvfp4")];
    check(&[
        ("qwen3-8b", "vllm@0.19.1", &fp4, "kv_dtype: nvfp4 is no type of vllm@0.19.1"),
        ("qwen3-8b", "vllm@0.20.0", &fp4, "kv_dtype: this version of vLLM takes nvfp4, but has no kernels"),
        ("qwen3-8b", "vllm@0.22.0", &fp4, ""),
    ]);
    let refused = |shape: &str, engine: &str| {
        let config = format!(
            r#"{{"num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 4096, {shape},
            "dtype": "bfloat16", "quantization_config": {{"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"}}}}"#
        );
        let (architecture, none) = (kvscope_sizing::read_config(&config).unwrap(), settings(&[]));
        let query = Query::new(&architecture, engine.parse().unwrap(), &none).unwrap();
        report(&query).err().map_or(String::new(), |error| error.to_string())
    };
    let heads = r#""head_dim": 128"#;
    let latent = r#""model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128"#;
    assert_eq!(refused(heads, "vllm@0.19.1"), "");
    assert!(
        refused(heads, "vllm@0.20.0").starts_with("quantization_config: this version of vLLM takes nvfp4")
    );
    assert_eq!(refused(heads, "vllm@0.33"), "");
    assert_eq!(refused(latent, "vllm@0.19.1"), "");
    assert!(
        refused(latent, "vllm@0.33").starts_with("quantization_config: vLLM follows the checkpoint's nvfp4")
    );
}

/// `MambaDType` has bfloat16 from 0.22 on; before, `auto` is what the checkpoint says (Qwen3.5: f32), f32 for Nemotron-H since 0.20
/// (`DEFAULT_MAMBA_SSM_CACHE_DTYPE`), else the model's bfloat16.
#[test]
fn a_dtype_of_states_that_no_flag_says() {
    let (bf16, refused) = ([("state_dtype", "bf16")], "state_dtype: bf16 is no type of states in");
    check(&[
        ("qwen3.5-27b", "vllm@0.21", &bf16, refused),
        ("qwen3.5-27b", "vllm@0.22", &bf16, ""),
        ("nemotron-h-8b", "vllm@0.20", &bf16, refused),
        ("nemotron-h-8b", "vllm@0.22", &bf16, ""),
        ("nemotron-h-8b", "vllm@0.19.1", &bf16, ""),
        ("falcon-h1-34b", "vllm@0.21", &bf16, ""),
        ("falcon-h1-34b", "vllm@0.21", &[("conv_dtype", "bf16")], ""),
        ("falcon-h1-34b", "vllm@0.12", &[("conv_dtype", "f16")], "conv_dtype: f16 is no type of states"),
    ]);
}

/// SGLang 0.5.23, `resolve_max_num_reqs`: a request takes 5 slots with the extra buffer, so 200 slots admit 40 of 256 requests, and 4
/// none. The table has a row more, and `get_req_to_token_extra_context_len` 4 columns: 41 × 262,148 × 4 B.
#[test]
fn state_slots_bound_the_request_table() {
    let qwen = catalogued("qwen3.5-27b");
    let table = |pairs: Pairs<'_>| figure(&qwen, "sglang", pairs, "request_table_bytes");
    let asked = [("max_running_requests", "256"), ("max_model_len", "262144")];
    assert_eq!(table(&[&asked[..], &[("state_slots", "200")]].concat()), 42_992_272.0);
    assert_eq!(table(&[&asked[..], &[("radix_cache", "false")]].concat()), f64::from(257 * 262_148) * 4.0);
    check(&[
        (
            "qwen3.5-27b",
            "sglang",
            &[("state_slots", "2")],
            "state_slots: 2 slots admit no request, which takes 5",
        ),
        ("qwen3.5-27b", "sglang", &[("state_slots", "4")], "state_slots: 4 slots"),
        ("qwen3.5-27b", "sglang", &[("state_slots", "5")], ""),
        ("qwen3.5-27b", "sglang", &[("state_slots", "9"), ("tp", "2"), ("dp", "2")], "state_slots: 9 slots"),
        ("qwen3.5-27b", "sglang", &[("state_slots", "1"), ("radix_cache", "false")], ""),
        ("qwen3-8b", "sglang", &[("state_slots", "2")], ""),
        // `MemoryPoolConfig`: "Not enough memory"; a token of Qwen3-8B takes 147,456 B.
        ("qwen3-8b", "sglang", &[("pool_tokens", "0")], "pool_tokens: the pools admit no request"),
        (
            "qwen3-8b",
            "sglang",
            &[("available_kv_bytes", "147KB")],
            "available_kv_bytes: the pools admit no request",
        ),
        ("qwen3-8b", "sglang", &[("available_kv_bytes", "148KB")], ""),
    ]);
}

/// SGLang 0.5.23: `handle_cache_compatibility` (a ratio in (0, 1]), `check_server_args` (chunks of whole pages),
/// `validate_mamba_no_buffer` and `validate_mamba_extra_buffer`, `_dsa_kv_cache_dtype_default`, `_deepseek_v4_kv_cache_dtype`.
#[test]
fn settings_that_sglang_does_not_start_with() {
    let [none, buffer, lazy] =
        ["no_buffer", "extra_buffer", "extra_buffer_lazy"].map(|strategy| ("mamba_radix_strategy", strategy));
    let (page, batch) = (|tokens| ("block_size", tokens), |tokens| ("max_num_batched_tokens", tokens));
    let ratio = |ratio| [("swa_full_tokens_ratio", ratio)];
    let (hybrid, sglang) = ("qwen3.5-27b", "sglang");
    let format = |format| [("kv_dtype", format)];
    check(&[
        ("gpt-oss-120b", sglang, &ratio("1.5"), "swa_full_tokens_ratio: 1.5 is more than 1"),
        ("gpt-oss-120b", sglang, &ratio("1"), ""),
        ("qwen3-8b", sglang, &[page("48")], "block_size: pages of 48 tokens do not divide"),
        ("qwen3-8b", sglang, &[page("48"), batch("4800")], ""),
        ("qwen3-8b", sglang, &[page("64"), batch("100")], "max_num_batched_tokens: pages"),
        (hybrid, sglang, &[none, page("64")], "mamba_radix_strategy: no_buffer needs"),
        (hybrid, sglang, &[none], "mamba_radix_strategy: no_buffer cannot"),
        (hybrid, sglang, &[none, ("pp", "2")], "mamba_radix_strategy: no_buffer cannot"),
        (hybrid, sglang, &[none, ("async_scheduling", "false")], ""),
        (hybrid, sglang, &[lazy, ("pp", "2")], "mamba_radix_strategy: extra_buffer_lazy"),
        (hybrid, sglang, &[buffer, page("512")], "mamba_radix_strategy: states are kept"),
        ("jamba-1.5-mini", sglang, &[buffer], "mamba_radix_strategy: this class has no"),
        ("deepseek-v3.2", sglang, &format("nvfp4"), "kv_dtype: SGLang refuses nvfp4"),
        ("deepseek-v4-flash", sglang, &format("mxfp8"), "kv_dtype: SGLang refuses mxfp8"),
        (
            "deepseek-v3.2",
            sglang,
            &[("k_dtype", "nvfp4"), ("v_dtype", "nvfp4")],
            "k_dtype: SGLang refuses nvfp4",
        ),
        ("deepseek-v4.1-flash", sglang, &format("nvfp4"), "kv_dtype: SGLang refuses nvfp4"),
        ("deepseek-v4.1-flash", sglang, &format("fp8"), ""),
        ("kimi-k2.6", sglang, &format("fp8_ds_mla"), "kv_dtype: SGLang refuses fp8_ds_mla"),
    ]);
}

/// None of the back ends of latents lists scales of a token and head, and only sparse ones the scaled record
/// (`supported_kv_cache_dtypes` of vLLM 0.33); `FlashMLA`'s reads records of FP4 on compute capability 10 alone
/// (`supports_combination`). SGLang's `get_default_attn_backend` chooses TRT-LLM's kernels on `SM10x`, whose pages of heads
/// are of 16, 32, 64 or 128 tokens, and of latents of 32 or 64 (`_mla_backend_page_constraints`).
#[test]
fn what_back_ends_do_not_take_is_told() {
    let told = |id: &str, engine: &str, asked: Pairs<'_>| {
        let names = ["kv_dtype", "block_size"];
        let found = report_of(&catalogued(id), engine, asked).warnings;
        found.iter().any(|warning| names.contains(&warning.field.as_str()))
    };
    assert!(told("kimi-k2.6", "vllm", &[("kv_dtype", "int8_per_token_head")]));
    assert!(told("kimi-k2.6", "vllm", &[("kv_dtype", "fp8_ds_mla")]));
    assert!(!told("deepseek-v3.2", "vllm", &[("kv_dtype", "fp8_ds_mla")]));
    assert!(told("deepseek-v3.2", "vllm", &[("kv_dtype", "nvfp4"), ("gpu", "H100")]));
    assert!(!told("deepseek-v3.2", "vllm", &[("kv_dtype", "nvfp4"), ("gpu", "B200")]));
    assert!(!told("qwen3-8b", "vllm", &[("kv_dtype", "int8_per_token_head")]));
    // `FlashInfer` alone reads FP4 heads: up to 0.31 on SM10x, from 0.32 on elsewhere too, but no heads of 64 values, of which gpt-oss's
    // are, and not for context-parallel ranks; MiMo-V2-Flash's heads of 192 nowhere.
    for (id, engine, gpu, is_told) in [
        ("qwen3-8b", "vllm@0.31", "H100", true),
        ("qwen3-8b", "vllm@0.31", "B200", false),
        ("qwen3-8b", "vllm@0.32", "H100", false),
        ("gpt-oss-120b", "vllm@0.33", "H100", true),
        ("gpt-oss-120b", "vllm@0.33", "RTX 5090", true),
        ("gpt-oss-120b", "vllm@0.33", "B200", false),
        ("mimo-v2-flash", "vllm@0.33", "B200", true),
    ] {
        assert_eq!(told(id, engine, &[("kv_dtype", "nvfp4"), ("gpu", gpu)]), is_told, "{id} {engine} {gpu}");
    }
    let ranks = [("kv_dtype", "nvfp4"), ("tp", "16"), ("dcp", "2"), ("gpu", "H100")];
    assert!(told("qwen3-8b", "vllm@0.33", &ranks));
    assert!(told("qwen3-8b", "sglang", &[("gpu", "B200")]));
    for (id, page, is_told) in [
        ("qwen3-8b", "64", false),
        ("qwen3-8b", "128", false),
        ("qwen3-8b", "256", true),
        ("deepseek-v3", "32", false),
        ("deepseek-v3", "128", true),
    ] {
        assert_eq!(told(id, "sglang", &[("gpu", "B200"), ("block_size", page)]), is_told, "{id} {page}");
        assert!(!told(id, "sglang", &[("gpu", "H100"), ("block_size", page)]), "{id} {page}");
    }
    assert!(!told("qwen3-8b", "sglang", &[("gpu", "H100")]));
}

/// `model_overrides/deepseek_v4.py` and `deepseek_v2.py` set pages of 256 and 64 tokens whatever is asked.
#[test]
fn sglang_takes_the_page_of_the_class() {
    for (id, page) in [("deepseek-v4-flash", 256.0), ("deepseek-v3.2", 64.0)] {
        let architecture = catalogued(id);
        let asked = [("block_size", "32")];
        assert_eq!(figure(&architecture, "sglang", &asked, "attention_block_size"), page, "{id}");
        let told = report_of(&architecture, "sglang", &asked).warnings;
        assert!(told.iter().any(|warning| warning.field == "block_size"), "{told:?}");
    }
}

/// "Note that `tokens_per_block` must be a power of 2" (TensorRT-LLM's documentation of KV cache reuse).
#[test]
fn blocks_of_tensorrt_llm_are_powers_of_two() {
    check(&[
        ("qwen3-8b", "trtllm", &[("block_size", "48")], "block_size: 48 tokens are no power of two"),
        ("qwen3-8b", "trtllm", &[("block_size", "64")], ""),
    ]);
}

/// `-c 0` is the length that the model was trained on (`llama_context`), 40,960 tokens for Qwen3-8B: 36 × 2 × 8 × 128 × 2 B each.
#[test]
fn no_context_in_llama_cpp_is_that_of_the_model() {
    let qwen = catalogued("qwen3-8b");
    let bytes = |pairs: Pairs<'_>| figure(&qwen, "llama.cpp", pairs, "kv_bytes");
    assert_eq!(bytes(&[("n_ctx", "0"), ("context", "1000")]), 40_960.0 * 147_456.0);
    assert!(bytes(&[("context", "1000")]) < 2e8);
}
