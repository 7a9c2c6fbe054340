//! `kvscope` from outside: the published bytes of the first versions, and what bad input gets.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use kvscope_tests::command_line::{Finished, command_at, kvscope, size};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What a config with one defect may set beside a sound one.
type Defect = fn(&mut serde_json::Map<String, Value>);

#[test]
fn one_request_at_100_000_tokens_holds_the_bytes_that_its_config_implies() {
    // Slope and fixed part by hand from each config, in BF16:
    // Qwen3.5: 15 of 60 layers keep 2 × 2 heads × 256 × 2 B; the other 45 keep 64 × 128 × 128 × 4 B of recurrent
    // state and 3 × 12,288 × 2 B of convolution state. MLA: 61 × 576 × 2 B, plus 132 B of index key where there is
    // an indexer (GLM-5.1: 78 layers). Gemma-3: 10 of 62 layers grow, 52 stop at 1,024 tokens.
    let expected: [(&str, u64, u64, u64); 7] = [
        ("qwen3.5-397b-a17b", 30_720, 192_061_440, 3_264_061_440),
        ("kimi-k2.6", 70_272, 0, 7_027_200_000),
        ("deepseek-v3.2", 78_324, 0, 7_832_400_000),
        ("glm-5.1", 100_152, 0, 10_015_200_000),
        ("minimax-m2.7", 253_952, 0, 25_395_200_000),
        ("glm-4.5", 376_832, 0, 37_683_200_000),
        ("gemma-3-27b", 81_920, 436_207_616, 8_628_207_616),
    ];
    let models = expected.iter().map(|(model, ..)| *model);
    let rows = size(models.chain(["--context", "100000"]));
    assert_eq!(rows.len(), expected.len());
    for (row, (model, slope, fixed, total)) in rows.iter().zip(expected) {
        assert_eq!(row["model"], model);
        assert_eq!(row["context"], 100_000, "{model}");
        assert_eq!(row["slope_bytes_per_token"], slope, "{model}");
        assert_eq!(row["fixed_bytes"], fixed, "{model}");
        assert_eq!(row["resident_bytes"], total, "{model}");
    }
}

#[test]
fn deepseek_v4_pro_keeps_whole_compressed_entries_a_window_and_a_compressor() {
    // 30 layers keep a 584-byte entry and a 68-byte index key for every 4 tokens, 31 keep one entry for every 128;
    // every layer keeps a window of 128 entries: 61 × 128 × 584 = 4,559,872. The compressors hold 18,710,528.
    const FIXED: u64 = 4_559_872 + 18_710_528;
    let growing = |tokens: u64| 30 * (tokens / 4) * (584 + 68) + 31 * (tokens / 128) * 584;
    let settings = ["--kv-dtype", "fp8_ds_mla", "--index-dtype", "fp4"];
    let rows = size(["deepseek-v4-pro", "--context", "100000,1M"].iter().chain(&settings));

    assert_eq!(rows[0]["resident_bytes"], growing(100_000) + FIXED);
    assert_eq!(rows[0]["fixed_bytes"], FIXED);
    assert_eq!(rows[1]["resident_bytes"], growing(1_000_000) + FIXED);
    let slope = rows[0]["slope_bytes_per_token"].as_f64().expect("a number");
    assert!((slope - 5_031.437_5).abs() < 1e-9, "30 × 652 / 4 + 31 × 584 / 128, not {slope}");

    // DeepSeek-V3.2 stores 656 + 132 bytes a layer and token in the same manner.
    let v3 = size(["deepseek-v3.2", "--context", "1M", "--kv-dtype", "fp8_ds_mla", "--index-dtype", "fp8"]);
    assert_eq!(v3[0]["slope_bytes_per_token"], 61 * (656 + 132));
    let rate = slope / 48_068.0;
    assert!((rate - 0.105).abs() < 0.000_5, "the published 10.5 %, not {rate}");
}

#[test]
fn components_add_up_to_the_whole_and_what_is_not_computed_is_null() {
    let models = ["qwen3.5-397b-a17b", "deepseek-v3.2", "gemma-3-27b", "deepseek-v4-pro"];
    for row in size(models.iter().chain(&["--context", "77777", "--batch", "3"])) {
        let parts = row["components"].as_array().expect("components");
        let sum: u64 = parts.iter().map(|part| part["bytes"].as_u64().expect("bytes")).sum();
        assert_eq!(row["resident_bytes"], sum, "{}", row["model"]);
        for name in
            ["read_bytes_per_step", "persisted_bytes", "transfer_bytes", "decode_flops", "prefill_flops"]
        {
            let figure = row.get(name).unwrap_or_else(|| panic!("{} has no {name}", row["model"]));
            assert!(
                figure.is_null() || figure.as_u64().is_some_and(|figure| figure > 0),
                "{name} of {} is null or a figure, not {figure}",
                row["model"]
            );
        }
    }
}

#[test]
fn commands_of_logical_bytes_refuse_what_only_an_engine_answers_for() {
    for command in [
        &["fit", "kimi-k2.6", "--memory", "80GB", "--tp", "8"][..],
        &["layers", "kimi-k2.6", "--tp", "8"],
        &["compare", "kimi-k2.6", "glm-5.1", "--tp", "8"],
        &["describe", "kimi-k2.6", "--tp", "8"],
        &["describe", "kimi-k2.6", "--tp", "8", "--set", "block_size=64"],
    ] {
        expect_refusal(&kvscope(command), &["tp: ", "`kvscope size`"]);
    }
    expect_refusal(&kvscope(["describe", "kimi-k2.6", "--engine", "vllm"]), &["engine: ", "vllm"]);
    expect_refusal(
        &kvscope(["fit", "kimi-k2.6", "--memory=80GB", "--set=pool_tokens=9"]),
        &["pool_tokens: "],
    );
    assert_eq!(kvscope(["describe", "kimi-k2.6", "--set", "block_size=64"]).status, Some(0));
}

#[test]
fn explain_keeps_figures_and_warnings_apart_and_names_both_accountings() {
    let (_folder, path) = config_file(|config| {
        config.insert("attention_memory_heads".into(), json!(4));
    });
    let arguments: [&OsStr; 4] = ["explain".as_ref(), path.as_os_str(), "--tp".as_ref(), "8".as_ref()];
    let explained = kvscope(arguments);
    assert_eq!(explained.status, Some(0), "{}", explained.stderr);
    assert!(!explained.stdout.contains("warning"), "{}", explained.stdout);
    assert!(explained.stderr.contains("attention_memory_heads"), "{}", explained.stderr);
    let rows = |name: &str| explained.stdout.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!((rows("logical "), rows("logical, one rank ")), (1, 1), "{}", explained.stdout);
}

#[test]
fn the_catalogue_s_csv_holds_plain_numbers() {
    let listed = kvscope(["models", "kimi-k2.6", "--csv"]);
    let mut lines = listed.stdout.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (header, row) = (lines.next().expect("a header"), lines.next().expect("a version"));
    let cell =
        |name: &str| row[header.iter().position(|column| *column == name).expect("the column is there")];
    // 61 × 576 × 2 B, and nothing that does not grow.
    assert_eq!((cell("slope_bytes_per_token"), cell("fixed_bytes")), ("70272", "0"));
    assert_eq!(cell("max_context_tokens"), "262144");
}

#[cfg(target_os = "linux")]
#[test]
fn figures_that_a_full_disk_refused_are_status_1() {
    let full = File::options().write(true).open("/dev/full").expect("the device is there");
    let home = tempfile::tempdir().expect("a temporary folder");
    let status =
        command_at(home.path()).args(["models", "kimi"]).stdout(full).status().expect("kvscope starts");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_sound_config_file_is_sized_by_its_fields() {
    // 4 layers × 2 × 8 heads × 128 × 2 B = 16,384 B a token.
    let (_folder, path) = config_file(|_| {});
    let rows = size([path.as_os_str(), "--context".as_ref(), "1000".as_ref()]);
    assert_eq!(rows[0]["slope_bytes_per_token"], 16_384);
    assert_eq!(rows[0]["resident_bytes"], 16_384_000);
}

#[test]
fn an_unknown_layer_kind_is_refused() {
    refuses_config("spooky_attention", |config| {
        let kinds = ["full_attention", "spooky_attention", "full_attention", "full_attention"];
        config.insert("layer_types".into(), json!(kinds));
    });
}

#[test]
fn a_missing_field_without_a_default_is_refused() {
    refuses_config("num_hidden_layers", |config| {
        config.remove("num_hidden_layers");
    });
    // With head counts and widths given, neither of these is needed; without both, nothing says how many heads there are.
    refuses_config("num_attention_heads", |config| {
        config.remove("num_attention_heads");
        config.remove("num_key_value_heads");
    });
    refuses_config("hidden_size", |config| {
        config.remove("hidden_size");
        config.remove("head_dim");
    });
}

#[test]
fn a_negative_or_absurd_value_is_refused() {
    refuses_config("num_hidden_layers", |config| {
        config.insert("num_hidden_layers".into(), json!(-4));
    });
    refuses_config("num_key_value_heads", |config| {
        config.insert("num_key_value_heads".into(), json!(1_000_000_000_000_u64));
    });
    refuses_config("num_hidden_layers", |config| {
        config.insert("num_hidden_layers".into(), json!(4.5));
    });
}

#[test]
fn a_head_width_that_is_given_and_wrong_is_refused_and_not_derived_instead() {
    refuses_config("head_dim", |config| {
        config.insert("head_dim".into(), json!(-128));
    });
    refuses_config("head_dim", |config| {
        config.insert("head_dim".into(), json!("wide"));
    });
}

#[test]
fn a_layer_list_shorter_than_the_layer_count_is_refused() {
    refuses_config("layer_types", |config| {
        config.insert("layer_types".into(), json!(["full_attention", "full_attention"]));
    });
}

#[test]
fn what_is_not_json_is_refused() {
    refuses_text("layers: 4\n");
    refuses_text("{\"num_hidden_layers\": 4");
    refuses_text("[1, 2, 3]");
    refuses_text("\u{0}\u{1}\u{2}");
}

#[test]
fn an_empty_file_is_refused() {
    refuses_text("");
    refuses_text("  \n");
}

#[test]
fn a_file_of_two_gigabytes_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("config.json");
    // Sparse: it has the length and takes no room.
    File::create(&path).and_then(|file| file.set_len(2 << 30)).expect("a sparse file");
    expect_refusal(&size_of(&path), &["config.json"]);
}

#[test]
fn a_file_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    expect_refusal(&size_of(&folder.path().join("config.json")), &["config.json"]);
}

#[test]
fn a_context_of_0_or_2_to_the_63_is_refused() {
    for context in ["0", "9223372036854775808", "-1", "1e400", "ten", ""] {
        let refused = kvscope(["size", "deepseek-v3.2", &format!("--context={context}"), "--json"]);
        expect_refusal(&refused, &["context"]);
    }
}

#[test]
fn an_unknown_version_is_refused_by_its_name() {
    expect_refusal(&kvscope(["size", "no-such-model-7b", "--json"]), &["no-such-model-7b"]);
}

#[test]
fn one_bad_version_among_good_ones_leaves_no_half_result() {
    expect_refusal(
        &kvscope(["size", "kimi-k2.6", "no-such-model-7b", "--context", "1000"]),
        &["no-such-model-7b"],
    );
}

/// A sound config with one defect must be refused, naming the field (or the value that is at fault) and the file.
#[test]
fn a_setting_that_is_given_twice_is_refused() {
    for twice in [["--kv-dtype=fp8", "--set=kv_dtype=bf16"], ["--set=block_size=16", "--set=block_size=32"]] {
        let name = if twice[0].contains("kv") { "kv_dtype" } else { "block_size" };
        expect_refusal(&kvscope(["size", "qwen3-8b"].into_iter().chain(twice)), &[name, "twice"]);
    }
}

fn refuses_config(named: &str, defect: Defect) {
    let (_folder, path) = config_file(defect);
    expect_refusal(&size_of(&path), &[named, "config.json"]);
}

fn refuses_text(text: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("config.json");
    fs::write(&path, text).expect("written");
    expect_refusal(&size_of(&path), &["config.json"]);
}

/// The sound config of a small model, with `change` applied.
fn config_file(change: Defect) -> (TempDir, PathBuf) {
    let mut config = json!({
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_hidden_layers": 4,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 32_768,
        "torch_dtype": "bfloat16",
    });
    change(config.as_object_mut().expect("an object"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).expect("written");
    (folder, path)
}

fn size_of(path: &Path) -> Finished {
    let context: [&OsStr; 3] = ["--context".as_ref(), "1000".as_ref(), "--json".as_ref()];
    kvscope(["size".as_ref(), path.as_os_str()].into_iter().chain(context))
}

/// Exit status 2, nothing on stdout, one line on stderr that names what is at fault.
fn expect_refusal(finished: &Finished, named: &[&str]) {
    assert_eq!(finished.status, Some(2), "{finished:?}");
    assert_eq!(finished.stdout, "");
    assert_eq!(finished.stderr.lines().count(), 1, "{:?}", finished.stderr);
    for name in named {
        assert!(finished.stderr.contains(name), "{:?} does not name {name}", finished.stderr);
    }
}
