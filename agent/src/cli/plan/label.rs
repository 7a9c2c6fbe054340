use clap::Args;
use kvscope_sizing::UnitSystem;
use kvscope_sizing::hardware::find_gpu;
use kvscope_sizing::plan::{LabelPlan, label};

use super::quantity::{sensitivity_words, time_words, whole};
use super::{Around, Asked};
use crate::cli::request::{Accounting, Contexts, hide_engines, warn_of_all};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::{self, Figures};

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
    #[arg(long, default_value_t = 1, value_name = "N")]
    count: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Asked for Arguments {
    type Answer = Vec<LabelPlan>;

    fn answer(&self, around: &Around<'_>) -> Result<Vec<LabelPlan>, Failure> {
        let settings = self.accounting.logical_settings()?;
        let hardware = self.gpu.as_deref().map(find_gpu).transpose()?.map(|gpu| (gpu, self.count));
        let mut plans = Vec::new();
        for name in &self.models {
            let model = Model::load_from(around.files, name, self.accounting.unknown())?;
            let contexts = self.contexts.given_or_usual(&model.architecture)?;
            let plan = label(&model.subject(), &settings, &contexts, hardware);
            plans.push(plan.map_err(|error| model.failure(&error))?);
        }
        Ok(plans)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, plans: &Vec<LabelPlan>) -> Result<(), Failure> {
        let lines: Vec<String> = plans.iter().flat_map(moved).collect();
        output::figures(&format!("{}\n{}\n", table(plans).render(), lines.join("\n")))?;
        warn_of_all(plans.iter().map(|plan| (plan.model.as_str(), plan.warnings.as_slice())));
        Ok(())
    }
}

/// What matters most to the first label of a version.
fn moved(plan: &LabelPlan) -> Vec<String> {
    let bytes = |bytes: f64| whole(bytes).display(UnitSystem::Decimal);
    let moved = &plan.sensitivities;
    let lines = [
        sensitivity_words("what it holds", &moved.resident_bytes, bytes),
        sensitivity_words("its prefill", &moved.prefill_seconds, time_words),
    ];
    lines.into_iter().flatten().map(|line| format!("{}: {line}", plan.model)).collect()
}

fn table(plans: &[LabelPlan]) -> Figures {
    let header = [
        "model",
        "lives",
        "context",
        "resident",
        "slope",
        "fixed",
        "read a step",
        "hand-over",
        "read time",
        "prefill",
        "restore",
    ];
    let mut table = Figures::new(2, &header);
    let none = || "–".to_owned();
    for plan in plans {
        for label in &plan.labels {
            let hardware = label.hardware.as_ref();
            table.row([
                plan.model.clone(),
                label.lifecycle_class.clone(),
                label.context.to_string(),
                label.resident_bytes.display(UnitSystem::Decimal),
                label.slope_bytes_per_token.to_string(),
                label.fixed_bytes.display(UnitSystem::Decimal),
                label.read_bytes_per_step.display(UnitSystem::Decimal),
                label.handover_bytes.display(UnitSystem::Decimal),
                hardware.map_or_else(none, |on| time_words(on.read_seconds_per_step)),
                hardware.and_then(|on| on.prefill_seconds).map_or_else(none, time_words),
                hardware.and_then(|on| on.restore_seconds).map_or_else(none, time_words),
            ]);
        }
    }
    table
}
