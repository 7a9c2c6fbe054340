//! Traps of real configs: where a field stands, what an absent one means, which of two wins.
//!
//! Each row is a public report or a rule of an engine's config reader; the right value is derived by hand.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::configs;

use configs::slope;
use kvscope_sizing::{Mixer, Settings, StateModel, Tokens, Unknown, read_config, read_config_text};
use serde_json::{Value, json};

/// Qwen3-0.6B: `head_dim` 128 is explicit where hidden / heads gives 64 (`LMCache` issue 688, unsloth pull request 4757).
#[test]
fn an_explicit_head_dim_wins() {
    let config = json!({"model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 16,
                        "num_key_value_heads": 8, "head_dim": 128, "sliding_window": null, "use_sliding_window": false,
                        "max_window_layers": 28});
    assert_eq!(slope(&config).0, 28 * 2 * 8 * 128 * 2);
}

#[test]
fn an_absent_dtype_is_assumed_and_says_so() {
    let mut config =
        json!({"num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64});
    let (bytes, warnings) = slope(&config);
    assert_eq!(bytes, 2 * 8 * 64 * 2);
    assert_eq!(warnings, "dtype: absent; bf16 is assumed for K/V and state");
    config["torch_dtype"] = json!("float32");
    assert_eq!(slope(&config), (2 * 8 * 64 * 4, String::new()));
    config["torch_dtype"] = json!("int3");
    assert!(!slope(&config).1.contains("absent"), "the field is there");
}

/// Layers 1 and 3 use the cache of the layer before them.
#[test]
fn shared_layers_of_one_kind_borrow() {
    let config = json!({"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
                        "cla_share_factor": 2});
    assert_eq!(slope(&config).0, 2 * 2 * 8 * 64 * 2);
    let shares = |value: bool| {
        let mut config = config.clone();
        config["use_cla"] = json!(value);
        slope(&config).0
    };
    // Hy-MT2-7B has a factor of 2 and `use_cla` false: every layer keeps its own.
    assert_eq!((shares(true), shares(false)), (2 * 2 * 8 * 64 * 2, 4 * 2 * 8 * 64 * 2));
}

/// Classes whose heads are not the hidden size divided by their number (`configuration_*.py` of transformers).
#[test]
fn an_absent_head_width_is_that_of_the_class() {
    for (class, width) in [("gemma", 256), ("qwen3", 128), ("gpt_oss", 64), ("llama", 512 / 8)] {
        let config = json!({"model_type": class, "num_hidden_layers": 1, "hidden_size": 512, "dtype": "bfloat16",
                            "num_attention_heads": 8, "num_key_value_heads": 8, "layer_types": ["full_attention"]});
        assert_eq!(slope(&config).0, 2 * 8 * width * 2, "{class}");
    }
}

/// A width of 0 is taken as missing, as engines do, but not called absent.
#[test]
fn a_width_of_zero_is_not_called_absent() {
    let heads = |config: &Value| {
        let architecture = read_config(&config.to_string()).unwrap();
        let Mixer::Full(heads) = architecture.classes()[0].mixers[0].clone() else {
            panic!("full attention")
        };
        (heads, architecture.warnings().iter().map(ToString::to_string).collect::<String>())
    };
    let (zero, warnings) =
        heads(&json!({"num_hidden_layers": 1, "hidden_size": 1000, "num_attention_heads": 6,
        "num_key_value_heads": 6, "head_dim": 0, "v_head_dim": 0, "dtype": "bfloat16"}));
    assert_eq!(zero.k_width.source().to_string(), "head_dim is 0: hidden_size / num_attention_heads");
    assert!(zero.v_width.source().to_string().starts_with("v_head_dim is 0: "), "{}", zero.v_width.source());
    assert!(warnings.starts_with("head_dim: is 0, and 1000 is no multiple of 6"), "{warnings}");
    let (class, _) = heads(&json!({"model_type": "gemma3_text", "num_hidden_layers": 6, "head_dim": 0,
        "num_attention_heads": 8, "num_key_value_heads": 4, "sliding_window": 0}));
    assert!(
        class.k_width.source().to_string().starts_with("head_dim is 0: 256, the default"),
        "{}",
        class.k_width.source()
    );
    let (absent, _) = heads(&json!({"num_hidden_layers": 1, "hidden_size": 512, "num_attention_heads": 8}));
    assert!(absent.k_width.source().to_string().starts_with("head_dim absent: "));
}

#[test]
fn null_and_zero_mean_missing() {
    for head_dim in [Value::Null, json!(0)] {
        let config = json!({"num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2,
                            "head_dim": head_dim});
        assert_eq!(slope(&config).0, 2 * 2 * 2 * 64 * 2);
    }
}

#[test]
fn absent_kv_heads_are_query_heads_and_say_so() {
    let (bytes, warnings) =
        slope(&json!({"num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8}));
    assert_eq!(bytes, 2 * 2 * 8 * 64 * 2);
    assert!(warnings.contains("num_key_value_heads"), "{warnings}");
}

#[test]
fn a_head_width_that_does_not_divide_says_so() {
    let (_, warnings) = slope(
        &json!({"num_hidden_layers": 1, "hidden_size": 1000, "num_attention_heads": 6, "num_key_value_heads": 6}),
    );
    assert!(warnings.contains("head_dim"), "{warnings}");
}

/// Falcon: one shared head unless the new decoder is used.
#[test]
fn falcon_shares_one_head() {
    let old = json!({"model_type": "falcon", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8, "multi_query": true});
    assert_eq!(slope(&old).0, 2 * 2 * 64 * 2);
    let new = json!({"model_type": "falcon", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8, "multi_query": true,
                     "new_decoder_architecture": true, "num_kv_heads": 4});
    assert_eq!(slope(&new).0, 2 * 2 * 4 * 64 * 2);
}

/// `ChatGLM`'s group count and DBRX's nested field.
#[test]
fn other_names_of_kv_heads() {
    let glm = json!({"num_layers": 2, "hidden_size": 512, "num_attention_heads": 8, "multi_query_attention": true,
                     "multi_query_group_num": 2, "kv_channels": 64});
    assert_eq!(slope(&glm).0, 2 * 2 * 2 * 64 * 2);
    let dbrx = json!({"n_layers": 2, "d_model": 512, "n_heads": 8, "attn_config": {"kv_n_heads": 2}});
    assert_eq!(slope(&dbrx).0, 2 * 2 * 2 * 64 * 2);
}

/// Qwen2 ships a window that is switched off; switched on, it holds for the layers from `max_window_layers` on only.
#[test]
fn a_window_that_is_switched_off_is_no_window() {
    let mut config = json!({"model_type": "qwen2", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
                            "num_key_value_heads": 8, "sliding_window": 128, "max_window_layers": 3});
    assert_eq!(slope(&config).0, 4 * 2 * 512 * 2);
    config["use_sliding_window"] = json!(true);
    assert_eq!(slope(&config).0, 3 * 2 * 512 * 2);
}

#[test]
fn windows_of_null_zero_and_below_mean_none() {
    for window in [Value::Null, json!(0), json!(-1)] {
        let config = json!({"model_type": "mistral", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8,
                            "num_key_value_heads": 8, "sliding_window": window});
        assert_eq!(slope(&config).0, 2 * 2 * 512 * 2, "{config}");
    }
}

/// MiMo-V2 carries an `attention_chunk_size` that nothing uses.
#[test]
fn a_chunk_size_without_chunked_layers_is_unused() {
    let config = json!({"num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8,
                        "attention_chunk_size": 128});
    assert_eq!(slope(&config).0, 2 * 2 * 512 * 2);
}

/// `OpenELM` gives each layer its own head count, and the longest length a name of its own.
#[test]
fn heads_may_differ_by_layer() {
    let config = json!({"model_type": "openelm", "num_transformer_layers": 3, "model_dim": 1536, "head_dim": 64,
                        "max_context_length": 2048, "num_kv_heads": [3, 4, 5], "num_query_heads": [12, 16, 20]});
    let longest = kvscope_sizing::read_config(&config.to_string())
        .unwrap()
        .max_context()
        .map(kvscope_sizing::Fact::get);
    assert_eq!(longest, Some(2048));
    assert_eq!(slope(&config).0, (3 + 4 + 5) * 2 * 64 * 2);
}

/// Gemma 4 E2B: the last 20 of 35 layers use an earlier layer's cache; 3 of the 7 full layers own one.
#[test]
fn shared_layers_keep_nothing() {
    let kinds: Vec<&str> =
        (0..35).map(|i| if (i + 1) % 5 == 0 { "full_attention" } else { "sliding_attention" }).collect();
    let config = json!({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", "num_hidden_layers": 35,
        "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512,
        "num_global_key_value_heads": null, "sliding_window": 512, "num_kv_shared_layers": 20, "layer_types": kinds}});
    assert_eq!(slope(&config).0, 3 * 2 * 512 * 2);
}

/// A quantised checkpoint says nothing about the K/V cache.
#[test]
fn weight_quantisation_does_not_change_the_cache() {
    let config = json!({"num_hidden_layers": 1, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8,
                        "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}});
    assert_eq!(slope(&config).0, 2 * 512 * 2);
}

/// Draft layers are listed behind the others and left out, with a word about it.
#[test]
fn draft_layers_are_left_out() {
    let mut kinds = vec!["full_attention"; 4];
    kinds.push("full_attention");
    let config = json!({"num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8,
                        "num_nextn_predict_layers": 1, "layer_types": kinds});
    let (bytes, warnings) = slope(&config);
    assert_eq!(bytes, 4 * 2 * 512 * 2);
    assert!(warnings.contains("draft"), "{warnings}");
}

#[test]
fn a_context_beyond_the_models_length_says_so() {
    let config = json!({"num_hidden_layers": 1, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8,
                        "max_position_embeddings": 8192, "dtype": "bfloat16"});
    let state = StateModel::new(&read_config(&config.to_string()).unwrap(), &Settings::default()).unwrap();
    let size = |n| state.size("own", Some(Tokens::new(n)), 1, &Settings::default()).unwrap().warnings;
    assert!(size(8192).is_empty());
    assert!(size(8193)[0].to_string().contains("8Ki"));
}

#[test]
fn kv_heads_that_do_not_divide_the_query_heads_say_so() {
    let config =
        json!({"num_hidden_layers": 1, "head_dim": 64, "num_attention_heads": 16, "num_key_value_heads": 7});
    let (bytes, warnings) = slope(&config);
    assert_eq!(bytes, 2 * 7 * 64 * 2);
    assert!(warnings.contains("num_key_value_heads: 7 K/V heads"), "{warnings}");
}

/// Python's `json`, by which engines read configs, takes the last of several values.
#[test]
fn a_key_that_stands_twice_is_told_and_the_last_value_counts() {
    let text = r#"{"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
        "dtype": "bfloat16", "num_key_value_heads": 2, "head_dim": 64}"#;
    let architecture = read_config(text).unwrap();
    let warnings: Vec<String> = architecture.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["num_key_value_heads: stands twice, as 8 and 2; the last is taken"]);
    let state = StateModel::new(&architecture, &Settings::default()).unwrap();
    assert_eq!(state.slope(None).unwrap().whole(), Some(2 * 2 * 2 * 64 * 2));
    let error = read_config_text(text, Unknown::Refuse).unwrap_err();
    assert_eq!(error.place(), Some("num_key_value_heads"));
    let nested = r#"{"text_config": {"num_hidden_layers": 1, "num_attention_heads": 8, "head_dim": 64, "head_dim": 32,
        "dtype": "bfloat16", "num_key_value_heads": 8}}"#;
    let warnings = read_config(nested).unwrap().warnings().to_vec();
    assert_eq!(warnings[0].field, "text_config.head_dim");
}

/// The text model's own fields count; an outer field that says otherwise is named beside them.
#[test]
fn an_outer_field_that_contradicts_the_text_models_is_told() {
    let mut config = json!({"model_type": "llava", "head_dim": 128, "hidden_size": 4096, "num_key_value_heads": 8.0,
        "text_config": {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 8,
                        "num_key_value_heads": 8, "head_dim": 64, "hidden_size": 512, "dtype": "bfloat16"}});
    let (bytes, warnings) = slope(&config);
    assert_eq!(bytes, 2 * 8 * 64 * 2);
    assert_eq!(
        warnings,
        "text_config.head_dim: 64, but head_dim says 128; the inner one is taken\n\
         text_config.hidden_size: 512, but hidden_size says 4096; the inner one is taken"
    );
    let error = read_config_text(&config.to_string(), Unknown::Refuse).unwrap_err();
    assert_eq!(error.place(), Some("text_config.head_dim"));
    config["head_dim"] = json!(64);
    config["hidden_size"] = Value::Null;
    assert_eq!(slope(&config).1, "");
}
