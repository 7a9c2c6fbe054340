//! Questions to plans as they are typed: what an option that is left out means is said here, once for the command line, the
//! API and the page.

mod capacity;
mod compress;
mod handover;
mod offload;
mod prefix;
mod simulate;

use super::{CostCurve, CostPlan, CostQuestion, Given, LabelPlan, Moving, Subject, cost, cost_curve, label};
use crate::cost::FlopWeights;
use crate::hardware::{Gpu, find_gpu};
use crate::settings::Settings;
use crate::{Error, Result, Tokens, group_digits};

pub use capacity::capacity_of;
pub(super) use capacity::{holders, memory_question};
pub use compress::{CompressionAnswer, compression_of};
pub use handover::{handover_curve_of, handover_of, network_links, typed_links};
pub use offload::{Computing, OffloadAnswer, Offloading, datasheet_tier, typed_tiers};
pub use prefix::{prefix_question, typed_prefix, vllm_of};
pub use simulate::{NamedTrace, SimulationAnswer, simulation_of, typed_block, typed_trace};

/// What `kvscope plan cost` answers.
///
/// # Errors
///
/// An option that cannot be read, or what the plan refuses.
pub fn cost_of(
    subject: &Subject<'_>,
    settings: &Settings,
    context: Tokens,
    batch: u64,
    given: &Given,
    moving: Moving,
) -> Result<CostPlan> {
    cost(subject, &CostQuestion { context, ..cost_question(subject, settings, batch, given, moving)? })
}

/// What a decode step reads at many lengths, of what [`cost_of`] answers at one.
///
/// # Errors
///
/// As [`cost_of`].
pub fn cost_curve_of(
    subject: &Subject<'_>,
    settings: &Settings,
    contexts: &[Tokens],
    batch: u64,
    given: &Given,
) -> Result<CostCurve> {
    cost_curve(subject, &cost_question(subject, settings, batch, given, Moving::Nothing)?, contexts)
}

fn cost_question<'a>(
    subject: &Subject<'_>,
    settings: &'a Settings,
    batch: u64,
    given: &Given,
    moving: Moving,
) -> Result<CostQuestion<'a>> {
    let weights = FlopWeights::given(given.text("flop_weights").unwrap_or("plain"))?;
    let types = given.types(subject.architecture)?;
    Ok(CostQuestion { context: Tokens::default(), batch, settings, types, weights, moving })
}

/// What `kvscope plan label` answers.
///
/// # Errors
///
/// As [`cost_of`].
pub fn label_of(
    subject: &Subject<'_>,
    settings: &Settings,
    contexts: &[Tokens],
    given: &Given,
    moving: Moving,
) -> Result<LabelPlan> {
    let count = gpus(given, 1)?;
    let gpu = given.text("gpu").map(find_gpu).transpose()?;
    label(subject, settings, contexts, gpu.map(|gpu| (gpu, count)), moving)
}

/// The GPU that a plan cannot do without.
fn gpu(given: &Given) -> Result<&'static Gpu> {
    let id = given.text("gpu").ok_or_else(|| Error::setting("gpu", "name one, such as h200"))?;
    find_gpu(id)
}

/// More GPUs than anybody has.
const MOST_GPUS: u64 = 1_000_000;

/// How many GPUs there are.
fn gpus(given: &Given, usual: u64) -> Result<u64> {
    let count = given.count("count", usual)?;
    if count > MOST_GPUS {
        let what = format!("{count} GPUs are more than anybody has; give up to {}", group_digits(MOST_GPUS));
        return Err(Error::setting("count", what));
    }
    Ok(count)
}

/// Percent of the datasheet's rate that a prefill reaches, where nothing is known of it.
const USUAL_EFFICIENCY: f64 = 40.0;
