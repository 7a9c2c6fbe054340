//! What the engines share that derive the longest request from the config.

use crate::architecture::Architecture;
use crate::warning::Warning;
use crate::{Fact, group_digits};

/// Says which longest request an engine takes where no setting names one, and how it comes about where that is known; nothing where
/// it is the config's own.
pub(super) fn taken(architecture: &Architecture, engine: &str, tokens: u64, how: &str) -> Option<Warning> {
    let stated = architecture.max_context();
    if stated.map(Fact::get) == Some(tokens) {
        return None;
    }
    let beside = stated.map_or(String::new(), |stated| {
        format!(", where {} is {}", stated.source(), group_digits(stated.get()))
    });
    let message = format!("not given; {engine} takes {}{how}{beside}", group_digits(tokens));
    Some(Warning::new("max_model_len", message))
}

/// `int(length * factor)`
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a product that no length has saturates, and a negative one is 0"
)]
pub(super) fn stretched(length: u64, factor: f64) -> u64 {
    (length as f64 * factor) as u64
}
