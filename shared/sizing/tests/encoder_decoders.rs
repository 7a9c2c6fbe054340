//! Decoders that stand beside an encoder: each layer keeps its own K and V and those of the encoder's output.
//!
//! Source: the configuration and attention classes of transformers 5.19 named at each model, and the caches that they fill.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::{Settings, StateModel, Tokens, read_config};
use serde_json::{Value, json};

/// Bytes of K and V of the text, of its windows and of the encoder's output, at 48 tokens beside 100.
fn parts(config: &Value) -> [u64; 3] {
    let settings = Settings { encoder_tokens: Some(100), ..Settings::default() };
    let state = StateModel::new(&read_config(&config.to_string()).unwrap(), &settings).unwrap();
    let size = state.size("", Some(Tokens::new(48)), 1, &settings).unwrap();
    ["kv", "window_kv", "cross_kv"].map(|kind| {
        let of_kind = size.components.iter().filter(|part| part.kind.name() == kind);
        of_kind.map(|part| part.bytes.unwrap().get()).sum()
    })
}

/// `MoonshineConfig`: the decoder's layers and heads by names of their own, 288 / 8 values a head, padded for the kernel only.
#[test]
fn moonshine_names_its_decoder() {
    let config = json!({"model_type": "moonshine", "hidden_size": 288, "decoder_num_hidden_layers": 6,
        "decoder_num_attention_heads": 8, "decoder_num_key_value_heads": 8, "encoder_num_hidden_layers": 6,
        "encoder_num_attention_heads": 8, "pad_head_dim_to_multiple_of": 8, "dtype": "bfloat16"});
    assert_eq!(parts(&config), [6 * 48 * 8 * 36 * 2 * 2, 0, 6 * 100 * 8 * 36 * 2 * 2]);
}

/// `Pop2PianoConfig`: a T5 whose decoder has as many layers as its encoder where nothing is said.
#[test]
fn pop2piano_is_a_pair() {
    let config = json!({"model_type": "pop2piano", "d_model": 512, "d_kv": 64, "num_layers": 6, "num_heads": 8,
        "dtype": "bfloat16"});
    assert_eq!(parts(&config), [6 * 48 * 8 * 64 * 2 * 2, 0, 6 * 100 * 8 * 64 * 2 * 2]);
}

/// `CanaryConfig` and `CohereAsrConfig`: a decoder's config of its own, or the fields of the decoder beside an encoder's.
#[test]
fn speech_decoders_are_pairs() {
    let decoder = json!({"num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 128,
        "hidden_size": 1024, "dtype": "bfloat16"});
    let encoder = json!({"num_hidden_layers": 32, "num_attention_heads": 8, "hidden_size": 1024});
    let nested = json!({"model_type": "canary", "is_encoder_decoder": true, "decoder_config": decoder,
        "encoder_config": encoder});
    let mut flat = decoder;
    flat["model_type"] = "cohere_asr".into();
    flat["encoder_config"] = encoder;
    let right = [8 * 48 * 8 * 128 * 2 * 2, 0, 8 * 100 * 8 * 128 * 2 * 2];
    assert_eq!([parts(&nested), parts(&flat)], [right; 2]);
}

/// `DiaConfig`: 4 heads of K and V for the text, and 16 in cross-attention.
#[test]
fn cross_attention_may_have_heads_of_its_own() {
    let config = json!({"model_type": "dia", "is_encoder_decoder": true,
        "decoder_config": {"num_hidden_layers": 18, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128,
            "cross_num_attention_heads": 16, "cross_num_key_value_heads": 16, "cross_head_dim": 128, "cross_hidden_size": 1024,
            "dtype": "bfloat16"},
        "encoder_config": {"num_hidden_layers": 12, "num_attention_heads": 16}});
    assert_eq!(parts(&config), [18 * 48 * 4 * 128 * 2 * 2, 0, 18 * 100 * 16 * 128 * 2 * 2]);
}

/// `T5GemmaConfig`: windows and full attention in turn over the text, and cross-attention in every layer.
#[test]
fn windows_may_stand_beside_cross_attention() {
    let config = json!({"model_type": "t5gemma", "is_encoder_decoder": true,
        "decoder": {"num_hidden_layers": 4, "is_encoder_decoder": false, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
            "sliding_window": 16, "dtype": "bfloat16",
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]},
        "encoder": {"num_hidden_layers": 4, "num_attention_heads": 8}});
    let entry = 4 * 256 * 2 * 2;
    assert_eq!(parts(&config), [2 * 48 * entry, 2 * 16 * entry, 4 * 100 * entry]);
}

/// `VisionEncoderDecoderConfig`: any decoder with `add_cross_attention`.
#[test]
fn any_decoder_may_stand_beside_an_encoder() {
    let config = json!({"model_type": "vision-encoder-decoder",
        "decoder": {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "is_decoder": true,
            "add_cross_attention": true, "dtype": "bfloat16"},
        "encoder": {"model_type": "vit", "num_hidden_layers": 12, "num_attention_heads": 12}});
    assert_eq!(parts(&config), [12 * 48 * 768 * 2 * 2, 0, 12 * 100 * 768 * 2 * 2]);
}

/// `MusicgenMelodyDecoderLayer` has attention to its own text alone, of which the encoder's output is a prefix; BLT's stacks of layers
/// are no pair, and no one of them is the model.
#[test]
fn what_looks_like_a_pair_may_be_none() {
    let decoder =
        json!({"num_hidden_layers": 24, "num_attention_heads": 16, "hidden_size": 1024, "dtype": "bfloat16"});
    let melody = json!({"model_type": "musicgen_melody", "is_encoder_decoder": true, "decoder": decoder});
    assert_eq!(parts(&melody), [24 * 48 * 1024 * 2 * 2, 0, 0]);
    let blt = json!({"model_type": "blt", "decoder_config": {"model_type": "blt_local_decoder", "num_hidden_layers": 9,
        "num_attention_heads": 16, "hidden_size": 1024}, "global_config": {"num_hidden_layers": 25}});
    let error = read_config(&blt.to_string()).unwrap_err().to_string();
    assert!(error.contains("a byte model of three stacks of layers is not modelled"), "{error}");
}
