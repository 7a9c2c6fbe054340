//! What engines take where a launch does not say it: the dtype of a float32 checkpoint, the longest request, the storage of
//! latents. Expected figures are derived here by hand from the shapes, by the engines' rules that each test names.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::float_cmp, reason = "whole figures are exact")]

use crate::support::asked;
use crate::support::gguf_file;

use asked::{catalogued, figure, report_of, settings};
use gguf_file::{GgufFile, Value};
use kvscope_sizing::engine::{Engine, EngineKind, Query, Room, answer, size_in_engine, warnings};
use kvscope_sizing::log::{DecodedLog, GivenModel, decode_log};
use kvscope_sizing::{
    Architecture, Bytes, GgufRead, LargestContext, StateModel, Tokens, Unknown, read_config, read_gguf,
};

const LLAMA: &str = r#"{"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "max_position_embeddings": 8192, "torch_dtype": "float32"}"#;
const BUDGET: [(&str, &str); 1] = [("available_kv_bytes", "40000000000")];

fn told(architecture: &Architecture, engine: &str, pairs: &[(&str, &str)], field: &str) -> Option<String> {
    let found = report_of(architecture, engine, pairs).warnings;
    found.into_iter().find(|warning| warning.field == field).map(|warning| warning.message)
}

/// vLLM 0.33 `_resolve_auto_dtype` and SGLang `_get_and_verify_dtype`: float32 is run in 2 bytes. Llama-3-8B:
/// 32 × 2 × 8 × 128 × 2 B a token, and 40 GB are 19,073 blocks of 16 tokens.
#[test]
fn float32_is_run_in_two_bytes() {
    let llama = read_config(LLAMA).unwrap();
    for (engine, name) in [("vllm", "bfloat16"), ("sglang", "float16")] {
        assert_eq!(figure(&llama, engine, &[], "slope_bytes_per_token"), 131_072.0, "{engine}");
        let message = told(&llama, engine, &[], "torch_dtype").unwrap();
        assert!(message.starts_with(&format!("Downcasting torch.float32 to torch.{name}")), "{message}");
    }
    assert_eq!(figure(&llama, "vllm", &BUDGET, "num_blocks"), 19_073.0);
    assert_eq!(figure(&llama, "vllm", &[("kv_dtype", "f32")], "slope_bytes_per_token"), 262_144.0);
    assert_eq!(figure(&llama, "logical", &[], "slope_bytes_per_token"), 262_144.0);
    assert_eq!(told(&llama, "logical", &[], "torch_dtype"), None);
    assert!(told(&llama, "trtllm", &[], "torch_dtype").unwrap().contains("not known"));
    // gemma-2-9b: 42 layers × 2 × 8 × 256 × 2 B, of which half are windows of 4,096.
    let gemma = read_config(
        r#"{"model_type": "gemma2", "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8,
            "head_dim": 256, "hidden_size": 3584, "sliding_window": 4096, "max_position_embeddings": 8192,
            "dtype": "float32"}"#,
    )
    .unwrap();
    let asked = [("context", "1024")];
    // A window may begin inside a block, so each of 21 windows has a block of 16 tokens more.
    let more = f64::from(21 * 16 * 2 * 8 * 256 * 2);
    assert_eq!(figure(&gemma, "vllm", &asked, "resident_bytes"), 344_064.0 * 1024.0 + more);
    assert!(
        told(&gemma, "sglang", &asked, "dtype")
            .unwrap()
            .starts_with("Downcasting torch.float32 to torch.bfloat16")
    );
}

/// Mamba-2.8b: vLLM's states have the model's dtype, 64 × 5120 × (3 + 16) × 2 B in place of 4.
#[test]
fn states_follow_the_dtype_that_is_run() {
    let mamba = read_config(
        r#"{"model_type": "mamba", "num_hidden_layers": 64, "hidden_size": 2560, "intermediate_size": 5120,
            "state_size": 16, "conv_kernel": 4, "torch_dtype": "float32"}"#,
    )
    .unwrap();
    let asked = [("max_model_len", "2048"), ("prefix_caching", "false")];
    let fixed = figure(&mamba, "vllm", &asked, "fixed_bytes_per_request");
    assert_eq!(fixed, f64::from(64 * 5120 * (3 + 16) * 2));
}

/// The engine line names the dtype that is run: 40 GiB are 10,240 blocks of 16 × 262,144 B with `--dtype float32`.
#[test]
fn the_launch_names_the_dtype() {
    let llama = read_config(LLAMA).unwrap();
    let log = |dtype: &str, tokens: &str, times: &str, before: &str| {
        format!(
            "{before}INFO Initializing a V1 LLM engine (v0.33.0) with config: model='mine', dtype={dtype}, max_seq_len=8192, \
             tensor_parallel_size=1\nINFO Available KV cache memory: 40.00 GiB\nINFO GPU KV cache size: {tokens} tokens\n\
             INFO Maximum concurrency for 8,192 tokens per request: {times}x\n"
        )
    };
    let downcast = "INFO Downcasting torch.float32 to torch.bfloat16.\n";
    for (text, agrees) in [
        (log("torch.float32", "163,840", "20.00", ""), true),
        (log("torch.bfloat16", "327,680", "40.00", ""), true),
        (log("torch.bfloat16", "163,840", "20.00", ""), false),
        (log("torch.float32", "327,680", "40.00", downcast), true),
    ] {
        let decoded = decoded(&text, &llama);
        assert_eq!(differences(&decoded).is_empty(), agrees, "{text}{:?}", differences(&decoded));
    }
}

fn decoded(text: &str, architecture: &Architecture) -> DecodedLog {
    decode_log(text, Some(GivenModel { label: "mine", architecture })).unwrap()
}

fn differences(decoded: &DecodedLog) -> Vec<&str> {
    decoded.figures.iter().filter_map(|figure| figure.difference.as_deref()).collect()
}

/// Up to about 0.10 each worker prints the pool of its own memory: 58.53 and 58.51 GiB hold 59,935 and 59,914 blocks of
/// 16 × 65,536 B. The engine goes by the smaller.
#[test]
fn each_workers_line_is_of_its_own_memory() {
    let log = |first: &str| {
        format!(
            "INFO Initializing a V1 LLM engine (v0.9.2) with config: model='mine', dtype=torch.bfloat16, max_seq_len=8192, \
             tensor_parallel_size=2\n(VllmWorker rank=1 pid=2) INFO Available KV cache memory: 58.51 GiB\n\
             (VllmWorker rank=0 pid=1) INFO Available KV cache memory: 58.53 GiB\n\
             INFO GPU KV cache size: {first} tokens\nINFO Maximum concurrency for 8,192 tokens per request: 117.06x\n\
             INFO GPU KV cache size: 958,624 tokens\nINFO Maximum concurrency for 8,192 tokens per request: 117.02x\n"
        )
    };
    let llama = read_config(&LLAMA.replace("float32", "bfloat16")).unwrap();
    let found = decoded(&log("958,960"), &llama);
    assert_eq!(differences(&found), Vec::<&str>::new());
    let capacity = found.capacity.unwrap();
    assert!(capacity.contains("958,624 tokens"), "{capacity}");
    assert!(!differences(&decoded(&log("959,360"), &llama)).is_empty());
}

fn of_file(file: &GgufFile) -> Architecture {
    let bytes = file.bytes();
    match read_gguf(&bytes, Some(bytes.len() as u64), Unknown::Warn).unwrap() {
        GgufRead::Architecture(architecture) => *architecture,
        GgufRead::NeedsPrefix { bytes } => panic!("{bytes} needed"),
    }
}

/// A file of a class with latents as it was written before their heads had widths of their own.
fn latents(class: &str, numbers: &[(&str, u32)]) -> Architecture {
    let with =
        |file: GgufFile, (key, value): &(&str, u32)| file.with(&format!("{class}.{key}"), Value::U32(*value));
    of_file(&numbers.iter().fold(GgufFile::new(class), with))
}

/// `src/models/minicpm3.cpp` and `plm.cpp` of llama.cpp hand K and V of every head to `build_attn`, and so does DeepSeek's graph
/// for files without `key_length_mla` (ggml-org/llama.cpp#12801).
#[test]
fn llama_cpp_keeps_heads_of_some_latents() {
    let minicpm = latents(
        "minicpm3",
        &[
            ("block_count", 62),
            ("embedding_length", 2560),
            ("attention.head_count", 40),
            ("attention.head_count_kv", 40),
            ("attention.kv_lora_rank", 256),
            ("attention.key_length", 96),
            ("rope.dimension_count", 32),
        ],
    );
    let deepseek = latents(
        "deepseek2",
        &[
            ("block_count", 27),
            ("embedding_length", 2048),
            ("attention.head_count", 16),
            ("attention.head_count_kv", 16),
            ("attention.kv_lora_rank", 512),
            ("attention.key_length", 192),
            ("attention.value_length", 128),
            ("rope.dimension_count", 64),
        ],
    );
    let plm = read_config(
        r#"{"model_type": "plm", "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 16,
            "hidden_size": 2048, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
            "max_position_embeddings": 4096, "torch_dtype": "bfloat16"}"#,
    )
    .unwrap();
    let slope = |architecture: &Architecture, pairs: &[(&str, &str)]| {
        figure(architecture, "llama.cpp", &[pairs, &[("n_ctx", "4096")]].concat(), "slope_bytes_per_token")
    };
    assert_eq!(slope(&minicpm, &[]), f64::from(62 * (40 * 96 + 40 * 64) * 2));
    assert_eq!(slope(&deepseek, &[]), f64::from(27 * (16 * 192 + 16 * 128) * 2));
    assert_eq!(slope(&plm, &[]), f64::from(32 * (16 * 192 + 16 * 128) * 2));
    assert_eq!(slope(&plm, &[("mla_storage", "latent")]), f64::from(32 * (512 + 64) * 2));
    let report = report_of(&minicpm, "llama.cpp", &[("n_ctx", "4096")]);
    let line = &report.log_lines[0];
    assert!(line.contains("K (f16): 1860.00 MiB, V (f16): 1240.00 MiB"), "{line}");
    // Asked for, the same of any latent: 61 layers × 128 heads × 192 and 128 f16 values.
    let asked = [("n_ctx", "4096"), ("mla_storage", "expanded")];
    let line = &report_of(&catalogued("deepseek-v3"), "llama.cpp", &asked).log_lines[0];
    assert!(line.contains("K (f16): 11712.00 MiB, V (f16): 7808.00 MiB"), "{line}");
    // V in quantised blocks is V of heads, which flash attention has to read.
    let quantised = settings(&[("n_ctx", "4096"), ("v_dtype", "q8_0"), ("flash_attn", "false")]);
    let query = Query::new(&plm, "llama.cpp".parse().unwrap(), &quantised).unwrap();
    let quantity = "kv_bytes".parse().unwrap();
    assert_eq!(answer(&query, quantity).unwrap_err().place(), Some("v_dtype"));
}

/// Command A's config names no longest length, which no inversion needs.
#[test]
fn what_fits_needs_no_longest_length() {
    let config = LLAMA.replace(r#""max_position_embeddings": 8192,"#, "");
    let llama = read_config(&config).unwrap();
    let settings = settings(&[]);
    let query = Query::new(&llama, Engine::newest(EngineKind::LlamaCpp), &settings).unwrap();
    let state = StateModel::new(&llama, &settings).unwrap();
    // 1 GiB is 8,192 cells of 32 × 2 × 8 × 128 f16 values.
    let room = Room { query: query.clone(), state: &state, memory: Bytes::new(1 << 30) };
    assert_eq!(room.largest_context().unwrap(), LargestContext::Budget { tokens: Tokens::new(8192) });
    assert_eq!(room.division().unwrap(), None);
    assert!(warnings(&query).is_ok());
}

fn positions(rest: &str) -> Architecture {
    let config = format!(
        r#"{{"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
            "dtype": "bfloat16", {rest}}}"#
    );
    read_config(&config).unwrap()
}

const YARN: &str = r#""max_position_embeddings": 40960, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
    "original_max_position_embeddings": 32768}"#;
const LONG: &str = r#""max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
    "rope_scaling": {"type": "su", "long_factor": [1.0], "short_factor": [1.0]}"#;
const LINEAR: &str = r#""max_position_embeddings": 40960, "rope_scaling": {"type": "linear", "factor": 2.0}"#;
const LLAMA3: &str = r#""max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "original_max_position_embeddings": 8192}"#;
const SARVAM: &str =
    r#""max_position_embeddings": 131072, "rope_scaling": {"type": "deepseek_yarn", "factor": 40.0}"#;
const COMMAND_R: &str = r#""max_position_embeddings": 8192, "model_max_length": 131072"#;
const SEVERAL: &str = r#""max_position_embeddings": 131072, "seq_length": 32768"#;

/// `_get_and_verify_max_len` of vLLM 0.11.0, 0.29 and 0.33 (`config/model.py`), and `get_context_length` of SGLang 0.5.23
/// (`srt/utils/hf_transformers/common.py`).
#[test]
fn engines_derive_the_longest_length() {
    let engines = ["vllm", "vllm@0.29", "vllm@0.11.0", "sglang"];
    for (rest, lengths) in [
        (YARN, [40_960, 131_072, 131_072, 40_960]),
        (LONG, [4096, 4096, 131_072, 131_072]),
        (LINEAR, [81_920; 4]),
        (LLAMA3, [131_072; 4]),
        (SARVAM, [131_072, 5_242_880, 5_242_880, 5_242_880]),
        (COMMAND_R, [131_072; 4]),
        (SEVERAL, [32_768; 4]),
        (r#""seq_length": 8192"#, [8192; 4]),
        // OpenELM's, which neither engine looks for.
        (r#""max_context_length": 8192"#, [2048; 4]),
        (r#""vocab_size": 8192"#, [2048; 4]),
        (
            r#""model_type": "gemma3_text", "max_position_embeddings": 40960,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0}"#,
            [40_960; 4],
        ),
        (
            r#""max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0}"#,
            [4096, 4096, 131_072, 131_072],
        ),
    ] {
        let architecture = positions(rest);
        for (engine, length) in engines.iter().zip(lengths) {
            let found = report_of(&architecture, engine, &[]);
            assert_eq!(found.max_model_len, Some(Tokens::new(length)), "{engine}: {rest}");
            let differs = architecture.max_context().is_none_or(|stated| stated.get() != length);
            let is_told = told(&architecture, engine, &[], "max_model_len").is_some();
            assert_eq!(is_told, differs, "{engine}: {rest}");
        }
    }
    let odd =
        positions(r#""max_position_embeddings": 4096, "rope_scaling": {"type": "spiral", "factor": 3.0}"#);
    let message = told(&odd, "vllm", &[], "max_model_len").unwrap();
    assert!(message.contains("12,288") && message.contains("\"spiral\""), "{message}");
}

/// The line stands where attention blocks are raised for a state (vLLM 0.33, `_align_hybrid_block_size`): not without
/// attention, not where a block holds the state anyway.
#[test]
fn attention_blocks_are_announced_where_they_are_raised() {
    let announced = |id: &str, engine: &str, pairs: &[(&str, &str)]| {
        let lines = report_of(&catalogued(id), engine, pairs).log_lines;
        lines.iter().any(|line| line.starts_with("Setting attention block size"))
    };
    assert!(announced("qwen3.5-27b", "vllm", &[]));
    assert!(announced("granite-4.0-h-small", "vllm", &[]));
    assert!(!announced("granite-4.0-h-small", "vllm", &[("block_size", "1024")]));
    assert!(!announced("lfm2-1.2b", "vllm", &[]));
    let mamba = r#"{"model_type": "mamba", "num_hidden_layers": 2, "hidden_size": 2560, "intermediate_size": 5120,
        "state_size": 16, "conv_kernel": 4, "torch_dtype": "bfloat16"}"#;
    let lines = report_of(&read_config(mamba).unwrap(), "vllm", &[("max_model_len", "2048")]).log_lines;
    assert!(!lines.iter().any(|line| line.starts_with("Setting attention block size")), "{lines:?}");
}

/// GLM-4.5 has 92 layers of 2 × 8 × 128 values, and a draft layer of as many: 40 GB are 6,634 blocks, then 6,562.
#[test]
fn drafts_without_their_layers_are_told() {
    let glm = catalogued("glm-4.5");
    let blocks = |pairs: &[(&str, &str)]| figure(&glm, "vllm", &[pairs, &BUDGET].concat(), "num_blocks");
    let drafts = ("num_speculative_tokens", "1");
    assert_eq!((blocks(&[drafts]), blocks(&[drafts, ("draft_layers", "1")])), (6634.0, 6562.0));
    assert!(told(&glm, "vllm", &[drafts], "num_speculative_tokens").unwrap().contains("draft_layers"));
    assert!(told(&glm, "vllm", &[drafts], "draft_layers").is_some());
}

/// BART-large: vLLM reserves `max_num_batched_tokens` of an encoder's output whatever it is, 8,192 × 12 × 2 × 16 × 64 × 2 B.
#[test]
fn vllm_asks_nobody_for_an_encoders_tokens() {
    let bart = read_config(
        r#"{"model_type": "bart", "is_encoder_decoder": true, "encoder_layers": 12, "decoder_layers": 12,
            "decoder_attention_heads": 16, "encoder_attention_heads": 16, "d_model": 1024,
            "max_position_embeddings": 1024, "torch_dtype": "float16"}"#,
    )
    .unwrap();
    let asked = settings(&[("max_num_batched_tokens", "8192")]);
    let engine = Engine::newest(EngineKind::Vllm);
    let sized = size_in_engine("bart", &bart, &engine, Some(Tokens::new(100)), 1, &asked).unwrap();
    let cross = sized.figure("cross_bytes".parse().unwrap()).unwrap();
    assert_eq!(cross.whole(), Some(8192 * 12 * 2 * 16 * 64 * 2));
    let told: Vec<&str> = sized
        .warnings
        .iter()
        .filter(|warning| warning.field == "encoder_tokens")
        .map(|warning| warning.message.as_str())
        .collect();
    assert!(told.len() == 1 && told[0].contains("8,192 tokens"), "{told:?}");
    assert!(size_in_engine("bart", &bart, &Engine::newest(EngineKind::Logical), None, 1, &asked).is_err());
}
