//! Payloads and their rates, as claims ask for them.

use super::{Inputs, settings_of};
use crate::claims::PublishedFigure;
use crate::plan::Subject;
use crate::plan::handover::payload;
use crate::{Bytes, Ratio, Result, Tokens, find_entry, group_digits};

/// Bytes that a decode worker must receive of a model at `context`.
fn bytes_of(inputs: &mut Inputs<'_>) -> Result<(String, Tokens, Bytes)> {
    let entry = find_entry(&inputs.get::<String>("model")?)?;
    let architecture = entry.architecture()?;
    let settings = settings_of(inputs)?;
    let n = Tokens::context(inputs.get("context")?)?;
    let bytes = payload(&Subject::of(entry, &architecture), &settings, n)?;
    Ok((entry.name.clone(), n, bytes))
}

/// One copy of a payload.
pub(super) fn bytes(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let (name, n, bytes) = bytes_of(inputs)?;
    Ok(PublishedFigure {
        value: bytes.into(),
        what: format!("{name}: bytes that a decode worker must receive at {}", n.counted()),
        worked: format!("{} B", group_digits(bytes.get())),
    })
}

/// Φ: a payload over the seconds of its prefill.
pub(super) fn rate(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let (name, n, bytes) = bytes_of(inputs)?;
    let seconds: f64 = inputs.get("prefill_seconds")?;
    Ok(PublishedFigure {
        value: Ratio::from(bytes).over(Ratio::decimal(seconds)?)?,
        what: format!("{name}: bytes a second of one instance that prefills prompts of {}", n.counted()),
        worked: format!("{} B ÷ {seconds} s", group_digits(bytes.get())),
    })
}

/// A payload from a fixed part and a slope.
pub(super) fn by_slope(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let fixed: u64 = inputs.get("fixed_bytes")?;
    let slope: u64 = inputs.get("bytes_per_token")?;
    let n: u64 = inputs.get("context")?;
    let bytes = Bytes::new(slope).times(n)?.plus(Bytes::new(fixed))?;
    Ok(PublishedFigure {
        value: bytes.into(),
        what: "the fixed part and so much for each token".to_owned(),
        worked: format!("{} B + {} × {} B", group_digits(fixed), group_digits(n), group_digits(slope)),
    })
}

/// Bytes over seconds, both as printed.
pub(super) fn printed_rate(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let mebibytes: f64 = inputs.get("mebibytes")?;
    let seconds: f64 = inputs.get("seconds")?;
    let bytes = Ratio::decimal(mebibytes)?.times(Ratio::whole(1 << 20))?;
    Ok(PublishedFigure {
        value: bytes.over(Ratio::decimal(seconds)?)?,
        what: "the payload over the seconds, both as printed".to_owned(),
        worked: format!("{mebibytes} MiB ÷ {seconds} s"),
    })
}
