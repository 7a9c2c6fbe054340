//! Break-evens and fits of links as claims ask for them.

use serde_json::Value;

use super::{break_even_bandwidth, kappa};
use crate::catalogue::find_entry;
use crate::claims::PublishedFigure;
use crate::plan::published::{Inputs, settings_of};
use crate::prediction::{LinkFit, LinkPoint};
use crate::record::{FromJson, field, object};
use crate::size::StateModel;
use crate::{Bytes, BytesPerToken, Error, Ratio, Result};

/// `{"model", "active_parameters", "flops_per_second", "bandwidth", "settings"}`: cached tokens restored in the time of one new.
pub(in crate::plan) fn cached_a_new_token(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let link: f64 = inputs.get("bandwidth")?;
    let Token { flops, rate, slope } = token(inputs)?;
    Ok(PublishedFigure {
        value: Ratio::decimal(kappa(flops, rate, link, slope)?)?,
        what: "cached tokens that are restored in the time in which one new token is computed".to_owned(),
        worked: format!("({flops:e} FLOP ÷ {rate:e} FLOP/s) × ({link:e} B/s ÷ {:.1} B)", slope.as_f64()),
    })
}

/// The same inputs without `bandwidth`: the link at which restoring a token takes as long as computing it, in bytes a second.
pub(in crate::plan) fn break_even_link(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let Token { flops, rate, slope } = token(inputs)?;
    Ok(PublishedFigure {
        value: Ratio::decimal(break_even_bandwidth(slope, rate, flops)?)?,
        what: "bytes a second at which restoring a token takes as long as computing it".to_owned(),
        worked: format!("{:.1} B × {rate:e} FLOP/s ÷ {flops:e} FLOP", slope.as_f64()),
    })
}

struct Token {
    flops: f64,
    rate: f64,
    slope: BytesPerToken,
}

/// Two operations for each active parameter, and the bytes of one token beyond every window.
fn token(inputs: &mut Inputs<'_>) -> Result<Token> {
    let model: String = inputs.get("model")?;
    let active: f64 = inputs.get("active_parameters")?;
    let rate: f64 = inputs.get("flops_per_second")?;
    let settings = settings_of(inputs)?;
    let slope = StateModel::new(&find_entry(&model)?.architecture()?, &settings)?.slope(None)?;
    Ok(Token { flops: 2.0 * active, rate, slope })
}

/// `{"points": [{"bytes", "seconds" or "bytes_per_second"}, …], "at"}`: seconds of `at` bytes by the line through the points.
pub(in crate::plan) fn fitted_seconds(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let (fit, at) = fit(inputs)?;
    let seconds = fit.time(&[(1, at)]).0;
    Ok(PublishedFigure {
        value: Ratio::decimal(seconds)?,
        what: format!("seconds of {at} by a line through {} published points", fit.points),
        worked: worked(&fit, at),
    })
}

/// The same inputs: bytes a second of pieces of `at` bytes.
pub(in crate::plan) fn fitted_rate(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let (fit, at) = fit(inputs)?;
    let rate = at.get() as f64 / fit.time(&[(1, at)]).0;
    Ok(PublishedFigure {
        value: Ratio::decimal(rate)?,
        what: format!("bytes a second of pieces of {at} by a line through {} published points", fit.points),
        worked: worked(&fit, at),
    })
}

fn worked(fit: &LinkFit, at: Bytes) -> String {
    let constant = (fit.start_seconds + fit.alpha_seconds) * 1e6;
    let residuals: Vec<String> = fit.residuals.iter().map(|one| format!("{:+.1} %", one * 100.0)).collect();
    format!(
        "{constant:.2} µs + {at} ÷ {:.2} GB/s; the points are off by {}",
        fit.beta_bytes_per_second / 1e9,
        residuals.join(", ")
    )
}

fn fit(inputs: &mut Inputs<'_>) -> Result<(LinkFit, Bytes)> {
    let points: Vec<Point> = inputs.get("points")?;
    let at: Bytes = inputs.get("at")?;
    let points: Vec<LinkPoint> = points.into_iter().map(|point| point.0).collect();
    let fit = LinkFit::of(&points).ok_or_else(|| Error::field("points", "they tell no rate"))?;
    Ok((fit, at))
}

/// One published transfer.
struct Point(LinkPoint);

impl FromJson for Point {
    fn from_json(value: &Value) -> Result<Self> {
        let point = object(value)?;
        let bytes: Bytes = field(point, "bytes")?;
        let seconds: Option<f64> = field(point, "seconds")?;
        let rate: Option<f64> = field(point, "bytes_per_second")?;
        let seconds = seconds.or_else(|| rate.map(|rate| bytes.get() as f64 / rate));
        let measured_seconds =
            seconds.ok_or_else(|| Error::field("seconds", "give seconds or bytes_per_second"))?;
        Ok(Self(LinkPoint { blocks: 1, bytes, measured_seconds }))
    }
}
