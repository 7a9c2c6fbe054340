//! Layers that run several times: every pass keeps what its class says, and the weights count once.
//!
//! The right values are derived by hand from the modelling code that is named beside each test.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::configs;
use crate::support::gguf_file;

use configs::{slope, with};
use gguf_file::{GgufFile, Value as Key};
use kvscope_sizing::engine::{Query, Rest, reservation};
use kvscope_sizing::parameters::Parameters;
use kvscope_sizing::{
    Architecture, GgufRead, Settings, StateModel, Unknown, read_config, read_config_text, read_gguf,
};
use serde_json::{Value, json};

fn nanbeige() -> Value {
    json!({"architectures": ["NanbeigeForCausalLM"], "model_type": "nanbeige", "hidden_size": 3072,
        "intermediate_size": 10752, "num_hidden_layers": 22, "num_attention_heads": 48, "num_key_value_heads": 8,
        "head_dim": 128, "max_position_embeddings": 262_144, "num_loops": 2, "loop_loss_weights": [],
        "skip_loop_final_norm": false, "vocab_size": 166_144, "torch_dtype": "bfloat16"})
}

fn fixed(architecture: &Architecture) -> u64 {
    StateModel::new(architecture, &Settings::default()).unwrap().fixed(None).unwrap().get()
}

/// Two passes of 22 layers have 44 caches (<https://github.com/ggml-org/llama.cpp/pull/25994>): 44 × 2 × 8 × 128 × 2 B.
#[test]
fn every_pass_has_a_cache_of_its_own() {
    let (bytes, warnings) = slope(&nanbeige());
    assert_eq!(bytes, 180_224);
    assert_eq!(
        warnings,
        "num_loops: layers 0 to 21 run 2 times with the same weights; layers 22 to 43 are the later passes: each has a \
         cache of its own"
    );
    assert!(read_config_text(&nanbeige().to_string(), Unknown::Refuse).is_ok(), "a loop is no doubt");
    let architecture = read_config(&nanbeige().to_string()).unwrap();
    assert_eq!((architecture.layer_count(), architecture.own_layers()), (44, 22));
    assert_eq!(
        (architecture.weights_of(21), architecture.weights_of(22), architecture.weights_of(43)),
        (21, 0, 21)
    );
    assert_eq!(slope(&with(&nanbeige(), &json!({"num_loops": 1}))), (90_112, String::new()));
    assert!(read_config(&with(&nanbeige(), &json!({"num_loops": 4096})).to_string()).is_err());
}

/// Over 2 pipeline ranks of vLLM each has 11 layers and runs both passes of them: 22 caches of 4096 B a token, and nothing is
/// left between them and dense bytes.
#[test]
fn a_pipeline_rank_runs_all_passes_of_its_layers() {
    let architecture = read_config(&nanbeige().to_string()).unwrap();
    let settings = Settings { context: Some(100_000), pp: Some(2), ..Settings::default() };
    let found = reservation(&Query::new(&architecture, "vllm@0.33".parse().unwrap(), &settings).unwrap());
    let found = found.unwrap();
    assert_eq!((found.reserved.get(), found.rest), (100_000 * 22 * 4096, Rest::None));
}

/// `_get_double_loop_split_layer_order`: of 22 layers the middle 11 run (22 + 11) / 11 = 3 times, 11 + 33 in all.
#[test]
fn a_split_loop_repeats_the_middle() {
    let split = with(&nanbeige(), &json!({"enable_double_loop_split": true}));
    assert_eq!(slope(&split).0, (11 + 33) * 2 * 8 * 128 * 2);
    let architecture = read_config(&split.to_string()).unwrap();
    assert_eq!(architecture.loops().unwrap().range, 5..16);
    // The split goes by no count of loops: absent, the class's own is 1, and the weights of losses are for whole passes.
    let mut alone = split.clone();
    alone.as_object_mut().unwrap().retain(|key, _| key != "num_loops");
    assert_eq!(slope(&alone).0, 180_224);
    assert_eq!(slope(&with(&split, &json!({"loop_loss_weights": [0.5, 0.5]}))).0, 180_224);
    // `_apply_loop_shared_kv`: later passes take the first one's K and V.
    let (bytes, warnings) = slope(&with(&split, &json!({"loop_share_kv": true})));
    assert_eq!(bytes, 22 * 2 * 8 * 128 * 2);
    assert!(warnings.contains("they read the first one's cache (loop_share_kv = true)"), "{warnings}");
    assert!(warnings.starts_with("enable_double_loop_split: (22 + 11) / 11 passes"), "{warnings}");
    let wider = with(&split, &json!({"loop_middle_layers": 2, "loop_middle_repeats": 5}));
    assert_eq!(slope(&wider).0, (20 + 10) * 2 * 8 * 128 * 2);
}

fn refused(config: &Value) -> kvscope_sizing::Error {
    read_config(&config.to_string()).unwrap_err()
}

/// `_hyper_connection_validation` of Nanbeige's configuration class: a middle that divides the layers, an even number of
/// them where none is stated, and shared caches with the split alone.
#[test]
fn what_nanbeiges_class_refuses_is_refused() {
    let split = with(&nanbeige(), &json!({"enable_double_loop_split": true}));
    for middle in [0, 4, 23] {
        let error = refused(&with(&split, &json!({"loop_middle_layers": middle})));
        assert_eq!(error.place(), Some("loop_middle_layers"), "{error}");
    }
    let odd = refused(&with(&split, &json!({"num_hidden_layers": 21})));
    assert_eq!(odd.place(), Some("enable_double_loop_split"), "{odd}");
    for loops in [1, 2] {
        let shared = with(&nanbeige(), &json!({"loop_share_kv": true, "num_loops": loops}));
        assert_eq!(refused(&shared).place(), Some("loop_share_kv"));
    }
}

/// `_get_num_loops` of Nanbeige's modelling code: as many passes as there are weights of losses, and one more, whatever
/// `num_loops` says.
#[test]
fn weights_of_losses_set_the_passes() {
    let one = with(&nanbeige(), &json!({"loop_loss_weights": [0.5]}));
    assert_eq!(slope(&one).0, 2 * 90_112);
    let mut alone = one.clone();
    alone.as_object_mut().unwrap().remove("num_loops");
    let (bytes, warnings) = slope(&alone);
    assert_eq!(bytes, 180_224);
    assert!(
        warnings.starts_with("loop_loss_weights: 1 entry and one pass more; layers 0 to 21"),
        "{warnings}"
    );
    let two = with(&nanbeige(), &json!({"loop_loss_weights": [0.3, 0.3]}));
    let (bytes, warnings) = slope(&two);
    assert_eq!(bytes, 3 * 90_112);
    assert!(warnings.contains("num_loops: 2, but loop_loss_weights has 2 entries"), "{warnings}");
    assert!(read_config_text(&one.to_string(), Unknown::Refuse).is_ok());
    assert!(read_config_text(&two.to_string(), Unknown::Refuse).is_err(), "a contradiction is a doubt");
}

/// Ouro-2.6B: 4 steps of 48 layers, and 4 where the config does not say (vLLM's `OuroAttention`, `total_ut_steps`).
#[test]
fn ouro_runs_four_steps() {
    let ouro = json!({"architectures": ["OuroForCausalLM"], "model_type": "ouro", "hidden_size": 2048,
        "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 128,
        "total_ut_steps": 4, "torch_dtype": "bfloat16"});
    assert_eq!(slope(&ouro).0, 4 * 48 * 2 * 16 * 128 * 2);
    assert_eq!(slope(&ouro).0, 1_572_864);
    let mut absent = ouro.clone();
    absent.as_object_mut().unwrap().remove("total_ut_steps");
    let (bytes, warnings) = slope(&absent);
    assert_eq!(bytes, 1_572_864);
    assert!(warnings.starts_with("total_ut_steps: absent: 4, the default"), "{warnings}");
}

/// `IQuest`'s loop coder: the second pass keeps 64 tokens and reads the first one's cache beside (vLLM 0.33,
/// `models/iquest_loopcoder`): 80 × 2 × 8 × 128 × 2 B a token, and 80 × 64 such entries that do not grow.
#[test]
fn iquests_second_pass_keeps_a_window() {
    let loops = json!({"architectures": ["IQuestLoopCoderForCausalLM"], "model_type": "iquestloopcoder",
        "hidden_size": 5120, "num_hidden_layers": 80, "num_attention_heads": 40, "num_key_value_heads": 8,
        "head_dim": 128, "loop_num": 2, "loop_window_size": 64, "torch_dtype": "bfloat16"});
    let (bytes, warnings) = slope(&loops);
    assert_eq!(bytes, 80 * 2 * 8 * 128 * 2);
    assert!(warnings.contains("each keeps the last 64 tokens"), "{warnings}");
    assert_eq!(fixed(&read_config(&loops.to_string()).unwrap()), 80 * 64 * 2 * 8 * 128 * 2);
    let mut absent = loops.clone();
    absent.as_object_mut().unwrap().retain(|key, _| !key.starts_with("loop_"));
    assert_eq!(slope(&absent).0, bytes);
}

/// Dory loops its inner layers (transformers 5.24, `models/dory`): 1 + 4 × 3 + 1 caches, or 6 where only the last loop
/// writes.
#[test]
fn dory_loops_between_its_ends() {
    let dory = json!({"model_type": "dory", "num_hidden_layers": 6, "num_attention_heads": 16,
        "num_key_value_heads": 4, "head_dim": 256, "hidden_size": 4096, "layer_types": vec!["full_attention"; 6],
        "n_input_layers": 1, "n_output_layers": 1, "n_recurrent_loops": 3, "torch_dtype": "bfloat16"});
    assert_eq!(slope(&dory).0, 14 * 2 * 4 * 256 * 2);
    assert_eq!(slope(&with(&dory, &json!({"recurrent_kv_cache_mode": "last_loop"}))).0, 6 * 2 * 4 * 256 * 2);
    let unknown = with(&dory, &json!({"recurrent_kv_cache_mode": "first_loop"}));
    assert_eq!(refused(&unknown).place(), Some("recurrent_kv_cache_mode"));
    // `validate_architecture`: the three counts add up to all layers; absent, 8 and 8 are the class's.
    assert_eq!(slope(&with(&dory, &json!({"n_recurrent_layers": 4}))).0, 14 * 2 * 4 * 256 * 2);
    let fewer = refused(&with(&dory, &json!({"n_recurrent_layers": 3})));
    assert_eq!(fewer.place(), Some("n_input_layers"), "{fewer}");
    let ten = json!({"model_type": "dory", "num_hidden_layers": 10, "num_attention_heads": 16, "head_dim": 256,
        "hidden_size": 4096, "torch_dtype": "bfloat16"});
    let ends = refused(&ten);
    assert_eq!(ends.place(), Some("n_input_layers"));
    assert!(ends.what().contains("8 input and 8 output layers leave none of 10"), "{ends}");
    let nested = refused(&json!({"text_config": ten}));
    assert_eq!(nested.place(), Some("text_config.n_input_layers"));
}

/// Without its other end no part of the layers is said. Inkling's class has 6 and 18 for what its config leaves out
/// (transformers 5.24, `Inkling2LoopTextConfig`).
#[test]
fn half_a_range_names_the_missing_half() {
    let plain = json!({"num_hidden_layers": 24, "hidden_size": 2304, "num_attention_heads": 24,
        "num_key_value_heads": 8, "head_dim": 128, "dtype": "bfloat16"});
    for (half, missing) in [
        (json!({"loop_config": {"num_passes": 3, "core_start": 3}}), "loop_config.core_end"),
        (json!({"loop_config": {"num_passes": 3, "core_end": 3}}), "loop_config.core_start"),
        (json!({"loop_num_passes": 3, "loop_layer_index_start": 6}), "loop_layer_index_end"),
        (json!({"loop_num_passes": 3, "loop_layer_index_end": 6}), "loop_layer_index_start"),
        (json!({"n_recurrent_loops": 3, "n_input_layers": 6}), "n_output_layers"),
        (json!({"n_recurrent_loops": 3, "n_output_layers": 6}), "n_input_layers"),
    ] {
        let error = refused(&with(&plain, &half));
        assert_eq!(error.place(), Some(missing), "{error}");
    }
    let own = with(&plain, &json!({"model_type": "inkling2_loop_text", "loop_config": {"core_start": 12}}));
    let architecture = read_config(&own.to_string()).unwrap();
    let loops = architecture.loops().unwrap();
    assert_eq!((loops.range.clone(), loops.passes.get()), (12..18, 3));
    let behind = with(&plain, &json!({"loop_config": {"num_passes": 2, "core_start": 3, "core_end": 3}}));
    assert_eq!(refused(&behind).place(), Some("loop_config.core_start"));
}

/// Inkling's loop (transformers 5.24, `models/inkling2_loop`): of 24 layers those from 6 to 17 run three times. Layers 5, 11,
/// 17 and 23 are full, so 4 + 2 × 2 full caches and 20 + 2 × 10 windows of 1,024; beside each stand four convolutions of 4
/// taps over K, V and twice the hidden vector.
#[test]
fn inklings_core_loops() {
    let inkling = json!({"model_type": "inkling2_loop_text", "num_hidden_layers": 24, "hidden_size": 2304,
        "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128, "swa_num_attention_heads": 24,
        "swa_num_key_value_heads": 8, "swa_head_dim": 128, "sliding_window_size": 1024, "dtype": "bfloat16"});
    assert_eq!(slope(&inkling).0, 8 * 2 * 8 * 128 * 2);
    let conv = 3 * (8 * 2 * 128 + 2 * 2304) * 2;
    let expected = 40 * 1024 * 2 * 8 * 128 * 2 + 48 * conv;
    assert_eq!(fixed(&read_config(&inkling.to_string()).unwrap()), expected);
    // Checkpoints list the windows' layers: 6 and 7 alone, of which each runs three times.
    let listed = with(&inkling, &json!({"local_layer_ids": [6, 7], "sconv_kernel_size": 4}));
    assert_eq!(slope(&listed).0, (22 + 2 * 10) * 2 * 8 * 128 * 2);
    let nested = with(&inkling, &json!({"loop_config": {"core_start": 6, "core_end": 12, "num_passes": 2}}));
    assert_eq!(slope(&nested).0, 5 * 2 * 8 * 128 * 2);
}

/// `HrmTextConfig` writes the number of all calls back where it knows one stack's layers; else 16 × 2 × (3 + 1) of them.
#[test]
fn stacked_cycles_multiply_a_stack() {
    let hrm = json!({"model_type": "hrm_text", "num_hidden_layers": 16, "num_attention_heads": 12, "hidden_size": 1536,
        "head_dim": 128, "torch_dtype": "bfloat16"});
    let (bytes, warnings) = slope(&hrm);
    assert_eq!(bytes, 128 * 2 * 12 * 128 * 2);
    assert!(
        warnings.contains("H_cycles: 2 cycles of 3 + 1 passes; layers 0 to 15 run 8 times"),
        "{warnings}"
    );
    let written = with(&hrm, &json!({"num_hidden_layers": 128, "num_layers_per_stack": 16}));
    assert_eq!(slope(&written).0, 128 * 2 * 12 * 128 * 2);
}

/// The weights are those of one pass; a token is multiplied by them once a pass.
#[test]
fn weights_count_once_and_work_each_pass() {
    let count = |config: &Value| Parameters::of(config, &read_config(&config.to_string()).unwrap()).unwrap();
    let (once, twice) = (count(&with(&nanbeige(), &json!({"num_loops": 1}))), count(&nanbeige()));
    assert_eq!(twice.total, once.total);
    // One layer: q and out 3072 × 48 × 128, k and v 3072 × 8 × 128, three of 3072 × 10752.
    let layer = 2 * 3072 * 48 * 128 + 2 * 3072 * 8 * 128 + 3 * 3072 * 10_752;
    assert_eq!(twice.active - once.active, 22 * layer);
}

/// What a class has by its default is not counted either: two stacks in `HrmTextConfig`, convolutions in `ZayaConfig` and
/// `InklingTextConfig` (transformers 5.24).
#[test]
fn weights_of_a_class_are_refused_without_its_fields() {
    let common = json!({"num_hidden_layers": 12, "hidden_size": 1024, "num_attention_heads": 8, "head_dim": 128,
        "num_key_value_heads": 8, "intermediate_size": 4096, "vocab_size": 1000, "dtype": "bfloat16"});
    let count = |config: &Value| Parameters::of(config, &read_config(&config.to_string()).unwrap());
    for (class, field) in
        [("hrm_text", "H_cycles"), ("zaya", "cca_time0"), ("inkling_text", "conv_kernel_size")]
    {
        let error = count(&with(&common, &json!({"model_type": class}))).unwrap_err();
        assert_eq!(error.place(), Some(field), "{class}: {error}");
    }
    assert!(count(&with(&common, &json!({"model_type": "llama"}))).is_ok());
}

/// A GGUF of the same model: `nanbeige.num_loops` beside 22 blocks (pull request 25994).
#[test]
fn a_gguf_says_how_often_its_blocks_run() {
    let file = GgufFile::new("nanbeige")
        .with("nanbeige.block_count", Key::U32(22))
        .with("nanbeige.context_length", Key::U32(262_144))
        .with("nanbeige.embedding_length", Key::U32(3072))
        .with("nanbeige.attention.head_count", Key::U32(48))
        .with("nanbeige.attention.head_count_kv", Key::U32(8))
        .with("nanbeige.attention.key_length", Key::U32(128))
        .with("nanbeige.attention.value_length", Key::U32(128))
        .with("nanbeige.num_loops", Key::U32(2))
        .with("nanbeige.skip_loop_final_norm", Key::Bool(false));
    let bytes = file.bytes();
    let read = read_gguf(&bytes, Some(bytes.len() as u64), Unknown::Refuse).unwrap();
    let GgufRead::Architecture(architecture) = read else { panic!("{read:?}") };
    let state = StateModel::new(&architecture, &Settings::default()).unwrap();
    assert_eq!(state.slope(None).unwrap().whole(), Some(180_224));
    assert_eq!(architecture.own_layers(), 22);
}

/// What a window of later passes keeps of latents or of states, no class says.
#[test]
fn later_passes_of_other_layers_have_no_window() {
    let latents = json!({"num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8, "kv_lora_rank": 64,
        "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32, "num_loops": 2, "loop_window_size": 64,
        "dtype": "bfloat16"});
    let error = read_config(&latents.to_string()).unwrap_err();
    assert_eq!(error.place(), Some("loop_window_size"));
    assert!(error.to_string().contains("not known"), "{error}");
}

#[test]
fn layers_run_at_least_once() {
    let nested = with(&nanbeige(), &json!({"loop_config": {"num_passes": 0}}));
    assert_eq!(read_config(&nested.to_string()).unwrap_err().place(), Some("loop_config.num_passes"));
    let plain = with(&nanbeige(), &json!({"num_loops": 0}));
    assert_eq!(read_config(&plain.to_string()).unwrap_err().place(), Some("num_loops"));
}
