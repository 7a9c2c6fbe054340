//! Fields that switch others off, stand for one another, or contradict each other.
//!
//! The right values are derived by hand from the classes of transformers that are named beside each test.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::configs;

use configs::{slope, with};
use kvscope_sizing::{Unknown, read_config, read_config_text};
use serde_json::{Value, json};

/// Two layers of 8 heads of 64 values.
fn plain() -> Value {
    json!({"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
           "hidden_size": 512, "dtype": "bfloat16"})
}

/// A doubt names both fields, and a strict reader refuses the config by it.
fn doubted(config: &Value, place: &str, other: &str) -> u64 {
    let (bytes, warnings) = slope(config);
    let line = warnings.lines().find(|line| line.starts_with(&format!("{place}: ")) && line.contains(other));
    assert!(line.is_some(), "{config}: {warnings:?}");
    let error = read_config_text(&config.to_string(), Unknown::Refuse).unwrap_err();
    assert_eq!(error.place(), Some(place), "{error}");
    bytes
}

/// Falcon-7B's published config (<https://huggingface.co/tiiuae/falcon-7b/blob/main/config.json>) states 71 K/V heads
/// and one that all share; `FalconAttention` keeps one: 32 layers × 2 × 64 × 2 B.
#[test]
fn falcon_reads_its_switch_before_the_count() {
    let config = json!({"architectures": ["FalconForCausalLM"], "model_type": "falcon", "num_hidden_layers": 32,
        "hidden_size": 4544, "num_attention_heads": 71, "num_kv_heads": 71, "multi_query": true,
        "new_decoder_architecture": false, "torch_dtype": "bfloat16"});
    assert_eq!(slope(&config), (8192, String::new()));
    assert!(read_config_text(&config.to_string(), Unknown::Refuse).is_ok());
    let mut absent = config.clone();
    absent.as_object_mut().unwrap().remove("multi_query");
    assert_eq!(slope(&absent).0, 8192, "FalconConfig: multi_query is true by default");
    assert_eq!(slope(&with(&config, &json!({"multi_query": false}))).0, 71 * 8192);
    let first = json!({"model_type": "RefinedWebModel", "n_layer": 32, "hidden_size": 4544, "n_head": 71,
        "n_head_kv": 71, "multi_query": true, "torch_dtype": "bfloat16"});
    assert_eq!(slope(&first).0, 8192);
    let large = json!({"model_type": "RefinedWeb", "n_layer": 60, "hidden_size": 8192, "n_head": 128,
        "n_head_kv": 8, "torch_dtype": "bfloat16"});
    assert_eq!(slope(&large).0, 60 * 2 * 8 * 64 * 2, "Falcon-40B keeps 8 heads");
}

/// `GPTBigCodeConfig`: `multi_query` is true by default, and K/V heads are 1 with it and all without it.
#[test]
fn big_code_shares_one_head() {
    let config =
        json!({"model_type": "gpt_bigcode", "n_layer": 2, "n_embd": 512, "n_head": 8, "dtype": "bfloat16"});
    assert_eq!(slope(&config).0, 2 * 2 * 64 * 2);
    assert_eq!(slope(&with(&config, &json!({"num_key_value_heads": 8}))).0, 2 * 2 * 64 * 2);
    assert_eq!(slope(&with(&config, &json!({"multi_query": false}))).0, 2 * 2 * 8 * 64 * 2);
    let other = with(&plain(), &json!({"multi_query": true}));
    assert_eq!(doubted(&other, "multi_query", "num_key_value_heads"), 2 * 2 * 64 * 2);
}

/// `ChatGLMConfig`: `multi_query_attention` is false by default, and the groups count with it alone.
#[test]
fn groups_count_with_their_switch() {
    let mut config = json!({"model_type": "chatglm", "num_layers": 2, "hidden_size": 512, "num_attention_heads": 8,
        "multi_query_group_num": 2, "kv_channels": 64, "torch_dtype": "float16"});
    let place = "multi_query_group_num";
    assert_eq!(doubted(&config, place, "multi_query_attention"), 2 * 2 * 8 * 64 * 2);
    config["multi_query_attention"] = json!(true);
    assert_eq!(slope(&config), (2 * 2 * 2 * 64 * 2, String::new()));
    config["multi_query_attention"] = json!(false);
    assert_eq!(doubted(&config, place, "multi_query_attention"), 2 * 2 * 8 * 64 * 2);
    // A class that is not known: vLLM's config reader takes the groups as K/V heads.
    let unknown = json!({"num_layers": 2, "hidden_size": 512, "num_attention_heads": 8, "multi_query_group_num": 2,
        "kv_channels": 64, "torch_dtype": "float16"});
    assert_eq!(doubted(&unknown, place, "multi_query_attention"), 2 * 2 * 2 * 64 * 2);
}

/// `Qwen2Config` sets `sliding_window` to none where `use_sliding_window` is false, its default.
#[test]
fn listed_windows_are_switched_off_too() {
    let listed = json!({"model_type": "qwen2", "sliding_window": 128,
        "layer_types": ["full_attention", "sliding_attention"]});
    let off = with(&plain(), &with(&listed, &json!({"use_sliding_window": false})));
    assert_eq!(doubted(&off, "layer_types", "use_sliding_window"), 2 * 2 * 8 * 64 * 2);
    assert_eq!(doubted(&with(&plain(), &listed), "layer_types", "use_sliding_window"), 2 * 2 * 8 * 64 * 2);
    let on = with(&plain(), &with(&listed, &json!({"use_sliding_window": true})));
    assert_eq!(slope(&on), (2 * 8 * 64 * 2, String::new()));
}

/// `DeepseekV3Config`: a rank of 512 by default; a row is rank + rotary part, 576 values.
#[test]
fn latents_without_a_rank_are_not_heads() {
    let latent = json!({"model_type": "deepseek_v3", "num_hidden_layers": 2, "num_attention_heads": 128,
        "num_key_value_heads": 128, "hidden_size": 7168, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
        "v_head_dim": 128, "dtype": "bfloat16"});
    let (bytes, warnings) = slope(&latent);
    assert_eq!(
        (bytes, warnings.as_str()),
        (2 * 576 * 2, "kv_lora_rank: absent; 512 is taken, the default of its class")
    );
    for (changes, state) in [
        (json!({"kv_lora_rank": null}), "null"),
        (json!({"kv_lora_rank": null, "model_type": "own"}), "null"),
        (json!({"model_type": "own"}), "missing"),
    ] {
        let error = read_config(&with(&latent, &changes).to_string()).unwrap_err();
        assert_eq!(error.place(), Some("kv_lora_rank"));
        assert!(error.to_string().contains(state), "{error}");
    }
    // DeepSeek-VL2-tiny's text model: heads, by a switch.
    let heads = json!({"model_type": "deepseek_v2", "use_mla": false, "kv_lora_rank": null, "qk_rope_head_dim": 0,
        "qk_nope_head_dim": 0});
    assert_eq!(slope(&with(&plain(), &heads)).0, 2 * 2 * 8 * 64 * 2);
}

/// `LongcatFlashConfig`: 28 layers, 56 attentions; a layer has two.
#[test]
fn longcats_layers_have_two_attentions() {
    let base = json!({"model_type": "longcat_flash", "num_attention_heads": 64, "hidden_size": 6144,
        "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "dtype": "bfloat16"});
    let layers = |changes: Value| with(&base, &changes);
    assert_eq!(slope(&layers(json!({"num_layers": 4}))), (8 * 576 * 2, String::new()));
    assert_eq!(
        slope(&layers(json!({"num_layers": 4, "num_hidden_layers": 8}))),
        (8 * 576 * 2, String::new())
    );
    let both = layers(json!({"num_layers": 4, "num_hidden_layers": 4}));
    assert_eq!(doubted(&both, "num_layers", "num_hidden_layers"), 8 * 576 * 2);
    let alone = layers(json!({"num_hidden_layers": 8}));
    assert_eq!(doubted(&alone, "num_layers", "num_hidden_layers"), 8 * 576 * 2);
}

/// `FalconMambaConfig` computes `expand × hidden_size`, and a config's own `intermediate_size` replaces it: Falcon-Mamba-7B
/// has 8,192 channels and an `expand` of 16.
#[test]
fn a_width_that_its_expansion_does_not_give_is_told() {
    let mut config = json!({"model_type": "falcon_mamba", "num_hidden_layers": 1, "hidden_size": 4096,
        "intermediate_size": 8192, "expand": 16, "state_size": 16, "conv_kernel": 4, "dtype": "bfloat16"});
    let told = slope(&config).1;
    assert!(told.starts_with("intermediate_size: 8192, but expand × hidden_size is 65536"), "{told}");
    // transformers and vLLM agree on the width, so that a strict reading takes it too.
    assert!(read_config_text(&config.to_string(), Unknown::Refuse).is_ok());
    config["expand"] = json!(2);
    assert_eq!(slope(&config).1, "");
}

/// llm-foundry's `MultiQueryAttention` has one K/V head: 2 layers × 2 × 64 × 2 B; with `kv_n_heads` it is that count.
#[test]
fn mpts_attention_type_shares_one_head() {
    let mpt = |attention: Value| {
        json!({"model_type": "mpt", "n_layers": 2, "n_heads": 8, "d_model": 512, "max_seq_len": 2048,
            "torch_dtype": "bfloat16", "attn_config": attention})
    };
    let of = |attention: Value| slope(&mpt(attention)).0;
    assert_eq!(of(json!({"attn_type": "multiquery_attention", "alibi": true})), 2 * 2 * 64 * 2);
    assert_eq!(of(json!({"attn_type": "grouped_query_attention", "kv_n_heads": 2})), 2 * 2 * 2 * 64 * 2);
    assert_eq!(of(json!({"attn_type": "multihead_attention"})), 2 * 2 * 8 * 64 * 2);
}

#[test]
fn two_names_of_one_field_that_disagree_are_told() {
    let rows = [
        (json!({"num_kv_heads": 4}), "num_key_value_heads", "num_kv_heads says 4"),
        (json!({"n_head_kv": 4}), "num_key_value_heads", "n_head_kv says 4"),
        (json!({"n_head": 16}), "num_attention_heads", "n_head says 16"),
        (json!({"n_embd": 1024}), "hidden_size", "n_embd says 1024"),
        (json!({"kv_channels": 128}), "head_dim", "kv_channels says 128"),
        (json!({"n_layer": 3}), "num_hidden_layers", "n_layer says 3"),
        (json!({"torch_dtype": "float32"}), "dtype", "torch_dtype says \"float32\""),
        (
            json!({"max_position_embeddings": 4096, "n_positions": 2048}),
            "max_position_embeddings",
            "n_positions says 2048",
        ),
        (
            json!({"mamba_ssm_dtype": "float32", "mamba_ssm_cache_dtype": "float16"}),
            "mamba_ssm_dtype",
            "mamba_ssm_cache_dtype says",
        ),
    ];
    for (changes, place, other) in rows {
        let bytes = doubted(&with(&plain(), &changes), place, other);
        if place != "hidden_size" {
            assert_eq!(bytes, 2 * 2 * 8 * 64 * 2, "{place}: the first name is taken");
        }
    }
    let agreeing = json!({"num_kv_heads": 8, "n_layer": 2.0, "torch_dtype": "bf16", "n_positions": 0});
    assert_eq!(slope(&with(&plain(), &agreeing)).1, "");
}

#[test]
fn a_period_that_a_list_contradicts_is_told() {
    let windows = json!({"num_hidden_layers": 4, "sliding_window": 128, "sliding_window_pattern": 2, "layer_types":
        ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]});
    let agreeing = with(&plain(), &windows);
    assert_eq!(slope(&agreeing), (2 * 2 * 8 * 64 * 2, String::new()));
    let other = with(&agreeing, &json!({"sliding_window_pattern": 4}));
    assert_eq!(
        doubted(&other, "layer_types", "layer 1 is of another kind by sliding_window_pattern"),
        2 * 2 * 8 * 64 * 2
    );
    let delta = json!({"num_hidden_layers": 4, "full_attention_interval": 2, "layer_types":
        ["linear_attention", "linear_attention", "linear_attention", "full_attention"], "linear_num_key_heads": 2,
        "linear_num_value_heads": 2, "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4});
    let delta = with(&plain(), &delta);
    assert_eq!(doubted(&delta, "layer_types", "full_attention_interval"), 2 * 8 * 64 * 2);
    assert_eq!(slope(&with(&delta, &json!({"full_attention_interval": 4}))).1, "");
    let lists = json!({"hybrid_override_pattern": "*-", "layer_types": ["full_attention", "full_attention"]});
    assert_eq!(
        doubted(
            &with(&plain(), &lists),
            "layer_types",
            "layer 1 is of another kind by hybrid_override_pattern"
        ),
        2 * 2 * 8 * 64 * 2
    );
}

#[test]
fn a_list_of_heads_has_one_entry_a_layer() {
    for (heads, drafts, fits) in [
        (json!([8, 8]), 0, true),
        (json!([8, 8, 8]), 1, true),
        (json!([8, 8, 8]), 0, false),
        (json!([8, 8, 8, 8]), 1, false),
        (json!([8]), 0, false),
    ] {
        let listed = json!({"num_key_value_heads": heads, "num_nextn_predict_layers": drafts});
        let read = read_config(&with(&plain(), &listed).to_string());
        assert_eq!(read.is_ok(), fits, "{listed}: {read:?}");
        if let Err(error) = read {
            assert_eq!(error.place(), Some("num_key_value_heads"), "{error}");
        }
    }
}

#[test]
fn a_chunk_size_that_no_layer_uses_is_told() {
    let config = with(&plain(), &json!({"model_type": "llama", "attention_chunk_size": 8192}));
    assert_eq!(doubted(&config, "attention_chunk_size", "which layers are chunked"), 2 * 2 * 8 * 64 * 2);
}

/// Nemotron-H names both shapes whatever its pattern holds.
#[test]
fn a_shape_that_no_layer_of_a_pattern_has_is_no_doubt() {
    let both = json!({"model_type": "nemotron_h", "num_hidden_layers": 4, "hidden_size": 4096,
        "num_attention_heads": 32, "num_key_value_heads": 8, "attention_head_dim": 128, "ssm_state_size": 128,
        "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4, "dtype": "bfloat16"});
    for (pattern, bytes) in [("MMMM", 0), ("****", 4 * 2 * 8 * 128 * 2), ("M*M-", 2 * 8 * 128 * 2)] {
        let config = with(&both, &json!({"hybrid_override_pattern": pattern}));
        assert_eq!(slope(&config), (bytes, String::new()), "{pattern}");
        assert!(read_config_text(&config.to_string(), Unknown::Refuse).is_ok(), "{pattern}");
    }
}

#[test]
fn an_indexer_that_chooses_nothing_says_what_is_read() {
    let indexed = json!({"model_type": "deepseek_v32", "kv_lora_rank": 512, "qk_rope_head_dim": 64,
        "index_head_dim": 128, "index_n_heads": 64, "index_topk": 0});
    let (_, warnings) = slope(&with(&plain(), &indexed));
    assert_eq!(warnings, "index_topk: 0; a decode step is taken to read every token");
}
