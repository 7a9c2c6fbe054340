use clap::Args;
use kvscope_sizing::UnitSystem;
use kvscope_sizing::plan::{CostPlan, Given, Moving, cost_of};

use super::{Around, Asked, text};
use crate::cli::request::{Accounting, Batch, Contexts, hide_engines, takes_one_context};
use crate::failure::Failure;
use crate::model::Model;

#[derive(Args, Debug)]
#[command(mut_args(hide_engines), mut_args(takes_one_context))]
pub(super) struct Arguments {
    /// Catalogue id, config.json, folder, or - for standard input
    #[arg(value_name = "MODEL")]
    model: String,
    #[command(flatten)]
    contexts: Contexts,
    #[command(flatten)]
    batch: Batch,
    #[command(flatten)]
    accounting: Accounting,
    #[command(flatten)]
    types: TypeChoice,
    /// What an operation counts: plain, fp8 (bf16 2, fp8 1, fp4 0.5), or TYPE=WEIGHT with commas
    #[arg(long, default_value = "plain", value_name = "WEIGHTS")]
    flop_weights: String,
    #[command(flatten)]
    moves: text::Moves,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The types of what the formats of state do not say.
#[derive(Args, Debug)]
#[expect(clippy::struct_field_names, reason = "the names of the options")]
pub(super) struct TypeChoice {
    /// Type of all weights: f32, bf16, fp8, fp4, or checkpoint for those of the published checkpoint; as the config says where it is not given
    #[arg(long, value_name = "TYPE")]
    weight_dtype: Option<String>,
    /// Type of the weights of experts, where it is another
    #[arg(long, value_name = "TYPE")]
    expert_dtype: Option<String>,
    /// Type that attention's scores and sums are computed in
    #[arg(long, default_value = "bf16", value_name = "TYPE")]
    core_dtype: String,
}

impl TypeChoice {
    pub(super) fn given(&self) -> Given {
        Given::of([
            ("weight_dtype", self.weight_dtype.clone()),
            ("expert_dtype", self.expert_dtype.clone()),
            ("core_dtype", Some(self.core_dtype.clone())),
        ])
    }
}

impl Asked for Arguments {
    type Answer = CostPlan;

    fn answer(&self, around: &Around<'_>) -> Result<CostPlan, Failure> {
        let settings = self.accounting.logical_settings()?;
        let model = Model::load_from(around.files, &self.model, self.accounting.unknown())?;
        let (context, batch) = (self.contexts.one_of(&model.architecture)?, self.batch.count()?);
        let mut given = self.types.given();
        given.set("flop_weights", &self.flop_weights);
        cost_of(&model.subject(), &settings, context, batch, &given, Moving::Inputs)
            .map_err(|error| model.failure(&error))
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, answer: &CostPlan) -> Result<(), Failure> {
        let text = |plan: &CostPlan| text::of(&plan.sheet(UnitSystem::Decimal), self.moves.shows());
        super::print(std::slice::from_ref(answer), text, |plan| (&plan.model, &plan.warnings))
    }
}
