//! The figures of one model under an engine's accounting, beside the logical ones.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::reserved::of_requests;
use super::{
    Engine, EngineReport, Figure, PaddingOf, Quantity, Query, Reservation, report, reservation, vllm,
};
use crate::architecture::Architecture;
use crate::settings::Settings;
use crate::size::{Size, StateModel};
use crate::warning::Warning;
use crate::{ErrorKind, Result, Tokens, group_digits};

/// What an engine reserves, and the logical bytes that it reserves them for: the JSON of `kvscope size --engine …`.
#[derive(Clone, Debug)]
pub struct EngineSize {
    /// Everything that the engine's profile says.
    pub report: EngineReport,
    /// The same request in dense bytes, unsharded, without blocks and padding.
    pub logical: Size,
    /// Both for the batch at the context, part by part, with what lies between them; `None` without a context, or where
    /// the engine lacks a setting.
    pub reservation: Option<Reservation>,
    /// Warnings of both, each once.
    pub warnings: Vec<Warning>,
}

/// Sizes one model in one engine. `model` is only a label. Every request of the batch has the whole context, also where
/// the engine divides one context among them.
///
/// # Errors
///
/// Settings that do not fit the model, or an overflow. A figure whose setting is missing is listed in
/// [`EngineReport::unanswered`].
pub fn size_in_engine(
    model: &str,
    architecture: &Architecture,
    engine: &Engine,
    context: Option<Tokens>,
    batch: u64,
    settings: &Settings,
) -> Result<EngineSize> {
    let filled = vllm::with_encoder_tokens(architecture, engine, settings);
    let settings = filled.as_ref().unwrap_or(settings);
    let logical = StateModel::new(architecture, settings)?.size(model, context, batch, settings)?;
    let mut query = Query::new(architecture, engine.clone(), settings)?;
    query.context = context.or(query.context);
    query.batch = batch;
    let reservation = query.context.map(|_| beside(&query)).transpose()?.flatten();
    let settings = of_requests(&query)?;
    let mut report = report(&Query { settings: &settings, ..query.clone() })?;
    // The padding of pools stays: it is of no request.
    if let (Some(found), Some(_), Some(context)) = (&reservation, report.padding_of, query.context) {
        report.padding_of = Some(PaddingOf { context, batch });
        report.padding.clone_from(&found.padding);
    }
    let mut warnings = logical.warnings.clone();
    if let Some(tokens) = filled.as_ref().and_then(|filled| filled.encoder_tokens) {
        let message = format!(
            "not given; vLLM reserves a whole batch for an encoder's output (max_num_batched_tokens), {} tokens, which logical bytes \
             count too",
            group_digits(tokens)
        );
        report.warnings.retain(|warning| warning.field != "encoder_tokens");
        warnings.push(Warning::new("encoder_tokens", message));
    }
    let sequences = settings.n_seq_max.unwrap_or(batch);
    if let (Some(cells), None, true) = (settings.n_ctx, query.settings.n_ctx, sequences > 1) {
        let message = format!(
            "not given; every one of {sequences} sequences gets the whole context, {} tokens of n_ctx together (in case \
             files the context is all of n_ctx)",
            group_digits(cells)
        );
        warnings.push(Warning::new("n_ctx", message));
    }
    warnings.extend(report.warnings.iter().filter(|warning| !logical.warnings.contains(warning)).cloned());
    Ok(EngineSize { report, logical, reservation, warnings })
}

/// A setting that is missing is listed in [`EngineReport::unanswered`] already.
fn beside(query: &Query<'_>) -> Result<Option<Reservation>> {
    match reservation(query) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::Setting => Ok(None),
        Err(error) => Err(error),
    }
}

impl EngineSize {
    /// One figure of the engine, if it has it.
    pub fn figure(&self, quantity: Quantity) -> Option<Figure> {
        self.report.figure(quantity)
    }
}

/// The field names of the command line contract; the figures at the top are the engine's, null where it has none, and
/// the logical ones are kept apart under `logical`.
impl Serialize for EngineSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("EngineSize", 17)?;
        json.serialize_field("model", &self.logical.model)?;
        json.serialize_field("context", &self.logical.context)?;
        json.serialize_field("batch", &self.logical.batch)?;
        json.serialize_field("engine", &self.report.engine)?;
        json.serialize_field("settings", &self.logical.settings)?;
        json.serialize_field("resident_bytes", &self.figure(Quantity::ResidentBytes))?;
        json.serialize_field("slope_bytes_per_token", &self.figure(Quantity::SlopeBytesPerToken))?;
        json.serialize_field("fixed_bytes", &self.figure(Quantity::FixedBytesPerRequest))?;
        for absent in [
            "read_bytes_per_step",
            "persisted_bytes",
            "transfer_bytes",
            "decode_flops",
            "prefill_flops",
            "components",
        ] {
            json.serialize_field(absent, &None::<u64>)?;
        }
        json.serialize_field("engine_report", &self.report)?;
        json.serialize_field("reservation", &self.reservation)?;
        json.serialize_field("logical", &self.logical)?;
        json.serialize_field("warnings", &self.warnings)?;
        json.end()
    }
}
