//! Classes whose configs name things in ways of their own: fields that only they have, and what they leave to their class.
//!
//! The right values are derived by hand from the classes' code, which each test names.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::configs;

use configs::{slope, with};
use kvscope_sizing::{Settings, StateModel, Unknown, read_config, read_config_text};
use serde_json::{Value, json};

fn fixed(config: &Value) -> u64 {
    let architecture = read_config(&config.to_string()).unwrap();
    StateModel::new(&architecture, &Settings::default()).unwrap().fixed(None).unwrap().get()
}

fn refused(config: &Value) -> String {
    read_config(&config.to_string()).unwrap_err().to_string()
}

/// BLOOM-176B (`BloomConfig.attribute_map`): 70 layers, 112 heads of 128.
#[test]
fn blooms_width_has_a_name_of_its_own() {
    let bloom = json!({"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112,
        "dtype": "bfloat16"});
    assert_eq!(slope(&bloom).0, 70 * 2 * 14336 * 2);
}

/// XGLM-564M (`XGLMConfig`): 24 layers, 16 heads of 64.
#[test]
fn xglms_heads_have_a_name_of_their_own() {
    let xglm = json!({"model_type": "xglm", "d_model": 1024, "num_layers": 24, "attention_heads": 16,
        "dtype": "bfloat16"});
    assert_eq!(slope(&xglm).0, 24 * 2 * 1024 * 2);
}

/// `LLaVA`-1.5-7B: its text model says no more than its class, which has 32 layers of 32 heads of 128 (`LlamaConfig`).
#[test]
fn text_models_may_leave_their_shape_to_their_class() {
    let llava =
        json!({"model_type": "llava", "text_config": {"model_type": "llama", "torch_dtype": "float16"}});
    let (bytes, told) = slope(&llava);
    assert_eq!(bytes, 32 * 2 * 32 * 128 * 2);
    assert!(told.contains("text_config.num_hidden_layers: absent; 32, the default"), "{told}");
}

/// GPT-Neo-2.7B (`GPTNeoConfig`): every second of 32 layers is local with 256 tokens, 20 heads of 128; by either list.
#[test]
fn gpt_neos_local_layers_keep_a_window() {
    let base = json!({"model_type": "gpt_neo", "hidden_size": 2560, "num_layers": 32, "num_heads": 20,
        "window_size": 256, "dtype": "float16", "attention_types": [[["global", "local"], 16]]});
    let names: Vec<&str> = (0..32).map(|layer| if layer % 2 == 0 { "global" } else { "local" }).collect();
    for config in [base.clone(), with(&base, &json!({"attention_layers": names}))] {
        assert_eq!((slope(&config).0, fixed(&config)), (16 * 10_240, 16 * 256 * 10_240), "{config}");
        assert!(read_config_text(&config.to_string(), Unknown::Refuse).is_ok(), "{config}");
    }
    let other = with(&base, &json!({"attention_types": [[["global", "near"], 16]]}));
    assert!(refused(&other).contains("unknown layer kind"));
    let endless = with(&base, &json!({"attention_types": [[["global"], 4_000_000_000_u64]]}));
    assert!(refused(&endless).contains("more than 10000 layers"));
}

/// Zamba-7B-v1's blocks are Mamba-1 in two heads (`ZambaConfig`, `modeling_zamba.py`): a state of 7424 × 16 and a
/// convolution of 7424 × 4 in each of 2 layers. Heads of attention share twice the hidden width.
#[test]
fn zambas_blocks_are_mamba_1_and_its_heads_are_twice_as_wide() {
    let zamba = json!({"model_type": "zamba", "hidden_size": 3712, "num_hidden_layers": 2, "mamba_d_state": 16,
        "mamba_d_conv": 4, "mamba_expand": 2, "n_mamba_heads": 2, "num_attention_heads": 16,
        "num_key_value_heads": 16, "layers_block_type": ["mamba", "hybrid"], "dtype": "bfloat16"});
    assert_eq!(slope(&zamba).0, 2 * 16 * (2 * 3712 / 16) * 2);
    let stated = with(&zamba, &json!({"attention_hidden_size": 7424, "attention_head_dim": 464}));
    assert_eq!(slope(&stated).0, slope(&zamba).0);
    let conv = fixed(&zamba) - 2 * 7424 * 16 * 2;
    assert!([3, 4].iter().any(|taps| conv == 2 * 7424 * taps * 2), "{conv}");
}

/// A state that no mixer describes is refused by its class, not sized as attention (flash-linear-attention's classes).
#[test]
fn recurrent_classes_of_a_library_are_refused() {
    for class in ["gated_deltanet", "gla", "delta_net", "hgrn2", "ttt", "based", "retnet"] {
        let config = json!({"model_type": class, "hidden_size": 2048, "num_hidden_layers": 21, "num_heads": 6,
            "head_dim": 256, "dtype": "bfloat16"});
        assert!(refused(&config).contains("not modelled"), "{class}");
    }
    let package = json!({"d_model": 2560, "n_layer": 64, "ssm_cfg": {}, "dtype": "bfloat16"});
    assert!(refused(&package).starts_with("ssm_cfg: "));
}

/// What another rule reads, or what is of an image's tower, is no doubt: `AFMoE`'s period beside its list, Llama 3.2
/// Vision's tower, Zamba2's switches.
#[test]
fn fields_that_cannot_matter_are_certain() {
    let afmoe = json!({"model_type": "afmoe", "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2,
        "num_hidden_layers": 4, "sliding_window": 128, "global_attn_every_n_layers": 4, "dtype": "bfloat16",
        "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]});
    assert!(read_config_text(&afmoe.to_string(), Unknown::Refuse).is_ok());
    let other = with(&afmoe, &json!({"global_attn_every_n_layers": 2}));
    assert!(read_config_text(&other.to_string(), Unknown::Refuse).is_err());
    let mllama = json!({"model_type": "mllama", "text_config": {"model_type": "mllama_text_model", "hidden_size": 512,
        "num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 4, "cross_attention_layers": [3],
        "dtype": "bfloat16"}, "vision_config": {"attention_heads": 16, "num_global_layers": 8, "image_size": 560,
        "patch_size": 14, "max_num_tiles": 4}});
    assert!(read_config_text(&mllama.to_string(), Unknown::Refuse).is_ok());
    assert_eq!(
        fixed(&mllama),
        2 * 2 * 64 * 2 * (4 * (40 * 40 + 1)),
        "one cross layer over an image's tokens"
    );
}
