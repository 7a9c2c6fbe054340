//! Reads a Hugging Face `config.json` by its fields, never by the model's name.
//!
//! `model_type` is a field too: it supplies the defaults of its configuration class ([`class_defaults`]) and may choose
//! an engine's rule.

mod cache_format;
mod class_defaults;
mod fields;
mod json;
mod kinds;
mod known_classes;
mod layers;
mod lengths;
mod loops;
mod rope;
mod shapes;
mod sources;
mod strict;
mod weight_format;
mod weights;

use serde_json::Value;

use crate::architecture::{Architecture, EngineHints, ModelFacts};
use crate::cost::Operand;
use crate::fact::Source;
use crate::format::StateFormat;
use crate::settings::Chosen;
use crate::warning::Warning;
use crate::{Error, Result};
use fields::Fields;

pub(crate) use fields::listed;
pub(crate) use json::read_value;
pub(crate) use lengths::StatedLengths;
pub(crate) use rope::{RopeRule, RopeScaling};
pub(crate) use shapes::{csa, hca, kda_mixer, product, sum, uneven};
pub(crate) use sources::without_index_owner;
pub use strict::Unknown;
pub(crate) use strict::{Unread, report_doubt, report_unread};
pub(crate) use weight_format::{StatedWeights, published_weights};
pub(crate) use weights::read_weights;

/// Reads a config from its JSON text.
///
/// # Errors
///
/// Text that is not a JSON object, an unknown layer kind, a missing field without a defined default, a value out of
/// range, or fields that contradict each other. The error names the field's JSON path.
pub fn read_config(text: &str) -> Result<Architecture> {
    read_config_text(text, Unknown::Warn)
}

/// Reads a config from its JSON text, and says what becomes of fields that no rule knows.
///
/// # Errors
///
/// See [`read_config`]; with [`Unknown::Refuse`] also a field that could change the state and that no rule knows.
pub fn read_config_text(text: &str, unknown: Unknown) -> Result<Architecture> {
    read_config_and_value(text, unknown).map(|(architecture, _)| architecture)
}

/// The same with the config as a value, where the special numbers that Python writes (`Infinity`, `NaN`) are null.
///
/// # Errors
///
/// See [`read_config_text`].
pub fn read_config_and_value(text: &str, unknown: Unknown) -> Result<(Architecture, Value)> {
    let json::Text { value, twice, special } = json::parse(text)?;
    Ok((read_object(&value, Doubts { twice, special }, unknown)?, value))
}

/// Reads a config that is already parsed.
///
/// # Errors
///
/// See [`read_config`].
pub fn read_config_value(value: &Value) -> Result<Architecture> {
    read_config_object(value, Unknown::Warn)
}

/// Reads a config that is already parsed, and says what becomes of fields that no rule knows.
///
/// # Errors
///
/// See [`read_config_text`].
pub fn read_config_object(value: &Value, unknown: Unknown) -> Result<Architecture> {
    read_object(value, Doubts::default(), unknown)
}

/// What the text of a config says and its value does not.
#[derive(Default)]
struct Doubts {
    twice: Vec<json::Twice>,
    special: Vec<json::Special>,
}

fn read_object(value: &Value, doubts: Doubts, unknown: Unknown) -> Result<Architecture> {
    let root = value
        .as_object()
        .ok_or_else(|| Error::syntax("a config is a JSON object, not another kind of value"))?;
    let fields = Fields::new(root)?.with_special(doubts.special);
    let mut warnings = Vec::new();
    for found in doubts.twice {
        strict::report_doubt(given_twice(found), unknown, &mut warnings)?;
    }
    fields.without_reading(|| fields.text("model_type"))?;
    known_classes::warn_of_unknown(&fields, &mut warnings);
    let dtype = model_dtype(&fields, unknown, &mut warnings)?;
    let recurrent_dtype = recurrent_dtype(&fields)?;
    let checkpoint_kv = cache_format::checkpoint_kv(&fields, &mut warnings)?;
    let checkpoint_weights = weight_format::checkpoint_weights(&fields, Operand::of(dtype.format));
    let layers::Read { layers_field, count_field, mut drafts } = layers::read_layers(&fields, &mut warnings)?;
    let loops = loops::repeat(&fields, &mut drafts, &mut warnings)?;
    let lengths = lengths::read(&fields)?;
    let facts = ModelFacts {
        name: None,
        layers_field,
        count_field,
        dtype,
        recurrent_dtype,
        checkpoint_kv,
        checkpoint_weights,
        max_context: lengths.own().cloned(),
        lengths,
        model_type: fields.model_type().map(str::to_owned),
        architectures: architectures(&fields)?,
        plain_heads: shapes::plain_heads(&fields),
        hints: hints(&fields, drafts.len())?,
        experts: weights::expert_count(&fields)?,
        mamba_chunk: layers::mamba_chunk(&fields, &drafts)?,
        encoder_layers: layers::encoder_layers(&fields, &drafts)?,
        loops,
        rope_scaling: rope::rope_scaling(&fields),
    };
    for found in fields.contradictions() {
        strict::report_doubt(found, unknown, &mut warnings)?;
    }
    // What keeps nothing keeps nothing whatever else its config says.
    if !kinds::keeps_nothing(&fields)? {
        report_unread(fields.unread(), unknown, &mut warnings)?;
    }
    Ok(Architecture::new(drafts, facts, warnings))
}

fn hints(fields: &Fields<'_>, layers: usize) -> Result<EngineHints> {
    let is_on = |key| Ok(fields.flag(key)?.is_some_and(|(_, on)| on));
    Ok(EngineHints {
        asks_for_window_pool: matches!(fields.flag("is_hybrid_swa"), Ok(Some((_, true)))),
        bounded_gate: bounded_gate(fields)?,
        latents_as_heads: false,
        widened_heads: is_on("new_decoder_architecture")?,
        max_window_layers: kinds::first_with_window(fields)?,
        padded_windows: kinds::draft_windows(fields, "layer_types", layers)?,
        mtp_windows: kinds::draft_windows(fields, "mtp_layer_types", 0)?,
    })
}

/// Python's `json`, by which engines read configs, takes the last of several values.
fn given_twice(found: json::Twice) -> Warning {
    let (dropped, taken) = (fields::shown(&found.dropped), fields::shown(&found.taken));
    Warning::new(found.path, format!("stands twice, as {dropped} and {taken}; the last is taken"))
}

/// Whether KDA's gate has a lower bound where its layers export states inside a prefill: Kimi-K3's full-rank gate with a
/// bound, and GLM-5.3's class, which has one unless the config says null (vLLM 0.33, `models/kimi_k3`; transformers 5.19).
fn bounded_gate(fields: &Fields<'_>) -> Result<bool> {
    if let Some(linear) = fields.object("linear_attn_config")? {
        let full_rank = linear.flag("use_full_rank_gate")?.is_some_and(|(_, on)| on);
        if full_rank && linear.has("gate_lower_bound") {
            return Ok(true);
        }
    }
    if !fields.model_type().is_some_and(|class| class.starts_with("glm5_next")) {
        return Ok(false);
    }
    let is_stated = fields.has("linear_lower_bound");
    let is_switched_off = !is_stated && fields.is_null("linear_lower_bound");
    Ok(!is_switched_off)
}

/// The outermost list, which is the one that engines read.
fn architectures(fields: &Fields<'_>) -> Result<Vec<String>> {
    let Some((path, list)) = fields.outer_list("architectures")? else { return Ok(Vec::new()) };
    list.iter()
        .map(|value| {
            value.as_str().map(str::to_owned).ok_or_else(|| fields::wrong_type(&path, "a class name", value))
        })
        .collect()
}

fn model_dtype(
    fields: &Fields<'_>,
    unknown: Unknown,
    warnings: &mut Vec<Warning>,
) -> Result<Chosen<StateFormat>> {
    let mut absent = true;
    for key in fields::DTYPES {
        let Some((path, name)) = fields.text(key)? else { continue };
        absent = false;
        if let Ok(format) = name.parse() {
            return Ok(Chosen { format, source: Source::field(path) });
        }
        let doubt = Warning::new(path, format!("{name:?} is no K/V type; bf16 is assumed for K/V and state"));
        strict::report_doubt(doubt, unknown, warnings)?;
    }
    if absent {
        let message = "absent; bf16 is assumed for K/V and state";
        warnings.push(Warning::new(fields.path_of("dtype"), message));
    }
    let rule = "bf16, as current checkpoints are published";
    Ok(Chosen { format: StateFormat::Bf16, source: Source::default("dtype", rule) })
}

fn recurrent_dtype(fields: &Fields<'_>) -> Result<Option<Chosen<StateFormat>>> {
    for key in fields::RECURRENT_DTYPES {
        let Some((path, name)) = fields.text(key)? else { continue };
        if name == "auto" {
            continue;
        }
        let format = name.parse().map_err(|error: Error| Error::field(path.clone(), error.what()))?;
        return Ok(Some(Chosen { format, source: Source::field(path) }));
    }
    Ok(None)
}
