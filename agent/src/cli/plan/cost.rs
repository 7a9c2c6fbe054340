use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::cost::{FlopWeights, ModelCost, Operand, Types};
use kvscope_sizing::plan::{CostPlan, CostQuestion, cost};
use kvscope_sizing::{Bytes, Ratio, UnitSystem};

use super::quantity::{operation_words, sensitivity_words, whole};
use super::{Around, Asked};
use crate::cli::request::{Accounting, Batch, Contexts, hide_engines};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::Figures;

#[derive(Args, Debug)]
#[command(mut_args(hide_engines))]
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The types of what the formats of state do not say.
#[derive(Args, Debug)]
#[expect(clippy::struct_field_names, reason = "the names of the options")]
pub(super) struct TypeChoice {
    /// Type of all weights: f32, bf16, fp8, fp4; the model's own where it is not given
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
    pub(super) fn types(&self, model: &Model) -> Result<Types, Failure> {
        let read = |option: &str, text: &str| -> Result<Operand, Failure> {
            text.parse()
                .map_err(|error: kvscope_sizing::Error| Failure::input(format!("{option}: {}", error.what())))
        };
        let mut types = Types::of(&model.architecture);
        if let Some(weights) = &self.weight_dtype {
            types.weights = read("weight-dtype", weights)?;
            types.experts = types.weights;
        }
        if let Some(experts) = &self.expert_dtype {
            types.experts = read("expert-dtype", experts)?;
        }
        types.core = read("core-dtype", &self.core_dtype)?;
        Ok(types)
    }
}

impl Asked for Arguments {
    type Answer = CostPlan;

    fn answer(&self, around: &Around<'_>) -> Result<CostPlan, Failure> {
        let settings = self.accounting.logical_settings()?;
        let model = Model::load_from(around.files, &self.model, self.accounting.unknown())?;
        let question = CostQuestion {
            context: self.contexts.one_of(&model.architecture)?,
            batch: self.batch.count()?,
            settings: &settings,
            types: self.types.types(&model)?,
            weights: FlopWeights::given(&self.flop_weights)?,
        };
        cost(&model.subject(), &question).map_err(|error| model.failure(&error))
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, answer: &CostPlan) -> Result<(), Failure> {
        super::print(std::slice::from_ref(answer), text, |plan| (&plan.model, &plan.warnings))
    }
}

fn text(plan: &CostPlan) -> String {
    let mut text = format!("{} at {} tokens, batch {}\n", plan.model, plan.context, plan.batch);
    let billions = |count: u64| format!("{:.1} billion", count as f64 / 1e9);
    let parameters = &plan.parameters;
    let _ = writeln!(
        text,
        "{} parameters, of which a token is multiplied by {}",
        billions(parameters.total),
        billions(parameters.active)
    );
    for (name, phase) in [("decode step", &plan.decode), ("prefill", &plan.prefill)] {
        let _ =
            writeln!(text, "\n{name}: {}\n{}", totals(plan, phase), table(plan, phase).render().trim_end());
    }
    let moved = &plan.sensitivities;
    let bytes = |bytes: f64| whole(bytes).display(UnitSystem::Decimal);
    let lines = [
        sensitivity_words("a decode step's operations", &moved.decode_operations, operation_words),
        sensitivity_words("the bytes that it reads", &moved.decode_read_bytes, bytes),
        sensitivity_words("a prefill's operations", &moved.prefill_operations, operation_words),
    ];
    let _ = writeln!(text, "\n{}", lines.into_iter().flatten().collect::<Vec<_>>().join("\n"));
    text
}

fn totals(plan: &CostPlan, phase: &ModelCost) -> String {
    let mut parts = vec![format!("{} of operations", operation_words(phase.flops as f64))];
    if plan.flop_weights != FlopWeights::plain() {
        parts.push(format!("{} by weight", operation_words(phase.weighted_flops.as_f64())));
    }
    if let Some(bytes) = phase.state_read_bytes {
        parts.push(format!("{} of state read", bytes.display(UnitSystem::Decimal)));
    }
    parts.push(format!("{} of weights read", phase.weight_read_bytes.display(UnitSystem::Decimal)));
    parts.join(", ")
}

fn table(plan: &CostPlan, phase: &ModelCost) -> Figures {
    let header =
        ["part", "mixer", "type", "layers", "operations", "share", "state read", "FLOP/B", "weights read"];
    let mut table = Figures::new(3, &header);
    let bytes = |bytes: Bytes| match bytes {
        Bytes::ZERO => "–".to_owned(),
        some => some.display(UnitSystem::Decimal),
    };
    for row in &phase.rows {
        let weighted = Ratio::whole(row.flops).times(plan.flop_weights.of(row.operand));
        let weighted = weighted.map_or(f64::NAN, Ratio::as_f64);
        let share = 100.0 * weighted / phase.weighted_flops.as_f64();
        let intensity = match row.state_read_bytes.get() {
            0 => "–".to_owned(),
            read => format!("{:.1}", row.flops as f64 / read as f64),
        };
        table.row([
            row.part.name().to_owned(),
            if row.mixer.is_empty() { "–".to_owned() } else { row.mixer.clone() },
            row.operand.name().to_owned(),
            row.layers.to_string(),
            operation_words(row.flops as f64),
            format!("{share:.1} %"),
            bytes(row.state_read_bytes),
            intensity,
            bytes(row.weight_read_bytes),
        ]);
    }
    table
}
