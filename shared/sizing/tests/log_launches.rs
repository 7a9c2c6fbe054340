//! Logs that contradict themselves: two launches in one file, a rank that says two figures, cells that are not those of the
//! context, and blocks that are set whatever the memory. Expected figures are derived here by hand.

use kvscope_sizing::log::{Contradiction, DecodedLog, decode_log};

fn decoded(text: &str) -> DecodedLog {
    decode_log(text, None).expect("a log with known lines")
}

fn unexplained(decoded: &DecodedLog) -> Vec<&Contradiction> {
    decoded.contradictions.iter().filter(|found| !found.explained).collect()
}

fn cache(cells: u32, seqs: &str) -> String {
    format!(
        "llama_kv_cache: size =  512.00 MiB ({cells:6} cells,  32 layers, {seqs} seqs), K (f16):  256.00 MiB, V (f16):  256.00 MiB\n"
    )
}

/// A context has no room beyond the cells that were made for it; each stream's share of it is rounded up to 256.
#[test]
fn cells_bound_the_capacity_of_a_context() {
    let found = decoded(&format!("llama_context: n_ctx = 8192\n{}", cache(4096, "1/1")));
    assert_eq!(found.capacity.as_deref(), Some("The capacity is one sequence of 4,096 tokens."));
    let [contradiction] = unexplained(&found)[..] else { panic!("{:?}", found.contradictions) };
    assert_eq!(contradiction.lines, [1, 2]);
    assert!(
        contradiction.what.contains("n_ctx 8,192, but the cache of line 2 has 4,096 cells"),
        "{}",
        contradiction.what
    );
    for (n_ctx, cells, seqs, capacity) in [
        (10_000, 10_240, "1/1", "one sequence of 10,000 tokens"),
        (10_000, 2560, "4/4", "4 sequences of 2,560 tokens each"),
        (32_768, 32_768, "4/1", "32,768 tokens, shared by 4 sequences"),
    ] {
        let found = decoded(&format!("llama_context: n_ctx = {n_ctx}\n{}", cache(cells, seqs)));
        assert!(unexplained(&found).is_empty(), "{:?}", found.contradictions);
        assert_eq!(found.capacity, Some(format!("The capacity is {capacity}.")));
    }
    let twice = decoded(&format!("llama_context: n_ctx = 4096\n{}", cache(16_384, "1/1")));
    assert_eq!(
        (unexplained(&twice).len(), twice.capacity.as_deref()),
        (1, Some("The capacity is one sequence of 4,096 tokens."))
    );
}

/// DeepSeek-V4's compressed caches have a cell for 4 or 128 tokens (<https://github.com/ggml-org/llama.cpp/pull/24162>), and
/// windows one for their own.
#[test]
fn caches_of_fewer_cells_by_their_kind_are_no_contradiction() {
    let text = format!(
        "llama_context: n_ctx = 8192\nllama_kv_cache_iswa: creating non-SWA KV cache, size = 8192 cells\n{}\
         llama_kv_cache_iswa: creating     SWA KV cache, size = 768 cells\n{}\
         llama_kv_cache_dsv4: creating DSV4 HCA compressed KV cache, size = 256 cells\n{}",
        cache(8192, "1/1"),
        cache(768, "1/1"),
        cache(256, "1/1")
    );
    let found = decoded(&text);
    assert!(unexplained(&found).is_empty(), "{:?}", found.contradictions);
    assert_eq!(found.capacity.as_deref(), Some("The capacity is one sequence of 8,192 tokens."));
}

const FIGURES: &str = "INFO GPU KV cache size: 32,768 tokens\n\
                       INFO Maximum concurrency for 8,192 tokens per request: 4.00x\n";

fn engine(version: &str, model: &str, length: u32, ranks: u32) -> String {
    format!(
        "INFO Initializing a V1 LLM engine (v{version}) with config: model='{model}', max_seq_len={length}, \
         tensor_parallel_size={ranks}\n"
    )
}

/// What a launch has one of and a log states twice: by the lines of both.
#[test]
fn two_launches_before_their_figures_are_told() {
    let first = engine("0.19.0", "Qwen/Qwen3-8B", 8192, 1);
    let other = [
        (engine("0.20.0", "Qwen/Qwen3-8B", 8192, 1), "version 0.19.0, line 2 0.20.0"),
        (
            engine("0.19.0", "meta-llama/Llama-3.1-8B", 8192, 1),
            "model Qwen/Qwen3-8B, line 2 meta-llama/Llama-3.1-8B",
        ),
        (engine("0.19.0", "Qwen/Qwen3-8B", 4096, 1), "max_model_len 8192, line 2 4096"),
        (engine("0.19.0", "Qwen/Qwen3-8B", 8192, 2), "tp 1, line 2 2"),
    ];
    for (second, words) in other {
        let found = decoded(&format!("{first}{second}{FIGURES}"));
        let told = unexplained(&found);
        assert!(
            told.iter().any(|found| found.what.contains(words) && found.lines == [1, 2]),
            "{words}: {told:?}"
        );
    }
    let once = decoded(&format!("{first}{first}{FIGURES}"));
    assert!(unexplained(&once).is_empty(), "{:?}", once.contradictions);
    // The files of a model lie where its name is not.
    let path = first.replace("Qwen/Qwen3-8B", "/srv/models/mine");
    let named = decoded(&format!("INFO non-default args: {{'model': 'Qwen/Qwen3-8B'}}\n{path}{FIGURES}"));
    assert!(unexplained(&named).is_empty(), "{:?}", named.contradictions);
    let other =
        decoded(&format!("INFO non-default args: {{'model': 'meta-llama/Llama-3.1-8B'}}\n{first}{FIGURES}"));
    assert_eq!(unexplained(&other).len(), 1, "{:?}", other.contradictions);
}

/// The engine itself shortens the longest request, and says so (`_auto_fit_max_model_len`).
#[test]
fn a_length_that_the_engine_fits_is_no_contradiction() {
    let start = engine("0.25.0", "Somebody/Else", 262_144, 1);
    let figures = FIGURES.replace("8,192", "13,528").replace("32,768", "54,112");
    let fitted =
        format!("{start}INFO Auto-fit max_model_len: reduced from 262144 to 13528 to fit\n{figures}");
    assert!(unexplained(&decoded(&fitted)).is_empty());
    assert_eq!(unexplained(&decoded(&format!("{start}{figures}"))).len(), 1);
}

/// Each worker profiles its memory once a start (`gpu_worker.py`); two ranks may differ.
#[test]
fn a_rank_that_says_two_figures_is_told() {
    let line = |rank: u32, gib: u32| {
        format!("(Worker_TP{rank} pid=9) INFO Available KV cache memory: {gib}.00 GiB\n")
    };
    let apart = decoded(&(line(0, 20) + &line(1, 10)));
    assert!(unexplained(&apart).is_empty(), "{:?}", apart.contradictions);
    let found = decoded(&(line(0, 20) + &line(1, 20) + &line(0, 10)));
    let [contradiction] = unexplained(&found)[..] else { panic!("{:?}", found.contradictions) };
    assert!(
        contradiction.what.starts_with("TP0 says 20.00 GiB in line 1 and 10.00 GiB in line 3"),
        "{}",
        contradiction.what
    );
}

/// Llama 3.1 8B: a block is 16 tokens × 131,072 B = 2 MiB, so 20 GiB hold 10,240; 1024 that are set are 16,384 tokens, two
/// requests of 8192 (`may_override_num_blocks` of `v1/core/kv_cache_utils.py`).
#[test]
fn blocks_that_are_set_are_the_capacity() {
    let text = format!(
        "{}INFO Available KV cache memory: 20.00 GiB\n\
         INFO Overriding num_gpu_blocks=10240 with num_gpu_blocks_override=1024\n\
         INFO GPU KV cache size: 16,384 tokens\n\
         INFO Maximum concurrency for 8,192 tokens per request: 2.00x\n",
        engine("0.25.0", "meta-llama/Llama-3.1-8B-Instruct", 8192, 1)
    );
    let found = decoded(&text);
    assert!(!found.has_differences(), "{:?} {:?}", found.figures, found.contradictions);
    let recomputed = |name: &str| {
        let figure = found.figures.iter().find(|figure| figure.name == name).expect(name);
        figure.printed.show(figure.recomputed.expect("the model is known"))
    };
    assert_eq!(recomputed("num_blocks"), "10,237 to 10,242 blocks");
    assert_eq!(
        (recomputed("logged_kv_tokens").as_str(), recomputed("max_concurrency").as_str()),
        ("16,384 tokens", "2.00x")
    );
    let capacity = "The capacity is 2.00 requests of 8,192 tokens at once, which is 16,384 tokens.";
    assert_eq!(found.capacity.as_deref(), Some(capacity));
    let alone = decoded("INFO Overriding num_gpu_blocks=10240 with num_gpu_blocks_override=1024\n");
    assert!(
        alone.capacity.as_deref().is_some_and(|words| words.starts_with("The capacity is 1,024 blocks, as")),
        "{:?}",
        alone.capacity
    );
}

/// All layers of Llama 3.1 8B are one group, whose blocks no version divides.
#[test]
fn a_single_group_gives_no_reason_for_other_tokens() {
    let figures = FIGURES.replace("32,768", "8,192");
    let named = engine("0.19.0", "meta-llama/Llama-3.1-8B-Instruct", 8192, 1);
    let unnamed = "INFO non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct'}\n".to_owned();
    for start in [named, unnamed] {
        let found = decoded(&(start + &figures));
        let told = unexplained(&found);
        assert!(told.iter().any(|found| found.what.contains("are one group")), "{told:?}");
        assert!(!found.title().contains("inferred"), "{}", found.title());
    }
}
