use super::{Subject, positive};
use crate::cost::{Operand, PhaseWork, Types};
use crate::hardware::Gpu;
use crate::settings::Settings;
use crate::{Error, Result, Tokens};

/// Percent of a rate below which nothing that computes is.
const LEAST_PERCENT: f64 = 1e-6;

/// The share of a datasheet's rate that so many percent are.
///
/// # Errors
///
/// Nothing or hardly any of the rate, or more than all of it.
pub fn share_of_rate(percent: f64) -> Result<f64> {
    let percent = positive("efficiency", percent)?;
    if !(LEAST_PERCENT..=100.0).contains(&percent) {
        let why = if percent > 100.0 { "more than the datasheet's rate" } else { "hardly any of the rate" };
        let what = format!("{percent} percent is {why}; give {LEAST_PERCENT} to 100");
        return Err(Error::setting("efficiency", what));
    }
    Ok(percent / 100.0)
}

/// Seconds of prefills at a GPU's datasheet rates.
#[derive(Debug)]
pub(super) struct PrefillAtPeak<'a> {
    work: PhaseWork,
    gpu: &'a Gpu,
    /// GPUs that compute at that rate: their number, times the share of the rate that they reach.
    gpus: f64,
}

impl<'a> PrefillAtPeak<'a> {
    /// A model on so many GPUs.
    ///
    /// # Errors
    ///
    /// A width that the config does not say, or GPUs that compute nothing.
    pub(super) fn new(
        subject: &Subject<'_>,
        settings: &Settings,
        types: Types,
        gpu: &'a Gpu,
        gpus: f64,
    ) -> Result<Self> {
        let work = subject.prefill(settings, types)?;
        Ok(Self { work, gpu, gpus: positive("count", gpus)? })
    }

    /// What is computed.
    pub(super) fn work(&self) -> &PhaseWork {
        &self.work
    }

    /// Seconds of one prompt of `n` tokens.
    ///
    /// # Errors
    ///
    /// A GPU whose datasheet prints no rate, or operations beyond 64 bits.
    pub(super) fn seconds(&self, n: Tokens) -> Result<f64> {
        let flops = self.work.flops_by_operand(n, 1)?;
        let by_operand = Operand::ALL.into_iter().zip(flops).filter(|(_, flops)| *flops > 0);
        let seconds = by_operand.map(|(operand, flops)| Ok(flops as f64 / self.rate(operand)? as f64));
        Ok(seconds.sum::<Result<f64>>()? / self.gpus)
    }

    fn rate(&self, operand: Operand) -> Result<u64> {
        // FP32 parts, which are small, are computed beside the matrices.
        let rates = self.gpu.flops_per_second;
        rates.of(operand).or(rates.bf16).ok_or_else(|| {
            let (name, operand) = (&self.gpu.name, operand.name());
            let what = format!("{name} has no printed rate for {operand}; give the time or the rate (prefill_seconds, tflops)");
            Error::setting("gpu", what)
        })
    }
}
