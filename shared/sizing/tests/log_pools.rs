//! Lines of pools and of devices' shares: what the profile prints of DeepSeek-V4's pools, and what logs say of them. Line shapes
//! are those of SGLang 0.5.23 and llama.cpp of 2026; figures are derived here by hand.

use super::support::asked;
use asked::{catalogued, report_of};
use kvscope_sizing::log::{DecodedLog, GivenModel, decode_log};

const START: &str = "[2026-11-30 10:00:00] server_args=ServerArgs(model_path='deepseek-ai/DeepSeek-V4-Flash', tp_size=4, \
                     page_size=256, max_running_requests=4)\n";

fn decoded(text: &str) -> DecodedLog {
    decode_log(text, None).expect("a log with known lines")
}

/// Figures of a name: what is printed, whether it is recomputed, and its difference.
fn figures(found: &DecodedLog, name: &str) -> Vec<(String, bool, Option<String>)> {
    let own = found.figures.iter().filter(|figure| figure.name == name);
    own.map(|figure| (figure.printed.to_string(), figure.recomputed.is_some(), figure.difference.clone()))
        .collect()
}

fn right(printed: &str) -> Vec<(String, bool, Option<String>)> {
    vec![(printed.to_owned(), true, None)]
}

/// `pool_configurator.py` of 0.5.23. A request's windows: 256 + 128 + 128 + 256 tokens, four of them and two chunks of 8192 and a
/// page, and 16 prefixes of 128 + 256: 25,856. Pages of 256: 585 B a token and layer × 43, and 8 / 256 × 10,240 B × 21 of
/// compressors, 31,875 B × 25,856 = 0.77 GiB. (5 × 128 + 129) rows in whole groups, 896 × 4096 B × 20 = 0.07 GiB.
/// (20 GiB - 824,160,000 - 73,400,320) ÷ 3899.25 = 5,277,239, in pages 5,277,184.
const V4_LINES: [&str; 3] = [
    "DSV4 SWA sizing: mode=cap, swa_tokens=25856, request_cap+headroom=25856, prefix_tails=16",
    "DSV4 memory calculation: unified=False, unified_fp8=False, dspark_draft_bf16=False, bytes_per_full_token=3899.25, \
     available_bytes=20.00 GB, c128_state_fixed=0.07 GB, c2_state_fixed=0.00 GB, swa_fixed=0.77 GB, swa_ring_fixed=0.00 GB, \
     c4_state_fixed=0.00 GB, full_token=5277184",
    "DSV4 pool sizes: full=5277184, swa=25856, c4=1319296, c128=41228, c4_state=808, c128_state=0",
];

#[test]
fn the_pools_of_compressed_layers_are_printed_as_the_engine_does() {
    let flash = catalogued("deepseek-v4-flash");
    let lines = |settings: &[(&str, &str)]| report_of(&flash, "sglang@0.5.23", settings).log_lines;
    let budget = ("available_kv_bytes", "20GiB");
    let capped = [("tp", "4"), ("max_running_requests", "4"), ("gpu", "h100")];
    let found = lines(&[&capped[..], &[budget]].concat());
    assert_eq!(found[..3], V4_LINES);
    assert!(found[3..].iter().all(|line| line.starts_with("max_total_num_tokens=5277184, ")), "{found:?}");
    // Tokens that are set are no budget. 100,096 × 0.25 = 25,024 in pages.
    let set = lines(&[&capped[..], &[("pool_tokens", "100096"), ("swa_full_tokens_ratio", "0.25")]].concat());
    assert_eq!(
        set[..2],
        [
            "DSV4 SWA sizing: mode=ratio (explicit), swa_tokens=24832, swa_full_tokens_ratio=0.25",
            "DSV4 pool sizes: full=100096, swa=24832, c4=25024, c128=782, c4_state=776, c128_state=0",
        ]
    );
    // V4.1 has no compressors of 4 tokens.
    let newer =
        report_of(&catalogued("deepseek-v4.1-flash"), "sglang@0.5.23", &[capped[0], budget]).log_lines;
    let sizes = newer.iter().find(|line| line.starts_with("DSV4 pool sizes: ")).expect("its line");
    assert!(sizes.ends_with(", c4_state=0, c128_state=0"), "{sizes}");
    assert!(newer.iter().all(|line| !line.contains("Use sliding window memory pool")));
}

#[test]
fn what_is_printed_of_compressed_pools_is_recomputed() {
    let text = |lines: &[String]| {
        lines.iter().fold(START.to_owned(), |text, line| text + "[2026-11-30 10:00:01 TP0] " + line + "\n")
    };
    let lines = V4_LINES.map(str::to_owned);
    let found = decoded(&text(&lines));
    assert!(!found.has_differences(), "{:?}", found.figures);
    for (name, printed) in [
        ("sparse_entries", "1,319,296 entries"),
        ("dense_entries", "41,228 entries"),
        ("compressor_rows", "808 rows"),
        ("compressor_ring_bytes", "0.07 GiB"),
        ("window_budget_bytes", "0.77 GiB"),
    ] {
        assert_eq!(figures(&found, name), right(printed), "{name}");
    }
    for name in ["full_pool_tokens", "window_pool_tokens"] {
        let all = figures(&found, name);
        assert!(all.len() == 2 && all.iter().all(|(_, known, other)| *known && other.is_none()), "{all:?}");
    }
    let changed = |from: &str, to: &str| decoded(&text(&lines.clone().map(|line| line.replace(from, to))));
    for (from, to, name) in [
        ("c4=1319296", "c4=1319297", "sparse_entries"),
        ("c4_state=808", "c4_state=1616", "compressor_rows"),
        ("available_bytes=20.00", "available_bytes=21.00", "full_pool_tokens"),
    ] {
        let all = figures(&changed(from, to), name);
        assert!(all.iter().any(|(_, _, other)| other.is_some()), "{to}: {all:?}");
    }
    // What follows another window pool is not held against this one.
    let other = changed("=25856", "=13312");
    assert_eq!(figures(&other, "compressor_rows"), [("808 rows".to_owned(), false, None)]);
}

/// `memory_pool.py` of 0.5.23: with graphs captured first, what a pool prints is the end of its addresses. Qwen3-8B:
/// 147,456 B × 100,001 tokens are 13.73 GiB.
#[test]
fn addresses_for_a_pool_are_no_capacity() {
    let log = |tokens: u64| {
        format!(
            "[2026-06-28 15:16:45] server_args={{'model_path': 'Qwen/Qwen3-8B', 'tp_size': 1, 'page_size': 1}}\n\
             [2026-06-28 15:16:45] KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: {tokens}, K size: 6.87 GB, V \
             size: 6.87 GB\n"
        )
    };
    let found = decoded(&log(100_000));
    assert_eq!(figures(&found, "kv_pool_bound_bytes"), right("13.74 GiB"));
    assert_eq!(found.capacity, None);
    assert!(decoded(&log(200_000)).has_differences());
}

#[test]
fn shares_of_devices_that_do_not_make_up_their_total_are_named() {
    let cache = |shares: [&str; 2]| {
        format!(
            "llama_context: n_seq_max     = 1\nllama_context: n_ctx         = 8192\n\
             llama_kv_cache:      CUDA0 KV buffer size =   {} MiB\n\
             llama_kv_cache:      CUDA1 KV buffer size =   {} MiB\n\
             llama_kv_cache: size = 1024.00 MiB (  8192 cells,  32 layers,  1/1 seqs), K (f16):  512.00 MiB, V (f16):  512.00 \
             MiB\n",
            shares[0], shares[1]
        )
    };
    assert!(decoded(&cache(["544.00", "480.00"])).contradictions.is_empty());
    // Rows that a device fills up.
    assert!(decoded(&cache(["544.10", "480.05"])).contradictions.is_empty());
    // What is only measured is not allocated.
    assert!(decoded(&cache(["0.00", "0.00"])).contradictions.is_empty());
    let found = decoded(&cache(["300.00", "300.00"])).contradictions;
    assert_eq!(found.len(), 1);
    assert!(!found[0].explained);
    assert_eq!(found[0].lines, [3, 4, 5]);
    assert!(found[0].what.contains("lines 3, 4 hold 600.00 MiB on devices, but line 5 says 1024.00 MiB"));
    let states = decoded(
        "llama_memory_recurrent:      CUDA0 RS buffer size =    78.38 MiB\n\
         llama_memory_recurrent: size =  149.62 MiB (     1 cells,  64 layers,  1 seqs), R (f32):    5.62 MiB, S (f32):  144.00 \
         MiB\n",
    );
    assert_eq!(states.contradictions.len(), 1);
    assert_eq!(states.contradictions[0].lines, [1, 2]);
}

/// A log without totals, as builds of 2026 print it. Gemma 4 12B: 8 layers of 1 head of 512 values, K and V of 2 bytes, 16,384 B
/// a cell × 8192 = 128 MiB; 40 layers of 8 heads of 256, 327,680 B × 6144 = 1920 MiB. 6144 cells are 4 windows of 1024 and a
/// batch of 2048.
#[test]
fn caches_without_totals_are_recomputed_by_their_cells() {
    let gemma = catalogued("gemma-4-12b");
    let log = |context: &str, windows: &str| {
        format!(
            "llama_context: n_ctx         = 8192\n{context}\
             llama_context: kv_unified    = true\n\
             llama_kv_cache_iswa: creating non-SWA KV cache, size = 8192 cells\n\
             llama_kv_cache:    Vulkan0 KV buffer size =   128.00 MiB\n\
             llama_kv_cache_iswa: creating     SWA KV cache, size = 6144 cells\n\
             {windows}"
        )
    };
    let read = |text: &str| {
        decode_log(text, Some(GivenModel { label: "gemma-4-12b", architecture: &gemma }))
            .expect("known lines")
    };
    let whole = "llama_kv_cache:    Vulkan0 KV buffer size =  1920.00 MiB\n";
    let found = read(&log("", whole));
    assert!(!found.has_differences(), "{:?}", found.contradictions);
    let shares = figures(&found, "cache_buffer_bytes");
    assert_eq!(shares, [right("128.00 MiB"), right("1920.00 MiB")].concat());
    // How many sequences and how large a batch is not said.
    let cells = figures(&found, "cache_cells");
    assert_eq!(cells, [right("8,192 cells"), vec![("6,144 cells".to_owned(), false, None)]].concat());
    assert_eq!(
        found.capacity.as_deref(),
        Some("The capacity is 8,192 tokens, shared by all sequences; the log does not say how many.")
    );
    let said = "llama_context: n_seq_max     = 4\nllama_context: n_ubatch      = 2048\n";
    let found = read(&log(said, whole));
    assert_eq!(figures(&found, "cache_cells")[1..], right("6,144 cells"));
    assert_eq!(found.capacity.as_deref(), Some("The capacity is 8,192 tokens, shared by 4 sequences."));
    let other = read(&log(&said.replace("= 4\n", "= 2\n"), whole));
    assert_eq!(figures(&other, "cache_cells")[1].2.as_deref(), Some("-2,048 cells (-33.3 %)"));
    assert!(read(&log("", &whole.replace("1920", "1820"))).has_differences());
    // Two devices share it.
    let halves = "llama_kv_cache:    CUDA0 KV buffer size =  960.00 MiB\nllama_kv_cache:    CUDA1 KV buffer size =  960.00 MiB\n";
    assert!(!read(&log("", halves)).has_differences());
    let short = read(&log("", &halves.replace("CUDA1 KV buffer size =  960", "CUDA1 KV buffer size =  860")));
    assert_eq!(short.contradictions.len(), 1);
    assert_eq!(short.contradictions[0].lines, [6, 7]);
}

/// What llama.cpp itself printed for DeepSeek-V4-Flash's metadata and three sequences (xllamacpp 2026.10.11549, as in
/// `tests/oracle/ask_llamacpp.py`, lines of single layers left out): a cache of every token without layers, windows, entries of two
/// ratios, index keys and three compressors.
#[test]
fn caches_of_entries_are_told_from_those_of_every_token() {
    let flash = catalogued("deepseek-v4-flash");
    let text = include_str!("data/logs/llama-compressed.log");
    let model = GivenModel { label: "deepseek-v4-flash", architecture: &flash };
    let found = decode_log(text, Some(model)).expect("known lines");
    assert!(!found.has_differences(), "{:?}", found.contradictions);
    assert_eq!(figures(&found, "cache_cells")[1..], right("768 cells"));
    let compressors = [right("3.94 MiB"), right("30.00 MiB"), right("0.98 MiB")].concat();
    assert_eq!(figures(&found, "compressor_state_bytes"), compressors);
    let other = text
        .replace("lid ratio = 4, state = 8 x 256", "lid ratio = 4, state = 8 x 512")
        .replace("  0.98", "  1.97");
    assert!(decode_log(&other, Some(model)).expect("known lines").has_differences());
}

/// Llama-3.1-8B, 32 layers of 8 heads of 128: 10,240 cells in `q8_0` are 680 MiB. A line that is cut behind its types still says them;
/// one that is cut before leaves f16 to be assumed, which is said.
#[test]
fn types_of_a_cut_line_are_read_and_missing_ones_are_told() {
    let llama = catalogued("llama-3.1-8b");
    let read = |rest: &str| {
        let text = format!(
            "llama_context: n_ctx         = 10240\nllama_context: n_seq_max     = 1\n\
             llama_kv_cache: size =  680.00 MiB ( 10240 cells,  32 layers,  1/1 seqs){rest}\n"
        );
        let model = GivenModel { label: "llama-3.1-8b", architecture: &llama };
        decode_log(&text, Some(model)).expect("known lines")
    };
    let is_told = |rest: &str| read(rest).warnings.iter().any(|warning| warning.field == "kv_dtype");
    for rest in [", K (q8_0): 340.00 MiB, V (q8_0): 340.00 MiB", ", K (q8_0): 340.00 MiB, V (q8_0): 3"] {
        assert!(!read(rest).has_differences() && !is_told(rest), "{rest}");
    }
    assert!(read(", K (q8").has_differences() && is_told(", K (q8"));
}
