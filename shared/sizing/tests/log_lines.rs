//! Lines by which an engine says what it chose, in the words of each version. Line shapes are those of the sources that each
//! test names; expected figures are derived here by hand.

#![allow(clippy::float_cmp, reason = "these figures are exact")]

use kvscope_sizing::log::{DecodedLog, decode_log};

fn decoded(text: &str) -> DecodedLog {
    decode_log(text, None).expect("a log with known lines")
}

fn start(version: &str, model: &str, length: u32) -> String {
    format!(
        "INFO Initializing a V1 LLM engine (v{version}) with config: model='{model}', max_seq_len={length}\n"
    )
}

const POOL: &str = "INFO Available KV cache memory: 60.00 GiB\n";

/// What the log says a setting is.
fn said(line: &str, name: &str) -> Option<String> {
    decoded(&format!("{}INFO {line}\n{POOL}", start("0.33.0", "Somebody/Else", 8192))).settings.value(name)
}

fn agrees(decoded: &DecodedLog, name: &str) {
    let figures: Vec<_> = decoded.figures.iter().filter(|figure| figure.name == name).collect();
    assert!(!figures.is_empty(), "{name}");
    for figure in figures {
        assert!(figure.recomputed.is_some(), "{} is not recomputed", figure.says);
        assert_eq!(figure.difference, None, "{}", figure.says);
    }
}

/// `model_executor/models/config.py` of 0.11 to 0.33, `config/cache.py`, and `mla_attention.py` of 0.33, which names the scaled
/// record where it advises it.
#[test]
fn the_format_of_the_cache_is_what_the_line_says() {
    for (line, format) in [
        ("Using custom fp8 kv-cache format for DeepSeekV3.2", "fp8_ds_mla"),
        ("Using bfloat16 kv-cache for DeepSeekV3.2", "bf16"),
        ("Using fp8 kv-cache for GlmMoeDsaForCausalLM on SM10x", "fp8"),
        ("Using fp8 KV cache for GLM-5.3-Flash", "fp8"),
        ("Using fp8 data type to store kv cache. It reduces the GPU memory footprint", "fp8"),
        ("Using fp8_e5m2 data type to store kv cache. It reduces the GPU memory footprint", "fp8"),
        ("Using int4_per_token_head data type to store kv cache. It reduces the GPU", "int4_per_token_head"),
        ("Using nvfp4 data type to store kv cache. It reduces the GPU memory footprint", "nvfp4"),
        ("Using fp8_ds_mla KV cache format for FLASHMLA_SPARSE backend.", "fp8_ds_mla"),
        ("Using DeepSeek's fp8_ds_mla KV cache format.", "fp8_ds_mla"),
        (
            "Using standard fp8 KV cache format. To use DeepSeek's fp8_ds_mla KV cache format, please set \
             `--attention-backend FLASHMLA_SPARSE`",
            "fp8",
        ),
    ] {
        assert_eq!(said(line, "kv_dtype").as_deref(), Some(format), "{line}");
    }
    for line in ["Using BLHNC KV cache layout.", "Using KV cache scaling factor 1.0 for fp8_e4m3."] {
        assert_eq!(said(line, "kv_dtype"), None, "{line}");
    }
}

/// DeepSeek-V3.2 in the scaled record: 61 × (656 + 132) × 64 B = 3,076,352 B a block; 60 GiB hold 20,941 or, with what printing
/// rounds, 20,939 to 20,943, and a request of 65,536 tokens takes 1024.
#[test]
fn the_scaled_record_of_an_old_log_is_recomputed() {
    let figures = "INFO GPU KV cache size: 1,340,224 tokens\n\
                   INFO Maximum concurrency for 65,536 tokens per request: 20.45x\n";
    let head = start("0.11.0", "deepseek-ai/DeepSeek-V3.2-Exp", 65_536);
    let line = "INFO Using custom fp8 kv-cache format for DeepSeekV3.2\n";
    let found = decoded(&format!("{head}{line}{POOL}{figures}"));
    assert_eq!(found.model.recomputed_as.as_deref(), Some("deepseek-v3.2"));
    for name in ["logged_kv_tokens", "max_concurrency"] {
        agrees(&found, name);
    }
    assert!(!found.has_differences(), "{:?}", found.contradictions);
    let other = line.replace("custom fp8 kv-cache format", "bfloat16 kv-cache");
    assert!(decoded(&format!("{head}{other}{POOL}{figures}")).has_differences());
}

/// `config/vllm.py`, `platforms/interface.py`, `platforms/cuda.py`, `platforms/xpu.py`, `gdn/qwen_gdn_linear_attn.py`,
/// `v1/core/kv_cache_planning.py` and `model_executor/models/config.py`.
#[test]
fn choices_beside_the_arguments_are_settings() {
    for (line, name, value) in [
        ("Setting kv cache block size to 64 for FLASHMLA_SPARSE backend(s).", "block_size", "64"),
        ("Forcing kv cache block size to 128 for CUTLASS_MLA backend.", "block_size", "128"),
        (
            "[XPU]Setting attention block size to 832 tokens to ensure multiple of 64.",
            "kernel_block_size",
            "64",
        ),
        (
            "Using FlashInfer GDN prefill kernel (requested=auto, head_k_dim=128).",
            "gdn_prefill_backend",
            "flashinfer",
        ),
        (
            "Using Triton/FLA GDN prefill kernel (requested=triton, head_k_dim=128).",
            "gdn_prefill_backend",
            "triton",
        ),
        ("Hybrid KV cache manager is disabled for this hybrid model, This means", "hybrid_manager", "off"),
        (
            "Turning off hybrid kv cache manager because `--kv-transfer-config` is set.",
            "hybrid_manager",
            "off",
        ),
        (
            "KV cache page sizes cannot be unified; treating sliding-window layers as full attention for cache \
             allocation. Sliding-window attention compute is unchanged.",
            "hybrid_manager",
            "off",
        ),
        ("Updating mamba_ssm_cache_dtype to 'float32' for NemotronH model", "state_dtype", "f32"),
        (
            "Auto-fit max_model_len: reduced from 262144 to 13528 to fit in available KV cache memory (9.00 GiB)",
            "max_model_len",
            "13528",
        ),
        (
            "The draft model's max_model_len (2048) is smaller than the target model's (8192) and the V2 model \
             runner can't skip speculation for longer sequences; reducing max_model_len to 2048.",
            "max_model_len",
            "2048",
        ),
    ] {
        assert_eq!(said(line, name).as_deref(), Some(value), "{line}");
    }
}

/// Qwen3-8B: 147,456 B a token, 2,359,296 B a block of 16; 9 GiB hold 4096 blocks, 65,536 tokens, eight requests of 8192; 10.125
/// GiB nine. Since 0.28 one line says both figures (`update_kv_cache_capacity` of `v1/core/kv_cache_utils.py`), since 0.30 with
/// the kind of device; the worker of processors names its pool in its own words (`v1/worker/cpu_worker.py`).
#[test]
fn tokens_and_requests_of_one_line_are_both_read_on_any_device() {
    let figures = "KV cache size: 65,536 tokens, Maximum concurrency for 8,192 tokens per request: 8.00x";
    for (device, pool) in [
        ("GPU", "Available KV cache memory: 9.00 GiB"),
        ("XPU", "Available KV cache memory: 9.00 GiB"),
        ("CPU", "Explicitly set (9.0/62.7) GiB for KV cache on node 0."),
        (
            "CPU",
            "Auto set (9.0/62.7) GiB for KV cache on node 0, with 28.0 GiB requested memory for the worker.",
        ),
        (
            "GPU",
            "Initial free memory 78.6 GiB, reserved 9.00 GiB memory for KV Cache as specified by \
             kv_cache_memory_bytes config and skipped memory profiling.",
        ),
    ] {
        let text =
            format!("{}INFO {pool}\nINFO {device} {figures}\n", start("0.33.0", "Qwen/Qwen3-8B", 8192));
        let found = decoded(&text);
        for name in ["logged_kv_tokens", "max_concurrency"] {
            agrees(&found, name);
        }
        let available = found.figures.iter().find(|figure| figure.name == "available_kv_bytes");
        let nine = 9.0 * f64::from(1 << 30);
        assert!(available.is_some_and(|figure| (figure.printed.value() - nine).abs() < 1.0), "{pool}");
        assert!(!found.has_differences(), "{device} {pool}: {:?}", found.contradictions);
        assert_eq!(
            found.capacity.as_deref(),
            Some("The capacity is 8.00 requests of 8,192 tokens at once, which is 65,536 tokens.")
        );
    }
    // With a pool in host memory beside it the smaller of both decides (`get_max_concurrency_for_kv_cache_config`).
    let host =
        decoded(&format!("{}{POOL}INFO GPU + host {figures}\n", start("0.33.0", "Qwen/Qwen3-8B", 8192)));
    assert!(!host.has_differences(), "{:?}", host.figures);
    for figure in host.figures.iter().filter(|figure| figure.name != "available_kv_bytes") {
        assert!(figure.not_computed.as_ref().is_some_and(|why| why.contains("host memory")), "{figure:?}");
    }
}

/// Engines of a model without experts are told that they are alone (`run_engine_core` of `v1/engine/core.py`), and each plans
/// its own pool: those of the test above. Where no line names its engine the process does, and lines stand in any order.
#[test]
fn data_parallel_pools_that_differ_are_no_contradiction() {
    let launch =
        "(APIServer pid=1) INFO non-default args: {'model': 'Qwen/Qwen3-8B', 'data_parallel_size': 2}\n";
    for names in [["_DP0 pid=7", "_DP1 pid=8"], [" pid=7", " pid=8"]] {
        let mut text = launch.to_owned();
        let begin = start("0.27.1", "Qwen/Qwen3-8B", 8192).replace('\n', ", data_parallel_size=1\n");
        let rows = [
            [begin.clone(), begin],
            [9.0, 10.125].map(|gib| format!("INFO Available KV cache memory: {gib:.2} GiB\n")),
            ["65,536", "73,728"].map(|tokens| format!("INFO GPU KV cache size: {tokens} tokens\n")),
            [8, 9].map(|x| format!("INFO Maximum concurrency for 8,192 tokens per request: {x}.00x\n")),
        ];
        for row in rows {
            for (name, line) in names.iter().zip(row) {
                text.extend(["(EngineCore", name, ") ", line.as_str()]);
            }
        }
        let found = decoded(&text);
        assert_eq!(found.settings.dp, Some(2));
        assert!(found.contradictions.is_empty(), "{names:?}: {:?}", found.contradictions);
        assert!(!found.has_differences(), "{names:?}: {:?}", found.figures);
        let without = decoded(&text.replace(launch, ""));
        assert!(without.contradictions.is_empty(), "{names:?}: {:?}", without.contradictions);
    }
}

/// A block that is raised twice: 784 tokens for the state, then to a multiple of 64 (`platforms/xpu.py`). By hand:
/// 784 / 64 = 12.25, so 13 × 64 = 832.
#[test]
fn a_block_that_a_later_line_raises_is_not_the_block() {
    let text = format!(
        "{}INFO Setting attention block size to 784 tokens to ensure that attention page size is >= mamba page size.\n\
         INFO [XPU]Setting attention block size to 832 tokens to ensure multiple of 64.\n{POOL}",
        start("0.33.0", "Qwen/Qwen3.5-27B", 32_768)
    );
    let found = decoded(&text);
    let blocks: Vec<_> =
        found.figures.iter().filter(|figure| figure.name == "attention_block_size").collect();
    let [first, last] = blocks[..] else { panic!("{blocks:?}") };
    assert_eq!(first.not_computed.as_deref(), Some("line 3 raises it"));
    assert_eq!(last.recomputed.map(|range| last.printed.show(range)).as_deref(), Some("832 tokens"));
    assert!(!found.has_differences());
}

/// `_check_enough_kv_cache_memory` of `v1/core/kv_cache_utils.py`.
#[test]
fn a_start_without_memory_for_the_cache_is_refused() {
    let error =
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`\n";
    let weights = "INFO Model loading took 77.1 GiB memory and 20.114 seconds\n";
    let found = decoded(&format!("{}{weights}{error}", start("0.33.0", "Qwen/Qwen3-8B", 8192)));
    assert_eq!(
        found.capacity.as_deref(),
        Some("The start is refused: line 3 says that no memory is left for the cache.")
    );
    let negative = format!("INFO Available KV cache memory: -2.50 GiB\n{error}");
    let what = decode_log(&negative, None).unwrap_err().to_string();
    assert_eq!(what, "line 2 refuses the start, since no memory is left for the cache");
}

/// Rooms beside the pool: `v1/simple_kv_offload/manager.py` prints GB and means 2^30 bytes, `pool_host/base.py` of SGLang means
/// 10^9. `# cuda blocks` is how `executor_base.py` of 0.9 prints them.
#[test]
fn rooms_in_host_memory_are_told_from_the_pool() {
    let text = format!(
        "{}INFO SimpleCPUOffloadScheduler: Allocating 2560 offload blocks (5.00 GB, mode=eager, backend=cpu)\n\
         INFO # cuda blocks: 4096, # CPU blocks: 0\n",
        start("0.9.2", "Qwen/Qwen3-8B", 8192)
    );
    let found = decoded(&text);
    let value =
        |name: &str| found.figures.iter().find(|figure| figure.name == name).map(|f| f.printed.value());
    assert_eq!(value("host_bytes"), Some(5.0 * f64::from(1 << 30)));
    assert_eq!(value("num_blocks"), Some(4096.0));
    let found = decoded(
        "[2026-01-31 13:49:02 TP0] Allocating MHA hierarchical KV host pool: 240000 tokens, 35.39 GB host memory.\n\
         [2026-01-31 13:49:02 TP0] max_total_num_tokens=120000, chunked_prefill_size=8192, context_len=40960\n",
    );
    let host = found.figures.iter().find(|figure| figure.name == "host_bytes").expect("a host pool");
    assert!((host.printed.value() - 35.39e9).abs() < 1.0, "{}", host.printed.value());
    assert!(found.capacity.is_some_and(|words| words.starts_with("The capacity is 120,000 token slots")));
}

/// DeepSeek-V4-Flash in SGLang with a limit of requests: 3899.25 B for a token of the full pool, by the engine's own planner.
#[test]
fn the_pools_of_compressed_layers_are_named_by_their_own_lines() {
    let found = decoded(
        "[2026-01-31 13:49:02] server_args=ServerArgs(model_path='deepseek-ai/DeepSeek-V4-Flash', tp_size=1, \
         page_size=256, max_running_requests=64)\n\
         [2026-01-31 13:49:02 TP0] DSV4 memory calculation: unified=False, bytes_per_full_token=3899.25, \
         available_bytes=40.00 GB, c128_state_fixed=0.10 GB, full_token=1000192\n\
         [2026-01-31 13:49:02 TP0] DSV4 pool sizes: full=1000192, swa=33280, c4=250048, c128=7814, c4_state=2080, \
         c128_state=100\n",
    );
    agrees(&found, "pool_bytes_per_token");
    let tokens =
        |name: &str| found.figures.iter().find(|figure| figure.name == name).map(|f| f.printed.value());
    assert_eq!(tokens("full_pool_tokens"), Some(1_000_192.0));
    assert_eq!(tokens("window_pool_tokens"), Some(33_280.0));
}

/// llama.cpp of October 2026 prints a third part of the recurrent memory, and a line for each kind of DeepSeek-V4's compressors.
/// 22.5 + 576 + 1.5 = 600 MiB.
#[test]
fn newer_lines_of_llama_cpp_add_up() {
    let memory = |total: &str| {
        format!(
            "llama_memory_recurrent: size =  {total} MiB (     4 cells,  64 layers,  4 seqs  0 rs_seq), R (f32):   22.50 \
             MiB, S (f32):  576.00 MiB, P (f32):    1.50 MiB\n"
        )
    };
    let found = decoded(&memory("600.00"));
    assert!(found.contradictions.is_empty(), "{:?}", found.contradictions);
    let further =
        found.figures.iter().find(|figure| figure.name == "state_further_bytes").expect("a third part");
    assert_eq!(further.printed.value(), 1.5 * f64::from(1 << 20));
    assert_eq!(decoded(&memory("598.50")).contradictions.len(), 1);
    let found = decoded(
        "llama_kv_cache_dsv4: csa ratio = 4, state = 8 x 2048, streams = 2, rs_seq = 0, layers = 21, size =    2.62 MiB\n\
         llama_kv_cache_dsa: creating main KV cache, size = 8192 cells\n\
         llama_kv_cache: size =  549.00 MiB (  8192 cells,  61 layers,  1/1 seqs), K (f16):  549.00 MiB, V (f16):    0.00 MiB\n",
    );
    assert_eq!(found.figures[0].name, "compressor_state_bytes");
    assert_eq!(found.capacity.as_deref(), Some("The capacity is one sequence of 8,192 tokens."));
}

/// SGLang may size its pools again once graphs are captured (`kv_pool_runtime.py` of 0.5.23); what it said before is no pool then.
/// Qwen3-8B: 147,456 B × 100,001 tokens, the padding page included, are 13.73 GiB.
#[test]
fn pools_that_are_sized_again_are_no_contradiction() {
    let line = |rank: u32, words: &str| format!("[2026-11-30 13:50:39 TP{rank}] {words}\n");
    let mut text =
        "[2026-11-30 13:49:02] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', tp_size=1)\n".to_owned();
    for words in [
        "KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 200000, K size: 13.73 GB, V size: 13.73 GB",
        "Use sliding window memory pool. full_layer_tokens=200000, swa_layer_tokens=150000",
        "Post-capture KV sizing: full_layer_tokens=100000, swa_layer_tokens=0",
        "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 100000, KV size: 13.73 GB, avail mem=3.10 GB",
        "max_total_num_tokens=100000, chunked_prefill_size=8192, max_running_requests=2048, context_len=40960",
    ] {
        text += &line(0, words);
    }
    let found = decoded(&text);
    assert!(found.contradictions.is_empty(), "{:?}", found.contradictions);
    agrees(&found, "kv_pool_bytes");
    let names: Vec<&str> = found.figures.iter().map(|figure| figure.name).collect();
    assert_eq!(names.iter().filter(|name| **name == "full_pool_tokens").count(), 1, "{names:?}");
    assert!(!names.contains(&"window_pool_tokens"), "{names:?}");
    assert!(found.capacity.is_some_and(|words| words.starts_with("The capacity is 100,000 token slots")));
}
