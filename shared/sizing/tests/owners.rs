//! Layers that use what another layer owns, values that say none, and lists that contradict what stands beside them.
//!
//! The right values are derived by hand from transformers' classes (5.24, `models/*/configuration_*.py`) and from the
//! published layout of DeepSeek-V4.1.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::configs;

use configs::{slope, with};
use kvscope_sizing::engine::{Query, report};
use kvscope_sizing::{Error, Settings, StateModel, Unknown, find_entry, read_config, read_config_text};
use serde_json::{Value, json};

fn refused(config: &Value, place: &str, word: &str) {
    let error: Error = read_config(&config.to_string()).expect_err(&config.to_string());
    assert_eq!(error.place(), Some(place), "{error}");
    assert!(error.to_string().contains(word), "{error}");
}

fn of_catalogue(id: &str) -> Value {
    serde_json::to_value(&find_entry(id).unwrap().config).unwrap()
}

/// Layers 2 to 19 have ratio 2, 20 to 39 ratio 1: 3 stores at (288 + 68) / 2 bytes a token and one at 288 + 68 are 890.
/// Each layer needs a store of its own ratio at or before it.
#[test]
fn stores_and_choices_of_entries_come_from_compressed_layers_before() {
    let config = of_catalogue("deepseek-v4.1-flash");
    assert_eq!(slope(&config).0, 890);
    let stores = "kv_source_layer_ids";
    for (list, place, word) in [
        (json!([2, 8, 14, 99]), "kv_source_layer_ids[3]", "layer 99 is not below the 40 layers"),
        (json!([]), stores, "layer 2 is compressed"),
        (json!([8, 14, 20]), stores, "layer 2 is compressed"),
        (json!([0, 8, 14, 20]), "kv_source_layer_ids[0]", "layer 0 is not compressed"),
        (json!([2, 8, 14]), stores, "layer 20 has compression ratio 1, but layer 14"),
        (json!([2, 8, 8, 20]), "kv_source_layer_ids[2]", "layer 8 stands twice"),
    ] {
        refused(&with(&config, &json!({ stores: list })), place, word);
    }
    let choices = "index_source_layer_ids";
    refused(&with(&config, &json!({ choices: [] })), choices, "layer 2 is compressed");
    refused(&with(&config, &json!({ choices: [8, 20] })), choices, "layer 2 is compressed");
    let fewer = with(&config, &json!({ choices: [2, 14, 20] }));
    let (bytes, warnings) = slope(&fewer);
    assert_eq!(bytes, 890);
    assert!(warnings.contains("index_source_layer_ids: lacks layer 8"), "{warnings}");
    assert!(read_config_text(&fewer.to_string(), Unknown::Refuse).is_err());
}

/// DeepSeek-V3.2: 61 layers × (576 × 2 + 132) bytes a token where every layer owns index keys.
#[test]
fn shared_index_keys_need_an_owner_before_them() {
    let config = of_catalogue("deepseek-v3.2");
    let mut kinds = vec!["shared"; 61];
    refused(&with(&config, &json!({ "indexer_types": kinds })), "indexer_types[0]", "no earlier layer owns");
    kinds[1] = "full";
    refused(&with(&config, &json!({ "indexer_types": kinds })), "indexer_types[0]", "no earlier layer owns");
    kinds.swap(0, 1);
    assert_eq!(slope(&with(&config, &json!({ "indexer_types": kinds }))).0, 61 * 1152 + 132);
}

/// `Llama4TextConfig`: layers are chunked only where `attention_chunk_size is not None`. 32 layers × 2 × 8 × 128 × 2 bytes
/// without chunks, a quarter of it with them.
#[test]
fn a_chunk_of_null_is_no_chunk() {
    let config = json!({"model_type": "llama4_text", "num_hidden_layers": 32, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "dtype": "bfloat16"});
    assert_eq!(slope(&config).0, 32_768);
    for none in [Value::Null, json!(0)] {
        assert_eq!(slope(&with(&config, &json!({"attention_chunk_size": none}))).0, 131_072);
        let listed = json!({"attention_chunk_size": none, "layer_types": vec!["chunked_attention"; 32]});
        refused(&with(&config, &listed), "attention_chunk_size", "a chunked layer needs it");
    }
}

/// transformers makes no mask for sliding layers without a window (`create_sliding_window_causal_mask` raises).
#[test]
fn a_window_of_null_is_no_window_in_every_class() {
    for class in ["gemma3_text", "llama", "gpt_oss", "exaone4"] {
        let config = json!({"model_type": class, "num_hidden_layers": 2, "num_attention_heads": 8,
            "num_key_value_heads": 8, "head_dim": 64, "dtype": "bfloat16", "sliding_window": null});
        let listed = json!({"layer_types": ["sliding_attention", "full_attention"]});
        refused(&with(&config, &listed), "sliding_window", "null");
        let pattern = with(&config, &json!({"sliding_window_pattern": 2}));
        let (bytes, warnings) = slope(&pattern);
        assert_eq!(bytes, 2 * 2 * 8 * 64 * 2, "{class}");
        assert!(warnings.contains("sliding_window: none, but sliding_window_pattern"), "{class}: {warnings}");
    }
    // `Exaone4Config` drops its default pattern with the window.
    let exaone = json!({"model_type": "exaone4", "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 8, "head_dim": 64, "dtype": "bfloat16", "sliding_window": null});
    assert_eq!(slope(&exaone), (4 * 2 * 8 * 64 * 2, String::new()));
}

#[test]
fn a_null_that_a_class_cannot_use_is_refused() {
    let gemma = json!({"model_type": "gemma3_text", "num_hidden_layers": 6, "num_attention_heads": 8,
        "num_key_value_heads": null, "dtype": "bfloat16"});
    refused(&gemma, "num_key_value_heads", "null");
    // `(i + 1) % None` and `(i + 1) % 0` raise in `Gemma3TextConfig`, `Cohere2Config` and `Qwen3NextConfig`.
    for none in [Value::Null, json!(0)] {
        for (class, key) in [
            ("gemma3_text", "sliding_window_pattern"),
            ("cohere2", "sliding_window_pattern"),
            ("qwen3_next", "full_attention_interval"),
        ] {
            let config = json!({"model_type": class, "num_hidden_layers": 8, "num_attention_heads": 8,
                "num_key_value_heads": 4, "head_dim": 64, "dtype": "bfloat16", key: none});
            refused(&config, key, "cannot use");
        }
    }
    // EXAONE-4.0-1.2B says both: without a window its class never looks at the pattern.
    let exaone = json!({"model_type": "exaone4", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
        "head_dim": 64, "dtype": "bfloat16", "sliding_window": null, "sliding_window_pattern": null});
    assert_eq!(slope(&exaone).0, 4 * 2 * 8 * 64 * 2);
    let outer = json!({"head_dim": null, "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 6,
        "num_attention_heads": 8, "num_key_value_heads": 4, "dtype": "bfloat16"}});
    assert_eq!(slope(&outer).0, 2 * 4 * 256 * 2, "an outer null says nothing of the text model's class");
}

/// Windows that classes have by default, which is told, and where their full layers stand; bytes of the full layers alone are left.
#[test]
fn classes_have_their_default_windows() {
    for (class, layers, full, window) in [
        ("gpt_oss", 24, 12, 128),
        ("cohere2", 8, 2, 4096),
        ("exaone4", 8, 2, 4096),
        ("olmo3", 8, 2, 4096),
        ("vaultgemma", 4, 2, 4096),
        // The last 15 use earlier caches, so one full layer of the first five.
        ("gemma3n_text", 20, 1, 512),
        // 3 of every sixth, and the last of 20 that would have a window.
        ("gemma4_text", 20, 4, 512),
        ("afmoe", 8, 2, 1024),
        // The first of four: layers 0, 4 and 8.
        ("granite_swa", 9, 3, 128),
        ("cwm", 9, 3, 8192),
        // Counted from the end: layers 8, 4 and 0.
        ("muse_glimmer_text", 9, 3, 2048),
        ("ministral", 4, 0, 4096),
        ("kolibri1", 10, 2, 513),
        // A window only where it is switched on.
        ("qwen3", 4, 4, 0),
    ] {
        let config = json!({"model_type": class, "num_hidden_layers": layers, "num_attention_heads": 8,
            "num_key_value_heads": 8, "head_dim": 64, "global_head_dim": 64, "dtype": "bfloat16"});
        let told = match window {
            0 => String::new(),
            window => format!("sliding_window: absent; {window} is taken, the default of its class"),
        };
        assert_eq!(slope(&config), (full * 2 * 8 * 64 * 2, told), "{class}");
    }
    let qwen = json!({"model_type": "qwen3", "num_hidden_layers": 30, "num_attention_heads": 8, "use_sliding_window": true,
        "num_key_value_heads": 8, "head_dim": 64, "dtype": "bfloat16"});
    assert_eq!(slope(&qwen).0, 28 * 2 * 8 * 64 * 2, "Qwen3Config: max_window_layers is 28");
}

/// The class's window is 4,096, but Mistral's own files have no field for a window that is not there.
#[test]
fn mistral_without_the_field_keeps_every_token_and_says_so() {
    let config = json!({"model_type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 8, "head_dim": 64, "dtype": "bfloat16"});
    let (bytes, warnings) = slope(&config);
    assert_eq!(bytes, 2 * 2 * 8 * 64 * 2);
    assert!(warnings.contains("sliding_window: absent") && warnings.contains("4096"), "{warnings}");
    assert_eq!(slope(&with(&config, &json!({"sliding_window": null}))), (2 * 2 * 8 * 64 * 2, String::new()));
}

/// A window under its other name is a window, also where the class has a default for the first name.
#[test]
fn the_other_name_of_a_window_counts_before_a_default() {
    let config = json!({"model_type": "gpt_oss", "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 8, "head_dim": 64, "dtype": "bfloat16", "sliding_window_size": 64});
    let architecture = read_config(&config.to_string()).unwrap();
    let state = StateModel::new(&architecture, &Settings::default()).unwrap();
    assert_eq!(state.fixed(None).unwrap().get(), 64 * 2 * 8 * 64 * 2);
}

#[test]
fn two_text_models_are_refused() {
    let text = |layers: u64| {
        json!({"num_hidden_layers": layers, "num_attention_heads": 8, "num_key_value_heads": 8,
        "head_dim": 64, "dtype": "bfloat16"})
    };
    let two = json!({"text_config": text(32), "llm_config": text(2)});
    refused(&two, "text_config", "beside llm_config");
    let alike =
        json!({"text_config": text(2), "llm_config": text(2), "language_config": {}, "thinker_config": null});
    assert_eq!(slope(&alike).0, 2 * 2 * 8 * 64 * 2);
    let empty = json!({"text_config": {}, "llm_config": text(2)});
    assert_eq!(slope(&empty).0, 2 * 2 * 8 * 64 * 2);
}

/// One rule for surplus entries of every list: as many as the stated draft layers.
#[test]
fn more_ratios_than_draft_layers_are_refused() {
    let config = of_catalogue("deepseek-v4-flash");
    let layers = config["num_hidden_layers"].as_u64().unwrap();
    let mut ratios: Vec<Value> = config["compress_ratios"].as_array().unwrap().clone();
    ratios.truncate(usize::try_from(layers).unwrap());
    ratios.push(json!(0));
    let one = json!({"compress_ratios": ratios, "num_nextn_predict_layers": 1});
    let read = read_config(&with(&config, &one).to_string()).unwrap();
    assert!(read.warnings().iter().any(|warning| warning.message.contains("draft layers at the end (1)")));
    ratios.push(json!(0));
    let two = json!({"compress_ratios": ratios, "num_nextn_predict_layers": 1});
    refused(&with(&config, &two), "compress_ratios", "and 1 draft layers");
}

/// Heads of a recurrence that groups or keys share must be a multiple of them, as of K/V heads: transformers repeats each
/// (`repeat_interleave(num_v_heads // num_k_heads)` in Qwen3-Next, `num_heads // n_groups` in Mamba-2).
#[test]
fn groups_that_do_not_divide_their_heads_are_told() {
    let delta = json!({"num_hidden_layers": 1, "layer_types": ["linear_attention"], "linear_num_key_heads": 16,
        "linear_num_value_heads": 33, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4, "dtype": "bfloat16"});
    assert_eq!(slope(&delta).1, "linear_num_key_heads: 16 key heads do not divide 33 value heads");
    assert_eq!(slope(&with(&delta, &json!({"linear_num_value_heads": 32}))).1, "");
    let mamba = json!({"num_hidden_layers": 1, "layers_block_type": ["mamba"], "mamba_num_heads": 128,
        "mamba_head_dim": 64, "n_groups": 7, "ssm_state_size": 128, "conv_kernel": 4, "dtype": "bfloat16"});
    assert_eq!(slope(&mamba).1, "n_groups: 7 groups do not divide 128 heads");
    assert_eq!(slope(&with(&mamba, &json!({"n_groups": 8}))).1, "");
}

/// llama.cpp prints the type of V also of a cache that has none (`llama_kv_cache`, `type_v`).
#[test]
fn a_cache_without_v_prints_the_type_of_v() {
    let architecture = find_entry("deepseek-v3.2").unwrap().architecture().unwrap();
    let mut settings = Settings::default();
    for (name, value) in [("context", "4096"), ("kv_dtype", "q8_0")] {
        settings.set(name, value).unwrap();
    }
    let query = Query::new(&architecture, "llama.cpp".parse().unwrap(), &settings).unwrap();
    let lines = report(&query).unwrap().log_lines;
    assert!(lines.len() > 1 && lines.iter().all(|line| line.contains("V (q8_0):    0.00 MiB")), "{lines:?}");
}

/// GLM-5.2's list is what its `index_topk_freq` 4 and `index_skip_topk_offset` 3 say; a pattern says it letter by letter.
#[test]
fn owners_of_index_keys_come_from_a_pattern_or_a_frequency_too() {
    let listed = of_catalogue("glm-5.2");
    let types = listed["indexer_types"].as_array().unwrap();
    let owners = types.iter().filter(|kind| *kind == "full").count() as u64;
    let (bytes, warnings) = slope(&listed);
    assert_eq!((bytes, warnings.contains("indexer_types")), (78 * 1_152 + owners * 132, false));
    let letters: String = types.iter().map(|kind| if kind == "full" { 'F' } else { 'S' }).collect();
    let without = with(&listed, &json!({"indexer_types": null}));
    for more in [
        json!({"index_topk_freq": 4, "index_skip_topk_offset": 3}),
        json!({"index_topk_pattern": letters}),
        json!({"index_topk_pattern": types}),
    ] {
        let (again, warnings) = slope(&with(&without, &more));
        assert_eq!(again, bytes, "{more}");
        assert!(warnings.contains("indexer_types: absent"), "{warnings}");
    }
    let none = with(&without, &json!({"index_topk_freq": null, "index_skip_topk_offset": null}));
    assert_eq!(slope(&none).0, 78 * (1_152 + 132));
    refused(&with(&none, &json!({"index_topk_pattern": "FxS"})), "index_topk_pattern[1]", "neither F");
}

/// `HYV4Config`: layer 0 and every fourth from 1 own keys, 10 of 34 (vLLM 0.33, `transformers_utils/configs/hy_v4.py`).
#[test]
fn a_class_knows_which_layers_own_index_keys() {
    let config = json!({"model_type": "hy_v4", "num_hidden_layers": 34, "hidden_size": 2816, "num_attention_heads": 32,
        "num_key_value_heads": 32, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 192,
        "qk_rope_head_dim": 64, "v_head_dim": 256, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 16,
        "dtype": "bfloat16"});
    let (bytes, warnings) = slope(&config);
    assert_eq!(bytes, 34 * 1_152 + 10 * 132);
    assert!(warnings.contains("indexer_types: absent"), "{warnings}");
    // The class has 2,048 and 128 where the config says nothing, two more words for such layers, and asks no frequency.
    let bare = with(
        &config,
        &json!({"index_topk": null, "index_head_dim": null, "index_topk_freq": 2,
        "layer_types": vec!["sparse"; 34]}),
    );
    let mut bare = bare;
    for key in ["index_topk", "index_head_dim"] {
        bare.as_object_mut().unwrap().remove(key);
    }
    assert_eq!(slope(&bare).0, 34 * 1_152 + 10 * 132);
}

/// transformers 5.12 to 5.17 saved GLM-5's layers as `deepseek_sparse_attention`; 5.19 renames them.
#[test]
fn layers_with_an_indexer_have_older_names() {
    let config =
        with(&of_catalogue("glm-5.1"), &json!({"layer_types": vec!["deepseek_sparse_attention"; 78]}));
    assert_eq!(slope(&config), slope(&of_catalogue("glm-5.1")));
    // Without a width there is nothing to count, which is a doubt.
    let heads = json!({"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
        "layer_types": ["full_attention", "indexed_attention"], "dtype": "bfloat16"});
    let (bytes, warnings) = slope(&heads);
    assert_eq!(bytes, 2 * 2 * 2 * 128 * 2);
    assert!(warnings.contains("no width of index keys"), "{warnings}");
    assert!(read_config_text(&heads.to_string(), Unknown::Refuse).is_err());
}

/// openPangu-Pro: keys of 128 + 64 and values of 128 on 8 heads (vLLM 0.33, `models/openpangu.py`).
#[test]
fn keys_of_two_parts_are_as_wide_as_both() {
    let config = json!({"model_type": "PanguProMoE", "hidden_size": 4608, "num_hidden_layers": 50,
        "num_attention_heads": 48, "num_key_value_heads": 8, "qk_nope_dim": 128, "qk_rope_dim": 64,
        "v_channels": 128, "torch_dtype": "bfloat16"});
    assert_eq!(slope(&config).0, 50 * 8 * (192 + 128) * 2);
    assert!(read_config_text(&config.to_string(), Unknown::Refuse).is_ok());
}

/// A block of Nemotron-NAS has its group of query heads or no attention; what else it says of attention is a doubt.
#[test]
fn blocks_state_their_heads() {
    let of = |attention: Value| {
        json!({"model_type": "nemotron-nas", "num_hidden_layers": 2, "hidden_size": 4096, "num_attention_heads": 32,
            "num_key_value_heads": null, "dtype": "bfloat16",
            "block_configs": [{"attention": {"no_op": true}}, {"attention": attention}]})
    };
    assert_eq!(slope(&of(json!({"n_heads_in_group": 8}))).0, 2 * 4 * 128 * 2);
    let place = "block_configs[1].attention.n_heads_in_group";
    refused(&of(json!({"no_op": false})), place, "missing, and the block has attention");
    refused(&of(json!({"num_key_value_heads": 8})), place, "missing");
    let window = of(json!({"n_heads_in_group": 8, "window_length": 8192, "num_sink_tokens": null}));
    let (_, warnings) = slope(&window);
    assert!(warnings.contains("block_configs[1].attention.window_length"), "{warnings}");
    assert!(read_config_text(&window.to_string(), Unknown::Refuse).is_err());
}

/// `LongCat`'s field for sharing the choice of tokens is said, and counted high.
#[test]
fn a_factor_that_one_engine_reads_is_told() {
    let config = with(&of_catalogue("deepseek-v3.2"), &json!({"cli_factor": 4}));
    let (bytes, warnings) = slope(&config);
    assert_eq!(bytes, slope(&of_catalogue("deepseek-v3.2")).0);
    assert!(
        warnings.contains("cli_factor: 4: SGLang keeps index keys in one of so many layers"),
        "{warnings}"
    );
}
