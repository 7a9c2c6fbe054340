//! What classes of transformers 5.19 leave unsaid: heads of windows, encoders without a cache, Mamba under another name.
//!
//! The right values are derived by hand from the configuration and modelling code that is named beside each test.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::configs;

use configs::{fixed, is_certain, slope, with, without};
use kvscope_sizing::StateFormat;
use serde_json::json;

/// `MiMoV2FlashConfig` and `MiMoV2FlashAttention` of transformers 5.19: the first layer and every sixth have full attention with
/// 4 K/V heads, the others a window of 128 with twice as many; K is 192 values wide, V 128.
#[test]
fn mimos_windows_have_twice_the_heads() {
    let own = json!({"model_type": "mimo_v2_flash", "num_hidden_layers": 12, "num_attention_heads": 64,
        "hidden_size": 4096, "dtype": "bfloat16"});
    let (full, windows) = (3 * 4 * (192 + 128) * 2, 9 * 128 * 8 * (192 + 128) * 2);
    assert_eq!((slope(&own).0, fixed(&own, None)), (full, windows));
    assert!(slope(&own).1.contains("swa_num_key_value_heads: absent; 8 is taken, 2 × num_key_value_heads"));
    let pattern = [0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0];
    let stated = with(
        &own,
        &json!({"hybrid_layer_pattern": pattern, "num_key_value_heads": 4, "head_dim": 192,
        "v_head_dim": 128, "sliding_window": 128}),
    );
    assert_eq!((slope(&stated).0, fixed(&stated, None)), (full, windows));
    // vLLM's and SGLang's `mimo_v2.py` read the field where it is there.
    let other = with(&stated, &json!({"swa_num_key_value_heads": 2}));
    assert_eq!((slope(&other).0, fixed(&other, None)), (full, windows / 4));
}

/// transformers 5.19: the modelling code of these classes has no cache; that of the second list has one where `is_decoder` is
/// true (`if self.config.is_decoder: use_cache = …`, else `use_cache = False`).
#[test]
fn encoders_keep_nothing_unless_they_decode() {
    let of = |class: &str| {
        json!({"model_type": class, "num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 512,
            "intermediate_size": 2048, "attention_window": [512, 512], "layer_types": ["full_attention", "sliding_attention"],
            "dtype": "bfloat16"})
    };
    for class in [
        "deberta",
        "deberta-v2",
        "eurobert",
        "gte",
        "jina_embeddings_v3",
        "luke",
        "longformer",
        "layoutlm",
        "layoutlmv2",
        "layoutlmv3",
        "vit",
        "wav2vec2",
        "mpnet",
        "modernbert",
        "distilbert",
        "albert",
        "embedding_gemma2_text",
        "flaubert",
        "funnel",
        "xlm",
    ] {
        let config = of(class);
        assert_eq!(slope(&config).0, 0, "{class}");
        is_certain(&config);
    }
    for class in [
        "bert",
        "bert-generation",
        "big_bird",
        "camembert",
        "data2vec-text",
        "electra",
        "ernie",
        "esm",
        "megatron-bert",
        "rembert",
        "roberta",
        "roformer",
        "tapas",
        "xlm-roberta",
        "xlm-roberta-xl",
    ] {
        let config = without(&of(class), "layer_types");
        assert_eq!(slope(&config).0, 0, "{class}");
        is_certain(&config);
        // Two layers, K and V, 512 values each, 2 bytes.
        let decoder = with(&config, &json!({"is_decoder": true}));
        assert_eq!(slope(&decoder).0, 2 * 2 * 512 * 2, "{class}");
    }
}

/// transformers 5.19 writes `mamba` as `linear_attention` (`_LEGACY_LAYER_TYPE_REMAP`). A layer of Mamba-2 keeps heads × width ×
/// state values in f32 here, and three columns of heads × width + 2 × groups × state values in bf16.
#[test]
fn linear_attention_is_mamba_in_mambas_classes() {
    let state = |heads: u64, width: u64, state: u64, groups: u64| {
        heads * width * state * 4 + 3 * (heads * width + 2 * groups * state) * 2
    };
    let base = json!({"num_hidden_layers": 3, "num_attention_heads": 32, "num_key_value_heads": 8,
        "hidden_size": 4096, "dtype": "bfloat16"});
    let f32 = Some(StateFormat::F32);
    let granite = with(
        &base,
        &json!({"model_type": "granitemoehybrid", "mamba_n_heads": 128, "mamba_d_head": 64,
        "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_chunk_size": 256}),
    );
    let listed =
        with(&granite, &json!({"layer_types": ["linear_attention", "full_attention", "linear_attention"]}));
    let attention = 2 * 8 * 128 * 2;
    assert_eq!(
        (slope(&listed), fixed(&listed, f32)),
        ((attention, String::new()), 2 * state(128, 64, 128, 1))
    );
    is_certain(&listed);
    let nemotron = with(
        &base,
        &json!({"model_type": "nemotron_h", "head_dim": 128, "ssm_state_size": 128,
        "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4, "expand": 2, "chunk_size": 128,
        "mtp_layers_block_type": ["full_attention", "moe"], "num_nextn_predict_layers": 0,
        "layers_block_type": ["linear_attention", "moe", "full_attention"]}),
    );
    assert_eq!(
        (slope(&nemotron), fixed(&nemotron, f32)),
        ((attention, String::new()), state(128, 64, 128, 8))
    );
    is_certain(&nemotron);
    // Zamba2: hybrid layers have attention over two hidden states and a Mamba block; heads are as many as query heads.
    let zamba = json!({"model_type": "zamba2", "num_hidden_layers": 3, "num_attention_heads": 32, "num_key_value_heads": 32,
        "hidden_size": 2560, "attention_hidden_size": 5120, "attention_head_dim": 160, "mamba_d_state": 64, "mamba_d_conv": 4,
        "mamba_expand": 2, "mamba_ngroups": 1, "n_mamba_heads": 8, "mamba_headdim": 640, "hybrid_layer_ids": [1],
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention"], "dtype": "bfloat16"});
    assert_eq!((slope(&zamba).0, fixed(&zamba, f32)), (2 * 32 * 160 * 2, 3 * state(8, 640, 64, 1)));
    // Without a list these two classes have no attention.
    let bamba = with(&granite, &json!({"model_type": "bamba", "attn_layer_indices": null}));
    for (config, told) in [(&bamba, "attn_layer_indices: null; "), (&granite, "layer_types: absent; ")] {
        let (bytes, warnings) = slope(config);
        assert_eq!((bytes, fixed(config, f32)), (0, 3 * state(128, 64, 128, 1)));
        assert!(warnings.starts_with(told), "{warnings}");
    }
}
