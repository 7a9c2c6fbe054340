//! What a decode step and a prefill cost: the answer of `kvscope plan cost`.

use std::borrow::Cow;

use serde::Serialize;

use super::{Moving, Sensitivity, Subject, sensitivities, sensitivity};
use crate::cost::{CostOf, CostRow, FlopWeights, ModelCost, Types};
use crate::parameters::Parameters;
use crate::settings::Settings;
use crate::size::StateModel;
use crate::warning::Warning;
use crate::{Bytes, Result, Tokens};

/// How a cost is counted.
#[derive(Clone, Debug)]
pub struct CostQuestion<'a> {
    /// Tokens of each request.
    pub context: Tokens,
    /// Requests.
    pub batch: u64,
    /// Formats of the state.
    pub settings: &'a Settings,
    /// Types of the rest.
    pub types: Types,
    /// What an operation of each type counts.
    pub weights: FlopWeights,
    /// Whether inputs are moved.
    pub moving: Moving,
}

/// The cost of a decode step and of a prefill at one length.
#[derive(Clone, Debug, Serialize)]
pub struct CostPlan {
    /// Catalogue id or path.
    pub model: String,
    /// Tokens of each request.
    pub context: Tokens,
    /// Requests.
    pub batch: u64,
    /// The settings that were given.
    pub settings: Settings,
    /// Types of what the state's formats do not say.
    pub types: Types,
    /// What an operation of each type counts.
    pub flop_weights: FlopWeights,
    /// The model's parameters.
    pub parameters: Parameters,
    /// One decode step of the batch.
    pub decode: ModelCost,
    /// The prompts of the batch.
    pub prefill: ModelCost,
    /// What a tenth of each input does.
    pub sensitivities: CostSensitivities,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// What a tenth of each input does to a cost, the input that matters most first.
#[derive(Clone, Debug, Serialize)]
pub struct CostSensitivities {
    /// To the weighted operations of a decode step.
    pub decode_operations: Vec<Sensitivity>,
    /// To the bytes of state and weights that a decode step reads.
    pub decode_read_bytes: Vec<Sensitivity>,
    /// To the weighted operations of a prefill.
    pub prefill_operations: Vec<Sensitivity>,
}

/// The cost of a model.
///
/// # Errors
///
/// A width or head count that the config does not say, a batch of zero, or a figure beyond 64 bits.
pub fn cost(subject: &Subject<'_>, question: &CostQuestion<'_>) -> Result<CostPlan> {
    let parameters = subject.parameters()?;
    let of = question.of(subject, &parameters);
    let mut warnings = StateModel::new(subject.architecture, question.settings)?.warnings().to_vec();
    warnings.extend(super::beyond(question.context, subject.architecture));
    let decode = of.decode(question.context, question.batch)?;
    let prefill = of.prefill(question.context, question.batch)?;
    Ok(CostPlan {
        model: subject.model.to_owned(),
        context: question.context,
        batch: question.batch,
        settings: question.settings.clone(),
        types: question.types,
        flop_weights: question.weights,
        sensitivities: CostSensitivities {
            decode_operations: question.moving.rows(|| Moved { of, question, base: &decode }.operations()),
            decode_read_bytes: question.moving.rows(|| Moved { of, question, base: &decode }.read_bytes()),
            prefill_operations: question.moving.rows(|| Moved { of, question, base: &prefill }.operations()),
        },
        decode,
        prefill,
        parameters,
        warnings,
    })
}

/// What decode steps at many lengths read.
#[derive(Clone, Debug, PartialEq)]
pub struct CostCurve {
    /// The lengths.
    pub contexts: Vec<Tokens>,
    /// Bytes of weights, whatever the length.
    pub weights: Bytes,
    /// Bytes of state at each.
    pub state: Vec<Bytes>,
}

/// What a decode step of the question's batch reads at each length, whatever the question's own.
///
/// # Errors
///
/// As [`cost`].
pub fn cost_curve(
    subject: &Subject<'_>,
    question: &CostQuestion<'_>,
    contexts: &[Tokens],
) -> Result<CostCurve> {
    let parameters = subject.parameters()?;
    let step = question.of(subject, &parameters).decode(question.context, question.batch)?;
    let state = StateModel::new(subject.architecture, question.settings)?;
    Ok(CostCurve {
        contexts: contexts.to_vec(),
        weights: step.weight_read_bytes,
        state: contexts.iter().map(|n| state.read_per_step(*n, question.batch)).collect::<Result<_>>()?,
    })
}

impl CostQuestion<'_> {
    fn of<'b>(&'b self, subject: &'b Subject<'_>, parameters: &'b Parameters) -> CostOf<'b> {
        CostOf {
            architecture: subject.architecture,
            parameters,
            settings: self.settings,
            types: self.types,
            weights: self.weights,
        }
    }
}

/// Requests of which a tenth is at least one.
const MOVABLE_BATCH: u64 = 10;

/// One phase whose inputs are moved.
#[derive(Clone, Copy)]
struct Moved<'a> {
    of: CostOf<'a>,
    question: &'a CostQuestion<'a>,
    base: &'a ModelCost,
}

impl Moved<'_> {
    fn operations(&self) -> Vec<Sensitivity> {
        let weights = self.of.weights;
        let inputs = ["active parameters", "operations on state"];
        self.rows(inputs, |row| row.flops as f64 * weights.of(row.operand).as_f64())
    }

    fn read_bytes(&self) -> Vec<Sensitivity> {
        let inputs = ["bytes of a weight", "bytes of an entry"];
        self.rows(inputs, |row| row.weight_read_bytes.get() as f64 + row.state_read_bytes.get() as f64)
    }

    /// The two inputs scale what weights and what state take of a figure.
    fn rows(&self, scaled: [&'static str; 2], figure: impl Fn(&CostRow) -> f64) -> Vec<Sensitivity> {
        let (context, batch) = (self.question.context.get(), self.question.batch);
        let mut inputs = vec![("context", context as f64), (scaled[0], 1.0), (scaled[1], 1.0)];
        if batch >= MOVABLE_BATCH {
            inputs.push(("batch", batch as f64));
        }
        sensitivities(&inputs, |of| {
            let [context, weights, state, batch @ ..] = of else { return None };
            let n = sensitivity::tokens(*context)?;
            let batch =
                batch.first().map_or(Some(self.question.batch), |batch| sensitivity::count(*batch))?;
            let cost = self.at(n, batch)?;
            // What reads weights has nothing of the state, and the other way round.
            let of_row = |row: &CostRow| {
                let is_of_weights = row.weight_read_bytes.get() > 0;
                figure(row) * if is_of_weights { weights } else { state }
            };
            Some(cost.rows.iter().map(of_row).sum())
        })
    }

    fn at(&self, n: Tokens, batch: u64) -> Option<Cow<'_, ModelCost>> {
        if (n, batch) == (self.question.context, self.question.batch) {
            return Some(Cow::Borrowed(self.base));
        }
        self.of.cost(self.base.phase, n, batch).ok().map(Cow::Owned)
    }
}
