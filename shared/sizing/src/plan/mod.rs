//! Plans: what the growth of the state means for capacity, hand-over and scheduling.
//!
//! Every plan is a function from an architecture, its settings and figures of hardware to an answer with its inputs. The
//! command line, the API and the page call the same ones. A question without a sensible answer is an error or an answer
//! that says so, never an infinity.

pub mod compression;
pub mod offload;
pub mod prefix;
pub mod simulation;

mod capacity;
mod cost;
mod handover;
mod label;
mod memory;
mod mix;
mod prefill;
mod published;
mod sensitivity;
mod subject;
mod work;
mod wrong;

pub use capacity::{CapacityAt, CapacityPlan, CapacityQuestion, FrontierPoint, MixCapacity, capacity};
pub use cost::{CostPlan, CostQuestion, CostSensitivities, cost};
pub use handover::{
    ChosenLink, HandoverAt, HandoverPart, HandoverPlan, HandoverQuestion, HandoverSensitivities, LinkTime,
    PrefillTime, handover,
};
pub use label::{HardwareLabel, Label, LabelPlan, LabelSensitivities, label};
pub use memory::{Memory, MemoryQuestion};
pub use mix::Mix;
pub use prefill::share_of_rate;
pub(crate) use published::published_figure;
pub use sensitivity::{Sensitivity, sensitivities};
pub use subject::Subject;
pub use wrong::WrongFormula;

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
