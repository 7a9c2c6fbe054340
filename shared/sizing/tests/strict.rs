//! Fields that no rule has read: none in the configs that are known, a doubt or an error where they speak of state.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::{Unknown, catalogue, read_config_object, read_config_text};
use serde_json::{Value, json};

const CASES: [&str; 4] = [
    include_str!("data/cases/public-a.jsonl"),
    include_str!("data/cases/run-vllm-a.jsonl"),
    include_str!("data/cases/run-sglang-a.jsonl"),
    include_str!("data/cases/run-llamacpp-a.jsonl"),
];

#[test]
fn the_catalogue_has_no_field_without_a_rule_or_a_reason() {
    let refused: Vec<String> = catalogue()
        .iter()
        .filter_map(|entry| {
            let error = read_config_object(&entry.config, Unknown::Refuse).err()?;
            Some(format!("{}: {error}", entry.id))
        })
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Strictness changes nothing else: a case's config is read or refused alike, with the same warnings.
#[test]
fn the_cases_have_no_field_without_a_rule_or_a_reason() {
    let mut read = 0;
    for line in CASES.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty()) {
        let row: Value = serde_json::from_str(line).unwrap();
        let Some(config) = row.get("config").filter(|config| config.is_object()) else { continue };
        let id = &row["id"];
        let loose = read_config_object(config, Unknown::Warn).map(|read| read.warnings().to_vec());
        let strict = read_config_object(config, Unknown::Refuse).map(|read| read.warnings().to_vec());
        assert_eq!(loose, strict, "{id}");
        read += usize::from(loose.is_ok());
    }
    assert!(read > 30, "{read} configs");
}

/// The fields of published configs that have nothing to do with state: DeepSeek-V3, Gemma 3, Falcon-H1, LFM2.
#[test]
fn whole_published_configs_pass() {
    let dense = json!({"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
               "dtype": "bfloat16"});
    let rows = [
        json!({"aux_loss_alpha": 0.001, "ep_size": 1, "first_k_dense_replace": 3, "moe_layer_freq": 1, "n_group": 8,
               "norm_topk_prob": true, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "seq_aux": true,
               "topk_group": 4, "topk_method": "noaux_tc", "rope_theta": 10000, "attention_bias": false,
               "initializer_range": 0.02, "pretraining_tp": 1, "use_cache": true, "tie_word_embeddings": false,
               "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}),
        json!({"attn_logit_softcapping": 50.0, "query_pre_attn_scalar": 256, "rope_local_base_freq": 10000.0,
               "cache_implementation": "hybrid", "final_logit_softcapping": 30.0, "mm_tokens_per_image": 256,
               "boi_token_index": 255_999, "vision_config": {"num_hidden_layers": 27}}),
        json!({"attention_in_multiplier": 1.0, "key_multiplier": 0.5, "lm_head_multiplier": 0.04,
               "mamba_chunk_size": 256, "mamba_conv_bias": true, "mamba_rms_norm": true, "mamba_use_mlp": true,
               "mlp_expansion_factor": 8, "ssm_in_multiplier": 1.2, "ssm_multipliers": [1.0, 2.0]}),
        json!({"block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256,
               "block_norm_eps": 1e-5, "conv_bias": true, "conv_dim_out": 2048}),
    ];
    for row in rows {
        let mut config = dense.clone();
        config.as_object_mut().unwrap().extend(row.as_object().unwrap().clone());
        let read = read_config_object(&config, Unknown::Refuse);
        let warned: Vec<String> = read_config_object(&config, Unknown::Warn)
            .unwrap()
            .warnings()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(read.is_ok() && warned.is_empty(), "{row}: {:?} {warned:?}", read.err());
    }
}

#[test]
fn a_field_that_speaks_of_state_is_a_doubt_or_an_error() {
    let dense = json!({"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
               "dtype": "bfloat16"});
    let rows = [
        (json!({"memory_heads": 4}), "memory_heads"),
        (json!({"kv_mixing_stride": 4}), "kv_mixing_stride"),
        (json!({"text_config": dense, "attention_memory_blocks": [1, 2]}), "attention_memory_blocks"),
        (
            json!({"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}),
            "quantization_config.kv_cache_scheme",
        ),
        (
            json!({"layer_types": ["linear_attention", "full_attention"], "linear_attn_config": {"num_heads": 2, "head_dim": 64,
                "short_conv_kernel_size": 4, "state_copies": 2}}),
            "linear_attn_config.state_copies",
        ),
    ];
    for (fields, path) in rows {
        let mut config = dense.clone();
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let read = read_config_object(&config, Unknown::Warn).unwrap();
        assert!(read.warnings().iter().any(|warning| warning.field == path), "{path}: {:?}", read.warnings());
        let error = read_config_object(&config, Unknown::Refuse).unwrap_err();
        assert_eq!(error.place(), Some(path), "{error}");
    }
    // Null, false, zero and empty switch nothing on.
    for off in [Value::Null, json!(false), json!(0), json!([])] {
        let mut config = dense.clone();
        config["memory_heads"] = off;
        assert!(read_config_object(&config, Unknown::Refuse).is_ok(), "{config}");
    }
}

/// vLLM and SGLang follow such a scheme or not by its exporter, so that its field is no unknown one.
#[test]
fn a_checkpoints_format_that_is_not_read_is_left_to_the_engine() {
    let config = json!({"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
        "dtype": "bfloat16", "quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": {"type": "int",
        "num_bits": 8}}});
    let read = read_config_object(&config, Unknown::Warn).unwrap();
    let told: Vec<String> = read.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("quantization_config.kv_cache_scheme: asks for a K/V format;"), "{told:?}");
    assert!(told[0].contains("left to the engine"), "{told:?}");
    let refused = read_config_object(&config, Unknown::Refuse).unwrap_err().to_string();
    assert!(refused.contains("left to the engine") && !refused.contains("no rule knows"), "{refused}");
}

/// A class of the reader's own is read by its fields, as engines that load remote code would not; `--strict` does not refuse
/// it, as none of its fields is in doubt.
#[test]
fn a_class_that_nobody_knows_is_told() {
    let of = |class: &str| {
        let config = json!({"model_type": class, "num_hidden_layers": 2, "num_attention_heads": 8, "head_dim": 64,
            "num_key_value_heads": 2, "dtype": "bfloat16"});
        let architecture = read_config_text(&config.to_string(), Unknown::Refuse).unwrap();
        architecture.warnings().iter().map(|warning| warning.field.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("llama"), [""; 0]);
    assert_eq!(of("llama9"), ["model_type"]);
}
