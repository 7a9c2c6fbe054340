//! llama.cpp's rules against the lines that it prints, its sources and arithmetic by hand.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "in tests a panic is the report, and these figures are exact"
)]

use crate::support::asked;

use asked::{catalogued, figure, report_of, settings};
use kvscope_sizing::engine::{Query, Rest, reservation};
use kvscope_sizing::read_config;

const LLAMA_8B: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096, "max_position_embeddings": 131072}"#;

/// Snapshots of drafting that a class does not keep (`llm_arch_supports_rs_rollback` has no Falcon-H1) are told, by the
/// setting that asked for them.
#[test]
fn tells_dropped_snapshots() {
    let fields = |id: &str, pairs: &[(&str, &str)]| {
        let warnings = report_of(&catalogued(id), "llama.cpp", pairs).warnings;
        warnings.into_iter().map(|warning| warning.field).collect::<Vec<_>>()
    };
    for name in ["n_rs_seq", "num_speculative_tokens"] {
        let asked = [("n_ctx", "4096"), (name, "2")];
        assert!(fields("falcon-h1-34b", &asked).iter().any(|field| field == name), "{name}");
        assert!(!fields("qwen3.5-397b-a17b", &asked).iter().any(|field| field == name), "{name}");
    }
}

/// `llama_context` throws beyond `LLAMA_MAX_SEQ`, which is 256.
#[test]
fn more_sequences_than_a_context_takes_are_refused() {
    let refusal = |pairs: &[(&str, &str)]| {
        let (architecture, own) = (catalogued("llama-3.1-8b"), settings(pairs));
        let query = Query::new(&architecture, "llama.cpp".parse().unwrap(), &own).unwrap();
        kvscope_sizing::engine::report(&query).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refusal(&[("context", "1024"), ("batch", "256")]), "");
    let batch = refusal(&[("context", "1024"), ("batch", "257")]);
    assert!(batch.starts_with("batch: 257 requests; llama.cpp starts with at most 256"), "{batch}");
    let set = refusal(&[("n_ctx", "65536"), ("n_seq_max", "300")]);
    assert!(set.starts_with("n_seq_max: 300 sequences"), "{set}");
}

/// Ling 3 goes by one name in its config and by another in a GGUF file; both keep snapshots.
#[test]
fn keeps_snapshots_by_either_name() {
    let bytes = |class: &str| {
        let config = format!(
            r#"{{"model_type": "{class}", "num_hidden_layers": 4, "num_attention_heads": 16,
                "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4,
                "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
                "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
                "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"]}}"#
        );
        let asked = [("n_ctx", "4096"), ("n_rs_seq", "2")];
        figure(&read_config(&config).unwrap(), "llama.cpp", &asked, "state_bytes")
    };
    let one = f64::from(3 * (32 * 128 * 128 + 3 * 8192) * 4);
    for class in ["bailing_moe_v3", "bailingmoe3", "qwen3_5_text", "qwen35"] {
        assert_eq!(bytes(class), 3.0 * one, "{class}");
    }
    assert_eq!(bytes("qwen3_next"), one);
}

/// llama.cpp's own line for Llama-3.1-8B: 10000 cells over four sequences in `q8_0` are 680 MiB.
#[test]
fn prints_its_caches() {
    let architecture = read_config(LLAMA_8B).unwrap();
    let asked = [("n_ctx", "10000"), ("n_seq_max", "4"), ("kv_dtype", "q8_0")];
    let found = report_of(&architecture, "llama.cpp", &asked);
    assert_eq!(
        found.log_lines,
        [
            "llama_kv_cache: size =  680.00 MiB (  2560 cells,  32 layers,  4/4 seqs), K (q8_0):  340.00 MiB, V (q8_0):  340.00 MiB"
        ]
    );
    // 60 cells a stream are padding: 32 × 2 × 1024 × 34 / 32 B each.
    assert_eq!(found.padding.len(), 1);
    assert_eq!(found.padding[0].bytes.get(), 4 * 60 * 32 * 2 * 1024 / 32 * 34);
}

/// `MiMo` without flash attention: V rows of full layers are padded from 4 × 128 to 8 × 128 values.
#[test]
fn pads_v_rows_without_flash_attention() {
    let architecture = catalogued("mimo-v2-flash");
    let asked = [("n_ctx", "131072"), ("flash_attn", "false")];
    let full = f64::from(9 * (4 * 192 + 8 * 128) * 2) * 131_072.0;
    assert_eq!(figure(&architecture, "llama.cpp", &asked, "kv_bytes"), full);
    let found = report_of(&architecture, "llama.cpp", &asked);
    let rows = found.padding.iter().find(|padding| padding.what.starts_with("V rows")).unwrap();
    assert_eq!(rows.bytes.get(), 9 * 4 * 128 * 2 * 131_072);
}

/// A switch for full-size windows, and a class whose window llama.cpp does not use.
#[test]
fn windows() {
    let gemma = catalogued("gemma-3-27b");
    let window = |pairs: &[(&str, &str)]| figure(&gemma, "llama.cpp", pairs, "window_bytes");
    let cell = f64::from(52 * 16 * 2 * 128 * 2);
    assert_eq!(window(&[("n_ctx", "32768")]), cell * 1536.0);
    assert_eq!(window(&[("n_ctx", "32768"), ("n_ubatch", "2048")]), cell * 3072.0);
    assert_eq!(window(&[("n_ctx", "32768"), ("swa_full", "true")]), cell * 32_768.0);
    let mistral = catalogued("mistral-7b-v0.1");
    let asked = [("n_ctx", "32768")];
    assert_eq!(figure(&mistral, "llama.cpp", &asked, "window_bytes"), 0.0);
    assert_eq!(figure(&mistral, "llama.cpp", &asked, "kv_bytes"), f64::from(32 * 2 * 1024 * 2) * 32_768.0);
}

/// llama.cpp's `llm_arch_supports_rs_rollback` (October 2026) lists Qwen3.5 and not Kimi-Linear, whose 20 layers keep
/// 3 × 3 × 4096 + 32 × 128 × 128 f32 values whatever was asked. Qwen3.6-27B's 48 layers keep four times
/// 3 × 10240 + 48 × 128 × 128 for three snapshots.
#[test]
fn keeps_snapshots_for_some_classes_only() {
    let asked = [("n_ctx", "4096"), ("n_rs_seq", "3")];
    let kimi = catalogued("kimi-linear-48b-a3b");
    let of_kimi = figure(&kimi, "llama.cpp", &asked, "state_bytes");
    assert_eq!(of_kimi, f64::from(20 * 4 * (9 * 4096 + 32 * 128 * 128)));
    let warnings = report_of(&kimi, "llama.cpp", &asked).warnings;
    assert!(warnings.iter().any(|warning| warning.field == "n_rs_seq"), "{warnings:?}");
    let of_qwen = figure(&catalogued("qwen3.6-27b"), "llama.cpp", &asked, "state_bytes");
    assert_eq!(of_qwen, f64::from(4 * 48 * 4 * (3 * 10_240 + 48 * 128 * 128)));
}

/// GLM-5.3-Flash pools 16 index keys when it reads them: llama.cpp keeps key, gate and pooled value of every token
/// (`llama_memory_hybrid_idx`, October 2026), 3 × 128 f16 values in each of 11 layers.
#[test]
fn keeps_pooled_index_keys_of_every_token() {
    let glm = catalogued("glm-5.3-flash");
    let found = figure(&glm, "llama.cpp", &[("n_ctx", "4096")], "index_bytes");
    assert_eq!(found, f64::from(11 * 4096 * 3 * 128 * 2));
}

/// What llama.cpp itself printed for DeepSeek-V4-Flash's metadata (xllamacpp 2026.10.11549, `tests/oracle/ask_llamacpp.py`): caches of
/// cells, then the rows of three compressors.
#[test]
fn prints_the_compressors_of_deepseek_v4() {
    let found = report_of(&catalogued("deepseek-v4-flash"), "llama.cpp", &[("n_ctx", "32768")]);
    let mut printed = found.log_lines;
    printed.sort();
    assert_eq!(
        printed,
        [
            "llama_dsv4_comp_state: csa ratio = 4, state = 8 x 1024, streams = 1, rs_seq = 0, layers = 21, size =    1.31 MiB",
            "llama_dsv4_comp_state: hca ratio = 128, state = 128 x 512, streams = 1, rs_seq = 0, layers = 20, size =   10.00 MiB",
            "llama_dsv4_comp_state: lid ratio = 4, state = 8 x 256, streams = 1, rs_seq = 0, layers = 21, size =    0.33 MiB",
            "llama_kv_cache: size =    5.00 MiB (   256 cells,  20 layers,  1/1 seqs), K (f16):    5.00 MiB, V (f16):    0.00 MiB",
            "llama_kv_cache: size =   32.25 MiB (   768 cells,  43 layers,  1/1 seqs), K (f16):   32.25 MiB, V (f16):    0.00 MiB",
            "llama_kv_cache: size =   42.00 MiB (  8192 cells,  21 layers,  1/1 seqs), K (f16):   42.00 MiB, V (f16):    0.00 MiB",
            "llama_kv_cache: size =  168.00 MiB (  8192 cells,  21 layers,  1/1 seqs), K (f16):  168.00 MiB, V (f16):    0.00 MiB",
        ]
    );
}

/// `create_memory` of `llama-model.cpp` gives recurrent memory the types `GGML_TYPE_F32` and `GGML_TYPE_F32`, whatever
/// is asked of K and V. Qwen3.5-27B: 48 layers of 3 × 10,240 and 48 × 128 × 128 f32 values.
#[test]
fn state_is_f32_whatever_is_asked() {
    let qwen = catalogued("qwen3.5-27b");
    let asked = [("context", "10000"), ("kv_dtype", "q8_0"), ("state_dtype", "bf16"), ("conv_dtype", "f16")];
    let bytes = f64::from(48 * (3 * 10_240 + 48 * 128 * 128) * 4);
    assert_eq!(figure(&qwen, "llama.cpp", &asked, "state_bytes"), bytes);
    let found = report_of(&qwen, "llama.cpp", &asked);
    let line = found.log_lines.iter().find(|line| line.starts_with("llama_memory_recurrent")).unwrap();
    // 48 × 3 × 10,240 × 4 B are 5.625 MiB, 48 × 48 × 128 × 128 × 4 B are 144 MiB.
    let printed = "llama_memory_recurrent: size =  149.62 MiB (     1 cells,  64 layers,  1 seqs  0 rs_seq), R (f32):    5.62 MiB, S (f32):  144.00 MiB, P (f32):    0.00 MiB";
    assert_eq!(line, printed);
    for name in ["state_dtype", "conv_dtype"] {
        assert!(found.warnings.iter().any(|warning| warning.field == name), "{name}: {:?}", found.warnings);
    }
    let settings = settings(&asked);
    let query = Query::new(&qwen, "llama.cpp".parse().unwrap(), &settings).unwrap();
    let beside = reservation(&query).unwrap();
    let words: Vec<&str> = beside.parts.iter().filter_map(|part| part.worked.as_deref()).collect();
    assert!(words.iter().any(|words| words.ends_with("compressor state (f32)")), "{words:?}");
}

/// Index keys are in the type of the K cache (`llama_kv_cache_dsa`): 21 layers × 128 f16 values, whatever is asked.
#[test]
fn index_keys_have_the_type_of_k() {
    let flash = catalogued("deepseek-v4-flash");
    let bytes = |pairs: &[(&str, &str)]| figure(&flash, "llama.cpp", pairs, "index_bytes");
    let plain = f64::from(21 * 1024 * 128 * 2);
    assert_eq!(bytes(&[("context", "4096")]), plain);
    assert_eq!(bytes(&[("context", "4096"), ("index_dtype", "fp4")]), plain);
    let warnings = report_of(&flash, "llama.cpp", &[("context", "4096"), ("index_dtype", "fp4")]).warnings;
    assert!(warnings.iter().any(|warning| warning.field == "index_dtype"), "{warnings:?}");
}

/// 16,384 cells hold one sequence of 10,000 tokens, and 20,480 two; they do not hold four in one stream.
#[test]
fn a_stream_needs_cells_for_its_own_sequences() {
    let gemma = catalogued("gemma-3-27b");
    let told = |pairs: &[(&str, &str)]| {
        let asked = [&[("context", "10000")], pairs].concat();
        report_of(&gemma, "llama.cpp", &asked).warnings.iter().any(|warning| warning.field == "n_ctx")
    };
    assert!(!told(&[("batch", "4"), ("n_ctx", "16384"), ("n_seq_max", "1")]));
    let unified = ("kv_unified", "true");
    assert!(told(&[("batch", "4"), ("n_ctx", "16384"), ("n_seq_max", "4"), unified]));
    assert!(told(&[("batch", "4"), ("n_ctx", "16384"), ("n_seq_max", "2"), unified]));
    assert!(!told(&[("batch", "2"), ("n_ctx", "20480"), ("n_seq_max", "4"), unified]));
    // Divided by four, each sequence has 4096 cells.
    assert!(told(&[("batch", "1"), ("n_ctx", "16384"), ("n_seq_max", "4")]));
}

/// Gemma 2 27B: 23 full layers × 16 × 2 × 128 × 2 B = 8192 B a token and layer, for each of two sequences; the second has a
/// window of 4096 in 23 layers beside them.
#[test]
fn room_for_more_sequences_is_named() {
    let gemma = catalogued("gemma-2-27b");
    let settings = settings(&[("context", "8192"), ("n_seq_max", "2")]);
    let beside = reservation(&Query::new(&gemma, "llama.cpp".parse().unwrap(), &settings).unwrap()).unwrap();
    let full = beside.parts[0].worked.as_deref();
    assert_eq!(full, Some("8,192 tokens × 23 layers × 8,192 B × 2 sequences"));
    let Rest::More(bytes, why) = &beside.rest else { panic!("{:?}", beside.rest) };
    assert_eq!(bytes.get(), 23 * (8192 + 4096) * 8192);
    assert_eq!(why, "room for 2 sequences (n_seq_max), where the batch has 1 request");
}

fn t5(encoder: u64, decoder: u64) -> kvscope_sizing::Architecture {
    let config = serde_json::json!({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_model": 1024,
        "d_kv": 128, "num_heads": 32, "num_layers": encoder, "num_decoder_layers": decoder, "torch_dtype": "float16"});
    read_config(&config.to_string()).unwrap()
}

/// T5-3B: llama.cpp multiplies the encoder's output by the K and V weights in every step (`src/models/t5.cpp`), so its one
/// cache is that of self-attention: 24 layers × 2 × 32 × 128 × 2 B × 1024 tokens, whatever the encoder's length.
#[test]
fn an_encoders_output_has_no_cache() {
    let asked = [("context", "1024"), ("encoder_tokens", "512")];
    let found = report_of(&t5(24, 24), "llama.cpp", &asked);
    assert_eq!(figure(&t5(24, 24), "llama.cpp", &asked, "resident_bytes"), 402_653_184.0);
    assert_eq!(figure(&t5(24, 24), "llama.cpp", &asked, "fixed_bytes_per_request"), 0.0);
    let told: Vec<&str> = found.warnings.iter().map(|warning| warning.field.as_str()).collect();
    assert_eq!(told, ["encoder_tokens"], "{:?}", found.warnings);
    let (model, own) = (t5(24, 24), settings(&asked));
    let query = Query::new(&model, "llama.cpp".parse().unwrap(), &own).unwrap();
    let beside = reservation(&query).unwrap();
    let Rest::Less(bytes, why) = &beside.rest else { panic!("{:?}", beside.rest) };
    assert_eq!(bytes.get(), 603_979_776 - 402_653_184);
    assert!(why.contains("computes K and V of the encoder's output again"), "{why}");
}

/// `block_count` of such a file is the encoder's `num_layers` (`conversion/t5.py`), and the cache has as many layers.
#[test]
fn caches_of_t5_are_as_many_as_encoder_layers() {
    let layer = 2.0 * 32.0 * 128.0 * 2.0 * 1024.0;
    let asked = [("context", "1024"), ("encoder_tokens", "512")];
    for (encoder, decoder, layers, word) in
        [(24, 6, 24.0, "of which the decoder uses 6"), (6, 24, 24.0, "cannot run with")]
    {
        let model = t5(encoder, decoder);
        assert_eq!(figure(&model, "llama.cpp", &asked, "kv_bytes"), layers * layer, "{encoder}");
        let warnings = report_of(&model, "llama.cpp", &asked).warnings;
        assert!(warnings.iter().any(|warning| warning.message.contains(word)), "{warnings:?}");
    }
}

/// Of encoders with a decoder llama.cpp converts T5's classes alone (`conversion/t5.py`), and no decoder with
/// cross-attention in layers of their own: those are Ollama's (<https://github.com/ollama/ollama/pull/6965>).
#[test]
fn classes_that_llama_cpp_lacks_are_told() {
    let whisper = read_config(
        r#"{"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 1280,
            "decoder_attention_heads": 20, "decoder_layers": 4, "encoder_layers": 32, "max_source_positions": 1500,
            "torch_dtype": "float16"}"#,
    )
    .unwrap();
    let told = |architecture: &kvscope_sizing::Architecture| {
        let found = report_of(architecture, "llama.cpp", &[("context", "256")]);
        let own = found.warnings.into_iter().find(|warning| warning.field == "model_type");
        (figure(architecture, "llama.cpp", &[("context", "256")], "cross_bytes"), own.unwrap().message)
    };
    let (cross, message) = told(&whisper);
    assert!(cross == 0.0 && message.starts_with("llama.cpp has no class for whisper"), "{message}");
    let (cross, message) = told(&catalogued("llama-3.2-11b-vision-instruct"));
    assert!(cross > 0.0 && message.contains("those of Ollama's runner"), "{message}");
}

/// Gemma-3-27B with `--swa-full`: 62 layers of 2 × 16 heads × 128 values in f16 have a cell for every token, 52 of them windows;
/// without it the 52 have cells for 1,024 tokens and a micro-batch of 512.
#[test]
fn full_windows_are_slope_and_not_fixed() {
    let cell = 2.0 * 16.0 * 128.0 * 2.0;
    let gemma = catalogued("gemma-3-27b");
    for context in ["1024", "32768", "262144"] {
        let asked = [("context", context), ("swa_full", "true")];
        assert_eq!(figure(&gemma, "llama.cpp", &asked, "slope_bytes_per_token"), 62.0 * cell, "{context}");
        assert_eq!(figure(&gemma, "llama.cpp", &asked, "fixed_bytes_per_request"), 0.0, "{context}");
    }
    for (context, slope, fixed) in [("1024", 62.0, 0.0), ("1536", 10.0, 1536.0), ("32768", 10.0, 1536.0)] {
        let asked = [("context", context)];
        assert_eq!(figure(&gemma, "llama.cpp", &asked, "slope_bytes_per_token"), slope * cell, "{context}");
        assert_eq!(
            figure(&gemma, "llama.cpp", &asked, "fixed_bytes_per_request"),
            fixed * 52.0 * cell,
            "{context}"
        );
    }
}

/// What is reserved is a line: 128Ki tokens are whole multiples of 256 cells at every ratio, so that nothing is padded and slope
/// and fixed part of each request make the sum, but for the bytes that do not divide by the sequences.
#[test]
fn slope_and_fixed_part_make_the_reserved_bytes() {
    let mut compared = 0;
    for entry in kvscope_sizing::catalogue() {
        let architecture = entry.architecture().unwrap();
        for batch in [1_u64, 3] {
            for own in [
                &[][..],
                &[("swa_full", "true")],
                &[("kv_unified", "true")],
                &[("kv_unified", "true"), ("swa_full", "true")],
                &[("n_rs_seq", "2")],
                &[("kv_dtype", "q8_0"), ("n_ubatch", "2048")],
            ] {
                let (n, count) = (131_072, batch.to_string());
                let (context, n_ctx) = (n.to_string(), (n * batch).to_string());
                let mut pairs = vec![("context", context.as_str()), ("n_ctx", &n_ctx), ("batch", &count)];
                pairs.extend_from_slice(own);
                let chosen = settings(&pairs);
                let query = Query::new(&architecture, "llama.cpp".parse().unwrap(), &chosen).unwrap();
                let Ok(found) = kvscope_sizing::engine::report(&query) else { continue };
                let of = |name: &str| found.figure(name.parse().unwrap()).unwrap().as_f64();
                let line =
                    batch as f64 * (of("slope_bytes_per_token") * n as f64 + of("fixed_bytes_per_request"));
                let apart = line - of("resident_bytes");
                assert!((0.0..100.0).contains(&apart), "{} {pairs:?}: {apart} B apart", entry.id);
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "{compared}");
}
