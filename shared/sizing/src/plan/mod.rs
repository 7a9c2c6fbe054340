//! Plans: what the growth of the state means for capacity, hand-over and scheduling.
//!
//! Every plan is a function from an architecture, its settings and figures of hardware to an answer with its inputs. The
//! command line, the API and the page call the same ones. A question without a sensible answer is an error or an answer
//! that says so, never an infinity.

pub mod compression;
pub mod offload;
pub mod prefix;
pub mod simulation;

mod published;
mod sensitivity;

pub(crate) use published::published_figure;
pub use sensitivity::{Sensitivity, sensitivities};

use crate::{Error, Result};

/// A rate, a duration or a share that a plan divides by or multiplies with: finite and above zero.
///
/// # Errors
///
/// Zero, a negative number, an infinity or no number, named by `setting`.
pub fn positive(setting: &str, value: f64) -> Result<f64> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Error::setting(setting, format!("{value} is not a number above 0")))
}
