//! The K/V format that a quantised checkpoint asks for, which is not the format of its weights.

use serde_json::{Map, Value};

use super::fields::{CACHE_FORMATS, Fields};
use crate::architecture::CheckpointKv;
use crate::fact::Source;
use crate::format::KvFormat;
use crate::settings::Chosen;
use crate::warning::Warning;
use crate::{Error, Result};

/// Who wrote the quantisation config.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Exporter {
    Modelopt,
    CompressedTensors,
}

const QUANTIZATION: &str = "quantization_config";
/// One level deeper in checkpoints of older exporters.
const NESTED: &str = "quantization";

/// What the quantisation config says of K/V. What it says in words that no rule knows stays unread, so that it is
/// reported.
///
/// Source: vLLM 0.33, `utils/torch_utils.py` (exporters named `modelopt…`, for every layer) and
/// `layers/attention/attention.py` (`compressed-tensors`, for layers with K/V heads).
pub(super) fn checkpoint_kv(
    fields: &Fields<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<CheckpointKv>> {
    let Some((path, value)) = fields.peek(QUANTIZATION) else { return Ok(None) };
    let Some(config) = value.as_object() else { return Err(Error::field(path, "expected an object")) };
    let exporter = match config.get("quant_method").and_then(Value::as_str).unwrap_or_default() {
        "compressed-tensors" => Exporter::CompressedTensors,
        other if other.starts_with("modelopt") => Exporter::Modelopt,
        _ => return Ok(None),
    };
    let nested = config.get(NESTED).and_then(Value::as_object);
    for (prefix, map) in [(format!("{path}.{NESTED}"), nested), (path, Some(config))] {
        let Some((key, format)) = map.and_then(|map| stated(map, exporter)) else { continue };
        if let Some(value) = map.and_then(|map| map.get(key)) {
            fields.count_as_read(value);
        }
        let path = format!("{prefix}.{key}");
        warnings.push(Warning::new(
            &path,
            format!(
                "asks for {format} K/V: where kv_dtype is not set vLLM follows it, SGLang for ModelOpt's FP8, others do \
                 not"
            ),
        ));
        let chosen = Chosen { format, source: Source::field(path) };
        let latents = (exporter == Exporter::Modelopt).then(|| chosen.clone());
        return Ok(Some(CheckpointKv { heads: chosen, latents }));
    }
    Ok(None)
}

fn stated(map: &Map<String, Value>, exporter: Exporter) -> Option<(&'static str, KvFormat)> {
    CACHE_FORMATS.into_iter().find_map(|key| {
        let format = match map.get(key)? {
            Value::String(name) if exporter == Exporter::Modelopt => named(name),
            Value::Object(scheme) => scheme_format(scheme, exporter),
            _ => None,
        };
        Some((key, format?))
    })
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
