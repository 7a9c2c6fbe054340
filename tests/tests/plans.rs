//! `kvscope plan` from outside: its figures, and what questions without an answer get.

use kvscope_tests::command_line::{Finished, kvscope, size};
use serde_json::{Value, json};

/// The JSON that `kvscope plan …` prints; it must succeed.
fn plan(arguments: &[&str]) -> Value {
    let finished = run(arguments, &["--json"]);
    assert_eq!(finished.status, Some(0), "{arguments:?}: {}", finished.stderr);
    serde_json::from_str(&finished.stdout).expect("plan prints JSON")
}

fn run(arguments: &[&str], more: &[&str]) -> Finished {
    kvscope(["plan"].iter().chain(arguments).chain(more))
}

/// One line on standard error, nothing on standard output, status 2.
fn refused(arguments: &[&str]) -> String {
    let finished = run(arguments, &[]);
    assert_eq!(finished.status, Some(2), "{arguments:?}: {}", finished.stdout);
    assert!(finished.stdout.is_empty(), "{arguments:?}: {}", finished.stdout);
    let line = finished.stderr.trim_end();
    assert!(!line.contains('\n'), "{line}");
    line.to_owned()
}

/// DeepSeek-V3.2 at 1M tokens, by hand: 61 layers score every key, 2 × 64 × 128 × 1e6 × 61 = 999.4 GFLOP in FP8, and attend to
/// 2,048 latents, 2 × 128 × 1,088 × 2,048 × 61 = 34.8 GFLOP in BF16.
#[test]
fn cost_has_every_part_and_weighs_it() {
    let arguments =
        ["cost", "deepseek-v3.2", "--context", "1M", "--weight-dtype", "fp8", "--flop-weights", "fp8"];
    let cost = plan(&arguments);
    let rows = cost["decode"]["rows"].as_array().expect("rows");
    let of = |part: &str| {
        let rows = rows.iter().filter(|row| row["part"] == part);
        rows.map(|row| row["flops"].as_u64().expect("flops")).sum::<u64>()
    };
    assert_eq!(of("indexer"), 2 * 64 * 128 * 1_000_000 * 61);
    assert_eq!(of("core"), 2 * 128 * 1088 * 2048 * 61);
    let parts: u64 = rows.iter().map(|row| row["flops"].as_u64().expect("flops")).sum();
    assert_eq!(cost["decode"]["flops"], parts);
    // In FP8 operations the core counts twice.
    let weighted = cost["decode"]["weighted_flops"].as_f64().expect("a number");
    let more = weighted - cost["decode"]["flops"].as_f64().expect("a number");
    assert!((more / of("core") as f64 - 1.0).abs() < 1e-9, "{more}");
    assert_eq!(cost["parameters"]["total"].as_u64().expect("a count") / 1_000_000_000, 671);
    let table = run(&arguments, &[]).stdout;
    assert!(table.starts_with("deepseek-v3.2 at 1,000,000 tokens, batch 1; 671."), "{table}");
    assert!(table.contains("\ndecode step: ") && table.contains("\nprefill: "), "{table}");
}

#[test]
fn size_has_the_operations_of_the_same_functions() {
    let cost = plan(&["cost", "qwen3-8b", "--context", "4096", "--batch", "3"]);
    let rows = size(["qwen3-8b", "--context", "4096", "--batch", "3"]);
    assert_eq!(rows[0]["decode_flops"], cost["decode"]["flops"]);
    assert_eq!(rows[0]["prefill_flops"], cost["prefill"]["flops"]);
    assert!(rows[0]["decode_flops"].is_u64());
    assert!(size(["qwen3-8b"])[0]["decode_flops"].is_null(), "no context, no operations");
}

/// DeepSeek-V3 in FP8 on eight H200: 671 GB of weights over eight GPUs of 141 GB.
#[test]
fn capacity_fills_the_memory_and_counts_requests() {
    let arguments = [
        "capacity",
        "deepseek-v3",
        "--gpu",
        "h200",
        "--count",
        "8",
        "--weight-dtype",
        "fp8",
        "--context",
        "32Ki,128Ki",
        "--mix",
        "lognormal:9.9,1,128,128Ki",
        "--price",
        "3",
    ];
    let plan_of = plan(&arguments);
    let memory = &plan_of["memory"];
    let bytes = |name: &str| memory[name].as_u64().expect("bytes");
    assert_eq!(memory["memory_bytes"], 141_000_000_000_u64);
    assert_eq!(bytes("all_weight_bytes") / 1_000_000_000, 671);
    let taken =
        bytes("left_free_bytes") + bytes("weight_bytes") + bytes("activation_bytes") + bytes("graph_bytes");
    assert_eq!(taken + bytes("state_bytes"), 141_000_000_000);
    // Every rank holds each latent whole: 70,272 B a token on each GPU.
    for at in plan_of["at"].as_array().expect("rows") {
        let one = at["bytes_per_request_and_gpu"].as_u64().expect("bytes");
        assert_eq!(one, 70_272 * at["context"].as_u64().expect("tokens"));
        assert_eq!(at["requests"], bytes("state_bytes") / one);
    }
    assert!(plan_of["mix"]["requests"].as_u64() > plan_of["mix"]["requests_at_longest"].as_u64());
    let table = run(&arguments, &[]).stdout;
    for words in
        ["weights", "MHA with the real keys", "8.89 ×", "matters most to the requests of the first length: "]
    {
        assert!(table.contains(words), "{words} in {table}");
    }
}

#[test]
fn what_does_not_fit_is_an_answer() {
    let arguments = ["capacity", "deepseek-v3", "--gpu", "h200", "--count", "8", "--context", "1000"];
    let finished = run(&arguments, &[]);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    assert!(
        finished.stdout.contains("does not fit: weights alone need 1.34 TB, 8 GPUs have 1.13 TB"),
        "{}",
        finished.stdout
    );
    // Nothing is left for state, which is no state of zero bytes.
    let state = finished.stdout.lines().find(|line| line.starts_with("state")).expect("a row");
    assert!(state.contains("–") && !state.contains("0 B"), "{state}");
    assert_eq!(plan(&arguments)["at"][0]["requests"], 0);
}

/// Mistral-7B allows 32,768 tokens, less than the usual 100,000.
#[test]
fn without_a_length_a_short_model_is_asked_for_all_that_it_allows() {
    let capacity = plan(&["capacity", "mistral-7b-v0.1", "--gpu", "h100"]);
    assert_eq!(capacity["at"][0]["context"], 32_768);
    for command in ["cost", "label", "compress", "offload", "handover"] {
        let more: &[&str] = match command {
            "compress" => &["--bandwidth=1GB/s"],
            "cost" => &[],
            _ => &["--gpu=h100"],
        };
        let answer = plan(&[&[command, "mistral-7b-v0.1"], more].concat());
        let text = answer.to_string();
        assert!(text.contains(":32768"), "{command}: {text}");
    }
    assert_eq!(plan(&["cost", "qwen3.5-397b-a17b"])["context"], 100_000);
}

/// The mix may be listed in place: 4,096 and 12,288 tokens have the mean of 8,192.
#[test]
fn lengths_of_a_mix_are_listed_with_commas() {
    let capacity = plan(&["capacity", "llama-3.1-8b", "--gpu", "h100", "--mix", "4Ki,12Ki"]);
    assert_eq!(capacity["mix"]["mean_tokens"], 8192.0);
    assert!(refused(&["capacity", "llama-3.1-8b", "--gpu", "h100", "--mix", "0,0"]).contains("mix: "));
}

/// MiniMax-M2.5 at 32K: 253,952 B × 32,768, Φ at 1.11 s 60.0 Gbps, 512 GPUs 3.84 Tbps.
#[test]
fn handover_has_payload_rate_and_links() {
    let arguments = [
        "handover",
        "minimax-m2.5",
        "--gpu",
        "h200",
        "--count",
        "8",
        "--fleet",
        "512",
        "--tp",
        "8",
        "--context",
        "32Ki",
        "--prefill-seconds",
        "1.11",
        "--link",
        "ethernet-100g,rdma-8x400g",
    ];
    let answer = plan(&arguments);
    let at = &answer["at"][0];
    assert_eq!(at["payload_bytes"], 253_952_u64 * 32_768);
    assert_eq!(at["held_by_ranks_bytes"], at["payload_bytes"]);
    assert_eq!(at["needs_link"], "ethernet-100g");
    assert_eq!(at["links"].as_array().expect("links").len(), 2);
    let table = run(&arguments, &[]).stdout;
    assert!(table.contains("60.0 Gbps") && table.contains("3.84 Tbps"), "{table}");
    // 1 ms for each of 32,768 / 16 blocks beside the bytes.
    let slow = ["--bandwidth", "1TB", "--alpha-us", "1000", "--prefill-seconds", "1"];
    let handed =
        plan(&[&["handover", "minimax-m2.5", "--gpu", "h200", "--context", "32Ki"], &slow[..]].concat());
    assert_eq!(handed["at"][0]["blocks"], 2048);
    assert_eq!(handed["at"][0]["links"][0]["seconds"], 2048.0 * 1e-3 + 253_952.0 * 32_768.0 / 1e12);
    // Without seconds they are estimated, and the answer says so.
    let estimated = plan(&["handover", "minimax-m2.5", "--gpu", "h200", "--context", "32Ki"]);
    assert_eq!(estimated["prefill_from"], "estimated");
    assert_eq!(
        (&estimated["efficiency_percent"], &handed["efficiency_percent"]),
        (&json!(40.0), &Value::Null)
    );
}

#[test]
fn labels_of_several_versions_share_a_table_and_describe_has_them() {
    let labels = plan(&["label", "deepseek-v3.2", "qwen3.5-397b-a17b", "--context", "100K", "--gpu", "h200"]);
    assert_eq!(labels[0]["labels"][0]["lifecycle_class"], "token");
    assert_eq!(labels[1]["labels"][0]["lifecycle_class"], "token+request");
    let described = kvscope(["describe", "deepseek-v3.2", "--hardware", "h200", "--context", "100K"]);
    assert_eq!(described.status, Some(0), "{}", described.stderr);
    let described: Value = serde_json::from_str(&described.stdout).expect("JSON");
    assert_eq!(described["service"]["labels"], labels[0]["labels"]);
    let plain = kvscope(["describe", "deepseek-v3.2"]).stdout;
    assert!(!plain.contains("\"labels\""));
}

/// These plans are of one request, so a batch would be ignored.
#[test]
fn plans_of_one_request_take_no_batch() {
    for command in ["capacity", "compress", "handover", "label", "offload"] {
        let line = refused(&[command, "qwen3-8b", "--batch", "8"]);
        assert!(line.contains("--batch"), "{command}: {line}");
        assert!(!run(&[command], &["--help"]).stdout.contains("--batch "), "{command}");
    }
}

/// DeepSeek-V3 at 100,000 tokens: 70,272 B a token, which each of eight ranks restores whole over its own 64 GB/s: 6,250 blocks
/// of 16 tokens in 109.8 ms.
#[test]
fn ranks_that_hold_the_same_restore_it_all() {
    let arguments = ["deepseek-v3", "--gpu", "h200", "--count", "8", "--context", "100000"];
    let offload = plan(&[&["offload"], &arguments[..]].concat());
    let seconds = 70_272.0 * 100_000.0 / 64e9;
    let row = &offload[0]["rows"][2];
    assert_eq!((&row["ranks"], &row["rank_bytes"]), (&json!(8), &json!(7_027_200_000_u64)));
    assert!((row["seconds"].as_f64().expect("seconds") - seconds).abs() < 1e-12, "{row}");
    assert_eq!(
        (&offload[0]["compute_from"], &offload[0]["efficiency_percent"]),
        (&json!("estimated"), &json!(40.0))
    );
    let label = plan(&[&["label"], &arguments[..]].concat());
    let restored = &label[0]["labels"][0]["hardware"]["restore_seconds"];
    assert!((restored.as_f64().expect("seconds") - seconds).abs() < 1e-12, "{restored}");
    // Eight K/V heads of Qwen3-8B are one for each: 147,456 B a token in all.
    let shared = plan(&["label", "qwen3-8b", "--gpu", "h200", "--count", "8", "--context", "32000"]);
    let restored = shared[0]["labels"][0]["hardware"]["restore_seconds"].as_f64().expect("seconds");
    assert!((restored - 147_456.0 * 32_000.0 / 8.0 / 64e9).abs() < 1e-12, "{restored}");
}

/// Qwen3-Next's config names no type of its states, which engines keep in another than the model's.
#[test]
fn a_format_s_doubts_are_told_by_every_plan() {
    for arguments in [
        &["offload", "qwen3-next-80b-a3b", "--gpu=h200"][..],
        &["handover", "qwen3-next-80b-a3b", "--gpu=h200"],
        &["cost", "qwen3-next-80b-a3b"],
    ] {
        let told = run(arguments, &[]).stderr;
        assert!(told.contains("state_dtype: the config names none"), "{arguments:?}: {told}");
    }
    let described = kvscope(["describe", "qwen3-next-80b-a3b"]);
    assert!(described.stdout.contains("the config names none"), "{}", described.stdout);
}

/// No public source has all widths of these versions. What needs them names the field that is missing and what to give in its
/// place; all else has an answer.
#[test]
fn versions_without_public_widths_name_the_field() {
    for (model, field) in [
        ("ling-2.5-1t", "hidden_size"),
        ("ling-2.6-flash", "hidden_size"),
        ("qwen3.8-2.4t-a95b", "vocab_size"),
        ("qwen3.8-flash-next", "vocab_size"),
    ] {
        let missing = format!("{field}: missing, and the count of parameters needs it");
        for (arguments, place) in [
            (&["cost", model][..], ""),
            (&["handover", model, "--gpu=h200"], "prefill_seconds: not given, and not estimated: "),
            (&["offload", model, "--gpu=h200"], ""),
        ] {
            let line = refused(arguments);
            assert!(line.contains(place) && line.contains(&missing), "{line}");
        }
        // The total of some is published; what a prefill batch takes is known of those whose widths are.
        let capacity = run(&["capacity", model, "--gpu=b200", "--count=16"], &[]);
        let is_told =
            ["weights: not given", "activations: not given"].iter().any(|why| capacity.stderr.contains(why));
        assert!(
            capacity.status == Some(0) || (is_told && capacity.stderr.contains(field)),
            "{}",
            capacity.stderr
        );
        let given = ["--weights=600GB", "--activations=1GB"];
        let capacity = plan(&[&["capacity", model, "--gpu=b200", "--count=8"], &given[..]].concat());
        assert!(capacity["at"][0]["requests"].as_u64() > Some(0), "{capacity}");
        assert!(
            plan(&["handover", model, "--gpu=h200", "--prefill-seconds=2"])["at"][0]["payload_bytes"]
                .is_u64()
        );
        let label = plan(&["label", model, "--gpu=h200"]);
        let missing_of_label = label[0]["labels"][0]["hardware"]["missing"][0].to_string();
        assert!(missing_of_label.contains(&missing), "{missing_of_label}");
        assert!(label[0]["labels"][0]["resident_bytes"].as_u64() > Some(0), "{label}");
        for arguments in [
            &["prefix", model, "--first=10K"][..],
            &["compress", model, "--bandwidth=1GB/s"],
            &["simulate", model, "--synthetic=20", "--tier=gpu=40GB"],
        ] {
            assert!(plan(arguments)[0]["model"].is_string(), "{arguments:?}");
        }
    }
}

#[test]
fn hardware_is_listed() {
    let known = plan(&["hardware"]);
    let h200 = known["gpus"].as_array().expect("a list").iter().find(|gpu| gpu["gpu"] == "h200");
    assert_eq!(h200.expect("h200")["memory_bytes"], 141_000_000_000_u64);
    assert!(run(&["hardware"], &[]).stdout.contains("ethernet-100g"));
}

#[test]
fn questions_without_an_answer_are_refused_in_one_line() {
    let handover = ["handover", "qwen3-8b", "--gpu", "h200", "--context", "1000"];
    let with = |more: &[&'static str]| refused(&[&handover[..], more].concat());
    for (line, words) in [
        (refused(&["capacity", "qwen3-8b", "--gpu", "h300"]), "gpu: \"h300\" is not known; known: a100-40gb"),
        (refused(&["capacity", "qwen3-8b", "--gpu", "h200", "--count", "0"]), "count: "),
        (
            refused(&["capacity", "qwen3-8b", "--gpu", "h200", "--context", "10M"]),
            "10,000,000 tokens is beyond the",
        ),
        (refused(&["capacity", "qwen3-8b", "--gpu", "h200", "--mix", "lognormal:9,1,10,5"]), "mix: "),
        (
            refused(&["capacity", "qwen3-8b", "--gpu", "h200", "--context", "1000", "--price", "-1"]),
            "price: -1 is not a number above 0",
        ),
        (refused(&["cost", "qwen3-8b", "--flop-weights", "bf16=0"]), "flop_weights: "),
        (refused(&["cost", "qwen3-8b", "--weight-dtype", "int3"]), "weight-dtype: \"int3\" is no type"),
        (refused(&["label", "qwen3-8b", "--context", "10M"]), "10,000,000 tokens is beyond the"),
        (
            refused(&["capacity", "qwen3-8b", "--gpu", "h200", "--mix", "none.txt"]),
            "mix: none.txt: No such file",
        ),
        (
            refused(&["capacity", "qwen3-8b", "--gpu", "h200", "--batch-tokens", "0"]),
            "batch_tokens: 0 tokens",
        ),
        (
            refused(&["capacity", "qwen3-8b", "--gpu", "h200", "--price", "1e308", "--count", "8"]),
            "price: more than can be counted",
        ),
        (refused(&["capacity", "qwen3-8b", "--gpu", "h200", "--count", "0"]), "count: 0 GPUs hold nothing"),
        (with(&["--efficiency", "101"]), "efficiency: 101 percent is more than"),
        (
            refused(&["offload", "qwen3-8b", "--gpu", "h200", "--efficiency", "101"]),
            "efficiency: 101 percent is",
        ),
        (with(&["--blocks", "0"]), "blocks: a payload is sent in 1 block or more"),
        (with(&["--prefill-seconds", "1e-320"]), "prefill_seconds: "),
        (with(&["--bandwidth", "0"]), "moves nothing; give a rate above 0"),
        (with(&["--prefill-seconds", "0"]), "prefill_seconds: "),
        (with(&["--prefill-seconds", "1", "--fleet", "4"]), "fleet: "),
        (
            refused(&["label", "qwen3-8b", "--gpu=h200", "--count=2000000"]),
            "count: 2000000 GPUs are more than anybody",
        ),
        (with(&["--bandwidth", "NaN"]), "bandwidth: \"NaN\" is no number of bytes"),
        (with(&["--bandwidth", "1GB", "--alpha-us=-1"]), "alpha_us: below 0 is no time; give 0 or more"),
        (with(&["--link", "string"]), "link: \"string\" is not known"),
    ] {
        assert!(line.contains(words), "{words} in {line}");
    }
}

/// A time that is not there says why: the memory of a Mac is the host's own, and the config of Ling-2.6-Flash at hand names no width.
#[test]
fn times_that_a_label_lacks_have_a_reason() {
    let missing = |arguments: &[&str]| {
        let hardware = plan(arguments)[0]["labels"][0]["hardware"].clone();
        let missing = hardware["missing"].as_array().expect("a list").clone();
        for field in ["prefill_seconds", "restore_seconds"] {
            let told = missing.iter().filter(|one| one["field"] == field).count();
            assert_eq!(told, usize::from(hardware[field].is_null()), "{arguments:?}: {hardware}");
        }
        missing.len()
    };
    assert_eq!(missing(&["label", "qwen3-8b", "--gpu", "h200"]), 0);
    assert!(missing(&["label", "qwen3-8b", "--gpu", "m4-max"]) > 0);
    let short = ["label", "ling-2.6-flash", "--gpu", "h200"];
    assert_eq!(missing(&short), 1);
    let table = run(&short, &[]).stdout;
    assert!(
        table.contains("ling-2.6-flash: prefill_seconds: not computed: ") && table.contains("hidden_size"),
        "{table}"
    );
}

/// One click on the page, one option here: every input of every plan, the one that matters most first.
#[test]
fn every_plan_tells_what_a_tenth_of_each_input_does() {
    for arguments in [
        &["capacity", "qwen3-8b", "--gpu=h200"][..],
        &["cost", "qwen3-8b"],
        &["handover", "qwen3-8b", "--gpu=h200"],
        &["label", "qwen3-8b", "--gpu=h200"],
        &["prefix", "qwen3-8b", "--first=10K", "--shared=9K"],
        &["compress", "qwen3-8b", "--bandwidth=25Gbps"],
        &["offload", "qwen3-8b", "--gpu=h200"],
        &["simulate", "qwen3-8b", "--synthetic=200", "--tier=gpu=20GB"],
    ] {
        let told = run(arguments, &["--sensitivities"]).stdout;
        assert!(told.contains("What matters to ") && told.contains("a tenth more"), "{arguments:?}: {told}");
        assert!(!told.contains("matters most to"), "{arguments:?}: {told}");
        let plain = run(arguments, &[]).stdout;
        assert!(!plain.contains("What matters to "), "{arguments:?}: {plain}");
    }
    let replay = ["simulate", "qwen3-8b", "--synthetic=200", "--tier=gpu=20GB"];
    assert_eq!(plan(&replay)[0]["sensitivities"], json!([]));
    let moved = plan(&[&replay[..], &["--sensitivities"]].concat());
    let inputs = moved[0]["sensitivities"].as_array().expect("rows").iter().map(|row| &row["input"]);
    assert!(inputs.into_iter().any(|input| input == "capacity of the first tier"), "{moved}");
}
