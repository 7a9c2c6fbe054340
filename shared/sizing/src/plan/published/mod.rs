//! Figures of plans as claims ask for them: `{"of": NAME, …}` names a figure and its inputs.

mod cost;
mod handover;

use serde_json::{Map, Value};

use super::{compression, offload, prefix};
use crate::claims::PublishedFigure;
use crate::record::{FromJson, field, object};
use crate::settings::Settings;
use crate::{Error, Ratio, Result};

/// What a recipe gives a figure to work with. A key that the figure has not asked for is an error.
pub(crate) struct Inputs<'r> {
    object: &'r Map<String, Value>,
    asked: Vec<&'static str>,
}

impl<'r> Inputs<'r> {
    fn new(object: &'r Map<String, Value>) -> Self {
        Self { object, asked: vec!["of"] }
    }

    pub(crate) fn get<T: FromJson>(&mut self, key: &'static str) -> Result<T> {
        self.asked.push(key);
        field(self.object, key)
    }

    fn check_all_asked(&self) -> Result<()> {
        match self.object.keys().find(|key| !self.asked.contains(&key.as_str())) {
            Some(key) => Err(Error::field(key, "no input of this figure")),
            None => Ok(()),
        }
    }
}

/// The `settings` of a recipe; none where it has no such key.
pub(super) fn settings_of(inputs: &mut Inputs<'_>) -> Result<Settings> {
    let mut settings = Settings::default();
    let Some(given) = inputs.get::<Option<Value>>("settings")? else { return Ok(settings) };
    for (name, value) in object(&given)? {
        let text = value.as_str().ok_or_else(|| Error::field(name, "expected a text"))?;
        settings.set(name, text)?;
    }
    Ok(settings)
}

/// Computes what a recipe asks for.
///
/// # Errors
///
/// An unknown figure, an input that is missing, unknown or of a wrong kind, or what the plan itself reports.
pub(crate) fn published_figure(recipe: &Map<String, Value>) -> Result<PublishedFigure> {
    let name: String = field(recipe, "of")?;
    let mut inputs = Inputs::new(recipe);
    let figure = match name.as_str() {
        "step_flops" => cost::step_flops(&mut inputs)?,
        "step_flops_growth" => cost::step_flops_growth(&mut inputs)?,
        "step_read" => cost::step_read(&mut inputs)?,
        "intensity" => cost::intensity(&mut inputs)?,
        "parameters" => cost::parameters(&mut inputs)?,
        "handover_bytes" => handover::bytes(&mut inputs)?,
        "handover_rate" => handover::rate(&mut inputs)?,
        "payload_by_slope" => handover::by_slope(&mut inputs)?,
        "printed_rate" => handover::printed_rate(&mut inputs)?,
        "required_egress" => required_egress(&mut inputs)?,
        "prefix_saved" => prefix::published::saved(&mut inputs)?,
        "prefix_replayed" => prefix::published::replayed(&mut inputs)?,
        "compression_crossing" => compression::published::crossing(&mut inputs)?,
        "kappa" => offload::published::cached_a_new_token(&mut inputs)?,
        "break_even_link" => offload::published::break_even_link(&mut inputs)?,
        "fitted_seconds" => offload::published::fitted_seconds(&mut inputs)?,
        "fitted_rate" => offload::published::fitted_rate(&mut inputs)?,
        other => return Err(Error::field("of", format!("{other:?} is no figure of a plan"))),
    };
    inputs.check_all_asked()?;
    Ok(figure)
}

/// What a fleet sends while all its instances prefill: the rate of one times their number.
fn required_egress(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let gpus: u64 = inputs.get("gpus")?;
    let gpus_per_instance: u64 = inputs.get("gpus_per_instance")?;
    let bits_per_second: f64 = inputs.get("gbps_per_instance")?;
    let instances = Ratio::new(gpus.into(), gpus_per_instance.into())?;
    let one = Ratio::decimal(bits_per_second * 1e9 / 8.0)?;
    Ok(PublishedFigure {
        value: instances.times(one)?,
        what: "bytes a second that all prefill instances send together".to_owned(),
        worked: format!("{gpus} ÷ {gpus_per_instance} × {bits_per_second} Gbps"),
    })
}
