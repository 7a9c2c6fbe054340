//! `kvscope claims`, `cases`, `describe` and `compare` from outside, and the four byte figures of `size`.

use kvscope_tests::command_line::{kvscope, size};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    let finished = kvscope(arguments);
    assert_eq!(finished.status, Some(0), "kvscope {arguments:?}: {}", finished.stderr);
    serde_json::from_str(&finished.stdout).expect("JSON")
}

#[test]
fn claims_prints_every_published_figure_with_a_verdict_and_all_hold() {
    let rows = json(&["claims", "--json"]);
    let rows = rows.as_array().expect("rows");
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no claim {id}"));
    assert_eq!(row("article-minimax-m2.7-100k")["computed"], 25.395_2);
    assert_eq!(row("article-minimax-m2.7-100k")["verdict"], "reproduced");
    assert_eq!(row("v1-deepseek-v4.1-flash-slope")["difference"], 0);
    // 27 % of V3.2's work for a token at a million of them, as published for V4-Pro.
    assert_eq!(row("v3-v4-pro-flops")["computed"].as_f64().map(f64::round), Some(27.0));
    let spread = row("article-spread")["verdict"].as_str().expect("words");
    assert!(spread.starts_with("differs: "), "10.8 times is 7.8 times: {spread}");
    for row in rows {
        let verdict = row["verdict"].as_str().expect("words");
        let known = ["reproduced", "differs: ", "not computed: "];
        assert!(known.iter().any(|start| verdict.starts_with(start)), "{verdict}");
    }

    let table = kvscope(["claims"]);
    assert_eq!(table.status, Some(0));
    for row in rows {
        assert!(
            table.stdout.contains(row["id"].as_str().expect("an id")),
            "{} is not in the table",
            row["id"]
        );
    }
}

#[test]
fn describe_prints_three_layers_and_its_schema() {
    let document = json(&["describe", "deepseek-v3.2"]);
    assert_eq!(document["architecture"]["layers"].as_array().expect("layers").len(), 61);
    assert_eq!(document["lifecycle"][0]["kind"], "mla_latent");
    assert_eq!(document["lifecycle"][0]["entry_bytes"], 1_152);
    assert_eq!(document["service"]["components"][0]["tensor_parallel"]["ranks_hold"], "same");
    let schema = json(&["describe", "--schema"]);
    assert_eq!(schema["properties"]["schema"]["const"], document["schema"]);
    assert_eq!(kvscope(["describe"]).status, Some(2));
    assert_eq!(kvscope(["describe", "deepseek-v4-pro", "--set", "block_size=100"]).status, Some(2));
}

#[test]
fn compare_splits_the_change_into_steps_that_add_up() {
    let change = json(&["compare", "glm-4.5", "glm-5.1", "--json"]);
    let steps = change["steps"].as_array().expect("steps");
    let add = |figure: &str| steps.iter().map(|step| step[figure].as_i64().expect("whole")).sum::<i64>();
    assert_eq!(add("slope_change"), 100_152 - 376_832);
    assert_eq!(add("resident_change"), 10_015_200_000 - 37_683_200_000);
    assert_eq!(steps[0]["cause"], "layers");
    assert_eq!(steps[0]["slope_change"], -14 * 4_096);
    let sentence = change["sentence"].as_str().expect("a sentence");
    assert!(sentence.starts_with("GLM-4.5 → GLM-5.1: 376,832 → 100,152 B/token"), "{sentence}");
    assert!(change["facts"].as_array().expect("facts").iter().any(|fact| fact["fact"] == "kv_lora_rank"));
}

/// DeepSeek-V4-Pro at 32Ki tokens: streams and windows are kept on disk, the compressors' rows are sent besides, and a step
/// reads no more than 1,024 chosen entries of each CSA layer.
#[test]
fn resident_read_persisted_and_transferred_bytes_are_four_figures() {
    let row = &size(["deepseek-v4-pro", "--context", "32Ki"])[0];
    let streams = 30 * (32_768 / 4) * (584 + 68) + 31 * (32_768 / 128) * 584;
    let (window, rows) = (61 * 128 * 584, 18_710_528);
    assert_eq!(row["persisted_bytes"], streams + window);
    assert_eq!(row["transfer_bytes"], streams + window + rows);
    assert_eq!(row["resident_bytes"], streams + window + rows);
    let read = 30 * (1_024 * 584 + 8_192 * 68) + 31 * 256 * 584 + window + rows;
    assert_eq!(row["read_bytes_per_step"], read);
}

/// A line that is no JSON, and an id that stands twice: status 2, and one line with file, line and byte. A case that fails is
/// status 1.
#[test]
fn a_case_file_with_a_broken_line_is_bad_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let case = |id: &str, value: u64| {
        format!(
            "{{\"id\": \"{id}\", \"model\": \"gemma-2b\", \"engine\": \"logical\", \"quantity\": \
             \"slope_bytes_per_token\", \"value\": {value}, \"unit\": \"B\"}}\n"
        )
    };
    let path = folder.path().join("cases.jsonl");
    let run = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        kvscope(["cases", path.to_str().expect("a path")])
    };
    // 18 layers × 2 × 1 head × 256 × 2 B.
    let good = case("mqa-a", 18_432);
    assert_eq!(run(&good).status, Some(0));
    assert_eq!(run(&case("mqa-a", 18_433)).status, Some(1));
    for (text, named) in [
        (format!("{good}cases\n"), format!("cases.jsonl: line 2, byte {}: no JSON object", good.len())),
        (format!("{good}{good}"), format!("cases.jsonl: line 2, byte {}: line 1 has the id", good.len())),
    ] {
        let finished = run(&text);
        assert_eq!((finished.status, finished.stdout.as_str()), (Some(2), ""), "{finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
        assert!(finished.stderr.contains(&named), "{}", finished.stderr);
    }
}
