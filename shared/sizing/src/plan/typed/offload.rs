use serde::Serialize;

use super::super::offload::{
    OffloadPlan, OffloadQuestion, Recompute, RestoreCurves, Tier, TierGrade, offload, restore_curves,
};
use super::super::prefill::PrefillAtPeak;
use super::super::{Given, Subject, bytes_per_second, positive, seconds, share_of_rate};
use super::{USUAL_EFFICIENCY, gpu, gpus};
use crate::cost::{PhaseWork, Types};
use crate::hardware::find_gpu;
use crate::settings::Settings;
use crate::{Error, Result, Tokens};

/// What `kvscope plan offload` answers of one model.
#[derive(Clone, Debug, Serialize)]
pub struct OffloadAnswer {
    /// Restore against recompute.
    #[serde(flatten)]
    pub plan: OffloadPlan,
    /// Where the rate of computing comes from.
    #[serde(flatten)]
    pub computing: Computing,
    /// The settings that were given.
    pub settings: Settings,
}

/// Where the rate of computing comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Computing {
    /// `given`, or `estimated` from the datasheet's rate.
    pub compute_from: &'static str,
    /// Percent of that rate that it is estimated at; null where a rate is given.
    pub efficiency_percent: Option<f64>,
}

/// One model that is restored or computed again.
#[derive(Debug)]
pub struct Offloading<'a> {
    subject: Subject<'a>,
    settings: &'a Settings,
    prefill: Prefill,
    computing: Computing,
}

/// What is computed again, and how fast.
#[derive(Debug)]
enum Prefill {
    /// So many operations a second, whatever their type.
    Given(PhaseWork, f64),
    /// Each type at its share of the datasheet's rate.
    Estimated(PrefillAtPeak<'static>),
}

impl Prefill {
    fn flops(&self, n: Tokens) -> Result<f64> {
        let work = match self {
            Self::Given(work, _) => work,
            Self::Estimated(peak) => peak.work(),
        };
        Ok(work.flops(n)? as f64)
    }

    fn seconds(&self, n: Tokens) -> Result<f64> {
        match self {
            Self::Given(_, flops_per_second) => Ok(self.flops(n)? / flops_per_second),
            Self::Estimated(peak) => peak.seconds(n),
        }
    }
}

impl<'a> Offloading<'a> {
    /// Reads what computes, and how fast.
    ///
    /// # Errors
    ///
    /// An option that cannot be read, or a width that the config does not say.
    pub fn of(subject: Subject<'a>, settings: &'a Settings, given: &Given) -> Result<Self> {
        let types = given.types(subject.architecture)?;
        let (prefill, computing) = prefill(&subject, settings, types, given)?;
        Ok(Self { subject, settings, prefill, computing })
    }

    /// The answer at one length.
    ///
    /// # Errors
    ///
    /// What the plan refuses.
    pub fn at(&self, context: Tokens, tiers: &[Tier]) -> Result<OffloadAnswer> {
        let plan = self.ask(context, tiers, offload)?;
        Ok(OffloadAnswer { plan, computing: self.computing, settings: self.settings.clone() })
    }

    /// Seconds of both ways at many lengths.
    ///
    /// # Errors
    ///
    /// What the plan refuses.
    pub fn curves(&self, contexts: &[Tokens], tiers: &[Tier]) -> Result<RestoreCurves> {
        let longest = contexts.last().copied().unwrap_or_default();
        self.ask(longest, tiers, |question| restore_curves(question, contexts))
    }

    fn ask<T>(
        &self,
        context: Tokens,
        tiers: &[Tier],
        ask: impl FnOnce(&OffloadQuestion<'_>) -> Result<T>,
    ) -> Result<T> {
        let flops = |n: Tokens| self.prefill.flops(n);
        let seconds = |n: Tokens| self.prefill.seconds(n);
        ask(&OffloadQuestion {
            model: self.subject.model,
            architecture: self.subject.architecture,
            settings: self.settings,
            context,
            tiers,
            recompute: Recompute { flops: &flops, seconds: &seconds },
        })
    }
}

/// TFLOP/s of anything that computes.
const KNOWN_TFLOPS: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

/// What computes how fast, and where the figure comes from.
fn prefill(
    subject: &Subject<'_>,
    settings: &Settings,
    types: Types,
    given: &Given,
) -> Result<(Prefill, Computing)> {
    if let Some(tflops) = given.some_number("tflops")? {
        if !KNOWN_TFLOPS.contains(&positive("tflops", tflops)?) {
            return Err(Error::setting("tflops", "nothing computes at that rate; give 0.000001 to 1e9"));
        }
        let computing = Computing { compute_from: "given", efficiency_percent: None };
        let work = subject.prefill(settings, types)?;
        return Ok((Prefill::Given(work, tflops * 1e12), computing));
    }
    let (gpu, count) = (gpu(given)?, gpus(given, 1)?);
    if count == 0 {
        return Err(Error::setting("count", "0 GPUs compute nothing; give at least 1"));
    }
    let percent = given.some_number("efficiency")?.unwrap_or(USUAL_EFFICIENCY);
    let gpus = count as f64 * share_of_rate(percent)?;
    let peak = PrefillAtPeak::new(subject, settings, types, gpu, gpus)?;
    let computing = Computing { compute_from: "estimated", efficiency_percent: Some(percent) };
    Ok((Prefill::Estimated(peak), computing))
}

/// Tiers as they were typed: `host=50GB/s,15us,1ms`, each by a name of its own.
///
/// # Errors
///
/// Another form, no name, or one that stands twice.
pub fn typed_tiers(texts: &[&str]) -> Result<Vec<Tier>> {
    let mut tiers: Vec<Tier> = Vec::new();
    for text in texts {
        let tier = typed_tier(text)?;
        if tier.name.is_empty() {
            return Err(Error::setting("tier", format!("{text:?} has no name; write host=50GB/s,15us")));
        }
        if tiers.iter().any(|known| known.name == tier.name) {
            let what = format!("{:?} is given twice; leave one out or name it otherwise", tier.name);
            return Err(Error::setting("tier", what));
        }
        tiers.push(tier);
    }
    Ok(tiers)
}

fn typed_tier(text: &str) -> Result<Tier> {
    let form = || {
        let what = format!("{text:?} is not NAME=RATE[,ALPHA[,START]], such as host=50GB/s,15us");
        Error::setting("tier", what)
    };
    let (name, rest) = text.split_once('=').ok_or_else(form)?;
    let parts: Vec<&str> = rest.split(',').collect();
    let (rate, alpha, start) = match parts.as_slice() {
        [rate] => (rate, "0s", "0s"),
        [rate, alpha] => (rate, *alpha, "0s"),
        [rate, alpha, start] => (rate, *alpha, *start),
        _ => return Err(form()),
    };
    Ok(Tier {
        name: name.trim().to_owned(),
        start_seconds: seconds("tier", start)?,
        alpha_seconds: seconds("tier", alpha)?,
        beta_bytes_per_second: bytes_per_second("tier", rate)?,
        ranks: 1,
        grade: TierGrade::Given,
        source: "given".to_owned(),
    })
}

/// The link of the GPU to its host by its datasheet, over which each of several GPUs restores what it holds; none where no GPU
/// is named or its memory is the host's own.
///
/// # Errors
///
/// An unknown GPU.
pub fn datasheet_tier(given: &Given) -> Result<Option<Tier>> {
    let Some(gpu) = given.text("gpu").map(find_gpu).transpose()? else { return Ok(None) };
    let Some(link) = &gpu.host_link else { return Ok(None) };
    Ok(Some(Tier {
        name: "host".to_owned(),
        start_seconds: 0.0,
        alpha_seconds: 0.0,
        beta_bytes_per_second: link.bytes_per_second as f64,
        ranks: gpus(given, 1)?,
        grade: TierGrade::Datasheet,
        source: format!("{} of each {}, by its datasheet", link.name, gpu.name),
    }))
}
