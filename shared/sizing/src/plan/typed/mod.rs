//! Questions to plans as they are typed: what an option that is left out means is said here, once for the command line, the
//! API and the page.

mod capacity;
mod compress;
mod handover;
mod offload;
mod prefix;

use super::{CostPlan, CostQuestion, Given, LabelPlan, Subject, cost, label};
use crate::cost::FlopWeights;
use crate::hardware::{Gpu, find_gpu};
use crate::settings::Settings;
use crate::{Error, Result, Tokens};

pub use capacity::capacity_of;
pub(super) use capacity::memory_question;
pub use compress::{CompressionAnswer, compression_of};
pub use handover::{handover_of, network_links, typed_links};
pub use offload::{Computing, OffloadAnswer, Offloading, datasheet_tier, typed_tiers};
pub use prefix::{prefix_of, typed_prefix};

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
) -> Result<CostPlan> {
    let weights = FlopWeights::given(given.text("flop_weights").unwrap_or("plain"))?;
    let types = given.types(subject.architecture)?;
    cost(subject, &CostQuestion { context, batch, settings, types, weights })
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
) -> Result<LabelPlan> {
    let count = given.count("count", 1)?;
    let gpu = given.text("gpu").map(find_gpu).transpose()?;
    label(subject, settings, contexts, gpu.map(|gpu| (gpu, count)))
}

/// The GPU that a plan cannot do without.
fn gpu(given: &Given) -> Result<&'static Gpu> {
    let id = given.text("gpu").ok_or_else(|| Error::setting("gpu", "name one, such as h200"))?;
    find_gpu(id)
}

/// Percent of the datasheet's rate that a prefill reaches, where nothing is known of it.
const USUAL_EFFICIENCY: f64 = 40.0;
