//! `kvscope chart`: figures as files, with the numbers of `kvscope size`.
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

use std::fs;

use kvscope_protocol::ViewState;
use kvscope_tests::command_line::{kvscope, size};
use serde_json::Value;

const MODELS: [&str; 3] = ["deepseek-v3.2", "kimi-k2.6", "qwen3.5-397b-a17b"];

fn chart(folder: &tempfile::TempDir, name: &str, more: &[&str]) -> String {
    let file = folder.path().join(name);
    let file = file.to_str().unwrap();
    let arguments = [&["chart", "growth"], &MODELS[..], &["--day", "2026-11-30", "-o", file], more].concat();
    let finished = kvscope(arguments);
    assert_eq!(finished.status, Some(0), "{name}: {}", finished.stderr);
    assert_eq!(finished.stdout, "", "a file is what was asked for");
    String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned()
}

#[test]
fn every_ending_gives_its_file_and_equal_input_equal_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for (ending, begins) in [
        ("svg", "<svg"),
        ("png", "\u{fffd}PNG"),
        ("pdf", "%PDF-"),
        ("csv", "model,accounting,context_tokens,state_bytes\n"),
        ("json", "{\n  \"schema\": 1"),
        ("md", "### At 100,000 tokens DeepSeek-V3.2 keeps 7.83 GB for one request."),
        ("tex", "% Needs"),
        ("typ", "#figure("),
        ("vl.json", "{\n  \"$schema\""),
    ] {
        let one = chart(&folder, &format!("one.{ending}"), &[]);
        assert!(one.starts_with(begins), "{ending}: {}", &one[..200.min(one.len())]);
        assert_eq!(one, chart(&folder, &format!("two.{ending}"), &[]), "{ending}");
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 18, "two files for each and nothing else: {left:?}");
}

/// The last row of a replay's figure has the shares that the plan prints.
#[test]
fn a_replay_is_a_figure_with_the_figures_of_its_plan() {
    let folder = tempfile::tempdir().unwrap();
    let asked = ["qwen3.5-9b", "--synthetic", "500", "--tier", "gpu=20GB", "--tier", "host=40GB"];
    let draw = |name: &str| {
        let file = folder.path().join(name);
        let finished = kvscope([&["chart", "replay"], &asked[..], &["-o", file.to_str().unwrap()]].concat());
        assert_eq!(finished.status, Some(0), "{name}: {}", finished.stderr);
        String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned()
    };
    let plan = kvscope([&["plan", "simulate"], &asked[..], &["--json"]].concat());
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    let document: Value = serde_json::from_str(&draw("replay.json")).unwrap();
    let last = |of: &str, line: &str| {
        let mut rows = document["rows"].as_array().unwrap().iter();
        let row = rows.rfind(|row| row["of"] == of && row["line"] == line);
        let row = row.unwrap_or_else(|| panic!("no {of} of {line}"));
        assert_eq!(row["requests"], 500);
        row["value"].as_f64().unwrap()
    };
    for (line, counts) in [("taken over", "lru"), ("Belady's rule", "optimum")] {
        let share = 100.0 * plan[0][counts]["hit_rate"].as_f64().unwrap();
        assert!((last("percent", line) - share).abs() < 1e-9, "{line}");
    }
    assert_eq!(Some(last("evicted", "gpu: blocks")), plan[0]["tiers"][0]["evicted_blocks"].as_f64());
    assert!(draw("replay.svg").contains("Bytes held"));
    let link = document["link"].as_str().unwrap();
    let (view, notices) = ViewState::from_query(link.trim_start_matches('?'));
    assert!(notices.is_empty(), "{link}");
    assert_eq!(view.plans.given.text("tiers"), Some("gpu=20GB;host=40GB"));
    // Two versions are two replays.
    let finished =
        kvscope(["chart", "replay", "qwen3-8b", "qwen3.5-9b", "--synthetic=9", "--tier=g=1GB", "-o=a.svg"]);
    assert_eq!(finished.status, Some(2));
    assert!(finished.stderr.contains("give one version"), "{}", finished.stderr);
}

#[test]
fn a_figure_has_the_numbers_of_size_and_a_link_to_the_same_view() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        ["--context", "98304", "--batch", "2", "--engine", "vllm", "--tp", "2", "--kv-dtype", "fp8"];
    let document: Value = serde_json::from_str(&chart(&folder, "a.json", &settings)).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let reserved = size(MODELS.iter().chain(&settings));
    for (name, sized) in ["DeepSeek-V3.2", "Kimi-K2.6", "Qwen3.5-397B-A17B"].iter().zip(&reserved) {
        let row = rows.iter().find(|row| {
            row["model"] == *name && row["accounting"] == "reserved" && row["context_tokens"] == 98_304
        });
        assert_eq!(row.unwrap()["state_bytes"], sized["resident_bytes"], "{name}");
    }
    assert_eq!(document["inputs"]["tp"], "2");
    // What size assumes goes with the figure.
    let assumed = document["assumptions"].as_array().unwrap();
    let warned: usize = reserved.iter().map(|sized| sized["warnings"].as_array().unwrap().len()).sum();
    assert!(warned > 0 && assumed.len() == warned, "{assumed:?}");
    let link = document["link"].as_str().unwrap();
    let (view, notices) = ViewState::from_query(link);
    assert!(notices.is_empty() && link.starts_with('?'), "{link}: {notices:?}");
    assert_eq!(
        (view.models, view.context.get(), view.batch),
        (MODELS.map(str::to_owned).to_vec(), 98_304, 2)
    );
    assert_eq!((view.engine.to_string().as_str(), view.engine_own.tp), ("vllm", Some(2)));

    let logical: Value = serde_json::from_str(&chart(&folder, "b.json", &["--context", "98304"])).unwrap();
    // 61 layers of 576 values in BF16.
    assert!(logical["rows"].as_array().unwrap().iter().any(|row| row["model"] == "Kimi-K2.6"
        && row["context_tokens"] == 98_304
        && row["state_bytes"] == 98_304_u64 * 70_272));
}

#[test]
fn layers_are_one_row_for_each_part_of_each_layer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layers.csv");
    let finished = kvscope(["chart", "layers", "glm-5.1", "--context", "1000", "-o", file.to_str().unwrap()]);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let rows = fs::read_to_string(file).unwrap();
    // 78 layers, each a latent of 1,152 B and an index key of 132 B a token.
    assert_eq!(rows.lines().count(), 1 + 2 * 78);
    assert!(
        rows.contains(",77,mla_latent,1152000,yes\n") && rows.contains(",0,index_key,132000,yes\n"),
        "{rows}"
    );
}

#[test]
fn what_cannot_be_written_is_told_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (text, png, svg, lost) = (path("a.txt"), path("a.png"), path("a.svg"), path("none/a.svg"));
    for (arguments, status, words) in [
        (vec!["kimi-k2.6", "-o", &text], 2, "ends in none of .svg .png .pdf"),
        (vec!["kimi-k2.6", "-o", &png, "--text", "outlines"], 2, "text: outlines are for .svg"),
        (vec!["kimi-k2.6", "-o", &svg, "--day", "today"], 2, "day: \"today\" is no day"),
        (vec!["no-such-model", "-o", &svg], 2, "no-such-model"),
        (vec!["kimi-k2.6", "-o", &svg, "--tp", "2"], 2, "tp: logical bytes do not change with it"),
        (vec!["kimi-k2.6", "-o", &svg, "--width", "20"], 2, "300..=4000"),
        (vec!["kimi-k2.6", "-o", &svg, "--engine", "vllm", "--tp", "7"], 2, "kimi-k2.6"),
        (vec!["kimi-k2.6", "-o", &lost], 2, "none/a.svg"),
    ] {
        let finished = kvscope([vec!["chart", "growth"], arguments.clone()].concat());
        assert_eq!(finished.status, Some(status), "{arguments:?}: {}", finished.stderr);
        assert!(finished.stderr.contains(words), "{arguments:?}: {}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing half-written");
}
