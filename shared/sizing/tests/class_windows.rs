//! Which layers have windows by the rules of single classes, and what engines make of them.
//!
//! The right values are derived by hand from the configuration classes of transformers 5.19 (`models/*/configuration_*.py`) and
//! the engines' files named beside each test; those of transformers were counted on its own caches (5.20).

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "in tests a panic is the report, and these figures are exact"
)]

use crate::support::{asked, configs};

use asked::{figure, settings};
use configs::{fixed, is_certain, slope, with};
use kvscope_sizing::engine::{Query, report, reservation};
use kvscope_sizing::read_config_value;
use serde_json::{Value, json};

/// 8 K/V heads of 128 values in bf16: 4,096 B a token and layer.
fn of(class: &str, layers: u64, more: &Value) -> Value {
    let plain = json!({"model_type": class, "num_hidden_layers": layers, "num_attention_heads": 32,
        "num_key_value_heads": 8, "hidden_size": 4096, "max_position_embeddings": 131_072, "dtype": "bfloat16"});
    with(&plain, more)
}

const LAYER: u64 = 4096;

fn windowed(class: &str, layers: u64) -> Value {
    of(class, layers, &json!({"use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 2}))
}

/// `Qwen3MoeConfig` has no `max_window_layers`: all layers have the window. `Qwen2MoeConfig` gives it to every second layer before
/// it, `Qwen2Config` to those from there on, `SmolLM3Config` to those without rotary positions, every fourth.
#[test]
fn max_window_layers_is_read_as_each_class_reads_it() {
    for (class, layers, full) in
        [("qwen3_moe", 4, 0), ("qwen2_moe", 4, 3), ("qwen2", 4, 2), ("smollm3", 8, 6)]
    {
        let config = windowed(class, layers);
        assert_eq!(slope(&config).0, full * LAYER, "{class}");
        assert_eq!(fixed(&config, None), (layers - full) * 4096 * LAYER, "{class}");
        is_certain(&config);
        // The flag's default is off.
        let off = of(class, layers, &json!({"sliding_window": 4096}));
        assert_eq!((slope(&off).0, fixed(&off, None)), (layers * LAYER, 0), "{class}");
    }
}

/// `CohereCompassTextConfig` makes all layers full without a list; `Cohere2MoeConfig` counts its pattern of four behind the dense
/// layers, which are full, and has a window of 4096 without the field; `BeamConfig` has every sixth and the last layer full.
#[test]
fn patterns_are_those_of_the_class() {
    let window = json!({"sliding_window": 512});
    for (class, layers, more, full) in [
        ("cohere_compass_text", 12, &window, 12),
        ("cohere2_moe", 8, &window, 2),
        ("cohere2_moe", 9, &json!({"sliding_window": 512, "first_k_dense_replace": 1}), 3),
        ("cohere2_moe", 8, &json!({}), 2),
        ("beam", 8, &window, 2),
        ("qwen2_vl_text", 4, &window, 4),
        ("qwen2_5_vl_text", 4, &window, 4),
        ("qwen2_5_omni_text", 4, &window, 4),
    ] {
        assert_eq!(slope(&of(class, layers, more)).0, full * LAYER, "{class}");
    }
}

/// vLLM 0.33, `qwen2_moe.py`: layers take the cache's window, which is there where all layers have one
/// (`engine/arg_utils.py`). `qwen2.py` asserts that none or all have it. Qwen3-MoE, with two batches of 8,192 in flight:
/// ⌈(4095 + 16,384) / 16⌉ + 1 = 1,281 blocks of 16.
#[test]
fn vllm_has_windows_in_all_layers_or_in_none() {
    let read = |config: &Value| read_config_value(config).unwrap();
    let slope_of = |config: &Value, engine: &str| figure(&read(config), engine, &[], "slope_bytes_per_token");
    assert_eq!(slope_of(&windowed("qwen2_moe", 4), "vllm"), 4.0 * 4096.0);
    assert_eq!(slope_of(&windowed("qwen3_moe", 4), "vllm"), 0.0);
    let batch = [("context", "100000"), ("max_num_batched_tokens", "8192")];
    let held = figure(&read(&windowed("qwen3_moe", 4)), "vllm", &batch, "resident_bytes");
    assert_eq!(held, 1281.0 * 16.0 * 4.0 * 4096.0);
    let (config, asked) = (read(&windowed("qwen2_moe", 4)), settings(&[("context", "100000")]));
    let found = reservation(&Query::new(&config, "vllm".parse().unwrap(), &asked).unwrap()).unwrap();
    assert!(format!("{:?}", found.rest).contains("this class has no window where some layers have none"));
}

fn refusal(config: &Value, engine: &str) -> Option<String> {
    let (config, none) = (read_config_value(config).unwrap(), settings(&[]));
    let query = Query::new(&config, engine.parse().unwrap(), &none).unwrap();
    report(&query).err().map(|error| error.to_string())
}

/// `Qwen2Model.__init__` of vLLM asserts `max_window_layers == num_hidden_layers` of every class that runs as it where layers
/// differ; where the two are equal it starts, and its layers, which take the cache's window, have none. 0.9.2 asserts it of every
/// such model with a window, so `max_window_layers` of 0 is refused there.
#[test]
fn vllm_refuses_windows_in_some_layers_of_qwen2() {
    let listed = json!({"layer_types": ["full_attention", "full_attention", "sliding_attention", "sliding_attention"],
        "max_window_layers": 4});
    for class in ["qwen2", "qwen3", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text"] {
        for engine in ["vllm@0.9.2", "vllm"] {
            let error = refusal(&windowed(class, 4), engine).unwrap();
            assert!(error.starts_with("max_window_layers: 2, and some layers have a window"), "{error}");
        }
        let equal = with(&windowed(class, 4), &listed);
        assert_eq!(refusal(&equal, "vllm"), None);
        let slope = figure(&read_config_value(&equal).unwrap(), "vllm", &[], "slope_bytes_per_token");
        assert_eq!(slope, 4.0 * 4096.0, "{class}");
    }
    let everywhere = with(&windowed("qwen2", 4), &json!({"max_window_layers": 0}));
    assert_eq!(refusal(&everywhere, "vllm"), None);
    assert!(refusal(&everywhere, "vllm@0.9.2").unwrap().starts_with("max_window_layers: 0, and layers have"));
}

/// vLLM 0.33, `transformers_utils/configs/beam.py`: without `layer_types` all layers have the window, of 4096 where none is
/// given; in transformers 5.20 and SGLang 0.5.23 every sixth and the last have none, and the window is 512. Two batches of 2,048
/// in flight: ⌈(window − 1 + 4,096) / 16⌉ + 1 blocks of 16.
#[test]
fn beam_is_read_as_each_engine_reads_it() {
    let asked = [("context", "100000"), ("max_num_batched_tokens", "2048")];
    let held = |more: &Value| {
        let config = read_config_value(&of("beam", 12, more)).unwrap();
        assert_eq!(figure(&config, "transformers", &[], "slope_bytes_per_token"), 2.0 * 4096.0);
        figure(&config, "vllm", &asked, "resident_bytes")
    };
    assert_eq!(held(&json!({})), 513.0 * 16.0 * 12.0 * 4096.0);
    assert_eq!(held(&json!({"sliding_window": 513})), 289.0 * 16.0 * 12.0 * 4096.0);
    let mut types = vec!["sliding_attention"; 12];
    types[0] = "full_attention";
    let listed = read_config_value(&of("beam", 12, &json!({"layer_types": types}))).unwrap();
    assert_eq!(figure(&listed, "vllm", &[], "slope_bytes_per_token"), 4096.0);
}

/// llama.cpp's `load_arch_hparams` of Llama reads no window.
#[test]
fn llama_cpp_keeps_every_token_of_llama() {
    let types = ["sliding_attention", "full_attention"].repeat(2);
    let config = of("llama", 4, &json!({"sliding_window": 1024, "layer_types": types}));
    let architecture = read_config_value(&config).unwrap();
    assert_eq!(figure(&architecture, "llama.cpp", &[], "slope_bytes_per_token"), 4.0 * 4096.0);
}

/// `FalconAttention` of transformers widens K/V before the cache in its new decoder, one head for all too: 60 layers × 2 × 128 × 64 ×
/// 2 B; the first decoder keeps its heads. `GPTNeoConfig` tells its cache of no window: 32 × 2 × 20 × 128 × 2 B. `MptAttention` has
/// every head.
#[test]
fn transformers_keeps_what_these_classes_hand_to_the_cache() {
    let falcon = json!({"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
        "num_kv_heads": 8, "new_decoder_architecture": true, "dtype": "bfloat16"});
    let first = json!({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
        "new_decoder_architecture": false, "multi_query": true, "dtype": "bfloat16"});
    let one = with(&falcon, &json!({"num_kv_heads": 1}));
    let grouped = with(&falcon, &json!({"new_decoder_architecture": false, "multi_query": false}));
    let neo = json!({"model_type": "gpt_neo", "hidden_size": 2560, "num_layers": 32, "num_heads": 20, "window_size": 256,
        "attention_types": [[["global", "local"], 16]], "max_position_embeddings": 2048, "dtype": "bfloat16"});
    let mpt = json!({"model_type": "mpt", "d_model": 256, "n_layers": 6, "n_heads": 8, "max_seq_len": 2048,
        "attn_config": {"kv_n_heads": 2}, "dtype": "bfloat16"});
    for (config, bytes) in [
        (falcon, 1_966_080),
        (one, 1_966_080),
        (grouped, 60 * 2 * 8 * 64 * 2),
        (first, 32 * 2 * 64 * 2),
        (neo, 327_680),
        (mpt, 6 * 2 * 256 * 2),
    ] {
        let architecture = read_config_value(&config).unwrap();
        let slope = figure(&architecture, "transformers", &[], "slope_bytes_per_token");
        assert_eq!(slope, f64::from(bytes), "{config}");
    }
}

/// `ZambaConfig`: the third layer has attention beside Mamba, and behind the third those at the offset of each period: here 2 and 7
/// of 12, all of which keep a state of 512 × 16 values and three columns of 512, in bf16: 12 × (16,384 + 3,072) = 233,472 B.
#[test]
fn zambas_layers_with_attention_keep_a_state_too() {
    let config = json!({"model_type": "zamba", "hidden_size": 256, "num_hidden_layers": 12, "num_attention_heads": 8,
        "num_key_value_heads": 8, "n_mamba_heads": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
        "mamba_dt_rank": 16, "dtype": "bfloat16"});
    let stated = with(&config, &json!({"attn_layer_period": 6, "attn_layer_offset": 4}));
    for config in [config, stated] {
        // Heads are 2 × 256 / 8 = 64 values wide.
        assert_eq!(slope(&config).0, 2 * 2 * 8 * 64 * 2);
        assert_eq!(fixed(&config, None), 12 * (512 * 16 * 2 + 3 * 512 * 2));
    }
}

/// `resolve_kv_cache_dtype_string` of vLLM 0.33 (`utils/torch_utils.py`) reads `ModelOpt`'s K/V format of the outer
/// config alone.
#[test]
fn vllm_does_not_look_for_the_kv_format_in_a_text_config() {
    let quantised = json!({"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}});
    let text = of("llama", 32, &json!({}));
    let outer = |more: &Value, text: &Value| with(&json!({"model_type": "llava", "text_config": text}), more);
    let slope_of =
        |config: &Value| figure(&read_config_value(config).unwrap(), "vllm", &[], "slope_bytes_per_token");
    assert_eq!(slope_of(&outer(&json!({}), &with(&text, &quantised))), 131_072.0);
    assert_eq!(slope_of(&outer(&quantised, &text)), 65_536.0);
}

/// `Attention.__init__` of vLLM (`layers/attention/attention.py`) asserts that K/V heads divide the query heads.
#[test]
fn vllm_refuses_heads_that_do_not_divide() {
    let config = of("llama", 4, &json!({"num_attention_heads": 8, "num_key_value_heads": 3}));
    let (architecture, none) = (read_config_value(&config).unwrap(), settings(&[]));
    let error = Query::new(&architecture, "vllm".parse().unwrap(), &none)
        .and_then(|query| report(&query).map(drop))
        .unwrap_err();
    assert!(error.to_string().starts_with("num_key_value_heads: 3 K/V heads do not divide 8"), "{error}");
}
