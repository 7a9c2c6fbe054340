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
/// is left out, and so are links on which not even the fastest takes no longer than is allowed.
pub fn segments(options: &[Choice], transfer: &Transfer) -> Vec<Segment> {
    let constant = |option: &Choice| transfer.model_seconds + transfer.start_seconds + option.codec_seconds;
    let allowed = || options.iter().filter(|option| option.is_allowed_elsewhere);
    let mut slowest = 0.0;
    if transfer.slo_seconds.is_some() {
        let least = allowed().filter_map(|option| option.slo_bytes_per_second).reduce(f64::min);
        let Some(least) = least else { return Vec::new() };
        slowest = least;
    }
    let lines: Vec<(f64, f64, &str)> =
        allowed().map(|option| (constant(option), option.sent_bytes, option.name.as_str())).collect();
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
        let begin = f64::max(from, slowest);
        if to.is_none_or(|to| to > begin) {
            found.push(Segment {
                from_bytes_per_second: begin,
                to_bytes_per_second: to,
                fastest: current.2.to_owned(),
            });
        }
        let Some((bandwidth, other)) = next else { return found };
        (from, current) = (bandwidth.max(from), other);
    }
}
