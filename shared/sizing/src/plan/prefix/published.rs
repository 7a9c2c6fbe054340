//! Reuse as claims ask for it.

use super::{PrefixQuestion, ReuseUnder, SharedPrefix, reuse};
use crate::catalogue::find_entry;
use crate::claims::PublishedFigure;
use crate::plan::Moving;
use crate::plan::published::{Inputs, settings_of};
use crate::{Error, Ratio, Result, Tokens};

/// `{"model", "engine", "first", "second", "shared", "every", "rule", "settings"}`: tokens that are not run over all tokens.
pub(in crate::plan) fn saved(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let (row, second) = row(inputs)?;
    Ok(PublishedFigure {
        value: row.saved_share,
        what: format!("tokens of the second request that are not run: {}", row.why),
        worked: format!("({second} − {}) ÷ {second}", row.computed_tokens),
    })
}

/// The same inputs: tokens that run again to fill windows that were not kept.
pub(in crate::plan) fn replayed(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let (row, _) = row(inputs)?;
    Ok(PublishedFigure {
        value: Ratio::whole(row.replayed_tokens.get()),
        what: format!("tokens that run again: {}", row.why),
        worked: format!("a hit of {}, {} of them replayed", row.hit_tokens.counted(), row.replayed_tokens),
    })
}

fn row(inputs: &mut Inputs<'_>) -> Result<(ReuseUnder, Tokens)> {
    let model: String = inputs.get("model")?;
    let engine: Option<String> = inputs.get("engine")?;
    let settings = settings_of(inputs)?;
    let mut tokens = |key: &'static str| inputs.get::<Tokens>(key);
    let (first, second, shared) = (tokens("first")?, tokens("second")?, tokens("shared")?);
    let interval: Option<Tokens> = inputs.get("every")?;
    let rule: String = inputs.get("rule")?;
    let architecture = find_entry(&model)?.architecture()?;
    let plan = reuse(&PrefixQuestion {
        moving: Moving::Nothing,
        model: &model,
        architecture: &architecture,
        settings: &settings,
        vllm: &engine.as_deref().unwrap_or("vllm").parse()?,
        prefix: SharedPrefix::new(first, second, shared)?,
        interval: interval.unwrap_or(Tokens::new(4096)),
    })?;
    let row = plan.rule(&rule).cloned();
    Ok((row.ok_or_else(|| Error::field("rule", format!("{rule:?} does not apply to {model}")))?, second))
}
