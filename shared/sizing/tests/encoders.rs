//! Encoders beside a decoder in SGLang, which has no cache of its own for their output.
//!
//! Source: SGLang's `models/whisper.py` and `models/mllama.py` (`pad_input_ids` puts the encoder's tokens before those of the
//! text), `ScheduleBatch.prepare_encoder_info_extend` (which takes their slots from the one pool), and `model_config.py`
//! (`num_attention_layers`).

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "in tests a panic is the report, and these figures are exact"
)]

use crate::support::asked;

use asked::{catalogued, figure, report_of, settings};
use kvscope_sizing::engine::{Query, Rest, reservation};
use kvscope_sizing::{Architecture, read_config};

fn whisper() -> Architecture {
    let config = r#"{"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 1280,
        "decoder_attention_heads": 20, "decoder_layers": 4, "encoder_layers": 32, "max_source_positions": 1500,
        "max_target_positions": 448, "torch_dtype": "float16"}"#;
    read_config(config).unwrap()
}

/// Llama-3.2-11B-Vision: 40 layers, 8 of cross-attention, each with 2 × 8 × 128 × 2 B for every slot. A request of 1000
/// tokens beside a picture of 4 × 1601 has 7404 slots.
#[test]
fn an_encoders_tokens_have_slots_in_every_layer() {
    let vision = catalogued("llama-3.2-11b-vision-instruct");
    let asked = [("context", "1000"), ("encoder_tokens", "6404"), ("kv_dtype", "bf16")];
    let slot = 40.0 * 2.0 * 8.0 * 128.0 * 2.0;
    assert_eq!(figure(&vision, "sglang", &asked, "resident_bytes"), 7404.0 * slot);
    assert_eq!(figure(&vision, "sglang", &asked, "slope_bytes_per_token"), slot);
    assert_eq!(figure(&vision, "sglang", &asked, "fixed_bytes_per_request"), 6404.0 * slot);
    let own = settings(&asked);
    let query = Query::new(&vision, "sglang".parse().unwrap(), &own).unwrap();
    let found = reservation(&query).unwrap();
    // Text in cross-attention layers and pictures in the others.
    let more = (1000 * 8 + 6404 * 32) * 4096;
    let Rest::More(bytes, why) = &found.rest else { panic!("{:?}", found.rest) };
    assert_eq!(bytes.get(), more);
    assert!(
        why.contains("6,404 tokens of the encoder's output have slots") && !why.contains("not named"),
        "{why}"
    );
    let worked = found.parts[0].worked.as_deref().unwrap();
    assert!(worked.starts_with("7,404 tokens × 163,840 B; a token takes"), "{worked}");
}

/// Whisper large-v3-turbo numbers 32 + 2 × 4 layers, of 2 × 20 × 64 × 2 B a slot; a request has 1500 slots of audio.
#[test]
fn the_encoders_own_layers_have_slots_too() {
    let asked = [("context", "448")];
    assert_eq!(figure(&whisper(), "sglang", &asked, "resident_bytes"), f64::from(1948 * 40 * 5120));
}

/// `models/` of SGLang has Whisper and Llama 3.2 Vision, and no T5.
#[test]
fn classes_that_sglang_lacks_are_told() {
    let told = |architecture: &Architecture| {
        let found =
            report_of(architecture, "sglang", &[("context", "448"), ("encoder_tokens", "100")]).warnings;
        found
            .into_iter()
            .any(|warning| warning.message.starts_with("SGLang has no class for T5ForConditionalGeneration"))
    };
    let t5 = r#"{"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_model": 512, "d_kv": 64,
        "num_heads": 8, "num_layers": 6, "torch_dtype": "float16"}"#;
    assert!(told(&read_config(t5).unwrap()));
    assert!(!told(&whisper()) && !told(&catalogued("llama-3.2-11b-vision-instruct")));
}

/// `num_attention_layers` of SGLang is `num_hidden_layers × loop_num` for `IQuest`'s loop coder, at full length: 80 × 2 layers of
/// 2 × 8 × 128 × 2 B. Of other loops its sources say nothing.
#[test]
fn passes_of_loops_are_told_where_no_source_counts_them() {
    let coder = r#"{"architectures": ["IQuestLoopCoderForCausalLM"], "model_type": "iquestloopcoder", "num_hidden_layers": 80,
        "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "loop_num": 2, "loop_window_size": 64,
        "torch_dtype": "bfloat16"}"#;
    let ouro = r#"{"architectures": ["OuroForCausalLM"], "model_type": "ouro", "num_hidden_layers": 48,
        "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 128, "total_ut_steps": 4, "torch_dtype": "bfloat16"}"#;
    let told = |config: &str| {
        let found = report_of(&read_config(config).unwrap(), "sglang", &[("context", "1000")]).warnings;
        found.iter().any(|warning| warning.message.starts_with("SGLang has no rule for the passes of"))
    };
    assert!(!told(coder) && told(ouro));
    let asked = [("context", "1000")];
    let bytes = figure(&read_config(coder).unwrap(), "sglang", &asked, "resident_bytes");
    assert_eq!(bytes, f64::from(1000 * 160 * 4096));
}
