//! Fields that single classes name or use in their own way.
//!
//! The right values are derived by hand from the modelling code that is named beside each test.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::configs;

use configs::{fixed, is_certain, slope, with, without};
use kvscope_sizing::{Settings, StateFormat, StateModel, Unknown, read_config, read_config_text};
use serde_json::{Value, json};

/// Ling 3.0 (transformers 5.24, `models/bailing_hybrid`; vLLM 0.33, `models/bailing_moe_v3`): the last of six layers keeps a
/// latent of 576 values, the others KDA with 32 heads of 128 × 128 and three columns of q, k and v.
#[test]
fn ling_3_is_kda_and_ling_2_lightning() {
    let ling = json!({"architectures": ["BailingMoeV3ForCausalLM"], "model_type": "bailing_hybrid",
        "dtype": "bfloat16", "num_hidden_layers": 42, "layer_group_size": 6, "hidden_size": 2560,
        "num_attention_heads": 32, "num_key_value_heads": 32, "q_lora_rank": null, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "head_dim": 128,
        "short_conv_kernel_size": 4, "no_kda_lora": true, "use_kda_lora": false, "kda_safe_gate": true,
        "kda_lower_bound": -5.0, "gated_attention_proj_granularity_type": "head_wise", "mtp_use_kda": false,
        "group_norm_size": 1, "num_kv_heads_for_linear_attn": 0});
    is_certain(&ling);
    assert_eq!(slope(&ling).0, 7 * 576 * 2);
    let state = 35 * (32 * 128 * 128 * 4 + 3 * 3 * 32 * 128 * 2);
    assert_eq!(fixed(&ling, Some(StateFormat::F32)), state);
    assert_eq!(state, 75_980_800);
    // Layers behind the last whole group keep latents too: 44 = 7 × 6 + 2.
    assert_eq!(slope(&with(&ling, &json!({"num_hidden_layers": 44}))).0, 9 * 576 * 2);
    // Ling 2.5 has none of KDA's fields: 32 heads of 128 × 128, and no convolution.
    let mut older = ling.clone();
    older.as_object_mut().unwrap().retain(|key, _| !key.contains("kda") && key != "short_conv_kernel_size");
    assert_eq!(fixed(&older, Some(StateFormat::F32)), 35 * 32 * 128 * 128 * 4);
}

/// SmallThinker-21B: 1 is a window, 0 is none (`configuration_smallthinker.py`); 13 of 52 layers keep every token.
#[test]
fn smallthinkers_layout_gives_the_windows() {
    let layout: Vec<u8> = (0..52).map(|index| u8::from(index % 4 != 0)).collect();
    let config = json!({"model_type": "smallthinker", "hidden_size": 2560, "num_attention_heads": 28,
        "num_hidden_layers": 52, "num_key_value_heads": 4, "head_dim": 128, "sliding_window_layout": layout,
        "rope_layout": layout, "sliding_window_size": 4096, "dtype": "bfloat16"});
    is_certain(&config);
    assert_eq!(slope(&config), (13 * 2 * 4 * 128 * 2, String::new()));
    assert_eq!(fixed(&config, None), 39 * 4096 * 2 * 4 * 128 * 2);
    // The small model has no layout, and its class no other rule: no window.
    assert_eq!(slope(&without(&config, "sliding_window_layout")).0, 52 * 2 * 4 * 128 * 2);
}

/// Baichuan-M1 (`modeling_baichuan.py`, and vLLM's port of it): 20 layers of 2 K/V heads of 5120 / 20, 20 windows of 8,192
/// tokens with 8 heads of 5120 / 40; each mixes K and V with those of the token before.
#[test]
fn baichuans_windows_have_heads_of_their_own() {
    let odd: Vec<u8> = (0..40).filter(|index| index % 2 == 1).collect();
    let config = json!({"model_type": "baichuan_m1", "num_hidden_layers": 40, "hidden_size": 5120,
        "num_attention_heads": 20, "num_key_value_heads": 2, "num_swa_attention_heads": 40,
        "num_swa_key_value_heads": 8, "sliding_window": 8192, "sliding_window_layers": odd, "conv_window": 2,
        "max_position_embeddings": 32768, "dtype": "bfloat16"});
    is_certain(&config);
    assert_eq!(slope(&config), (40_960, String::new()));
    let full = 2 * 2 * 256 * 2;
    let windowed = 2 * 8 * 128 * 2;
    assert_eq!(fixed(&config, None), 20 * 8192 * windowed + 20 * windowed + 20 * full);
    let beyond = with(&config, &json!({"sliding_window_layers": [1, 40]}));
    let error = read_config(&beyond.to_string()).unwrap_err();
    assert_eq!(error.place(), Some("sliding_window_layers[1]"));
}

/// ZAYA's CCA keeps two columns of 8 + 2 heads of 128 and the last hidden vector, as its first implementation does (370 KB a
/// request, <https://github.com/warpfront/hipfire/pull/191>).
#[test]
fn zayas_convolutions_keep_their_inputs() {
    let config = json!({"model_type": "zaya", "hidden_size": 2048, "head_dim": 128, "num_attention_heads": 8,
        "num_key_value_heads": 2, "num_hidden_layers": 40, "layer_types": null, "sliding_window": null,
        "cca_time0": 2, "cca_time1": 2, "dtype": "bfloat16"});
    is_certain(&config);
    assert_eq!(slope(&config).0, 40 * 2 * 2 * 128 * 2);
    assert_eq!(fixed(&config, None), 40 * (2 * 1280 + 2048) * 2);
    let mixed: Vec<&str> =
        (0..40).map(|index| if index % 4 == 0 { "hybrid" } else { "hybrid_sliding" }).collect();
    let windows = with(&config, &json!({"layer_types": mixed, "sliding_window": 4096}));
    assert_eq!(slope(&windows).0, 10 * 2 * 2 * 128 * 2);
}

/// RWKV keeps a matrix a head and no K/V, whatever K/V heads its config carries over from Qwen 2.
#[test]
fn an_rwkv_is_not_sized_as_attention() {
    let config = json!({"model_type": "rwkv6qwen2", "num_hidden_layers": 64, "hidden_size": 5120,
        "num_attention_heads": 40, "num_key_value_heads": 8, "dtype": "bfloat16"});
    let error = read_config(&config.to_string()).unwrap_err();
    assert_eq!(error.place(), Some("model_type"), "{error}");
}

/// openPangu-Ultra-MoE renames DeepSeek-V3's fields
/// (<https://github.com/ikawrakow/ik_llama.cpp/issues/671>): 61 latents of 512 + 64 values.
#[test]
fn pangus_latents_have_names_of_their_own() {
    let config = json!({"model_type": "pangu_ultra_moe", "num_hidden_layers": 61, "hidden_size": 7680,
        "num_attention_heads": 128, "num_key_value_heads": 128, "attention_q_lora_dim": 1536,
        "attention_kv_lora_dim": 512, "attention_qk_dim": 128, "attention_qk_rope_dim": 64,
        "attention_v_dim": 128, "num_dense_layers": 3, "dtype": "bfloat16"});
    is_certain(&config);
    assert_eq!(slope(&config), (61 * 576 * 2, String::new()));
}

/// `DeciLM` lists its K/V heads by layer, `SantaCoder` shares one by a word, Mistral's own file has short names.
#[test]
fn heads_by_other_names() {
    let deci = json!({"model_type": "deci", "num_hidden_layers": 4, "num_attention_heads": 32, "hidden_size": 4096,
        "num_key_value_heads_per_layer": [4, 1, 2, 4], "dtype": "bfloat16"});
    assert_eq!(slope(&deci), ((4 + 1 + 2 + 4) * 2 * 128 * 2, String::new()));
    // <https://huggingface.co/bigcode/santacoder>: 24 layers, one head of 2048 / 16.
    let santa = json!({"model_type": "gpt2", "n_layer": 24, "n_head": 16, "n_embd": 2048,
        "attention_head_type": "multiquery", "torch_dtype": "float32"});
    let strict = read_config_text(&santa.to_string(), Unknown::Refuse).unwrap();
    assert_eq!(strict.warnings(), []);
    assert_eq!(slope(&santa), (24 * 2 * 128 * 4, String::new()));
    assert_eq!(slope(&with(&santa, &json!({"attention_head_type": "multihead"}))).0, 24 * 2 * 2048 * 4);
    let other = with(&santa, &json!({"attention_head_type": "several"}));
    assert_eq!(read_config(&other.to_string()).unwrap_err().place(), Some("attention_head_type"));
    // Mistral-7B's `params.json`: 32 × 2 × 8 × 128 × 2 B; a list of windows repeats over the layers.
    let params = json!({"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32,
        "n_kv_heads": 8, "norm_eps": 1e-5, "vocab_size": 32768, "dtype": "bfloat16"});
    assert_eq!(slope(&params), (131_072, String::new()));
    let listed = with(&params, &json!({"sliding_window": [null, 4096, 4096, 4096]}));
    assert_eq!(slope(&listed).0, 131_072 / 4);
    assert_eq!(fixed(&listed, None), 24 * 4096 * 4096);
    // 0 is none, too, as openPangu writes it (vLLM 0.33, `models/openpangu`).
    let interleaved = with(&params, &json!({"interleaved_sliding_window": [4096, 0]}));
    assert_eq!(slope(&interleaved).0, 131_072 / 2);
    for wrong in [json!([null, 4096, 4096]), json!([null, 4096, 2048, 4096]), json!([])] {
        assert!(
            read_config(&with(&params, &json!({"sliding_window": wrong})).to_string()).is_err(),
            "{wrong}"
        );
    }
}

/// `MistralConfig` and `MixtralConfig` have 8 K/V heads where the config says nothing, and as many as query heads where it
/// says null; `Gemma3nTextConfig` lets the last 15 layers use earlier caches.
#[test]
fn a_class_knows_its_kv_heads() {
    let bare = |class: &str| {
        json!({"model_type": class, "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
            "sliding_window": null, "dtype": "bfloat16"})
    };
    for class in ["mistral", "mixtral"] {
        assert_eq!(slope(&bare(class)).0, 131_072, "{class}");
        assert_eq!(
            slope(&with(&bare(class), &json!({"num_key_value_heads": null}))).0,
            4 * 131_072,
            "{class}"
        );
    }
    let qwen = json!({"model_type": "qwen3_moe", "num_hidden_layers": 1, "hidden_size": 2048,
        "num_attention_heads": 32, "head_dim": 128, "dtype": "bfloat16"});
    assert_eq!(slope(&qwen).0, 2 * 4 * 128 * 2);
    let kinds: Vec<&str> =
        (0..35).map(|index| if index % 5 == 4 { "full_attention" } else { "sliding_attention" }).collect();
    let gemma = json!({"model_type": "gemma3n_text", "num_hidden_layers": 35, "hidden_size": 2048,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "sliding_window": 512,
        "layer_types": kinds, "dtype": "bfloat16"});
    // 4 of the first 20 layers are full.
    assert_eq!(slope(&gemma).0, 4 * 2 * 2 * 256 * 2);
    assert_eq!(slope(&with(&gemma, &json!({"num_kv_shared_layers": 0}))).0, 7 * 2 * 2 * 256 * 2);
    // The class's 15 of 12 layers: the message is about the absent field, where the text model would have it.
    let fewer = with(&gemma, &json!({"num_hidden_layers": 12}));
    let fewer = json!({"text_config": without(&fewer, "layer_types")});
    let error = read_config(&fewer.to_string()).unwrap_err();
    assert_eq!(error.place(), Some("text_config.num_kv_shared_layers"), "{error}");
}

/// T5-3B (<https://huggingface.co/google-t5/t5-3b/blob/main/config.json>): heads of 128 over a hidden size of 1024. A decoder
/// layer keeps its own K and V and those of the encoder's output.
#[test]
fn t5_decodes_with_both_attentions() {
    let t5 = json!({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 1024,
        "d_kv": 128, "d_ff": 16384, "num_heads": 32, "num_layers": 24, "is_encoder_decoder": true,
        "relative_attention_num_buckets": 32, "torch_dtype": "bfloat16"});
    is_certain(&t5);
    let settings = Settings { encoder_tokens: Some(512), ..Settings::default() };
    let figures = |config: &Value| {
        let architecture = read_config(&config.to_string()).unwrap();
        let state = StateModel::new(&architecture, &settings).unwrap();
        (state.slope(None).unwrap().whole().unwrap(), state.fixed(None).unwrap().get())
    };
    let entry = 2 * 32 * 128 * 2;
    assert_eq!(figures(&t5), (24 * entry, 24 * 512 * entry));
    assert_eq!(figures(&with(&t5, &json!({"num_decoder_layers": 6}))), (6 * entry, 6 * 512 * entry));
    // `T5EncoderModel` sets this to false.
    assert_eq!(figures(&with(&t5, &json!({"is_encoder_decoder": false}))), (0, 0));
}

/// Fields of published configs whose classes keep nothing by them: Falcon and Cohere run attention beside the MLP, MPT and DBRX
/// clip, Zamba2's layers share weights but not caches, Step-3 narrows its queries, Qwen2.5-1M reads in chunks what it keeps whole.
#[test]
fn what_keeps_nothing_is_certain() {
    let plain = json!({"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
        "hidden_size": 512, "dtype": "bfloat16"});
    for field in [
        json!({"parallel_attn": true}),
        json!({"use_parallel_block": true}),
        json!({"clip_qkv": 8}),
        json!({"layer_switch": 4}),
        json!({"num_mem_blocks": 2}),
        json!({"share_q_dim": 2048}),
        json!({"attn_rotary_emb": 64}),
        json!({"dual_chunk_attention_config": {"chunk_size": 262_144, "local_size": 8192}}),
    ] {
        let config = with(&plain, &field);
        is_certain(&config);
        assert_eq!(slope(&config), (2 * 2 * 8 * 64 * 2, String::new()), "{field}");
    }
    // llm-foundry's window limits what is read; its cache grows all the same.
    let mpt = json!({"model_type": "mpt", "n_layers": 2, "n_heads": 8, "d_model": 512, "torch_dtype": "bfloat16",
        "attn_config": {"attn_impl": "triton", "clip_qkv": 6, "attn_type": "grouped_query_attention", "kv_n_heads": 2,
        "sliding_window_size": -1}});
    is_certain(&mpt);
    assert_eq!(slope(&mpt), (2 * 2 * 2 * 64 * 2, String::new()));
    let mut windowed = mpt.clone();
    windowed["attn_config"]["sliding_window_size"] = json!(1024);
    let (bytes, warnings) = slope(&windowed);
    assert_eq!(bytes, 2 * 2 * 2 * 64 * 2);
    assert!(warnings.starts_with("attn_config.sliding_window_size: 1024; "), "{warnings}");
}

/// Zamba2 (`layers_block_type` and `hybrid_layer_ids` say the same): where only the indices are there, they decide.
#[test]
fn zambas_hybrid_layers_by_their_indices() {
    let zamba = json!({"model_type": "zamba2", "num_hidden_layers": 6, "hidden_size": 2560, "num_attention_heads": 32,
        "num_key_value_heads": 32, "attention_head_dim": 160, "n_mamba_heads": 80, "mamba_d_state": 64,
        "mamba_ngroups": 1, "mamba_d_conv": 4, "mamba_expand": 2, "hybrid_layer_ids": [2, 5], "num_mem_blocks": 2,
        "dtype": "bfloat16"});
    is_certain(&zamba);
    assert_eq!(slope(&zamba).0, 2 * 2 * 32 * 160 * 2);
    let kinds = ["mamba", "mamba", "hybrid", "mamba", "mamba", "hybrid"];
    let both = with(&zamba, &json!({"layers_block_type": kinds}));
    is_certain(&both);
    assert_eq!(slope(&both).0, slope(&zamba).0);
    let other = with(&both, &json!({"hybrid_layer_ids": [1, 5]}));
    assert!(read_config_text(&other.to_string(), Unknown::Refuse).is_err());
}

/// A list of windows says nothing of Mamba or cross-attention layers, so they may not be lost behind it (Phi-4-mini-flash's
/// `configuration_phi4flash.py` has both, Falcon-H1's `mamba_d_ssm` is of every layer, BART's decoders have cross-attention).
#[test]
fn windows_by_layer_hide_no_other_state() {
    let base = json!({"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2,
        "num_hidden_layers": 4, "dtype": "bfloat16"});
    for windows in [
        json!({"sliding_window": [128, null, 128, null]}),
        json!({"sliding_window": 128, "sliding_window_layout": [1, 0, 1, 0]}),
        json!({"sliding_window": 128, "hybrid_layer_pattern": [1, 0, 1, 0]}),
    ] {
        let windows = with(&base, &windows);
        assert_eq!(slope(&windows).0, 2 * 2 * 2 * 64 * 2, "two layers grow: {windows}");
        for beside in [
            json!({"mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}),
            json!({"mamba_d_ssm": 1024}),
            json!({"decoder_layers": 4}),
            json!({"cross_attention_layers": [1]}),
            json!({"layer_types": ["mamba", "full_attention", "mamba", "full_attention"]}),
        ] {
            let config = with(&windows, &beside);
            let error = read_config(&config.to_string()).unwrap_err().to_string();
            assert!(error.contains("which layers those are cannot be told"), "{config}: {error}");
        }
    }
}

/// BART (transformers `models/bart`): a decoder with the encoder's output keeps both, one that decodes alone its own K and V.
#[test]
fn decoders_of_pairs_are_certain() {
    let bart = json!({"model_type": "bart", "is_encoder_decoder": true, "d_model": 1024, "decoder_layers": 12,
        "decoder_attention_heads": 16, "encoder_layers": 12, "encoder_attention_heads": 16, "dtype": "bfloat16"});
    is_certain(&bart);
    let alone = with(&bart, &json!({"is_encoder_decoder": false}));
    is_certain(&alone);
    assert_eq!(slope(&alone).0, 12 * 2 * 1024 * 2);
}

/// `MiniMax-Text-01-hf`: what the class calls linear attention is lightning attention, a state of head width squared for each
/// of 64 heads in 70 of 80 layers. Without a list the class gives it to every second layer (transformers,
/// `models/minimax/configuration_minimax.py`).
#[test]
fn linear_layers_of_minimax_keep_lightning_states() {
    let names: Vec<&str> =
        (1..=80).map(|layer| if layer % 8 == 0 { "full_attention" } else { "linear_attention" }).collect();
    let base = json!({"model_type": "minimax", "hidden_size": 6144, "num_hidden_layers": 80, "block_size": 256,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "dtype": "bfloat16"});
    let fixed = |config: &Value| {
        let architecture = read_config_text(&config.to_string(), Unknown::Refuse).unwrap();
        let state = StateModel::new(&architecture, &Settings::default()).unwrap();
        state.fixed(None).unwrap().get()
    };
    let listed = with(&base, &json!({"layer_types": names}));
    assert_eq!((slope(&listed).0, fixed(&listed)), (10 * 2 * 8 * 128 * 2, 70 * 64 * 128 * 128 * 2));
    assert_eq!((slope(&base).0, fixed(&base)), (40 * 2 * 8 * 128 * 2, 40 * 64 * 128 * 128 * 2));
}

/// A list of windows is read entry by entry: numbers that Python writes with a point are the same, words are no windows.
#[test]
fn each_window_of_a_list_is_a_number() {
    let base = json!({"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2,
        "num_hidden_layers": 4, "dtype": "bfloat16"});
    let read = |windows: Value| read_config(&with(&base, &json!({"sliding_window": windows})).to_string());
    assert!(read(json!([128.0, 128, -1.0, 0.0])).is_ok());
    for (windows, place, what) in [
        (json!([128, "256"]), "sliding_window[1]", "expected a whole number"),
        (json!([128.5, null]), "sliding_window[0]", "expected a whole number"),
        (json!([null, 128, 256, 128]), "sliding_window[2]", "256, but sliding_window[1] says 128"),
    ] {
        let error = read(windows).unwrap_err();
        assert_eq!(error.place(), Some(place));
        assert!(error.to_string().contains(what), "{error}");
    }
}

/// Counts of K/V heads that contradict each other are told, and a list that is none is refused.
#[test]
fn contradicting_head_counts_are_doubts() {
    let base =
        json!({"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2, "dtype": "bfloat16"});
    let doubted = |fields: Value| {
        let config = with(&base, &fields);
        assert!(read_config_text(&config.to_string(), Unknown::Refuse).is_err(), "{config}");
        slope(&config)
    };
    let (bytes, told) = doubted(json!({"num_key_value_heads_per_layer": [4, 2], "num_key_value_heads": 8}));
    assert_eq!(bytes, (4 + 2) * 2 * 64 * 2);
    assert!(
        told.contains("num_key_value_heads_per_layer: no layer has 8, which num_key_value_heads says"),
        "{told}"
    );
    let (bytes, told) = doubted(json!({"attention_head_type": "multiquery", "num_key_value_heads": 8}));
    assert_eq!(bytes, 2 * 2 * 64 * 2);
    assert!(told.contains("attention_head_type: multiquery, but num_key_value_heads says 8"), "{told}");
    let text = with(&base, &json!({"num_key_value_heads_per_layer": "4"}));
    let error = read_config(&text.to_string()).unwrap_err();
    assert_eq!(error.place(), Some("num_key_value_heads_per_layer"));
}

/// Gemma 4's class reads `num_global_key_value_heads` only beside `attention_k_eq_v`, and heads of full attention are 512 wide where
/// the config says nothing (transformers 5.19, `Gemma4TextConfig.__post_init__`); vLLM 0.33 and SGLang 0.5.23 plan so. Its last
/// layer has full attention whatever the list says.
#[test]
fn gemma_4_has_global_heads_beside_its_flag_alone() {
    let gemma = |more: Value| {
        let shape = json!({"model_type": "gemma4_text", "num_hidden_layers": 3, "num_attention_heads": 16,
            "num_key_value_heads": 8, "num_global_key_value_heads": 2, "head_dim": 256, "hidden_size": 2816,
            "sliding_window": 1024, "layer_types": ["sliding_attention", "full_attention", "full_attention"],
            "dtype": "bfloat16"});
        let architecture = read_config(&with(&shape, &more).to_string()).unwrap();
        let told = architecture.warnings().iter().any(|warning| warning.field == "attention_k_eq_v");
        (slope(&with(&shape, &more)).0, told)
    };
    let token_of = |heads: u64, width: u64| 2 * heads * 2 * width * 2;
    assert_eq!(gemma(json!({"attention_k_eq_v": true})), (token_of(2, 512), false));
    assert_eq!(gemma(json!({"attention_k_eq_v": false})), (token_of(8, 512), false));
    assert_eq!(gemma(json!({"attention_k_eq_v": true, "global_head_dim": 384})), (token_of(2, 384), false));
    assert_eq!(gemma(json!({})), (token_of(2, 512), true));
    let last = json!({"attention_k_eq_v": true,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]});
    assert_eq!(gemma(last), (token_of(2, 512), false));
}

/// Embedding models made of decoders: `is_causal: false` (gte-Qwen2; vLLM 0.33, `models/qwen2.py`, takes encoder attention), Gemma's
/// own field (`EmbeddingGemma`), and classes that are encoders by themselves; Gemma 4 sees pictures both ways, text one way.
#[test]
fn what_sees_both_ways_keeps_nothing() {
    let base = json!({"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
        "hidden_size": 256, "dtype": "bfloat16"});
    for both_ways in [
        json!({"model_type": "qwen2", "is_causal": false}),
        json!({"model_type": "gemma3_text", "use_bidirectional_attention": true}),
        json!({"model_type": "gemma4_text", "use_bidirectional_attention": "all"}),
        json!({"model_type": "llada"}),
        json!({"model_type": "llama_bidirec"}),
    ] {
        assert_eq!(slope(&with(&base, &both_ways)).0, 0, "{both_ways}");
    }
    // `PaliGemmaConfig.__post_init__` turns it on for pictures, and generates with a cache.
    let paligemma = json!({"model_type": "paligemma",
        "text_config": with(&base, &json!({"model_type": "gemma", "use_bidirectional_attention": true}))});
    assert_eq!(slope(&paligemma).0, 2 * 2 * 2 * 64 * 2);
    let told = read_config(&with(&base, &json!({"is_causal": false})).to_string()).unwrap();
    assert!(told.warnings().iter().any(|warning| warning.field == "is_causal"));
    for one_way in [
        json!({"model_type": "qwen2", "is_causal": true}),
        json!({"model_type": "qwen3", "use_bidirectional_attention": "vision"}),
    ] {
        assert_eq!(slope(&with(&base, &one_way)).0, 2 * 2 * 2 * 64 * 2, "{one_way}");
    }
}

/// Names that say nothing of experts are not theirs, and a group size makes linear layers of Ling's classes alone.
#[test]
fn a_foreign_name_is_no_rule() {
    let llama = json!({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 64, "hidden_size": 256, "dtype": "bfloat16"});
    for foreign in
        [json!({"layer_group_size": 2}), json!({"n_shared_kv_layers": 8}), json!({"n_routed_kv": 3})]
    {
        let config = with(&llama, &foreign);
        assert_eq!(slope(&config).0, 2 * 2 * 2 * 64 * 2, "{foreign}");
        assert!(read_config_text(&config.to_string(), Unknown::Refuse).is_err(), "{foreign}");
    }
    let error = read_config(&with(&llama, &json!({"model_type": 7})).to_string()).unwrap_err().to_string();
    assert!(error.starts_with("model_type: expected a text"), "{error}");
}

/// Ettin's decoders name no kinds: every third layer from the first sees all, the others half of `local_attention`
/// (`ModernBertDecoderConfig`): 8 of 22 layers of 12 × 64 × 2 values grow, and 14 keep 64 tokens.
#[test]
fn decoders_of_modernbert_look_back_half_as_far() {
    let config = json!({"model_type": "modernbert-decoder", "hidden_size": 768, "num_hidden_layers": 22,
        "num_attention_heads": 12, "local_attention": 128, "global_attn_every_n_layers": 3, "dtype": "bfloat16"});
    let model = read_config(&config.to_string()).unwrap();
    let state = StateModel::new(&model, &Settings::default()).unwrap();
    let entry = 2 * 12 * 64 * 2;
    assert_eq!(state.slope(None).unwrap().whole(), Some(8 * entry));
    assert_eq!(state.fixed(None).unwrap().get(), 14 * 64 * entry);
}
