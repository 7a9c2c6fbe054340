//! Start-up logs: what is read of them, what it means, and what it comes to when recomputed. Expected figures are those
//! of the public reports named in each log's first line and in the public cases, or derived here by hand.

use kvscope_sizing::engine::EngineKind;
use kvscope_sizing::log::{DecodedLog, GivenModel, LogFigure, decode_log};
use kvscope_sizing::{Architecture, read_config};

fn log(name: &str) -> String {
    let path = format!("{}/tests/data/logs/{name}.log", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a log of the tests")
}

fn decoded(text: &str) -> DecodedLog {
    decode_log(text, None).expect("a log with known lines")
}

/// The figures of one name, in the order of the log.
fn figures<'d>(decoded: &'d DecodedLog, name: &str) -> Vec<&'d LogFigure> {
    decoded.figures.iter().filter(|figure| figure.name == name).collect()
}

/// A figure's recomputed value in its own unit and digits.
fn recomputed(figure: &LogFigure) -> String {
    figure.printed.show(figure.recomputed.expect("the model is known"))
}

fn agree(decoded: &DecodedLog, names: &[&str]) {
    for name in names {
        let found = figures(decoded, name);
        assert!(!found.is_empty(), "{name}");
        for figure in found {
            assert!(figure.recomputed.is_some(), "{} is not recomputed", figure.says);
            assert_eq!(figure.difference, None, "{}", figure.says);
        }
    }
    assert!(!decoded.has_differences());
}

/// By hand: a state of 32 × 128 × 128 × 4 + 8192 × 3 × 2 = 2,146,304 B is 2096 tokens of 1024 B; 2.95 GiB are 147 blocks
/// of 10 such pages; 147 // 4 × 2096 = 75,456, and 147 / (32 + 3 × 2) = 3.87.
#[test]
fn states_kept_for_prefixes_count_twice() {
    let decoded = decoded(&log("vllm-0.20-align"));
    assert_eq!(decoded.engine.to_string(), "vllm@0.20.0");
    assert_eq!(decoded.settings.mamba_cache_mode.map(kvscope_sizing::MambaCacheMode::name), Some("align"));
    agree(&decoded, &["logged_kv_tokens", "max_concurrency", "attention_block_size"]);
    assert_eq!(decoded.contradictions.len(), 1);
    let off = log("vllm-0.20-align").replace("enable_prefix_caching=True", "enable_prefix_caching=False");
    let without = self::decoded(&off);
    // 147 / (32 + 3)
    assert_eq!(recomputed(figures(&without, "max_concurrency")[0]), "4.20x");
}

/// A user took 290,864 tokens for the capacity; it is 33.04 requests of 32,768. By hand: a state of 784 tokens' bytes
/// in each of 3 groups beside one of attention; 42 + 3 blocks a request, so 33.04 requests are 1487 blocks, and
/// 1487 // 4 × 784 = 290,864.
#[test]
fn of_two_contradictory_lines_the_concurrency_is_the_capacity() {
    let decoded = decoded(&log("vllm-0.19-hybrid"));
    assert!(decoded.note.as_ref().unwrap().starts_with("Written for the tests."));
    assert_eq!(decoded.engine.to_string(), "vllm@0.19.0");
    assert_eq!(decoded.model.recomputed_as.as_deref(), Some("qwen3.5-27b"));
    let settings = &decoded.settings;
    assert_eq!(settings.max_model_len, Some(32_768));
    assert_eq!(settings.max_num_batched_tokens, Some(16_384));
    assert_eq!(settings.prefix_caching, Some(false));
    agree(&decoded, &["logged_kv_tokens", "attention_block_size", "state_page_padding"]);
    let tokens = figures(&decoded, "logged_kv_tokens")[0];
    assert_eq!(recomputed(tokens), "290,864 tokens");
    assert!(tokens.means.contains("not the capacity"), "{}", tokens.means);
    let [contradiction] = decoded.contradictions.as_slice() else { panic!("{:?}", decoded.contradictions) };
    assert_eq!(contradiction.lines, [10, 11]);
    assert!(contradiction.explained && contradiction.what.contains("up to 0.20.0"), "{}", contradiction.what);
    let capacity = decoded.capacity.unwrap();
    assert!(capacity.starts_with("The capacity is 33.04 requests of 32,768 tokens"), "{capacity}");
    assert!(capacity.ends_with("the 290,864 tokens of line 10 are not it."), "{capacity}");
}

/// The public case `gdn-qwen3.8-27b-vllm-align`: 208 blocks, 90 a request, int(208 / 90 × 131,072) = 302,921 tokens.
#[test]
fn newer_token_lines_follow_from_the_concurrency_and_the_smallest_rank_decides() {
    let decoded = decoded(&log("vllm-0.27-two-ranks"));
    assert_eq!(decoded.settings.tp, Some(2));
    agree(&decoded, &["logged_kv_tokens", "max_concurrency", "attention_block_size"]);
    assert_eq!(recomputed(figures(&decoded, "logged_kv_tokens")[0]), "302,921 tokens");
    assert!(decoded.contradictions.is_empty());
    let block = figures(&decoded, "attention_block_size");
    assert_eq!((block.len(), block[0].times, block[0].line), (1, 2, 4), "equal lines of two ranks are one");
    assert_eq!(block[0].ranks, ["TP0", "TP1"]);
    let pools: Vec<(&[String], f64)> = figures(&decoded, "available_kv_bytes")
        .iter()
        .map(|f| (f.ranks.as_slice(), f.printed.value()))
        .collect();
    assert_eq!(pools.len(), 2, "ranks that differ are told apart");
    assert_eq!(pools[1], (["TP1".to_owned()].as_slice(), 5.01 * f64::from(1 << 30)));
    assert_eq!(
        decoded.capacity.as_deref(),
        Some("The capacity is 2.31 requests of 131,072 tokens at once, which is 302,921 tokens.")
    );
}

/// The public case `swa-gemma4-31b-need-v026`: (8192 + 5 × 4161) blocks of 2,621,440 bytes are 70.79 GiB. In 60 GiB,
/// 24,576 blocks, 24,576 − 5 × 4161 = 3771 are left for the full layers: 3771 × 32 = 120,672 tokens.
#[test]
fn a_refused_start_says_what_is_needed_and_what_would_fit() {
    let decoded = decoded(&log("vllm-0.26-refused"));
    agree(&decoded, &["needed_bytes_one_request", "estimated_max_model_len"]);
    assert_eq!(recomputed(figures(&decoded, "needed_bytes_one_request")[0]), "70.79 GiB");
    let longest = figures(&decoded, "estimated_max_model_len")[0].recomputed.unwrap();
    let json = serde_json::to_value(longest).unwrap();
    // The pool is printed to 0.01 GiB, two blocks to either side.
    assert_eq!((json["low"].as_u64(), json["high"].as_u64()), (Some(120_576), Some(120_736)));
    assert_eq!(
        decoded.capacity.as_deref(),
        Some(
            "The start is refused: one request of 262,144 tokens needs 70.79 GiB and 60.00 GiB are there; \
             a request of at most 120,672 tokens would fit."
        )
    );
    // One release earlier one batch was in flight: 45.79 GiB, as the same report says.
    let older = self::decoded(&log("vllm-0.26-refused").replace("v0.26.0", "v0.25.1"));
    let needed = figures(&older, "needed_bytes_one_request")[0];
    assert_eq!(recomputed(needed), "45.79 GiB");
    assert_eq!(needed.difference.as_deref(), Some("-25.00 GiB (-35.3 %)"));
    assert!(older.has_differences());
}

/// 2 MiB a block of 16 tokens: 2.89 GiB are 1479 or, with what printing rounds, 1477 to 1482 blocks; 1478 × 16 = 23,648.
#[test]
fn the_first_engine_counts_blocks() {
    let decoded = decoded(&log("vllm-0.6"));
    assert_eq!(decoded.engine.to_string(), "vllm@0.6.4");
    agree(&decoded, &["num_blocks", "max_concurrency", "logged_kv_tokens"]);
    assert_eq!(recomputed(figures(&decoded, "num_blocks")[0]), "1,477 to 1,482 blocks");
    let capacity = decoded.capacity.unwrap();
    assert!(
        capacity.contains("29,000 tokens does not fit the pool, which stores 23,648 tokens"),
        "{capacity}"
    );
}

/// The public case `swa-mimo-v2-flash-window-pool` (8.38 + 5.59 GiB), and by hand for the other pool: 9 layers with one
/// head a rank, 9 × (192 + 128) × 2 B × (375,360 + 64) = 2,162,442,240 B = 2.01 GiB, printed as 1.21 + 0.81.
#[test]
fn window_pools_have_their_own_tokens_and_gb_means_gib() {
    let decoded = decoded(&log("sglang-windows"));
    assert_eq!(decoded.engine.kind(), EngineKind::SgLang);
    agree(&decoded, &["window_pool_bytes", "kv_pool_bytes", "window_pool_tokens", "max_running_requests"]);
    let full = figures(&decoded, "kv_pool_bytes")[0];
    assert_eq!(serde_json::to_value(full.recomputed).unwrap()["low"], 2_162_442_240_u64);
    assert_eq!((full.times, full.ranks.join(" ")), (4, "TP0 TP1 TP2 TP3".to_owned()));
    assert!(full.means.contains("GiB is meant"));
    let capacity = decoded.capacity.unwrap();
    assert!(capacity.contains("375,360 token slots") && capacity.contains("300,288 tokens"), "{capacity}");
}

/// The public case `dsa-dsv3.2-sglang-pool`: (975,424 + 64) × 61 × (656 + 132) B = 43.67 GiB on each of two ranks.
/// int(975,424 / 163,840 × 512) = 3048 requests.
#[test]
fn latents_and_index_keys_are_one_pool_line() {
    let decoded = decoded(&log("sglang-dsa"));
    agree(&decoded, &["kv_pool_bytes", "max_running_requests"]);
    let pool = figures(&decoded, "kv_pool_bytes")[0];
    assert_eq!(serde_json::to_value(pool.recomputed).unwrap()["low"], 975_488_u64 * 61 * 788);
    assert_eq!(pool.ranks, ["DP0 TP0 EP0", "DP1 TP1 EP1"]);
}

/// By hand, 41 slots with the spare: 30 layers × 32 × 128 × 128 × 4 B = 2.40 GiB of recurrent and
/// 30 × 8192 × 3 × 2 B = 0.06 GiB of convolution state. K: 500,001 × 10 layers × 2 × 256 × 2 B = 4.77 GiB, V as much.
/// 40 slots at five a request are 8 requests.
#[test]
fn state_slots_bound_the_requests() {
    let decoded = decoded(&log("sglang-states"));
    agree(&decoded, &["state_bytes", "kv_pool_bytes", "max_running_requests"]);
    let bytes =
        |name| serde_json::to_value(figures(&decoded, name)[0].recomputed).unwrap()["high"].as_u64().unwrap();
    assert_eq!(bytes("state_bytes"), 41 * 30 * (32 * 128 * 128 * 4 + 8192 * 3 * 2));
    assert_eq!(bytes("kv_pool_bytes"), 500_001 * 10 * 2 * 2 * 256 * 2);
    assert_eq!(figures(&decoded, "state_slots")[0].printed.to_string(), "40 slots");
    assert!(decoded.capacity.unwrap().ends_with("with at most 8 requests at once."));
}

/// A pool of other tokens than are admitted, as with an allocator that is put in between.
#[test]
fn a_pool_of_other_tokens_than_are_admitted_is_a_contradiction() {
    let text = log("sglang-states").replace("max_total_num_tokens=500000", "max_total_num_tokens=700000");
    let decoded = decoded(&text);
    assert!(
        decoded.contradictions[0].what.contains("allocates 500,000 tokens"),
        "{:?}",
        decoded.contradictions
    );
    assert!(decoded.has_differences());
    assert!(decoded.capacity.unwrap().starts_with("The capacity is 500,000 token slots"));
}

/// The public case `gdn-qwen3.6-27b-llamacpp-kv`: 16 × 2 × 4 × 256 × 2 B × 262,144 = 16384 MiB in one stream. State of 4
/// sequences by hand: 48 × 3 × 10,240 × 4 B × 4 = 22.5 MiB and 48 × 48 × 128 × 128 × 4 B × 4 = 576 MiB.
#[test]
fn one_stream_is_shared_and_states_are_not() {
    let decoded = decoded(&log("llama-hybrid"));
    assert_eq!(decoded.model.named.as_deref(), Some("Qwen3.6 27B"));
    let settings = &decoded.settings;
    assert_eq!((settings.n_ctx, settings.n_seq_max, settings.n_ubatch), (Some(262_144), Some(4), Some(512)));
    assert_eq!((settings.kv_unified, settings.flash_attn), (Some(true), Some(true)));
    let names = [
        "cache_bytes",
        "cache_k_bytes",
        "cache_v_bytes",
        "state_bytes",
        "state_conv_bytes",
        "state_recurrent_bytes",
    ];
    agree(&decoded, &names);
    assert_eq!(recomputed(figures(&decoded, "cache_bytes")[0]), "16384.00 MiB");
    assert_eq!(recomputed(figures(&decoded, "state_conv_bytes")[0]), "22.50 MiB");
    assert_eq!(recomputed(figures(&decoded, "state_recurrent_bytes")[0]), "576.00 MiB");
    let buffers = figures(&decoded, "compute_buffer_bytes");
    assert_eq!(buffers.len(), 2);
    assert!(buffers[0].says.starts_with("CUDA0") && buffers[0].means.contains("no cache"));
    assert_eq!(decoded.capacity.as_deref(), Some("The capacity is 262,144 tokens, shared by 4 sequences."));
}

/// Lines of <https://github.com/ggml-org/llama.cpp/pull/23792>: 48 layers, each 3 × 10,240 × 4 B and 48 × 128 × 128 × 4 B,
/// for three sequences; or, which is as much, for one with two snapshots to roll back to.
#[test]
fn snapshots_are_states_too() {
    for (sequences, settings) in [("3 seqs  0 rs_seq", (3, 0)), ("1 seqs  2 rs_seq", (1, 2))] {
        let text = format!(
            "print_info: general.name = Qwen3.6 27B\nllama_context: n_ctx = 8192\n\
             [47161] 0.15.050.795 I llama_memory_recurrent: size =  448.88 MiB (     3 cells,  65 layers,  {sequences}), \
             R (f32):   16.88 MiB, S (f32):  432.00 MiB\n"
        );
        let decoded = decoded(&text);
        agree(&decoded, &["state_bytes", "state_conv_bytes", "state_recurrent_bytes"]);
        assert_eq!(
            (decoded.settings.n_seq_max, decoded.settings.n_rs_seq),
            (Some(settings.0), Some(settings.1))
        );
    }
}

/// The public case `swa-gemma4-26b-128k`: 5 × 2 × 2 × 512 × 2 B × 131,072 = 2560 MiB and, for 1536 cells,
/// 25 × 2 × 8 × 256 × 2 B × 1536 = 300 MiB.
#[test]
fn windows_are_a_cache_of_their_own() {
    let decoded = decoded(&log("llama-windows"));
    agree(&decoded, &["cache_bytes", "cache_k_bytes", "cache_v_bytes"]);
    let caches = figures(&decoded, "cache_bytes");
    assert_eq!(caches.len(), 2);
    assert_eq!(
        (recomputed(caches[0]).as_str(), recomputed(caches[1]).as_str()),
        ("2560.00 MiB", "300.00 MiB")
    );
    assert!(caches[1].means.starts_with("window layers") && caches[1].means.contains("1,536 cells"));
    assert_eq!(decoded.capacity.as_deref(), Some("The capacity is one sequence of 131,072 tokens."));
}

/// The public case `mha-llama30b-f32`: 60 × 2 × 6656 values × 512 cells are 1560 MiB at 4 bytes. At the engine's own
/// default of 2 bytes they would be half, which is the report.
#[test]
fn a_difference_is_named_with_its_share() {
    let config =
        r#"{"model_type": "llama", "num_hidden_layers": 60, "num_attention_heads": 52, "hidden_size": 6656}"#;
    let architecture: Architecture = read_config(config).unwrap();
    let given = GivenModel { label: "llama-30b", architecture: &architecture };
    let decoded = decode_log(&log("llama-2023"), Some(given)).unwrap();
    let cache = figures(&decoded, "cache_bytes")[0];
    assert_eq!(cache.difference.as_deref(), Some("-780.00 MiB (-50.0 %)"));
    assert!(decoded.has_differences());
    assert_eq!(decoded.model.recomputed_as.as_deref(), Some("llama-30b"));
}

#[test]
fn a_total_that_is_not_the_sum_of_its_parts_is_a_contradiction() {
    let text = log("llama-hybrid").replace("V (f16): 8192.00", "V (q8_0): 4352.00");
    let decoded = decoded(&text);
    assert!(
        decoded.contradictions[0].what.contains("add up to 12544.00 MiB"),
        "{:?}",
        decoded.contradictions
    );
    assert_eq!(figures(&decoded, "cache_v_bytes")[0].difference, None, "8.5 bits a value are 4352 MiB");
}

#[test]
fn half_of_the_last_printed_digit_is_no_difference_and_more_is() {
    let concurrency = |printed: &str| {
        let text = log("vllm-0.27-two-ranks").replace("2.31x", printed);
        figures(&decoded(&text), "max_concurrency")[0].difference.clone()
    };
    // 208 / 90 = 2.3111
    assert_eq!(concurrency("2.3x"), None);
    assert_eq!(concurrency("2.32x").as_deref(), Some("-0.01x (-0.4 %)"));
    let tokens = log("vllm-0.27-two-ranks").replace("302,921", "302,922");
    let difference = figures(&decoded(&tokens), "logged_kv_tokens")[0].difference.clone();
    assert_eq!(difference.as_deref(), Some("-1 tokens (under 0.1 %)"), "counts are exact");
    let tokens = decoded(&log("vllm-0.27-two-ranks").replace("302,921", "2,921"));
    assert_eq!(
        figures(&tokens, "logged_kv_tokens")[0].difference.as_deref(),
        Some("+300,000 tokens (+10270.5 %)")
    );
    let words = tokens.differences_words().unwrap();
    assert!(
        words.starts_with("1 of ") && words.ends_with("and 1 contradiction has no known reason"),
        "{words}"
    );
}

#[test]
fn contradictions_of_a_version_that_cannot_print_them_are_not_explained() {
    let decoded = decoded(&log("vllm-0.19-hybrid").replace("0.19.0", "0.27.0"));
    let [contradiction] = decoded.contradictions.as_slice() else { panic!("one") };
    assert!(!contradiction.explained);
    assert!(decoded.has_differences());
}

#[test]
fn a_second_start_or_a_second_model_is_not_mixed_in() {
    let first = log("vllm-0.27-two-ranks");
    let second = first.replace("302,921", "200,000").replace("2.31x", "1.53x").replace("pid=", "pid=9");
    let decoded = self::decoded(&format!("{second}{first}"));
    agree(&decoded, &["logged_kv_tokens", "max_concurrency"]);
    assert!(decoded.warnings.iter().any(|warning| warning.message.contains("new start begins at line 13")));

    let draft = "print_info: general.name = Qwen3 0.6B\nllama_kv_cache: size = 64.00 MiB ( 1024 cells, 28 layers, 1/1 seqs), K (f16): 32.00 MiB, V (f16): 32.00 MiB\n";
    let decoded = self::decoded(&(log("llama-hybrid") + draft));
    assert_eq!(figures(&decoded, "cache_bytes").len(), 1);
    assert!(decoded.warnings.iter().any(|warning| warning.message.contains("second model")));
}

#[test]
fn an_unknown_model_leaves_the_meaning() {
    let decoded = decoded(&log("vllm-0.19-hybrid").replace("Qwen3.5-27B", "Somebody-9B"));
    assert!(decoded.figures.iter().all(|figure| figure.recomputed.is_none()));
    assert!(
        decoded
            .warnings
            .iter()
            .any(|warning| warning.message.contains("\"Qwen/Somebody-9B\" is not in the catalogue"))
    );
    assert_eq!(decoded.contradictions.len(), 1, "this needs no model");
}

/// vLLM 0.33 prints both in one line. 6960 blocks, 3168 a request of 202,752 tokens: 2.197, and in its arithmetic 445,439.
#[test]
fn newest_lines_say_both_at_once() {
    let text =
        "INFO GPU KV cache size: 445,439 tokens, Maximum concurrency for 202,752 tokens per request: 2.20x\n";
    let decoded = decoded(text);
    assert!(decoded.contradictions.is_empty());
    let names: Vec<&str> = decoded.figures.iter().map(|figure| figure.name).collect();
    assert_eq!(names, ["logged_kv_tokens", "max_concurrency"]);
    assert!(decoded.capacity.unwrap().ends_with("which is 445,439 tokens."));
}

/// Engines of data-parallel ranks print in any order; each token line belongs to its own rank's concurrency.
#[test]
fn ranks_that_print_in_turn_are_not_mixed() {
    let text = "(EngineCore_DP0 pid=1) INFO GPU KV cache size: 100,000 tokens\n\
                (EngineCore_DP1 pid=2) INFO GPU KV cache size: 200,000 tokens\n\
                (EngineCore_DP1 pid=2) INFO Maximum concurrency for 10,000 tokens per request: 20.00x\n\
                (EngineCore_DP0 pid=1) INFO Maximum concurrency for 10,000 tokens per request: 10.00x\n";
    let decoded = decoded(text);
    assert!(decoded.contradictions.is_empty(), "{:?}", decoded.contradictions);
    assert_eq!(
        decoded.capacity.unwrap(),
        "The capacity is that of 2 pools: DP0 10.00 requests of 10,000 tokens at once, which is 100,000 tokens; \
         DP1 20.00 requests of 10,000 tokens at once, which is 200,000 tokens."
    );
}

#[test]
fn garbage_is_an_error_in_one_sentence() {
    for text in
        ["", "\n\r\n", "hello\nworld", "\u{fffd}\u{1b}[", "INFO GPU KV cache size: 290,8", "n_ctx = 4096\n"]
    {
        let error = decode_log(text, None).unwrap_err().to_string();
        assert!(error.contains("no line is known"), "{text:?}: {error}");
        assert!(!error.contains('\n'));
    }
    let error = decode_log("vLLM API server version 0.19.0\n", None).unwrap_err().to_string();
    assert!(error.contains("of vllm, but holds none of its lines about memory"), "{error}");
}

const LOGS: [&str; 10] = [
    "vllm-0.20-align",
    "vllm-0.6",
    "vllm-0.19-hybrid",
    "vllm-0.26-refused",
    "vllm-0.27-two-ranks",
    "sglang-windows",
    "sglang-states",
    "sglang-dsa",
    "llama-hybrid",
    "llama-windows",
];

/// A log that ends or begins anywhere shows no figure that the whole log does not hold.
#[test]
fn cut_ends_invent_no_figures() {
    for name in LOGS {
        let text = log(name);
        let whole: Vec<String> =
            decoded(&text).figures.iter().map(|figure| figure.printed.to_string()).collect();
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)).step_by(13) {
            for part in [&text[..at], &text[at..]] {
                let Ok(decoded) = decode_log(part, None) else { continue };
                for figure in decoded.figures {
                    let printed = figure.printed.to_string();
                    assert!(whole.contains(&printed), "{name} cut at {at}: {}", figure.says);
                }
            }
        }
    }
}

/// Numbers, markers and arguments out of place, too large or missing.
#[test]
fn broken_lines_do_not_panic() {
    let pieces = [
        "",
        "0",
        "99999999999999999999",
        "9007199254740992",
        "-1",
        "1e9",
        "1.",
        ".5",
        "0.00",
        "ü",
        "\u{1b}[",
        "'",
        "(",
    ];
    for name in LOGS {
        let text = log(name);
        for piece in pieces {
            let mut changed = String::new();
            for word in text.split_inclusive(' ') {
                let number = word.trim_start_matches('(').starts_with(|c: char| c.is_ascii_digit());
                changed.push_str(if number { piece } else { word });
                changed.push(' ');
            }
            let _ = decode_log(&changed, None);
            let _ = decode_log(&text.replace("= ", piece).replace('=', piece), None);
            let _ = decode_log(&text.replace(['4', '2'], piece), None);
        }
    }
}
