use serde::Serialize;

use super::super::compression::{AS_IT_IS, CompressionPlan, Method, Strategy, Transfer, compress, published};
use super::super::{Given, Subject, beyond, bytes_per_second, number};
use crate::settings::Settings;
use crate::size::StateModel;
use crate::warning::Warning;
use crate::{Error, Result, Tokens};

/// What `kvscope plan compress` answers of one model.
#[derive(Clone, Debug, Serialize)]
pub struct CompressionAnswer {
    /// Catalogue id or path.
    pub model: String,
    /// What the link moves.
    pub bandwidth_bytes_per_second: f64,
    /// The settings that were given.
    pub settings: Settings,
    /// The strategies that were compared.
    pub strategies: Vec<Strategy>,
    /// The comparison.
    #[serde(flatten)]
    pub plan: CompressionPlan,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// Compares the strategies that were typed, the published ones where none was.
///
/// # Errors
///
/// An option that cannot be read, or what the plan refuses; a length beyond the model's is a warning.
pub fn compression_of(
    subject: &Subject<'_>,
    settings: &Settings,
    context: Tokens,
    strategies: &[&str],
    given: &Given,
) -> Result<CompressionAnswer> {
    let rate = given
        .text("bandwidth")
        .ok_or_else(|| Error::setting("bandwidth", "give what the link really moves, such as 25Gbps"))?;
    let transfer = Transfer {
        model_seconds: given.some_seconds("model_time")?.unwrap_or(0.0),
        bytes_per_second: bytes_per_second("bandwidth", rate)?,
        start_seconds: given.some_seconds("start")?.unwrap_or(0.0),
        accuracy_floor_points: given.some_number("loss")?,
        slo_seconds: given.some_seconds("slo")?,
    };
    let strategies = match strategies {
        [] => published()?,
        typed => typed_strategies(typed)?,
    };
    let state = StateModel::new(subject.architecture, settings)?;
    let mut warnings = state.warnings().to_vec();
    warnings.extend(beyond(context, subject.architecture));
    let plan = compress(&state, context, &transfer, &strategies)?;
    Ok(CompressionAnswer {
        model: subject.model.to_owned(),
        bandwidth_bytes_per_second: transfer.bytes_per_second,
        settings: settings.clone(),
        strategies,
        plan,
        warnings,
    })
}

/// Each by a name of its own, and none by that of sending everything as it is.
fn typed_strategies(texts: &[&str]) -> Result<Vec<Strategy>> {
    let mut all: Vec<Strategy> = Vec::with_capacity(texts.len());
    for text in texts {
        let one = strategy(text)?;
        let refused = |what: String| Err(Error::setting("strategy", what));
        if one.name.is_empty() {
            return refused(format!("{text:?} has no name; write zip=lossless:1.3:478GB/s"));
        }
        if one.name == AS_IT_IS {
            return refused(format!("{AS_IT_IS:?} is what sends everything as it is; give another name"));
        }
        if all.iter().any(|known| known.name == one.name) {
            return refused(format!("{:?} is given twice; leave one out or name it otherwise", one.name));
        }
        all.push(one);
    }
    Ok(all)
}

/// `zip=lossless:1.3:478GB/s:0`
fn strategy(text: &str) -> Result<Strategy> {
    let form = || {
        let known = Method::ALL.map(Method::name).join(", ");
        let what = format!("{text:?} is not NAME=METHOD:RATIO:RATE[:POINTS] with a method of {known}");
        Error::setting("strategy", what)
    };
    let (name, rest) = text.split_once('=').ok_or_else(form)?;
    let parts: Vec<&str> = rest.split(':').collect();
    let (method, ratio, rate, loss) = match parts.as_slice() {
        [method, ratio, rate] => (method, ratio, rate, None),
        [method, ratio, rate, loss] => (method, ratio, rate, Some(number("strategy", loss)?)),
        _ => return Err(form()),
    };
    Ok(Strategy {
        name: name.trim().to_owned(),
        method: Method::named(method.trim()).ok_or_else(form)?,
        ratio: number("strategy", ratio)?,
        codec_bytes_per_second: bytes_per_second("strategy", rate)?,
        accuracy_loss_points: loss,
        source: "given".to_owned(),
    })
}
