//! `kvscope plan prefix | compress | offload | simulate` from outside: figures by hand, and what bad input gets.

use std::fmt::Write as _;
use std::fs;

use kvscope_tests::command_line::kvscope;
use serde_json::{Value, json};

fn answer(arguments: &[&str]) -> Value {
    let found = kvscope([&["plan"], arguments, &["--json"]].concat());
    assert_eq!(found.status, Some(0), "{arguments:?}: {}", found.stderr);
    serde_json::from_str::<Value>(&found.stdout).expect("JSON")[0].clone()
}

fn refused(arguments: &[&str], sentence: &str) {
    let found = kvscope([&["plan"], arguments].concat());
    assert_eq!((found.status, found.stdout.as_str()), (Some(2), ""), "{arguments:?}");
    assert!(found.stderr.starts_with("kvscope: ") && found.stderr.contains(sentence), "{}", found.stderr);
    assert_eq!(found.stderr.lines().count(), 1, "{}", found.stderr);
}

fn rule<'a>(plan: &'a Value, name: &str) -> &'a Value {
    let rules = plan["rules"].as_array().expect("rules");
    rules.iter().find(|row| row["rule"] == name).unwrap_or_else(|| panic!("no {name} in {plan}"))
}

/// vLLM issue 40696: 528 of 979 tokens, and nothing of 480.
#[test]
fn a_prompt_below_the_block_finds_nothing() {
    for (tokens, hit) in [("480", 0), ("979", 528)] {
        let plan = answer(&["prefix", "qwen3.5-9b", "--first", tokens, "--engine", "vllm@0.19"]);
        assert_eq!(rule(&plan, "vllm_blocks")["hit_tokens"], hit);
    }
    let table = kvscope(["plan", "prefix", "deepseek-v4-pro", "--first=100K", "--shared=90K"]);
    assert_eq!(table.status, Some(0), "{}", table.stderr);
    assert!(
        table.stdout.starts_with("deepseek-v4-pro: 100,000 tokens, then 100,000 that share the first 90,000")
    );
    let zero = table.stdout.lines().find(|line| line.starts_with("store zero")).expect("a row");
    assert!(zero.contains("89,984") && zero.contains("7,808"), "{zero}");
}

#[test]
fn token_files_are_compared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("a name").to_owned()
    };
    let ids = |count: u32, last: u32| format!("{:?}", (0..count).chain([last]).collect::<Vec<_>>());
    let (first, second) =
        (file("a.json", &ids(100, 7)), file("b.txt", &ids(100, 8).replace(['[', ']'], " ")));
    let plan = answer(&["prefix", "qwen3-8b", "--first-tokens", &first, "--second-tokens", &second]);
    assert_eq!(plan["shared_tokens"], 100);
    assert_eq!(rule(&plan, "vllm_blocks")["hit_tokens"], 96);
    let words = file("c.txt", "one two");
    refused(
        &["prefix", "qwen3-8b", "--first-tokens", &first, "--second-tokens", &words],
        "\"one\" is no token id",
    );
    refused(&["prefix", "qwen3-8b", "--first-tokens", "no-such", "--second-tokens", &words], "no-such: ");
}

/// 14,745,600,000 B over 1 GB/s; a quarter of it at 20 GB/s of coding; B* = 15 GB/s.
#[test]
fn compression_stops_paying_at_its_bandwidth() {
    let plan = answer(&[
        "compress",
        "qwen3-8b",
        "--context=100K",
        "--bandwidth=8Gbps",
        "--strategy=four=quantise:4:20GB/s:1.5",
    ]);
    assert_eq!((&plan["transfer_bytes"], &plan["winner"]), (&json!(14_745_600_000_u64), &json!("four")));
    assert_eq!(plan["by_bandwidth"][0]["to_bytes_per_second"], 15e9);
    assert_eq!(plan["options"][1]["seconds"], 14.7456 / 20.0 + 14.7456 / 4.0);
    // The published strategies were measured on K and V of heads: nothing of V3.2 is theirs.
    let plan = answer(&["compress", "deepseek-v3.2", "--bandwidth=1GB/s"]);
    assert_eq!(plan["winner"], "none");
    let table = kvscope(["plan", "compress", "qwen3-8b", "--bandwidth=1GB/s", "--loss=3"]);
    assert!(table.stdout.contains("its loss of accuracy is not known"), "{}", table.stdout);
}

/// 131,072 B a token at 50 GB/s.
#[test]
fn offload_compares_restoring_with_computing() {
    let plan = answer(&[
        "offload",
        "llama-3.1-8b",
        "--context=6400",
        "--tier=host=50GB/s,15us",
        "--tflops=495",
        "--set=block_size=16",
    ]);
    let rows = plan["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| &row["layout"]).collect::<Vec<_>>(), ["by_layer", "by_block", "whole"]);
    assert_eq!(rows[0]["copies"], 400 * 64);
    let seconds = rows[1]["seconds"].as_f64().expect("seconds");
    assert!((seconds - (400.0 * 15e-6 + 838_860_800.0 / 50e9)).abs() < 1e-12, "{seconds}");
    assert_eq!(rows[1]["grade"], "given");
    // 2 × 6,979,321,856 weights of the layers a token, the head of 525,336,576 once, and 2 × 32 × 256 × 32 layers for each of the
    // 6,400 × 6,401 / 2 pairs.
    let flops = 89_335_319_756_800.0 + 1_050_673_152.0 + 524_288.0 * 20_483_200.0;
    let computed = plan["recompute_flops"].as_f64().expect("operations");
    assert!((computed / flops - 1.0).abs() < 1e-3, "{computed}");
    assert_eq!((&plan["compute_from"], &rows[1]["restore_wins"]), (&json!("given"), &json!(true)));
    let table =
        kvscope(["plan", "offload", "qwen3.5-9b", "--tier=host=50GB/s,15us", "--gpu=h200", "--context=32Ki"]);
    assert!(
        table.stdout.contains("estimated at 40 % of the datasheet's rate)")
            && table.stdout.contains("matters most to κ"),
        "{}",
        table.stdout
    );
    // Without a tier and without a run the GPU's own link is taken: PCIe 5.0 x16 of each of two.
    let plan = answer(&["offload", "llama-3.1-8b", "--gpu=h200", "--count=2", "--context=6400"]);
    let row = &plan["rows"][2];
    assert_eq!((&row["tier"], &row["grade"]), (&json!("host"), &json!("datasheet")));
    assert_eq!(row["source"], "PCIe 5.0 x16 of each H200 SXM, by its datasheet");
    assert_eq!(row["seconds"], 838_860_800.0 / 128e9);
}

#[test]
fn a_trace_is_replayed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("trace.jsonl");
    let mut text = String::new();
    for (second, block) in [7, 8, 9, 7, 8, 9].into_iter().enumerate() {
        let _ = writeln!(
            text,
            r#"{{"timestamp": {}, "input_length": 513, "output_length": 1, "hash_ids": [{block}]}}"#,
            second * 1000
        );
    }
    fs::write(&path, &text).expect("written");
    let file = path.to_str().expect("a name");
    let found = answer(&["simulate", "qwen3-8b", "--trace", file, "--tier", "gpu=2blocks"]);
    assert_eq!(found["sizes"]["block_bytes"], 147_456 * 512);
    assert_eq!((&found["lru"]["hit_blocks"], &found["optimum"]["hit_blocks"]), (&json!(0), &json!(2)));
    let table = kvscope([
        "plan",
        "simulate",
        "qwen3.5-9b",
        "--synthetic=200",
        "--tier=gpu=2GB",
        "--tier=host=unlimited",
    ]);
    assert_eq!(table.status, Some(0), "{}", table.stderr);
    assert!(
        table.stdout.contains("recurrent_state") && table.stdout.contains("no bound"),
        "{}",
        table.stdout
    );
    fs::write(&path, format!("{text}{{")).expect("written");
    refused(&["simulate", "qwen3-8b", "--trace", file, "--tier", "gpu=2blocks"], "line 7");
}

#[test]
fn bad_input_is_one_sentence() {
    for (arguments, sentence) in [
        (&["prefix", "qwen3-8b", "--first=0"][..], "first: a prompt of 0 tokens"),
        (&["prefix", "qwen3-8b", "--first=10", "--shared=11"], "shared: 11 tokens cannot be shared"),
        (&["prefix", "qwen3-8b", "--first=1M"], "beyond the"),
        (&["prefix", "qwen3-8b", "--first=10", "--every=0"], "every: "),
        (&["prefix", "qwen3-8b", "--first=10", "--engine=sglang"], "engine: sglang has a row of its own"),
        (&["compress", "qwen3-8b", "--bandwidth=0GB/s"], "a rate of 0 B/s moves nothing"),
        (&["compress", "qwen3-8b", "--bandwidth=1GB/s", "--loss=-1"], "loss: -1 is no loss in points"),
        (&["compress", "qwen3-8b", "--bandwidth=quick"], "bandwidth: \"quick\" is no rate"),
        (&["compress", "qwen3-8b", "--bandwidth=1GB/s", "--slo=soon"], "slo: \"soon\" is no time"),
        (&["compress", "qwen3-8b", "--bandwidth=1GB/s", "--strategy=zip"], "strategy: \"zip\" is not NAME="),
        (
            &["compress", "qwen3-8b", "--bandwidth=1GB/s", "--strategy=z=lossless:1:1GB/s"],
            "makes nothing smaller",
        ),
        (&["offload", "qwen3-8b", "--tflops=495"], "tier: none is given"),
        (&["offload", "qwen3-8b", "--tflops=0", "--tier=h=1GB/s"], "tflops: 0 is not a number above 0"),
        (&["offload", "qwen3-8b", "--tflops=495", "--tier=h=0GB/s"], "a rate of 0 B/s moves nothing"),
        (&["simulate", "qwen3-8b", "--synthetic=0", "--tier=gpu=1GB"], "synthetic: 0 requests"),
        (&["simulate", "qwen3-8b", "--synthetic=5", "--tier=gpu=1kB"], "tier: "),
        (
            &["simulate", "qwen3-8b", "--synthetic=5", "--tier=gpu=9GB", "--block=2M"],
            "block: more than 1,048,576 tokens are no block; give fewer",
        ),
        (
            &[
                "simulate",
                "qwen3-8b",
                "--synthetic=5",
                "--tier=gpu=9GB",
                "--prefill-rate=1e-300",
                "--decode-rate=1",
            ],
            "prefill_rate: a request of",
        ),
        (&["simulate", "qwen3-8b", "--synthetic=5", "--tier=gpu=1MB"], "gpu: holds less than one block"),
        (
            &["simulate", "deepseek-v4-pro", "--synthetic=5", "--block=100", "--tier=g=1GB"],
            "cuts a compression group of 128",
        ),
    ] {
        refused(arguments, sentence);
    }
}
