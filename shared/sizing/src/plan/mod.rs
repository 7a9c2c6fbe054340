//! Plans: what the growth of the state means for capacity, hand-over and scheduling.
//!
//! Every plan is a function from an architecture, its settings and figures of hardware to an answer with its inputs. The
//! command line, the API and the page call the same ones. A question without a sensible answer is an error or an answer
//! that says so, never an infinity.

pub mod compression;
pub mod offload;
pub mod prefix;
pub mod simulation;
pub mod words;

mod capacity;
mod cost;
mod form;
mod given;
mod handover;
mod label;
mod left;
mod measured;
mod memory;
mod mix;
mod prefill;
#[cfg(not(target_arch = "wasm32"))]
mod published;
mod sensitivity;
mod sheet;
mod subject;
mod typed;
#[cfg(not(target_arch = "wasm32"))]
mod work;
mod wrong;

pub use capacity::{CapacityAt, CapacityPlan, CapacityQuestion, FrontierPoint, MixCapacity, capacity};
pub use cost::{CostCurve, CostPlan, CostQuestion, CostSensitivities, cost, cost_curve};
pub use form::{Field, FieldKind, PlanKind};
pub use given::{Given, bytes_per_second, number, seconds, typed_mix};
pub use handover::{
    ChosenLink, HandoverAt, HandoverCurve, HandoverPart, HandoverPlan, HandoverQuestion,
    HandoverSensitivities, LinkTime, PrefillTime, handover, handover_curve,
};
pub use label::{HardwareLabel, Label, LabelPlan, LabelSensitivities, label};
pub use left::{Gpus, Left, left};
pub use measured::{Measured, MeasuredLink};
pub use memory::{Memory, MemoryQuestion};
pub use mix::Mix;
pub use prefill::share_of_rate;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use published::published_figure;
pub use sensitivity::{Moving, Sensitivity, sensitivities};
pub use sheet::{Cell, Column, Line, LineAxis, LineQuantity, Lines, Moved, MovedInput, Sheet, SheetTable};
pub use subject::Subject;
pub use typed::{
    CompressionAnswer, Computing, NamedTrace, OffloadAnswer, Offloading, SimulationAnswer, capacity_of,
    compression_of, cost_curve_of, cost_of, datasheet_tier, handover_curve_of, handover_of, label_of,
    network_links, prefix_question, simulation_of, typed_block, typed_links, typed_prefix, typed_tiers,
    typed_trace, vllm_of,
};
pub use wrong::WrongFormula;

use crate::architecture::Architecture;
use crate::warning::Warning;
use crate::{Error, Result, Tokens};

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

/// Refuses a length beyond what the config allows; `setting` names it.
fn within(setting: &str, n: Tokens, architecture: &Architecture) -> Result<()> {
    match beyond(n, architecture) {
        Some(found) => Err(Error::setting(setting, format!("{}; give at most those", found.message))),
        None => Ok(()),
    }
}

/// That a length is beyond what the config allows.
fn beyond(n: Tokens, architecture: &Architecture) -> Option<Warning> {
    crate::size::beyond(n, architecture.max_context()?)
}
