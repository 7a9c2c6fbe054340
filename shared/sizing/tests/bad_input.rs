//! What a config that cannot be sized gets: one line that names the field.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::{Error, Settings, StateModel, Tokens, read_config};
use serde_json::{Value, json};

/// Llama-3.1-8B, with `changes` merged in; a null removes the field.
fn config(changes: &Value) -> String {
    let mut config = json!({
        "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "hidden_size": 4096, "head_dim": 128, "torch_dtype": "bfloat16"
    });
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => config.as_object_mut().unwrap().remove(key),
            _ => config.as_object_mut().unwrap().insert(key.clone(), value.clone()),
        };
    }
    config.to_string()
}

fn refusal(text: &str) -> Error {
    let error = read_config(text).expect_err(text);
    let line = error.to_string();
    assert!(!line.contains('\n') && !line.is_empty(), "{line:?} is not one line");
    error
}

#[test]
fn the_offending_field_is_named() {
    let rows = [
        (json!({"layer_types": vec!["fourier"; 32]}), "layer_types[0]", "fourier"),
        (json!({"layer_types": vec!["full_attention"; 31]}), "layer_types", "31 entries"),
        (json!({"layer_types": vec!["full_attention"; 40]}), "layer_types", "40 entries"),
        (json!({"layer_types": vec!["sliding_attention"; 32]}), "sliding_window", "missing"),
        (json!({"layer_types": vec!["linear_attention"; 32]}), "linear_num_value_heads", "missing"),
        (json!({"layer_types": [1, 2]}), "layer_types", "2 entries"),
        (json!({"layer_types": "full_attention"}), "layer_types", "a list"),
        (json!({"num_hidden_layers": Value::Null}), "num_hidden_layers", "missing"),
        (json!({"num_hidden_layers": -3}), "num_hidden_layers", "-3"),
        (json!({"num_hidden_layers": 2.5}), "num_hidden_layers", "2.5"),
        (json!({"num_hidden_layers": 4_000_000}), "num_hidden_layers", "4000000"),
        (json!({"num_key_value_heads": -8}), "num_key_value_heads", "-8"),
        (json!({"num_key_value_heads": 64}), "num_key_value_heads", "32 query heads"),
        (json!({"num_key_value_heads": 1_u64 << 60}), "num_key_value_heads", "whole number"),
        (
            json!({"num_attention_heads": Value::Null, "num_key_value_heads": Value::Null}),
            "num_attention_heads",
            "missing",
        ),
        (json!({"head_dim": Value::Null, "hidden_size": Value::Null}), "head_dim", "missing"),
        (json!({"head_dim": true}), "head_dim", "true"),
        (json!({"kv_lora_rank": 512}), "qk_rope_head_dim", "missing"),
        (json!({"text_config": 7}), "text_config", "object"),
        (json!({"compress_ratios": vec![16; 32]}), "compress_ratios[0]", "16"),
        (json!({"attn_type_list": vec![2; 32]}), "attn_type_list[0]", "2"),
        (json!({"hybrid_override_pattern": "M*"}), "hybrid_override_pattern", "2 entries"),
        (
            json!({"mamba_ssm_dtype": "int3", "layer_types": vec!["full_attention"; 32]}),
            "mamba_ssm_dtype",
            "int3",
        ),
        (json!({"num_kv_shared_layers": 32}), "num_kv_shared_layers", "32"),
        (json!({"ssm_state_size": 128}), "layer_types", "Mamba"),
        // RecurrentGemma's and GPT-Neo's names for their lists of layer kinds.
        (json!({"block_types": ["recurrent", "recurrent", "attention"]}), "block_types[0]", "recurrent"),
        (json!({"attention_layers": ["global", "local"]}), "attention_layers[1]", "local"),
        (json!({"num_hidden_layers": 0}), "num_hidden_layers", ": 0;"),
        (json!({"num_attention_heads": 0}), "num_attention_heads", ": 0;"),
        (json!({"num_key_value_heads": 0}), "num_key_value_heads", ": 0;"),
        (json!({"head_dim": 0, "hidden_size": Value::Null}), "head_dim", "is 0"),
        (
            json!({"attention_chunk_size": 0, "layer_types": vec!["chunked_attention"; 32]}),
            "attention_chunk_size",
            ": 0,",
        ),
        (json!({"cross_attention_layers": [3, 32]}), "cross_attention_layers[1]", "layer 32"),
        (json!({"full_attn_idxs": [32]}), "full_attn_idxs[0]", "layer 32"),
        (json!({"attn_layer_indices": [0, 40]}), "attn_layer_indices[1]", "layer 40"),
        (
            json!({"cla_share_factor": 2, "sliding_window": 128, "layer_types":
                (["full_attention", "sliding_attention"].repeat(16))}),
            "cla_share_factor",
            "another kind",
        ),
    ];
    for (changes, field, word) in rows {
        let error = refusal(&config(&changes));
        let place = error.place().unwrap_or("");
        assert!(place.ends_with(field), "{changes}: names {place:?}, not {field:?} ({error})");
        assert!(error.to_string().contains(word), "{changes}: {error}");
    }
}

#[test]
fn text_that_is_no_config() {
    for text in
        ["", "   \n", "{", "[]", "null", "42", "\"config\"", "{\"num_hidden_layers\": 1e999}", "\u{0}\u{1}"]
    {
        refusal(text);
    }
    refusal(&"[".repeat(100_000));
}

#[test]
fn figures_beyond_64_bits_are_refused() {
    let wide = json!({"num_hidden_layers": 10_000, "num_key_value_heads": 1 << 20, "num_attention_heads": 1 << 20,
                      "head_dim": 1 << 20});
    let architecture = read_config(&config(&wide)).unwrap();
    let state = StateModel::new(&architecture, &Settings::default()).unwrap();
    let error = state.resident(Tokens::MAX, 1).unwrap_err().to_string();
    assert!(error.contains("64 bits"), "{error}");
    assert!(state.size("wide", Some(Tokens::new(1)), u64::MAX, &Settings::default()).is_err());
    assert!(state.size("wide", None, 0, &Settings::default()).unwrap_err().to_string().starts_with("batch"));
}

/// Python writes `NaN` and infinities for floats; a count that is one of them is none, and not left out either.
#[test]
fn numbers_that_json_does_not_know_are_no_counts() {
    let plain = config(&json!({"rope_scale": 1.5}));
    for (field, word) in [
        ("\"num_key_value_heads\":8", "NaN"),
        ("\"head_dim\":128", "Infinity"),
        ("\"num_hidden_layers\":32", "-Infinity"),
    ] {
        let name = field.split('"').nth(1).unwrap();
        assert!(plain.contains(field), "{plain}");
        let error = refusal(&plain.replace(field, &format!("\"{name}\":{word}")));
        assert_eq!(error.place(), Some(name));
        let what = format!("expected a whole number from 0 to 4,294,967,296, found {word}");
        assert!(error.to_string().contains(&what), "{error}");
        let nested = format!("{{\"text_config\":{}}}", plain.replace(field, &format!("\"{name}\":{word}")));
        assert_eq!(refusal(&nested).place(), Some(format!("text_config.{name}").as_str()));
    }
    // Where no rule wants a count they are as good as any other number.
    assert!(read_config(&plain.replace("1.5", "Infinity")).is_ok());
}

/// A decoder's own name for its heads is for configs that have a decoder (`WhisperConfig`).
#[test]
fn heads_that_are_missing_go_by_the_models_own_name() {
    let base = json!({"num_key_value_heads": 8, "hidden_size": 4096, "num_hidden_layers": 2});
    let of = |changes: &Value| {
        let mut config = base.clone();
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        refusal(&config.to_string()).to_string()
    };
    for (changes, told) in [
        (json!({}), "num_attention_heads: missing"),
        (json!({"num_attention_heads": null}), "num_attention_heads: null"),
        (json!({"n_head": null}), "n_head: null"),
        (json!({"decoder_layers": 2}), "decoder_attention_heads: missing"),
    ] {
        let error = of(&changes);
        assert!(error.starts_with(told), "{changes}: {error}");
    }
}
