use super::{Subject, positive};
use crate::cost::{CostOf, FlopWeights, ModelCost, Types};
use crate::hardware::Gpu;
use crate::parameters::Parameters;
use crate::settings::Settings;
use crate::{Error, Result, Tokens};

/// The share of a datasheet's rate that so many percent are.
///
/// # Errors
///
/// Nothing, or more than the rate.
pub fn share_of_rate(percent: f64) -> Result<f64> {
    let percent = positive("efficiency", percent)?;
    if percent > 100.0 {
        let what = format!("{percent} percent is more than the datasheet's rate; give up to 100");
        return Err(Error::setting("efficiency", what));
    }
    Ok(percent / 100.0)
}

/// Seconds of prefills at a GPU's datasheet rates; the model's parameters are counted once for all lengths.
#[derive(Debug)]
pub(super) struct PrefillAtPeak<'a> {
    subject: Subject<'a>,
    parameters: Parameters,
    settings: &'a Settings,
    types: Types,
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
        subject: Subject<'a>,
        settings: &'a Settings,
        types: Types,
        gpu: &'a Gpu,
        gpus: f64,
    ) -> Result<Self> {
        let parameters = subject.parameters()?;
        Ok(Self { subject, parameters, settings, types, gpu, gpus: positive("count", gpus)? })
    }

    /// Seconds of one prompt of `n` tokens.
    ///
    /// # Errors
    ///
    /// A GPU whose datasheet prints no rate, or operations beyond 64 bits.
    pub(super) fn seconds(&self, n: Tokens) -> Result<f64> {
        let of = CostOf {
            architecture: self.subject.architecture,
            parameters: &self.parameters,
            settings: self.settings,
            types: self.types,
            weights: FlopWeights::plain(),
        };
        Ok(self.at_peak(&of.prefill(n, 1)?)? / self.gpus)
    }

    fn at_peak(&self, cost: &ModelCost) -> Result<f64> {
        cost.rows.iter().filter(|row| row.flops > 0).try_fold(0.0, |sum, row| {
            // FP32 parts, which are small, are computed beside the matrices.
            let rates = self.gpu.flops_per_second;
            let Some(rate) = rates.of(row.operand).or(rates.bf16) else {
                let (name, operand) = (&self.gpu.name, row.operand.name());
                let what = format!("{name} has no printed rate for {operand}; give prefill_seconds");
                return Err(Error::setting("gpu", what));
            };
            Ok(sum + row.flops as f64 / rate as f64)
        })
    }
}
