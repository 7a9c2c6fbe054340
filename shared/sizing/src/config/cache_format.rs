//! The K/V format that a quantised checkpoint asks for, which is not the format of its weights.

use serde_json::{Map, Value};

use super::fields::{Fields, WEIGHT_FORMATS};
use crate::architecture::{CheckpointKv, Exporter};
use crate::format::KvFormat;
use crate::warning::Warning;
use crate::{Error, Result};

/// One level deeper in checkpoints of older exporters.
const NESTED: &str = "quantization";

const SCHEME: &str = "kv_cache_scheme";
const ALGORITHM: &str = "kv_cache_quant_algo";

/// What the quantisation config says of K/V: the first of its fields that says anything. What it says in words that no rule knows
/// stays unread, so that it is reported. Which engine follows it, and from which version on, is the engine's.
///
/// Source: vLLM 0.14 to 0.33, `utils/torch_utils.py` (exporters named `modelopt…`) and `layers/attention/attention.py`
/// (`compressed-tensors`).
pub(super) fn checkpoint_kv(
    fields: &Fields<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<CheckpointKv>> {
    // The first that is there counts (vLLM 0.33, `model_arch_config_convertor.py`).
    let Some((path, value)) = WEIGHT_FORMATS.into_iter().find_map(|key| fields.peek(key)) else {
        return Ok(None);
    };
    let Some(config) = value.as_object() else { return Err(Error::field(path, "expected an object")) };
    let exporter = match config.get("quant_method").and_then(Value::as_str).unwrap_or_default() {
        "compressed-tensors" => Exporter::CompressedTensors,
        "fp8" => Exporter::PlainFp8,
        other if other.starts_with("modelopt") => Exporter::Modelopt,
        _ => return Ok(None),
    };
    let outer = (path.clone(), Some(config));
    let nested = (format!("{path}.{NESTED}"), config.get(NESTED).and_then(Value::as_object));
    let places = match exporter {
        Exporter::Modelopt => {
            vec![(&nested, SCHEME), (&outer, SCHEME), (&nested, ALGORITHM), (&outer, ALGORITHM)]
        }
        Exporter::CompressedTensors => vec![(&outer, SCHEME)],
        Exporter::PlainFp8 => vec![(&outer, ALGORITHM)],
    };
    let stated = places.into_iter().find_map(|((prefix, map), key)| {
        let value = map.and_then(|map| map.get(key)).filter(|value| says_anything(value))?;
        Some((format!("{prefix}.{key}"), value))
    });
    let Some((path, value)) = stated else { return Ok(None) };
    let Some((format, is_static)) = asked(value, exporter) else { return Ok(None) };
    let is_of_text = !WEIGHT_FORMATS.iter().any(|key| path.starts_with(key));
    fields.count_as_read(value);
    warnings.push(Warning::new(
        path,
        format!(
            "asks for {format} K/V: where kv_dtype is not set {}; other engines' figures count it where kv_dtype is set",
            match exporter {
                Exporter::PlainFp8 => "SGLang follows it",
                _ => "vLLM follows it by its release, SGLang ModelOpt's FP8, and TensorRT-LLM always",
            }
        ),
    ));
    Ok(Some(CheckpointKv { format, exporter, is_static, is_of_text }))
}

/// Python's `or` passes over null, empty words and empty objects.
fn says_anything(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(name) => !name.is_empty(),
        Value::Object(scheme) => !scheme.is_empty(),
        _ => true,
    }
}

/// The format, and whether its scales are static.
fn asked(value: &Value, exporter: Exporter) -> Option<(KvFormat, bool)> {
    match value {
        Value::String(name) if exporter != Exporter::CompressedTensors => Some((named(name)?, true)),
        Value::Object(scheme) => {
            let is_static = scheme.get("dynamic").and_then(Value::as_bool) == Some(false);
            Some((scheme_format(scheme, exporter)?, is_static))
        }
        _ => None,
    }
}

fn named(name: &str) -> Option<KvFormat> {
    match name.to_ascii_lowercase().as_str() {
        "fp8" => Some(KvFormat::Fp8),
        "nvfp4" => Some(KvFormat::Nvfp4),
        _ => None,
    }
}

fn scheme_format(scheme: &Map<String, Value>, exporter: Exporter) -> Option<KvFormat> {
    let bits = scheme.get("num_bits").and_then(Value::as_u64)?;
    match (scheme.get("type").and_then(Value::as_str)?, bits) {
        ("float", 8) => Some(KvFormat::Fp8),
        ("float", 4) if exporter == Exporter::Modelopt => Some(KvFormat::Nvfp4),
        _ => None,
    }
}
