//! Break-evens of compression as claims ask for them.

use super::{kvserve_points, told};
use crate::claims::PublishedFigure;
use crate::plan::published::Inputs;
use crate::{Error, Ratio, Result};

/// `{"strategy"}`: the bandwidth at which its line in `KVServe`'s table crosses that without compression, in bytes a second.
pub(in crate::plan) fn crossing(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let strategy: String = inputs.get("strategy")?;
    let told = told(&kvserve_points("none")?, &kvserve_points(&strategy)?)?;
    let crossing = told.crossing_bytes_per_second;
    let crossing = crossing.ok_or_else(|| Error::field("strategy", "its line crosses at no bandwidth"))?;
    Ok(PublishedFigure {
        value: Ratio::decimal(crossing)?,
        what: format!(
            "where the lines of {strategy} and of no compression cross, of times against 1/bandwidth"
        ),
        worked: format!("(V − V/{:.2}) ÷ (a of {strategy} − a without)", told.bytes_ratio),
    })
}
