//! In which types a quantised checkpoint stores its weights.
//!
//! Sources: `quantization_config` as transformers 5.24 (`utils/quantization_config.py`) and vLLM 0.33
//! (`model_executor/layers/quantization`) read it; published configs of DeepSeek-V3 and -V4, gpt-oss, Kimi-K2.5 and -K3,
//! MiniMax-M2.7, and `ModelOpt`'s of GLM-5.1 and Llama-3.1-70B.

use serde_json::{Map, Value};

use super::fields::Fields;
use crate::cost::{CheckpointWeights, Operand, Scale, Stored};
use crate::format::StateFormat;

/// What stands in the config of weights, by the names of several exporters.
const OBJECTS: [&str; 2] = ["quantization_config", "compression_config"];
/// Modules that keep the model's own type.
const LEFT_OUT: [&str; 4] = ["modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"];

/// What is published of a checkpoint's weights, apart from its config.
pub(crate) fn published_weights(checkpoint: &Value, dtype: StateFormat) -> Option<CheckpointWeights> {
    checkpoint_weights(&Fields::new(checkpoint.as_object()?).ok()?, Operand::of(dtype))
}

/// How the checkpoint stores its weights, where a rule knows the method; `own` is what it leaves as it is.
pub(super) fn checkpoint_weights(fields: &Fields<'_>, own: Operand) -> Option<CheckpointWeights> {
    let config = OBJECTS.into_iter().find_map(|key| fields.peek(key)?.1.as_object())?;
    // ModelOpt's older exports have one level more.
    let inner = config.get("quantization").and_then(Value::as_object).unwrap_or(config);
    let narrow = scheme(config, inner)?;
    let own = Stored { operand: own, scale: None };
    let covered = Covered::of(config, inner);
    let of = |is_covered: bool| if is_covered { narrow } else { own };
    let experts = match fields.peek("expert_dtype").and_then(|(_, value)| value.as_str()) {
        // DeepSeek-V4: MXFP4 experts in a checkpoint of FP8.
        Some("fp4") => Stored { operand: Operand::Fp4, scale: Some(Scale { bytes: 1, values: 32 }) },
        _ => of(covered.experts),
    };
    let shared_experts = of(covered.shared_experts);
    Some(CheckpointWeights { others: of(covered.others), experts, shared_experts, around: own })
}

/// The type of what is converted.
fn scheme(config: &Map<String, Value>, inner: &Map<String, Value>) -> Option<Stored> {
    let text = |key: &str| inner.get(key).and_then(Value::as_str).map(str::to_ascii_lowercase);
    let number = |key: &str| inner.get(key).and_then(Value::as_u64);
    let is_on = |key: &str| inner.get(key).and_then(Value::as_bool) == Some(true);
    let narrow = |operand, scale: Option<Scale>| Some(Stored { operand, scale });
    let method = config.get("quant_method").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    match (method.as_str(), text("quant_algo").as_deref()) {
        (_, Some("fp8")) => narrow(Operand::Fp8, None),
        (_, Some("nvfp4")) => narrow(Operand::Fp4, Some(Scale { bytes: 1, values: 16 })),
        (_, Some("w4a16_awq" | "w4a8_awq")) => narrow(Operand::Fp4, Some(Scale { bytes: 2, values: 128 })),
        ("fp8" | "fbgemm_fp8", None) => narrow(Operand::Fp8, block_scale(inner)),
        ("mxfp4", None) => narrow(Operand::Fp4, Some(Scale { bytes: 1, values: 32 })),
        ("awq" | "gptq" | "auto-round" | "auto_round", None) => {
            let operand = of_bits(number("bits")?)?;
            // A scale in two bytes and a zero point for each group of a column.
            let group = number("group_size").filter(|group| (1..=1 << 16).contains(group));
            let bits = number("bits")?;
            narrow(operand, group.map(|group| Scale { bytes: 16 + bits, values: 8 * group }))
        }
        ("bitsandbytes", None) if is_on("load_in_8bit") => narrow(Operand::Fp8, None),
        ("bitsandbytes", None) if is_on("load_in_4bit") => {
            let bytes = if is_on("bnb_4bit_use_double_quant") { 1 } else { 4 };
            narrow(Operand::Fp4, Some(Scale { bytes, values: 64 }))
        }
        ("compressed-tensors" | "modelopt", None) => of_groups(inner.get("config_groups")?.as_object()?),
        _ => None,
    }
}

/// `weight_block_size`: a float in four bytes for each block.
fn block_scale(inner: &Map<String, Value>) -> Option<Scale> {
    let sides = inner.get("weight_block_size")?.as_array()?;
    let mut values = sides.iter().map(|side| side.as_u64().filter(|side| (1..=1 << 16).contains(side)));
    let values = values.try_fold(1_u64, |product, side| product.checked_mul(side?))?;
    (values > 1).then_some(Scale { bytes: 4, values })
}

/// Groups that agree in their type; a mixture has none.
fn of_groups(groups: &Map<String, Value>) -> Option<Stored> {
    let mut all = groups.values().map(|group| of_group(group.get("weights")?));
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

fn of_group(weights: &Value) -> Option<Stored> {
    let number = |key: &str| weights.get(key).and_then(Value::as_u64);
    let operand = of_bits(number("num_bits")?)?;
    let group = number("group_size").filter(|group| (1..=1 << 16).contains(group));
    let is_float = weights.get("type").and_then(Value::as_str) == Some("float");
    // Scales of NVFP4 and MXFP4 are a byte, of integers two.
    let bytes = if is_float { 1 } else { 2 };
    Some(Stored { operand, scale: group.map(|values| Scale { bytes, values }) })
}

fn of_bits(bits: u64) -> Option<Operand> {
    match bits {
        4 => Some(Operand::Fp4),
        8 => Some(Operand::Fp8),
        _ => None,
    }
}

/// Which parts are converted.
struct Covered {
    others: bool,
    experts: bool,
    shared_experts: bool,
}

impl Covered {
    fn of(config: &Map<String, Value>, inner: &Map<String, Value>) -> Self {
        let left_out: Vec<&str> = LEFT_OUT
            .into_iter()
            .flat_map(|key| [config.get(key), inner.get(key)])
            .filter_map(|list| list?.as_array())
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let method = config.get("quant_method").and_then(Value::as_str).unwrap_or_default();
        // Of gpt-oss's method experts alone are known to it.
        let of_experts_alone = method == "mxfp4";
        let whole_attention = |name: &&str| {
            let name = name.trim_end_matches(['*', '.', '$']);
            name.ends_with("attn") || name.ends_with("attention")
        };
        let leaves = |word: &str| left_out.iter().any(|name| name.contains(word));
        Self {
            others: !of_experts_alone && !left_out.iter().any(whole_attention),
            experts: !left_out
                .iter()
                .any(|name| name.trim_end_matches(['*', '.', '$']).ends_with(".experts")),
            shared_experts: !of_experts_alone && !leaves("shared_expert"),
        }
    }
}
