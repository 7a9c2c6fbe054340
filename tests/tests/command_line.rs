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
        &["layers", "kimi-k2.6", "--tp", "8"][..],
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

/// MiniMax-M2.7 in vLLM 0.33: blocks of 16 × 253,952 B. 10 GiB are 2642, one of which is never handed out. In logical
/// bytes 10 GiB are 42,281 tokens.
#[test]
fn what_fits_is_found_under_an_engines_accounting_too() {
    let fit = |engine: &str| {
        let found =
            kvscope(["fit", "minimax-m2.7", "--memory=10GiB", "--context=10K", "--json", "--engine", engine]);
        assert_eq!(found.status, Some(0), "{}", found.stderr);
        serde_json::from_str::<Value>(&found.stdout).expect("JSON")[0].clone()
    };
    let (vllm, logical) = (fit("vllm@0.33"), fit("logical"));
    assert_eq!((&vllm["engine"], &vllm["largest_context"]), (&json!("vllm@0.33"), &json!(2641 * 16)));
    assert_eq!(vllm["batches"][0]["largest_batch"], 2641 / 625);
    assert_eq!(logical["largest_context"], (10_u64 << 30) / 253_952);
    expect_refusal(
        &kvscope(["fit", "minimax-m2.7", "--memory=1GB", "--engine=vllm", "--set=available_kv_bytes=2GB"]),
        &["available_kv_bytes: "],
    );
    // Without a longest length in the config: 48 windows of 4,608 cells and 16 layers of 4714 × 256, each 4,096 B.
    let found = kvscope(["fit", "command-a-111b", "--memory=80GB", "--engine=llama.cpp", "--csv"]);
    assert!(found.stdout.contains(",80000000000,1,1206784,"), "{}{}", found.stdout, found.stderr);
}

#[test]
fn a_small_number_of_memory_needs_its_unit() {
    for text in ["80", "80.5", "-80", "80XB"] {
        expect_refusal(&kvscope(["fit", "kimi-k2.6", "--memory", text]), &["memory: ", text, "GB"]);
    }
    expect_refusal(
        &kvscope(["size", "kimi-k2.6", "--engine=vllm", "--set=available_kv_bytes=80"]),
        &["available_kv_bytes: 80 without a unit", "80GB"],
    );
    let sized = size(["kimi-k2.6", "--engine=vllm@0.33", "--set=available_kv_bytes=80GB"]);
    assert_eq!(sized[0]["settings"]["available_kv_bytes"], 80_000_000_000_u64);
}

#[test]
fn negative_and_broken_numbers_are_refused_by_their_option() {
    for (option, named) in [
        ("--tp", "tp: "),
        ("--pp", "pp: "),
        ("--dcp", "dcp: "),
        ("--batch", "batch: "),
        ("--context", "context: "),
    ] {
        for value in ["-1", "-1.5", "1.5", "two", ""] {
            expect_refusal(&kvscope(["size", "kimi-k2.6", option, value]), &[named]);
        }
    }
    expect_refusal(&kvscope(["serve", "--port", "-1"]), &["--port"]);
}

#[test]
fn a_value_of_any_length_is_refused_in_a_line_that_can_be_read() {
    let long = "x".repeat(20_000);
    for arguments in [
        ["size", &long, "--context=1", "--json"],
        ["size", "kimi-k2.6", "--kv-dtype", &long],
        ["size", "kimi-k2.6", "--context", &long],
        ["size", "kimi-k2.6", "--engine", &long],
        ["size", "kimi-k2.6", "--set", &long],
        ["fit", "kimi-k2.6", "--memory", &long],
    ] {
        let refused = kvscope(arguments);
        expect_refusal(&refused, &["xxx…xxx"]);
        assert!(refused.stderr.len() < 2000, "{}", refused.stderr.len());
    }
}

#[test]
fn what_changes_nothing_is_said() {
    for (arguments, named) in [
        (&["size", "qwen3-8b", "--index-dtype=fp4"][..], "index_dtype: changes nothing"),
        (&["layers", "qwen3-8b", "--state-dtype=f32"], "state_dtype: changes nothing"),
        (&["fit", "qwen3-8b", "--memory=8GB", "--index-dtype=fp4"], "index_dtype: changes nothing"),
        (
            &["compare", "qwen3-8b", "deepseek-v3.2", "--index-dtype=fp4"],
            "qwen3-8b: index_dtype: changes nothing",
        ),
        (&["explain", "qwen3-8b", "--engine=llama.cpp", "--tp=2"], "tp: changes nothing: llama.cpp"),
        (&["size", "qwen3-8b", "--engine=vllm", "--set=n_ubatch=64"], "n_ubatch: changes nothing: vllm"),
        (&["size", "qwen3-8b", "--engine=vllm@0.1"], "those of 0.11, the oldest known, are taken"),
    ] {
        let said = kvscope(arguments);
        assert_eq!(said.status, Some(0), "{}", said.stderr);
        assert!(said.stderr.contains(named), "{arguments:?}: {}", said.stderr);
    }
}

#[test]
fn a_key_that_stands_twice_is_told_or_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("config.json");
    let text = r#"{"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
        "num_key_value_heads": 2}"#;
    fs::write(&path, text).expect("written");
    let sized = size_of(&path);
    assert_eq!(sized.status, Some(0), "{}", sized.stderr);
    let rows: Value = serde_json::from_str(&sized.stdout).expect("JSON");
    assert_eq!(rows[0]["slope_bytes_per_token"], 2 * 2 * 2 * 64 * 2);
    assert!(rows[0]["warnings"].to_string().contains("stands twice, as 8 and 2"), "{rows}");
    let strict: [&OsStr; 3] = ["size".as_ref(), path.as_os_str(), "--strict".as_ref()];
    expect_refusal(&kvscope(strict), &["num_key_value_heads: stands twice", "config.json"]);
}

#[test]
fn a_port_that_is_in_use_is_bad_input() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    expect_refusal(&kvscope(["serve", "--port", &port]), &[&port, "--port"]);
}

#[test]
fn tables_and_rows_hold_every_kind_of_bytes() {
    let table = kvscope(["size", "deepseek-v3.2", "--context=100K"]);
    let rows = kvscope(["size", "deepseek-v3.2", "--context=100K", "--csv"]);
    for name in ["read a step", "persisted", "transferred"] {
        assert!(table.stdout.lines().next().expect("a header").contains(name), "{}", table.stdout);
    }
    let header: Vec<&str> = rows.stdout.lines().next().expect("a header").split(',').collect();
    let latent: Vec<&str> = rows.stdout.lines().nth(1).expect("a row").split(',').collect();
    let cell = |name: &str| latent[header.iter().position(|column| *column == name).expect(name)];
    // 61 latents of 1,152 B: all are kept and sent, 2,048 tokens are read.
    assert_eq!(cell("bytes"), (61 * 1_152 * 100_000_u64).to_string());
    assert_eq!(cell("transfer_bytes"), cell("bytes"));
    assert_eq!(cell("read_bytes_per_step"), (61 * 1_152 * 2_048).to_string());
    assert!(!cell("persisted_bytes").is_empty());
    let explained = kvscope(["explain", "deepseek-v3.2", "--context=100K"]);
    assert!(explained.stdout.contains("top_k = 2048 from index_topk"), "{}", explained.stdout);
    assert!(explained.stdout.contains("a step reads 2,048 entries"), "{}", explained.stdout);
}

#[test]
fn an_engines_table_is_in_words_and_says_which_length_it_is_for() {
    let shown =
        kvscope(["size", "qwen3.5-27b", "--engine=vllm", "--context=100K", "--set=available_kv_bytes=80GB"]);
    assert_eq!(shown.status, Some(0), "{}", shown.stderr);
    let line = |start: &str| {
        let found = shown.stdout.lines().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("no {start} in {}", shown.stdout))
    };
    line("Needed by one request of 262,144 tokens");
    let requests = line("Requests of 262,144 tokens that fit");
    let ratio = requests.split_whitespace().last().expect("a figure");
    assert!(ratio.ends_with('×') && ratio.len() <= "9999.99×".len(), "{requests}");
    assert!(!shown.stdout.contains("max_concurrency"), "{}", shown.stdout);
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
    let headings: Vec<&str> = explained.stdout.lines().filter(|line| line.starts_with("part ")).collect();
    let [heading] = headings.as_slice() else { panic!("one table of parts, not {headings:?}") };
    assert!(heading.contains("logical") && heading.contains("one rank"), "{heading}");
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
    // Other classes have a head width of their own.
    refuses_config("hidden_size", |config| {
        config.insert("model_type".into(), json!("llama"));
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

/// vLLM's blocks, concurrency, cache size line and longest request all follow from one setting.
#[test]
fn figures_that_lack_the_same_setting_share_a_line() {
    let answer = kvscope(["size", "glm-4.5", "--engine", "vllm", "--context", "1000"]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let (_, lacking) = answer.stdout.split_once("Not computed\n").expect("some figures lack a setting");
    let asking: Vec<&str> = lacking.lines().filter(|line| line.contains("available_kv_bytes=")).collect();
    assert_eq!(asking.len(), 1, "{lacking}");
    assert!(asking[0].contains("; Blocks of the pool: "), "{lacking}");
}

/// A token of a model of states alone adds nothing, which is a figure; a fraction is said with every digit beside its
/// rounding.
#[test]
fn slopes_are_said_where_they_are_nothing_and_exactly_where_they_are_fractions() {
    let (_folder, path) = config_file(|config| {
        config.clear();
        let mamba = json!({
            "model_type": "falcon_mamba", "architectures": ["FalconMambaForCausalLM"], "num_hidden_layers": 64,
            "hidden_size": 4096, "intermediate_size": 8192, "state_size": 16, "conv_kernel": 4, "expand": 2,
            "time_step_rank": 256, "torch_dtype": "bfloat16",
        });
        config.extend(mamba.as_object().expect("an object").clone());
    });
    let slope = |model: &OsStr| {
        let engine: [&OsStr; 4] =
            ["--context".as_ref(), "1000".as_ref(), "--engine".as_ref(), "vllm".as_ref()];
        let said = kvscope(["size".as_ref(), model].into_iter().chain(engine)).stdout;
        let row = said.lines().find(|line| line.starts_with("Slope")).expect("a row");
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(slope(path.as_os_str()), ["Slope", "0 B/token"]);
    let rows = size(["deepseek-v4-pro", "--context", "1000", "--engine", "vllm"]);
    let number = rows[0]["slope_bytes_per_token"].as_f64().expect("a number");
    assert!(number.fract() != 0.0, "{number}");
    let cells = slope("deepseek-v4-pro".as_ref());
    let exact = cells[2].trim_end_matches(" B/token").replace(',', "");
    let read: f64 = match exact.split_once('/') {
        None => exact.parse().expect("a decimal"),
        Some((over, under)) => over.parse::<f64>().expect("whole") / under.parse::<f64>().expect("whole"),
    };
    assert!((read - number).abs() <= f64::EPSILON * number, "{cells:?} and {number}");
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
