use clap::Args;
use kvscope_sizing::UnitSystem;
use kvscope_sizing::plan::{Given, LabelPlan, Moving, label_of};

use super::{Around, Asked, text};
use crate::cli::request::{Accounting, Contexts, hide_engines, warn_of_all};
use crate::failure::Failure;
use crate::model::Model;
use crate::output;

#[derive(Args, Debug)]
#[command(mut_args(hide_engines))]
pub(super) struct Arguments {
    /// Catalogue ids, config.json or GGUF files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    #[command(flatten)]
    contexts: Contexts,
    #[command(flatten)]
    accounting: Accounting,
    /// GPU whose datasheet gives times: h200, see `kvscope plan hardware`
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// GPUs that share a request
    #[arg(long, default_value_t = 1, value_name = "N", requires = "gpu")]
    count: u64,
    #[command(flatten)]
    moves: text::Moves,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Asked for Arguments {
    type Answer = Vec<LabelPlan>;

    fn answer(&self, around: &Around<'_>) -> Result<Vec<LabelPlan>, Failure> {
        let settings = self.accounting.logical_settings()?;
        let given = Given::of([("gpu", self.gpu.clone()), ("count", Some(self.count.to_string()))]);
        let mut plans = Vec::new();
        for name in &self.models {
            let model = Model::load_from(around.files, name, self.accounting.unknown())?;
            let contexts = self.contexts.given_or_usual(&model.architecture)?;
            let plan = label_of(&model.subject(), &settings, &contexts, &given, Moving::Inputs);
            plans.push(plan.map_err(|error| model.failure(&error))?);
        }
        Ok(plans)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, plans: &Vec<LabelPlan>) -> Result<(), Failure> {
        output::figures(&text::of(&LabelPlan::sheet(plans, UnitSystem::Decimal), self.moves.shows()))?;
        warn_of_all(plans.iter().map(|plan| (plan.model.as_str(), plan.warnings.as_slice())));
        Ok(())
    }
}
