//! Models that see their whole input at once and keep nothing of it.

use serde_json::Value;

use crate::Result;
use crate::config::class_defaults;
use crate::config::fields::Fields;

/// Whether the model is an encoder by its class, which no list of layers changes.
pub(in crate::config) fn keeps_nothing(fields: &Fields<'_>) -> Result<bool> {
    let is_encoder = class_defaults::is_encoder(fields.model_type())
        && !fields.flag("is_decoder")?.is_some_and(|(_, on)| on);
    Ok(is_encoder || sees_both_ways(fields)?.is_some())
}

/// The field that turns causal attention off, as embedding models made of decoders have it: `is_causal` (vLLM 0.33, `models/qwen2.py`
/// and others, which then take encoder attention), or Gemma's own, which may also be on for pictures alone (transformers 5.19).
pub(super) fn sees_both_ways(fields: &Fields<'_>) -> Result<Option<String>> {
    if let Some((path, false)) = fields.flag("is_causal")? {
        return Ok(Some(path));
    }
    // PaliGemma's class turns it on for pictures and prefixes, and caches all the same (`PaliGemmaConfig.__post_init__`).
    if fields.outer_model_type().is_some_and(|class| class == "paligemma") {
        return Ok(None);
    }
    let of_gemma = fields.find("use_bidirectional_attention");
    Ok(of_gemma.filter(|(_, value)| *value == "all" || *value == &Value::Bool(true)).map(|(path, _)| path))
}
