//! Configs as other programs write them: saved again by a newer transformers, cut to what differs from a class, or wide beyond
//! reason. Expected figures are those of the same model's own file, or derived here by hand.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::engine::{Quantity, Query, answer};
use kvscope_sizing::{
    Architecture, ErrorKind, Settings, StateModel, Tokens, Unknown, find_entry, read_config_object,
    read_config_value,
};
use serde_json::{Value, json};

const NAMES: [(u64, &str); 3] =
    [(0, "sliding_attention"), (4, "compressed_sparse_attention"), (128, "heavily_compressed_attention")];

/// A DeepSeek-V4 config as `DeepseekV4Config.save_pretrained` of transformers 5.19 writes it: a name a layer, draft layers cut,
/// ratios by name, rules of rotary positions by what they are for.
fn saved_again(config: &Value) -> Value {
    let mut saved = config.clone();
    let fields = saved.as_object_mut().unwrap();
    let ratios = fields.remove("compress_ratios").unwrap();
    let total = usize::try_from(fields["num_hidden_layers"].as_u64().unwrap()).unwrap();
    let name = |ratio: &Value| NAMES.iter().find(|(known, _)| ratio.as_u64() == Some(*known)).unwrap().1;
    let types: Vec<&str> = ratios.as_array().unwrap()[..total].iter().map(name).collect();
    fields.insert("layer_types".to_owned(), json!(types));
    fields.insert(
        "compress_rates".to_owned(),
        json!({"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}),
    );
    fields.remove("rope_scaling");
    fields.insert(
        "rope_parameters".to_owned(),
        json!({"main": {"rope_type": "default", "rope_theta": 10000.0},
               "compress": {"rope_type": "yarn", "factor": 16, "original_max_position_embeddings": 65536}}),
    );
    fields.insert("mlp_layer_types".to_owned(), json!(vec!["moe"; total]));
    let dtype = fields.remove("torch_dtype").unwrap();
    fields.insert("dtype".to_owned(), dtype);
    saved
}

fn bytes(architecture: &Architecture, n: u64) -> u64 {
    let state = StateModel::new(architecture, &Settings::default()).unwrap();
    state.resident(Tokens::new(n), 1).unwrap().get()
}

#[test]
fn deepseek_v4_saved_by_transformers_is_the_same_model() {
    for id in ["deepseek-v4-pro", "deepseek-v4-flash"] {
        let own = &find_entry(id).unwrap().config;
        let saved = saved_again(own);
        let (first, again) =
            (read_config_value(own).unwrap(), read_config_object(&saved, Unknown::Refuse).unwrap());
        assert_eq!(first.layer_count(), again.layer_count(), "{id}");
        for n in [1, 100, 100_000, 1_000_000] {
            assert_eq!(bytes(&first, n), bytes(&again, n), "{id} at {n}");
        }
        let told: Vec<String> = again.warnings().iter().map(ToString::to_string).collect();
        assert!(told.is_empty(), "{id}: {told:?}");
        assert_eq!(again.layers_field(), "layer_types");
    }
}

/// `DeepseekV4Config.__post_init__`: two heavily compressed layers, then heavily and sparsely compressed ones in turn; the rotary
/// part is 64 of 512. A ratio that no record is known for is refused where it stands.
#[test]
fn what_deepseek_v4_leaves_to_its_class() {
    let mut config = saved_again(&find_entry("deepseek-v4-flash").unwrap().config);
    let listed = |types: [&str; 6]| {
        let mut listed = saved_again(&find_entry("deepseek-v4-flash").unwrap().config);
        listed["num_hidden_layers"] = json!(6);
        listed["layer_types"] = json!(types);
        bytes(&read_config_value(&listed).unwrap(), 100_000)
    };
    let [_, (_, sparse), (_, heavy)] = NAMES;
    config["num_hidden_layers"] = json!(6);
    for absent in ["layer_types", "compress_rates", "qk_rope_head_dim"] {
        config.as_object_mut().unwrap().remove(absent);
    }
    let read = read_config_value(&config).unwrap();
    assert_eq!(bytes(&read, 100_000), listed([heavy, heavy, heavy, sparse, heavy, sparse]));
    assert!(read.warnings().iter().any(|told| told.field == "layer_types"), "{:?}", read.warnings());
    config["layer_types"] = json!([heavy, sparse, heavy, sparse, heavy, "odd"]);
    let error = read_config_value(&config).unwrap_err();
    assert_eq!(error.place(), Some("layer_types[5]"));
    config["layer_types"][5] = json!(sparse);
    config["compress_rates"] = json!({"compressed_sparse_attention": 8});
    let error = read_config_value(&config).unwrap_err();
    assert!(error.to_string().starts_with("layer_types[1]: unknown compression ratio 8"), "{error}");
}

/// A layer as wide as nothing is: 2^32 heads of 2^32 values. The fields are named, and no smaller context is advised.
#[test]
fn figures_beyond_64_bits_name_what_makes_them_so() {
    let wide = json!({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4_294_967_296_u64,
        "num_key_value_heads": 4_294_967_296_u64, "head_dim": 4_294_967_296_u64, "dtype": "bfloat16"});
    let read = read_config_value(&wide).unwrap();
    let error = StateModel::new(&read, &Settings::default()).unwrap_err();
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::Overflow, Some("num_key_value_heads × head_dim")),
        "{error}"
    );
    assert!(error.what().ends_with("no layer is as wide"), "{error}");
    let own = find_entry("qwen3-8b").unwrap().architecture().unwrap();
    let settings = Settings { context: Some(1 << 40), batch: Some(4_000_000_000), ..Settings::default() };
    let state = StateModel::new(&own, &settings).unwrap();
    let error = state.size("own", Some(Tokens::new(1 << 40)), 4_000_000_000, &settings).unwrap_err();
    assert_eq!(error.place(), Some("batch"), "{error}");
    for engine in ["logical", "vllm", "sglang", "transformers"] {
        let query = Query::new(&own, engine.parse().unwrap(), &settings).unwrap();
        let error = answer(&query, Quantity::ResidentBytes).unwrap_err();
        assert_eq!(error.place(), Some("batch"), "{engine}: {error}");
    }
}

/// A pool of no tokens is no matter of the ratio of windows to it (`validate_swa_pool_size` of SGLang 0.5.23).
#[test]
fn a_pool_that_holds_no_request_is_blamed_on_its_own_size() {
    let own = find_entry("gpt-oss-120b").unwrap().architecture().unwrap();
    let error = |name: &str, value: &str| {
        let mut settings = Settings::default();
        settings.set(name, value).unwrap();
        answer(&Query::new(&own, "sglang".parse().unwrap(), &settings).unwrap(), Quantity::PoolBytes)
            .unwrap_err()
    };
    for (name, value) in [
        ("pool_tokens", "0"),
        ("pool_tokens", "100"),
        ("available_kv_bytes", "0B"),
        ("available_kv_bytes", "100KB"),
    ] {
        let error = error(name, value);
        assert_eq!(error.place(), Some(name), "{value}: {error}");
        assert!(error.what().contains("hold no request"), "{error}");
    }
    // 150 tokens are enough for a window of 128 and a page, a tenth of them is not.
    let mut settings = Settings::default();
    settings.set("pool_tokens", "150").unwrap();
    settings.set("swa_full_tokens_ratio", "0.1").unwrap();
    let query = Query::new(&own, "sglang".parse().unwrap(), &settings).unwrap();
    assert_eq!(answer(&query, Quantity::PoolBytes).unwrap_err().place(), Some("swa_full_tokens_ratio"));
}

/// A size as logs print it: 4.99 GiB are 5,357,971,701.76 bytes.
#[test]
fn a_size_of_a_log_is_a_setting() {
    let mut settings = Settings::default();
    settings.set("available_kv_bytes", "4.99GiB").unwrap();
    assert_eq!(settings.available_kv_bytes, Some(5_357_971_701));
    let error = settings.set("available_kv_bytes", "99999999999GiB").unwrap_err().to_string();
    assert!(error.starts_with("available_kv_bytes: \"99999999999GiB\" is more than"), "{error}");
    assert!(settings.set("pool_tokens", "1.0001K").is_err(), "tokens are counted, not cut off");
}

/// Head widths that a class supplies (`configuration_*.py` of transformers 5.19), where `hidden_size` / heads is half of it: K and V
/// of 8 heads × width × 2 B in each of two layers. A list of kinds that Laguna and Mellum leave out says that none has a window
/// (`__post_init__`), of `T5Gemma`'s decoder that every second has (4 layers, so two of them are left).
#[test]
fn widths_and_kinds_that_a_class_supplies() {
    let of = |class: &str, layers: u64, heads: u64| {
        let config = json!({"model_type": class, "num_hidden_layers": layers, "hidden_size": 1024,
            "num_attention_heads": heads, "num_key_value_heads": 8, "dtype": "bfloat16"});
        let read = read_config_value(&config).unwrap();
        let state = StateModel::new(&read, &Settings::default()).unwrap();
        state.slope(None).unwrap().whole()
    };
    for class in ["hy_v3", "minimax_m2", "minimax_m3_vl_text", "paddleocr_vl_text", "solar_open", "step3p5"] {
        assert_eq!(of(class, 2, 16), Some(2 * 2 * 8 * 128 * 2), "{class}");
    }
    assert_eq!(of("qwen4_exp_text", 2, 8), Some(2 * 2 * 8 * 256 * 2));
    let windowed = |class: &str, width: u64| {
        let config = json!({"model_type": class, "num_hidden_layers": 4, "hidden_size": 1024, "sliding_window": 64,
            "num_attention_heads": 8, "num_key_value_heads": 8, "dtype": "bfloat16"});
        let read = read_config_value(&config).unwrap();
        let state = StateModel::new(&read, &Settings::default()).unwrap();
        state.slope(None).unwrap().whole().unwrap() / (2 * 8 * width * 2)
    };
    assert_eq!(
        (windowed("laguna", 128), windowed("mellum", 128), windowed("t5_gemma_module", 256)),
        (4, 4, 2)
    );
}

/// Quark's exporter lists the projections whose output has a format of its own (`QuarkConfig` of vLLM 0.33), often none; a head width
/// of Mamba that is `auto` is that of all heads divided by their number: 3072 / 48 = 64.
#[test]
fn what_a_config_leaves_to_others_is_told_or_derived() {
    let told = |group: &Value| {
        let config = json!({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8, "head_dim": 64,
            "num_key_value_heads": 8, "dtype": "bfloat16",
            "quantization_config": {"quant_method": "quark", "kv_cache_group": group}});
        let read = read_config_value(&config).unwrap();
        read.warnings().iter().map(|warning| warning.field.clone()).collect::<Vec<_>>()
    };
    assert_eq!(told(&json!(["*k_proj", "*v_proj"])), ["quantization_config.kv_cache_group"]);
    assert!(told(&json!([])).is_empty());
    let fixed = |width: &Value| {
        let config = json!({"model_type": "falcon_h1", "num_hidden_layers": 4, "hidden_size": 2048, "dtype": "bfloat16",
            "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "mamba_d_ssm": 3072,
            "mamba_expand": 2, "mamba_n_heads": 48, "mamba_d_head": width, "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_d_conv": 4});
        let state = StateModel::new(&read_config_value(&config).unwrap(), &Settings::default()).unwrap();
        state.fixed(None).unwrap().get()
    };
    // Four layers of 48 × 64 × 256 values and three columns of 3072 + 2 × 256, in bf16.
    let expected = 4 * 2 * (48 * 64 * 256 + 3 * (3072 + 2 * 256));
    assert_eq!((fixed(&json!(64)), fixed(&json!("auto"))), (expected, expected));
}
