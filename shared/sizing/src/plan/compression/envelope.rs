//! The fastest option for every bandwidth.
//!
//! Against x = 1/B each option is a line a + b·x with b the bytes that it sends, so the fastest ones are the lower envelope of a
//! few lines, and they change where two lines cross.

use serde::Serialize;

use super::{Choice, Transfer};

/// A range of bandwidths with the option that is fastest there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// Where it begins.
    pub from_bytes_per_second: f64,
    /// Where the next one takes over; null where none does.
    pub to_bytes_per_second: Option<f64>,
    /// The option's name.
    pub fastest: String,
}

/// The fastest options by bandwidth, from the slowest link on. What is refused for its accuracy or because it may touch nothing
/// is left out; the longest time allowed depends on the bandwidth itself and is not asked here.
pub fn segments(options: &[Choice], transfer: &Transfer) -> Vec<Segment> {
    let constant = |option: &Choice| transfer.model_seconds + transfer.start_seconds + option.codec_seconds;
    let allowed = |option: &&Choice| {
        let untouched = option.name != "none" && option.pays_below_bytes_per_second.is_none();
        !untouched && option.refused.as_deref().is_none_or(|why| why.starts_with("takes longer"))
    };
    let lines: Vec<(f64, f64, &str)> = options
        .iter()
        .filter(allowed)
        .map(|option| (constant(option), option.sent_bytes, option.name.as_str()))
        .collect();
    let mut found: Vec<Segment> = Vec::new();
    // On the slowest link the option with the fewest bytes is fastest.
    let first = lines.iter().min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.total_cmp(&b.0)));
    let Some(mut current) = first else { return found };
    let mut from = 0.0;
    loop {
        // The next option to cross: fewer seconds beside the link, more bytes on it.
        let crossing = |other: &&(f64, f64, &str)| {
            (other.0 < current.0).then(|| (other.1 - current.1) / (current.0 - other.0))
        };
        let next = lines
            .iter()
            .filter_map(|other| Some((crossing(&other)?, other)))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.0.total_cmp(&b.1.0)));
        let to = next.map(|(bandwidth, _)| bandwidth.max(from));
        if to != Some(from) {
            found.push(Segment {
                from_bytes_per_second: from,
                to_bytes_per_second: to,
                fastest: current.2.to_owned(),
            });
        }
        let Some((bandwidth, other)) = next else { return found };
        (from, current) = (bandwidth.max(from), other);
    }
}
