//! Bytes of weights in the types of quantised checkpoints, against sizes that their publishers state.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::cost::{Operand, Types};
use kvscope_sizing::plan::{Given, MemoryQuestion, Subject};
use kvscope_sizing::{Architecture, Bytes, find_entry, read_config_value};
use serde_json::{Value, json};

/// Bytes of all weights on eight H200, and the words beside them.
fn weights(subject: &Subject<'_>, architecture: &Architecture, dtype: Option<&str>) -> (f64, String) {
    let given = Given::of([("weight_dtype", dtype.map(str::to_owned))]);
    let types = given.types(architecture).unwrap();
    let question = MemoryQuestion {
        gpu: kvscope_sizing::hardware::find_gpu("h200").unwrap(),
        count: 8,
        memory: None,
        weights: None,
        types,
        weight_ranks: 8,
        share_percent: 100,
        batch_tokens: 8192,
        activations: Some(Bytes::ZERO),
        graphs: Bytes::ZERO,
    };
    let memory = question.fill(subject).unwrap();
    (memory.all_weight_bytes.get() as f64, memory.weights_in)
}

fn of_catalogue(id: &str, dtype: Option<&str>) -> (f64, String) {
    let entry = find_entry(id).unwrap();
    let architecture = entry.architecture().unwrap();
    weights(&Subject::of(entry, &architecture), &architecture, dtype)
}

/// A catalogue model's config with what its publisher's has beside it.
fn of_config(id: &str, more: &Value) -> (f64, String) {
    let entry = find_entry(id).unwrap();
    let mut config = entry.config.clone();
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    let architecture = read_config_value(&config).unwrap();
    let subject = Subject { config: Some(&config), ..Subject::of(entry, &architecture) };
    weights(&subject, &architecture, None)
}

/// gpt-oss model card, table 1: 114.71 B of MLPs in MXFP4 at 4.25 bits, 0.96 B of attention and 1.16 B of embedding and head
/// in bf16: 60.8 GiB.
#[test]
fn gpt_oss_has_the_size_of_its_model_card() {
    let (bytes, from) = of_catalogue("gpt-oss-120b", Some("checkpoint"));
    assert!((bytes / (60.8 * 1_073_741_824.0) - 1.0).abs() < 0.005, "{bytes}");
    assert_eq!(from, "bf16 projections, bf16 MLPs, fp4 experts of the checkpoint");
    // Without it all 116.83 B are in bf16, and the words say what is published.
    let (bytes, from) = of_catalogue("gpt-oss-120b", None);
    assert!((bytes / (2.0 * 116.83e9) - 1.0).abs() < 0.001, "{bytes}");
    assert_eq!(from, "bf16; the published checkpoint has bf16 projections, bf16 MLPs, fp4 experts");
}

/// DeepSeek-V3: 671 B in FP8, of which 2 × 129,280 × 7,168 around the layers in bf16; scales are 4 bytes for 128 × 128.
#[test]
fn blocks_of_fp8_have_their_scales_and_leave_the_vocabulary_alone() {
    let around = 2.0 * 129_280.0 * 7168.0;
    let own = json!({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}});
    for (bytes, _) in [of_catalogue("deepseek-v3", Some("checkpoint")), of_config("deepseek-v3", &own)] {
        let total = 671.0e9;
        let expected = (total - around) * (1.0 + 4.0 / 16_384.0) + 2.0 * around;
        assert!((bytes / expected - 1.0).abs() < 0.001, "{bytes} {expected}");
    }
}

/// Kimi-K2-Thinking's model card gives its INT4 checkpoint 594 GB: experts in groups of 32 with a scale in bf16, the rest in
/// bf16.
#[test]
fn groups_of_integers_have_their_scales() {
    let own = json!({"quantization_config": {"quant_method": "compressed-tensors",
        "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"],
        "config_groups": {"group_0": {"targets": ["Linear"],
            "weights": {"group_size": 32, "num_bits": 4, "type": "int"}}}}});
    let (bytes, from) = of_config("kimi-k2", &own);
    assert!((bytes / 594.0e9 - 1.0).abs() < 0.005, "{bytes}");
    assert_eq!(from, "bf16 projections, bf16 MLPs, fp4 experts of the checkpoint");
}

/// One type for each method, by what its exporter writes; 8.03 B parameters, of which 2 × 128,256 × 4,096 stay as they are.
#[test]
fn every_method_has_its_type() {
    let around = 2.0 * 128_256.0 * 4096.0;
    let layers = 8.03e9 - around;
    let group =
        |weights: Value| json!({"config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}});
    let with = |method: &str, mut more: Value| {
        more["quant_method"] = json!(method);
        json!({ "quantization_config": more })
    };
    for (config, bits) in [
        (with("fbgemm_fp8", json!({})), 8.0),
        (with("awq", json!({"bits": 4, "group_size": 128})), 4.0 + 20.0 / 128.0),
        (with("gptq", json!({"bits": 8, "group_size": -1})), 8.0),
        (with("bitsandbytes", json!({"load_in_8bit": true})), 8.0),
        (with("bitsandbytes", json!({"load_in_4bit": true})), 4.5),
        (with("modelopt", json!({"quant_algo": "NVFP4"})), 4.5),
        (with("modelopt", json!({"quantization": {"quant_algo": "FP8"}})), 8.0),
        (with("compressed-tensors", group(json!({"num_bits": 8, "type": "float"}))), 8.0),
        (with("compressed-tensors", group(json!({"num_bits": 4, "type": "float", "group_size": 16}))), 4.5),
        (with("some-later-method", json!({"bits": 4})), 16.0),
        (with("modelopt", json!({"quant_algo": "MIXED_PRECISION"})), 16.0),
    ] {
        let (bytes, words) = of_config("llama-3.1-8b", &config);
        let expected = layers * bits / 8.0 + 2.0 * around;
        assert!((bytes / expected - 1.0).abs() < 0.001, "{config}: {bytes} {expected}");
        // What no rule reads is said beside the figure.
        assert_eq!(bits > 15.0, words.contains("no rule reads"), "{words}");
    }
}

/// Attention of 32 × (2 × 4096² + 2 × 4096 × 1024) parameters stays in bf16 where the lists say so, by targets, by names with
/// stars or by all four matrices; one matrix of four does not decide.
#[test]
fn parts_are_stored_as_the_lists_of_modules_say() {
    let attention = 32.0 * (2.0 * 4096.0 * 4096.0 + 2.0 * 4096.0 * 1024.0);
    let around = 2.0 * 128_256.0 * 4096.0;
    let all = 8.03e9 - around;
    let scheme = |targets: Value, ignore: Value| {
        json!({"quantization_config": {"quant_method": "compressed-tensors", "ignore": ignore, "config_groups": {
            "group_0": {"targets": targets, "weights": {"num_bits": 4, "type": "int", "group_size": 128}}}}})
    };
    let each: Vec<String> = (0..32)
        .flat_map(|layer| {
            ["q", "k", "v", "o"].map(|side| format!("model.layers.{layer}.self_attn.{side}_proj"))
        })
        .collect();
    for (config, is_attention_wide) in [
        (scheme(json!(["re:.*mlp.*"]), json!([])), true),
        (scheme(json!(["Linear"]), json!(each)), true),
        (scheme(json!(["Linear"]), json!(["lm_head", "re:.*self_attn.*"])), true),
        (scheme(json!(["Linear"]), json!(["re:.*(self_attn|linear_attn)\\.(q|k|v|o)_proj"])), true),
        (scheme(json!(["Linear"]), json!(["lm_head", "re:.*linear_attn.*", "visual.blocks.0.attn"])), false),
        (scheme(json!(["Linear"]), json!(["re:.*self_attn\\.o_proj$"])), false),
    ] {
        let (bytes, words) = of_config("llama-3.1-8b", &config);
        let wide = if is_attention_wide { attention } else { 0.0 };
        let expected = (all - wide) * (4.0 + 0.125) / 8.0 + 2.0 * (around + wide);
        assert!((bytes / expected - 1.0).abs() < 0.002, "{config}: {bytes} {expected}");
        assert_eq!(words.starts_with("bf16 projections"), is_attention_wide, "{words}");
    }
}

/// GPTQ's `dynamic` and Intel's `extra_config` name what differs: here the attention of Llama-3.1-8B, left as it is or in eight
/// bits, beside four bits with a scale of two bytes and a zero point for 128 values.
#[test]
fn maps_of_modules_override_the_rest() {
    let attention = 32.0 * (2.0 * 4096.0 * 4096.0 + 2.0 * 4096.0 * 1024.0);
    let around = 2.0 * 128_256.0 * 4096.0;
    let others = 8.03e9 - around - attention;
    let named = |bits: u64| -> Value {
        let sides = ["q", "k", "v", "o"];
        let names =
            (0..32).flat_map(|layer| sides.map(|side| format!("model.layers.{layer}.self_attn.{side}_proj")));
        names.map(|name| (name, json!({ "bits": bits }))).collect::<serde_json::Map<_, _>>().into()
    };
    let (kept, wide) = (16.0, 8.0 + 24.0 / 128.0);
    for (method, key, map, bits) in [
        ("gptq", "dynamic", json!({"-:.*self_attn.*": {}}), kept),
        ("gptq", "dynamic", json!({"+:.*self_attn.*": {"bits": 8}}), wide),
        ("gptq", "dynamic", json!({".*self_attn.*": {"bits": 8, "group_size": -1}}), 8.0),
        ("gptq", "dynamic", json!({"-:.*mlp\\.gate$": {}}), 4.0 + 20.0 / 128.0),
        ("auto-round", "extra_config", named(16), kept),
        ("auto-round", "extra_config", named(8), wide),
        ("auto-round", "extra_config", json!({".*self_attn.*": {"bits": 8}}), wide),
        ("auto-round", "extra_config", json!({".*self_attn.*": {}}), kept),
        // One layer of 32 does not decide, and of patterns the first that fits does.
        ("gptq", "dynamic", json!({"-:^model\\.layers\\.16\\.": {}}), 4.0 + 20.0 / 128.0),
        ("gptq", "dynamic", json!({"+:.*self_attn.*": {"bits": 8}, "-:.*attn.*": {}}), wide),
    ] {
        let config =
            json!({"quantization_config": {"quant_method": method, "bits": 4, "group_size": 128, key: map}});
        let (bytes, _) = of_config("llama-3.1-8b", &config);
        let expected = (others * (4.0 + 20.0 / 128.0) + attention * bits) / 8.0 + 2.0 * around;
        assert!((bytes / expected - 1.0).abs() < 0.001, "{config}: {bytes} {expected}");
    }
}

/// Weights without activations as narrow are multiplied in bf16 (AWQ, GPTQ, NF4, integers of compressed-tensors); FP8, and NVFP4
/// with its activations, as they are.
#[test]
fn weights_are_multiplied_as_their_activations_are() {
    let computed = |quantization: Value| {
        let mut config = find_entry("llama-3.1-8b").unwrap().config.clone();
        config["quantization_config"] = quantization;
        let types = Types::of(&read_config_value(&config).unwrap());
        types.checkpoint.unwrap().others.computed
    };
    assert_eq!(computed(json!({"quant_method": "awq", "bits": 4, "group_size": 128})), Operand::Bf16);
    assert_eq!(computed(json!({"quant_method": "fp8"})), Operand::Fp8);
    assert_eq!(computed(json!({"quant_method": "modelopt", "quant_algo": "NVFP4"})), Operand::Fp4);
    let group = |activations: Value| {
        json!({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "float", "group_size": 16}, "input_activations": activations}}})
    };
    assert_eq!(computed(group(Value::Null)), Operand::Bf16);
    assert_eq!(computed(group(json!({"num_bits": 4, "type": "float"}))), Operand::Fp4);
}

#[test]
fn a_type_that_is_given_counts_for_everything() {
    let own = json!({"quantization_config": {"quant_method": "fp8"}});
    let entry = find_entry("llama-3.1-8b").unwrap();
    let mut config = entry.config.clone();
    config["quantization_config"] = own["quantization_config"].clone();
    let architecture = read_config_value(&config).unwrap();
    let given = Given::of([("weight_dtype", Some("bf16".to_owned()))]);
    assert_eq!(given.types(&architecture).unwrap(), Types::of(&entry.architecture().unwrap()));
    assert_eq!(Types::of(&architecture).weights, Operand::Fp8);
    let checkpoint = Given::of([("weight_dtype", Some("checkpoint".to_owned()))]);
    let error = checkpoint.types(&entry.architecture().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("weight-dtype: "), "{error}");
}
