//! In which types a quantised checkpoint stores its weights, and in which it multiplies by them.
//!
//! Sources: `quantization_config` as transformers 5.24 (`utils/quantization_config.py`) and vLLM 0.33
//! (`model_executor/layers/quantization`) read it; published configs of DeepSeek-V3 and -V4, gpt-oss, Kimi-K2, -K2.5 and -K3,
//! `MiMo`-V2-Flash, `MiniMax`-M2.5 and -M2.7, and `ModelOpt`'s of GLM-5.1, DeepSeek-V3.1 and Llama-3.1-70B.

mod modules;
mod overrides;

use serde_json::{Map, Value};

use super::fields::{Fields, LAYERS, WEIGHT_FORMATS};
use crate::cost::{CheckpointWeights, Operand, Scale, Stored};
use crate::format::StateFormat;
use modules::{Modules, Sample};
use overrides::overrides;

/// Modules that keep the model's own type.
const LEFT_OUT: [&str; 4] = ["modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"];
/// The largest group of values with one scale.
const LARGEST_GROUP: u64 = 1 << 16;

/// What a config says of its checkpoint's weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatedWeights {
    /// Their types, where a rule knows the method.
    pub(crate) stored: Option<CheckpointWeights>,
    /// The method that no rule knows.
    pub(crate) unread: Option<String>,
}

/// What is published of a checkpoint's weights, apart from its config.
pub(crate) fn published_weights(checkpoint: &Value, dtype: StateFormat) -> Option<CheckpointWeights> {
    checkpoint_weights(&Fields::new(checkpoint.as_object()?).ok()?, Operand::of(dtype)).stored
}

/// How the checkpoint stores its weights; `own` is what it leaves as it is.
pub(super) fn checkpoint_weights(fields: &Fields<'_>, own: Operand) -> StatedWeights {
    let Some(config) = WEIGHT_FORMATS.into_iter().find_map(|key| fields.peek(key)?.1.as_object()) else {
        return StatedWeights::default();
    };
    // ModelOpt's older exports have one level more.
    let inner = config.get("quantization").and_then(Value::as_object).unwrap_or(config);
    let method = config.get("quant_method").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let schemes = match schemes(&method, inner, own) {
        Some(schemes) => schemes,
        None if method.is_empty() && inner.get("quant_algo").is_none() => return StatedWeights::default(),
        None => {
            let algorithm = inner.get("quant_algo").and_then(Value::as_str);
            let unread = algorithm.map_or(method.clone(), |algorithm| format!("{method} {algorithm}"));
            return StatedWeights { stored: None, unread: Some(unread.trim().to_owned()) };
        }
    };
    let layers = LAYERS.into_iter().find_map(|key| fields.peek(key)?.1.as_u64());
    let samples = Sample::of(layers.unwrap_or(1));
    let left_out = names(&LEFT_OUT.map(|key| inner.get(key).or_else(|| config.get(key))));
    let kept = Stored { operand: own, computed: own, scale: None };
    let in_sample = |modules: Modules, sample| {
        let scheme = schemes.iter().find(|(targets, _)| modules.are_targets(targets, sample));
        let scheme = scheme.filter(|_| !modules.are_named(&left_out, sample));
        scheme.and_then(|(_, stored)| *stored).unwrap_or(kept)
    };
    let of = |modules: Modules| {
        let [first, middle, last] = samples.map(|sample| in_sample(modules, sample));
        if first == last { first } else { middle }
    };
    let experts = match fields.peek("expert_dtype").and_then(|(_, value)| value.as_str()) {
        // DeepSeek-V4: MXFP4 experts beside FP8 activations.
        Some("fp4") => mxfp4(Operand::Fp8),
        _ => of(Modules::Experts),
    };
    let stored = CheckpointWeights {
        projections: of(Modules::Attention),
        others: of(Modules::Mlp),
        experts,
        shared_experts: of(Modules::SharedExperts),
        around: kept,
    };
    StatedWeights { stored: Some(stored), unread: None }
}

/// Types by the modules that they are for, the model's own where there is none; every linear layer where no names are given.
type Schemes = Vec<(Vec<String>, Option<Stored>)>;

fn schemes(method: &str, inner: &Map<String, Value>, own: Operand) -> Option<Schemes> {
    let text = |key: &str| inner.get(key).and_then(Value::as_str).map(str::to_ascii_lowercase);
    let is_on = |key: &str| inner.get(key).and_then(Value::as_bool) == Some(true);
    let everywhere =
        |operand, computed, scale| Some(vec![(Vec::new(), Some(Stored { operand, computed, scale }))]);
    match (method, text("quant_algo").as_deref()) {
        (_, Some("fp8")) => everywhere(Operand::Fp8, Operand::Fp8, None),
        (_, Some("nvfp4")) => everywhere(Operand::Fp4, Operand::Fp4, Some(Scale { bytes: 1, values: 16 })),
        (_, Some("w4a16_awq")) => everywhere(Operand::Fp4, own, Some(Scale { bytes: 2, values: 128 })),
        (_, Some("w4a8_awq")) => {
            everywhere(Operand::Fp4, Operand::Fp8, Some(Scale { bytes: 2, values: 128 }))
        }
        ("fp8" | "fbgemm_fp8", None) => everywhere(Operand::Fp8, Operand::Fp8, block_scale(inner)),
        // Of gpt-oss's method experts alone are known to it.
        ("mxfp4", None) => Some(vec![(vec!["re:.*\\.experts".to_owned()], Some(mxfp4(own)))]),
        ("awq" | "gptq" | "auto-round" | "auto_round", None) => {
            let integers = |settings: &Map<String, Value>| {
                let number = |key: &str| settings.get(key).or_else(|| inner.get(key))?.as_u64();
                let bits = number("bits")?;
                // A scale in two bytes and a zero point for each group of a column.
                let scale = group_of(number("group_size"))
                    .map(|values| Scale { bytes: 16 + bits, values: 8 * values });
                Some(Stored { operand: of_bits(bits)?, computed: own, scale })
            };
            let mut schemes = Schemes::new();
            for one in overrides(inner) {
                let stored = match one.settings {
                    Some(settings) => Some(integers(settings)?),
                    None => None,
                };
                // Names of single matrices mean a part together; of patterns, which stand alone, the first that fits counts.
                let is_single = |name: &String| !name.starts_with("re:");
                let same = schemes.iter_mut().find(|(names, other)| *other == stored && is_single(&names[0]));
                match same.filter(|_| is_single(&one.name)) {
                    Some((names, _)) => names.push(one.name),
                    None => schemes.push((vec![one.name], stored)),
                }
            }
            schemes.push((Vec::new(), Some(integers(inner)?)));
            Some(schemes)
        }
        ("bitsandbytes", None) if is_on("load_in_8bit") => everywhere(Operand::Fp8, Operand::Fp8, None),
        ("bitsandbytes", None) if is_on("load_in_4bit") => {
            let bytes = if is_on("bnb_4bit_use_double_quant") { 1 } else { 4 };
            everywhere(Operand::Fp4, own, Some(Scale { bytes, values: 64 }))
        }
        ("compressed-tensors" | "modelopt", _) | ("", None) => {
            let groups = inner.get("config_groups")?.as_object()?;
            groups.values().map(|group| of_group(group, own)).collect()
        }
        _ => None,
    }
}

/// A byte of scale for 32 values.
fn mxfp4(computed: Operand) -> Stored {
    Stored { operand: Operand::Fp4, computed, scale: Some(Scale { bytes: 1, values: 32 }) }
}

/// `weight_block_size`: a float in four bytes for each block.
fn block_scale(inner: &Map<String, Value>) -> Option<Scale> {
    let sides = inner.get("weight_block_size")?.as_array()?;
    let mut sides = sides.iter().map(|side| group_of(side.as_u64()));
    let values = sides.try_fold(1_u64, |product, side| product.checked_mul(side?))?;
    (values > 1).then_some(Scale { bytes: 4, values })
}

fn of_group(group: &Value, own: Operand) -> Option<(Vec<String>, Option<Stored>)> {
    let weights = group.get("weights")?;
    let bits = |value: &Value| value.get("num_bits").and_then(Value::as_u64);
    let operand = of_bits(bits(weights)?)?;
    let is_float = weights.get("type").and_then(Value::as_str) == Some("float");
    // Scales of NVFP4 and MXFP4 are a byte, of integers two.
    let bytes = if is_float { 1 } else { 2 };
    let scale =
        group_of(weights.get("group_size").and_then(Value::as_u64)).map(|values| Scale { bytes, values });
    // Without activations of their own, weights are widened first.
    let activations = group.get("input_activations").and_then(bits).and_then(of_bits);
    let targets = names(&[group.get("targets")]);
    let all = targets.iter().any(|target| target == "Linear");
    Some((
        if all { Vec::new() } else { targets },
        Some(Stored { operand, computed: activations.unwrap_or(own), scale }),
    ))
}

fn group_of(values: Option<u64>) -> Option<u64> {
    values.filter(|values| (1..=LARGEST_GROUP).contains(values))
}

fn of_bits(bits: u64) -> Option<Operand> {
    match bits {
        4 => Some(Operand::Fp4),
        8 => Some(Operand::Fp8),
        _ => None,
    }
}

fn names(lists: &[Option<&Value>]) -> Vec<String> {
    let lists = lists.iter().filter_map(|list| list.as_ref()?.as_array());
    lists.flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
