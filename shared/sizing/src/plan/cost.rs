//! What a decode step and a prefill cost: the answer of `kvscope plan cost`.

use serde::Serialize;

use super::Subject;
use crate::cost::{CostOf, FlopWeights, ModelCost, Types};
use crate::parameters::Parameters;
use crate::settings::Settings;
use crate::warning::Warning;
use crate::{Result, Tokens};

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
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// The cost of a model.
///
/// # Errors
///
/// A width or head count that the config does not say, a batch of zero, or a figure beyond 64 bits.
pub fn cost(subject: &Subject<'_>, question: &CostQuestion<'_>) -> Result<CostPlan> {
    let parameters = subject.parameters()?;
    let of = CostOf {
        architecture: subject.architecture,
        parameters: &parameters,
        settings: question.settings,
        types: question.types,
        weights: question.weights,
    };
    let mut warnings = subject.architecture.warnings().to_vec();
    let limit = subject.architecture.max_context().map(|fact| Tokens::new(fact.get()));
    if let Some(limit) = limit.filter(|limit| question.context > *limit) {
        let message =
            format!("{} tokens is beyond the {} that the config allows", question.context, limit.short());
        warnings.push(Warning::new("max_position_embeddings", message));
    }
    let decode = of.decode(question.context, question.batch)?;
    let prefill = of.prefill(question.context, question.batch)?;
    Ok(CostPlan {
        model: subject.model.to_owned(),
        context: question.context,
        batch: question.batch,
        settings: question.settings.clone(),
        types: question.types,
        flop_weights: question.weights,
        decode,
        prefill,
        parameters,
        warnings,
    })
}
