//! Start-up logs whose figures are several pools', cannot be read, or are not all there. Expected figures are derived here
//! by hand from the logs that `log.rs` reads whole.

use kvscope_sizing::log::{DecodedLog, decode_log};

fn log(name: &str) -> String {
    let path = format!("{}/tests/data/logs/{name}.log", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a log of the tests")
}

fn hybrid() -> String {
    log("vllm-0.19-hybrid")
}

fn decoded(text: &str) -> DecodedLog {
    decode_log(text, None).expect("a log with known lines")
}

/// Every data-parallel rank is an engine core with a pool of its own (vLLM 0.33, `v1/engine/utils.py`).
#[test]
fn equal_pools_of_data_parallel_ranks_are_counted() {
    let text = "INFO non-default args: {'max_model_len': 10000, 'data_parallel_size': 2}\n\
                (EngineCore_DP0 pid=1) INFO GPU KV cache size: 37,500 tokens\n\
                (EngineCore_DP0 pid=1) INFO Maximum concurrency for 10,000 tokens per request: 3.75x\n\
                (EngineCore_DP1 pid=2) INFO GPU KV cache size: 37,500 tokens\n\
                (EngineCore_DP1 pid=2) INFO Maximum concurrency for 10,000 tokens per request: 3.75x\n";
    let both = decoded(text);
    assert_eq!(both.settings.dp, Some(2));
    assert_eq!(
        both.capacity.unwrap(),
        "The capacity is 3.75 requests of 10,000 tokens at once, which is 37,500 tokens, in each of 2 pools (DP0, DP1)."
    );
    let slots = "[2026-01-31 13:50:58 DP0 TP0] max_total_num_tokens=520608, context_len=131072\n\
                 [2026-01-31 13:50:58 DP1 TP1] max_total_num_tokens=420608, context_len=131072\n";
    let capacity = decoded(slots).capacity.unwrap();
    // 520,608 / 131,072 and 420,608 / 131,072.
    assert_eq!(
        capacity,
        "The capacity is that of 2 pools: DP0 520,608 token slots: 3.97 requests of 131,072 tokens; \
         DP1 420,608 token slots: 3.21 requests of 131,072 tokens."
    );
}

#[test]
fn a_figure_of_a_known_line_that_cannot_be_read_is_named_and_concludes_nothing() {
    let whole = hybrid();
    for wrong in ["-3x".to_owned(), format!("{}x", "9".repeat(400))] {
        let found = decoded(&whole.replace("33.04x", &wrong));
        let told = |warning: &kvscope_sizing::Warning| {
            warning.field == "max_concurrency" && warning.message.starts_with("line 11:")
        };
        assert!(found.warnings.iter().any(told), "{:?}", found.warnings);
        let capacity = found.capacity.unwrap();
        assert!(capacity.contains("recomputed; the concurrency in line 11 cannot be read"), "{capacity}");
    }
    let tokens = decoded(&whole.replace("290,864", "290864290864290864290864"));
    assert!(tokens.warnings.iter().any(|warning| warning.message.starts_with("line 10:")));
    let alone = decode_log("INFO GPU KV cache size: -5 tokens\n", None).unwrap_err().to_string();
    assert!(alone.contains("line 1: \"-5\" is no figure"), "{alone}");
}

/// 290,864 tokens are 4 × 371 blocks of 784 tokens and up to three more, 1484 to 1487 of them; 45 a request of 32,768.
#[test]
fn without_a_concurrency_line_the_capacity_of_a_hybrid_is_recomputed_or_unknown() {
    let whole = hybrid();
    let cut: String = whole.split_inclusive('\n').take(10).collect();
    assert_eq!(
        decoded(&cut).capacity.unwrap(),
        "The capacity is 32.98 to 33.04 requests of 32,768 tokens at once, recomputed; the log has no concurrency line."
    );
    let other = decoded(&cut.replace("Qwen3.5-27B", "Somebody-9B")).capacity.unwrap();
    assert!(other.starts_with("The capacity is unknown: the 290,864 tokens of line 10"), "{other}");
}

/// Both logs print the tokens as versions up to 0.20.0 do, and 0.20.2 no longer does. By hand in `log.rs`: 147 // 4 × 2096 = 75,456 and 147 / 38 = 3.87;
/// 1487 // 4 × 784 = 290,864.
#[test]
fn lines_of_an_older_version_are_recomputed_by_its_rules() {
    for (whole, version, tokens) in
        [(log("vllm-0.20-align"), "0.20.0", "75,456 tokens"), (hybrid(), "0.19.0", "290,864 tokens")]
    {
        let text = whole.replace(&format!("version {version}"), "").replace(&format!("(v{version})"), "");
        let found = decoded(&text);
        assert_eq!(found.engine.to_string(), "vllm@0.20.0");
        assert!(
            found.title().starts_with("vllm@0.20.0 (version inferred from its lines"),
            "{}",
            found.title()
        );
        assert_eq!(serde_json::to_value(&found).unwrap()["version_from"], "lines");
        let named = decoded(&whole);
        assert!(named.title().starts_with(&format!("vllm@{version}, ")), "{}", named.title());
        assert_eq!(serde_json::to_value(&named).unwrap()["version_from"], "log");
        let told = found.warnings.iter().find(|warning| warning.field == "engine").unwrap();
        assert!(told.message.contains("names no version; the rules of 0.20.0"), "{}", told.message);
        let figure = found.figures.iter().find(|figure| figure.name == "logged_kv_tokens").unwrap();
        assert_eq!(figure.printed.show(figure.recomputed.unwrap()), tokens);
        assert!(!found.has_differences(), "{:?}", found.figures);
    }
    let newer = log("vllm-0.27-two-ranks").replace("(v0.27.1)", "");
    let newer = decoded(&newer);
    assert_eq!((newer.engine.to_string().as_str(), newer.version_from), ("vllm", None));
}

/// The second rank allocates 400,000 tokens and admits as many as the first, which agrees with itself.
#[test]
fn a_rank_that_contradicts_itself_is_named_beside_one_that_agrees() {
    let line = |rank: u32, tokens: u32| {
        format!("[2026-09-14 10:01:00 TP{rank}] KV Cache is allocated. #tokens: {tokens}, KV size: 4.77 GB\n")
    };
    let total = "[2026-09-14 10:01:09 TP0] max_total_num_tokens=500000, context_len=262144\n";
    let agreeing = decoded(&(line(0, 500_000) + &line(1, 500_000) + total));
    assert!(agreeing.contradictions.is_empty(), "{:?}", agreeing.contradictions);
    let found = decoded(&(line(0, 500_000) + &line(1, 400_000) + total));
    let [contradiction] = found.contradictions.as_slice() else { panic!("{:?}", found.contradictions) };
    assert_eq!((contradiction.lines.as_slice(), contradiction.explained), (&[2, 3][..], false));
    assert!(contradiction.what.contains("line 2 allocates 400,000 tokens"), "{}", contradiction.what);
}

/// 4.77 GiB to half a hundredth and 4.8 to half a tenth are 9.57 to 0.055; what cannot be summed or counted is named.
#[test]
fn pool_lines_of_other_digits_are_read_or_named() {
    let whole = log("sglang-states");
    let found = decoded(&whole.replace("V size: 4.77 GB", "V size: 4.8 GB"));
    let pool = found.figures.iter().find(|figure| figure.name == "kv_pool_bytes").unwrap();
    let gib = f64::from(1 << 30);
    assert!((pool.printed.value() / gib - 9.57).abs() < 1e-9, "{pool:?}");
    assert!((pool.printed.tolerance() / gib - 0.055).abs() < 1e-9, "{pool:?}");
    assert_eq!(pool.difference, None);
    let most = (1_u64 << 53).to_string();
    for (right, wrong, field) in [
        ("#tokens: 500000,", "#tokens: 500000.5,", "kv_pool_bytes"),
        (
            "K size: 4.77 GB, V size: 4.77 GB",
            &format!("K size: {most} GB, V size: {most} GB"),
            "kv_pool_bytes",
        ),
        (
            "conv_state size: 0.06GB, ssm_state size: 2.40GB",
            &format!("conv_state size: {most}GB, ssm_state size: {most}GB"),
            "state_bytes",
        ),
    ] {
        assert!(whole.contains(right));
        let found = decoded(&whole.replace(right, wrong));
        let told = found.warnings.iter().find(|warning| warning.field == field).unwrap();
        assert!(told.message.contains("so it is left out"), "{}", told.message);
    }
}

/// 0.8 × 375,360 is 300,288 and 0.8 × 375,040 is 300,032: each rank's window slots are right beside its own.
#[test]
fn ranks_of_one_engine_with_other_slots_are_named() {
    let whole = log("sglang-windows");
    assert!(decoded(&whole).contradictions.is_empty());
    let line = "TP1] Use sliding window memory pool. full_layer_tokens=375360, swa_layer_tokens=300288";
    assert!(whole.contains(line));
    let found = decoded(&whole.replace(line, &line.replace("375360", "375040").replace("300288", "300032")));
    let what: Vec<&str> = found.contradictions.iter().map(|found| found.what.as_str()).collect();
    assert!(what.iter().any(|what| what.contains("375,360") && what.contains("TP1 has 375,040")), "{what:?}");
    for figure in found.figures.iter().filter(|figure| figure.name == "window_pool_tokens") {
        assert!(figure.recomputed.is_some() && figure.difference.is_none(), "{figure:?}");
    }
    assert!(found.has_differences());
}

/// Two ranks of MiMo-V2-Flash, the second with 64 slots more: 0.8 × 375,424 is 300,339, in pages of 64 300,288, so 300,352
/// is not its part. Both have a pool for windows and one for the other layers, and the smaller full pool is the capacity:
/// 375,360 / 262,144 = 1.43.
#[test]
fn pools_of_a_rank_are_told_by_its_own_tokens() {
    let one = include_str!("../../../assets/examples/sglang.log");
    let second: String = one
        .lines()
        .filter(|line| line.contains(" TP0]"))
        .map(|line| line.replace("TP0", "TP1").replace("375360", "375424").replace("300288", "300352") + "\n")
        .collect();
    assert!(second.contains("full_layer_tokens=375424, swa_layer_tokens=300352"));
    let found = decoded(&format!("{one}{second}"));
    let capacity = found.capacity.clone().unwrap();
    assert!(capacity.starts_with("The capacity is 375,360 token slots"), "{capacity}");
    assert!(capacity.contains("beside 300,288") && capacity.contains(": 1.43 requests"), "{capacity}");
    let lines = |name: &str| {
        let of = found.figures.iter().filter(|figure| figure.name == name);
        of.map(|figure| (figure.ranks.join(" "), figure.says.clone())).collect::<Vec<_>>()
    };
    for (name, tokens) in [("kv_pool_bytes", [375_360, 375_424]), ("window_pool_bytes", [300_288, 300_352])] {
        let pools = lines(name);
        assert_eq!(pools.len(), 2, "{name}: {pools:?}");
        for ((ranks, says), (rank, tokens)) in pools.iter().zip(["TP0", "TP1"].iter().zip(tokens)) {
            assert!(ranks == rank && says.contains(&format!("#tokens: {tokens}")), "{name}: {pools:?}");
        }
    }
    assert!(lines("other_pool_bytes").is_empty());
    for figure in found.figures.iter().filter(|figure| figure.name == "kv_pool_bytes") {
        assert!(figure.recomputed.is_some() && figure.difference.is_none(), "{figure:?}");
    }
}

/// 5 layers of 131,072 cells are what 2,560 MiB are.
#[test]
fn cells_and_layers_that_do_not_make_up_the_bytes_are_named() {
    let whole = log("llama-windows");
    assert!(decoded(&whole).contradictions.is_empty());
    for (right, wrong, word) in [
        ("cells,   5 layers", "cells,   6 layers", "says 6 layers, but 5 take 2560.00 MiB"),
        ("(131072 cells,", "(     0 cells,", "says 0 cells, but 131,072 take"),
    ] {
        assert!(whole.contains(right));
        let found = decoded(&whole.replace(right, wrong));
        let what: Vec<&str> = found.contradictions.iter().map(|found| found.what.as_str()).collect();
        assert!(what.iter().any(|what| what.contains(word)), "{what:?}");
    }
}

/// 0.00x is printed of anything up to 0.005 requests: 163.84 tokens of 32,768.
#[test]
fn a_pool_that_holds_next_to_nothing_has_no_negative_tokens() {
    let text = hybrid().replace("33.04x", "0.00x").replace("290,864", "290,000");
    let found = decoded(&text);
    let what: Vec<&str> = found.contradictions.iter().map(|found| found.what.as_str()).collect();
    assert!(what.iter().any(|what| what.contains("are 0 to 163 tokens")), "{what:?}");
    let capacity = found.capacity.unwrap();
    assert!(capacity.contains("0.00 requests of 32,768 tokens at once, at most 163 tokens"), "{capacity}");
}

/// 20 GiB of Llama-3.1-8B: 10,240 blocks of 16 tokens of 131,072 B each, or 20,480 of half as many bytes, as FP8 K/V have. A
/// log that prints the second and says nothing of formats is explained by one; a pool of nothing known is not.
#[test]
fn a_setting_that_makes_all_figures_agree_is_named() {
    let log = |tokens: &str, concurrency: &str, set: &str| {
        format!(
            "INFO [core.py] Initializing a V1 LLM engine (v0.33.0) with config: \
             model='meta-llama/Llama-3.1-8B-Instruct', max_seq_len=8192{set}\nINFO [gpu_worker.py] Available KV cache \
             memory: 20.00 GiB\nINFO [kv_cache_utils.py] GPU KV cache size: {tokens} tokens\nINFO [kv_cache_utils.py] \
             Maximum concurrency for 8,192 tokens per request: {concurrency}x\n"
        )
    };
    let causes = |text: &str| -> Vec<String> {
        let warnings = decode_log(text, None).unwrap().warnings;
        warnings
            .into_iter()
            .filter(|one| one.message.contains("all figures agree"))
            .map(|one| one.to_string())
            .collect()
    };
    assert_eq!(causes(&log("163,840", "20.00", "")), [""; 0]);
    let [cause] = causes(&log("327,680", "40.00", "")).try_into().unwrap();
    assert!(
        cause.starts_with("kv_dtype: no line says more than auto; with fp8 all figures agree"),
        "{cause}"
    );
    // Where the format is stated, two ranks divide the heads in half.
    let [cause] = causes(&log("327,680", "40.00", ", kv_cache_dtype=bfloat16")).try_into().unwrap();
    assert!(cause.starts_with("tp: no line says it; with 2 all figures agree"), "{cause}");
    // Arguments that are not printed beside others have their defaults.
    let listed = ", kv_cache_dtype=bfloat16\nINFO [utils.py] non-default args: {'max_model_len': 8192}";
    assert_eq!(causes(&log("327,680", "40.00", listed)), [""; 0]);
    assert_eq!(causes(&log("200,000", "24.41", "")), [""; 0]);
}
