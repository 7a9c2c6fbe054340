use clap::{ArgGroup, Args};
use kvscope_sizing::plan::offload::Tier;
use kvscope_sizing::plan::{
    Given, Measured, MeasuredLink, OffloadAnswer, Offloading, Subject, datasheet_tier, typed_tiers,
};
use kvscope_sizing::{UnitSystem, Warning};

use super::cost::TypeChoice;
use super::measured;
use super::{Around, Asked, text};
use crate::cli::request::{Accounting, Contexts, hide_engines, takes_one_context};
use crate::failure::Failure;
use crate::model::Model;

/// What a GPU's rate is estimated with.
const OF_ESTIMATE: [&str; 5] = ["count", "efficiency", "weight_dtype", "expert_dtype", "core_dtype"];

#[derive(Args, Debug)]
#[command(mut_args(hide_engines), mut_args(takes_one_context))]
#[command(group(ArgGroup::new("computes").args(["gpu", "tflops"]).required(true)))]
pub(super) struct Arguments {
    /// Catalogue ids, config.json or GGUF files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    #[command(flatten)]
    contexts: Contexts,
    /// A tier with its β, what each piece adds (α) and what a transfer takes to start: host=50GB/s,15us or nvme=26GB/s,20us,1ms;
    /// where none is given those that this machine's newest run measured, else the GPU's link to the host by its datasheet
    #[arg(long = "tier", value_name = "NAME=RATE[,ALPHA[,START]]")]
    tiers: Vec<String>,
    /// The tiers of a run of `kvscope bench run --tiers`; of the newest one of this machine, where none is named
    #[arg(long, num_args = 0..=1, default_missing_value = measured::NEWEST, value_name = "RUN")]
    measured: Option<String>,
    /// What the machine really computes, in 10^12 operations a second
    #[arg(long, value_name = "TFLOPS", conflicts_with_all = OF_ESTIMATE)]
    tflops: Option<String>,
    /// The GPU that computes, each type at its datasheet's rate: h200, see `kvscope plan hardware`
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// How many of them
    #[arg(long, default_value_t = 1, value_name = "N")]
    count: u64,
    /// Percent of that rate that a prefill reaches
    #[arg(long, default_value_t = 40.0, value_name = "PERCENT")]
    efficiency: f64,
    #[command(flatten)]
    types: TypeChoice,
    #[command(flatten)]
    accounting: Accounting,
    #[command(flatten)]
    moves: text::Moves,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Asked for Arguments {
    type Answer = Vec<OffloadAnswer>;

    fn answer(&self, around: &Around<'_>) -> Result<Vec<OffloadAnswer>, Failure> {
        answers(self, around)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, answers: &Vec<OffloadAnswer>) -> Result<(), Failure> {
        let text = |answer: &OffloadAnswer| text::of(&answer.sheet(UnitSystem::Decimal), self.moves.shows());
        super::print(answers, text, |answer| (&answer.plan.model, &answer.plan.warnings))
    }
}

fn answers(arguments: &Arguments, around: &Around<'_>) -> Result<Vec<OffloadAnswer>, Failure> {
    let settings = arguments.accounting.logical_settings_and(&["block_size"])?;
    let given = arguments.given();
    let (tiers, left_out) = arguments.tiers(&given, around)?;
    let mut answers = Vec::new();
    for name in &arguments.models {
        let model = Model::load_from(around.files, name, arguments.accounting.unknown())?;
        let context = arguments.contexts.one_of(&model.architecture)?;
        let subject = Subject { model: &model.label, ..model.subject() };
        let answer =
            Offloading::of(subject, &settings, &given).and_then(|offloading| offloading.at(context, &tiers));
        let mut answer = answer.map_err(|error| model.failure(&error))?;
        answer.plan.warnings.extend(left_out.iter().cloned());
        answers.push(answer);
    }
    Ok(answers)
}

impl Arguments {
    fn given(&self) -> Given {
        let mut given = self.types.given();
        for (name, text) in [
            ("tflops", self.tflops.clone()),
            ("gpu", self.gpu.clone()),
            ("count", Some(self.count.to_string())),
            ("efficiency", Some(self.efficiency.to_string())),
        ] {
            given.set(name, text.as_deref().unwrap_or_default());
        }
        given
    }

    /// Those that are given, else those that were measured here, else what the datasheet of the GPU says; and what of measured
    /// ones could not be used.
    fn tiers(&self, given: &Given, around: &Around<'_>) -> Result<(Vec<Tier>, Vec<Warning>), Failure> {
        let texts: Vec<&str> = self.tiers.iter().map(String::as_str).collect();
        let mut tiers = typed_tiers(&texts)?;
        let found = match &self.measured {
            Some(run) => measured::named(around, run)?,
            None if tiers.is_empty() => measured::newest(around, |_| true)?,
            None => Measured::default(),
        };
        tiers.extend(found.measured.iter().map(MeasuredLink::as_tier));
        if tiers.is_empty() {
            tiers.push(datasheet_tier(given)?.ok_or_else(|| {
                Failure::input(
                    "tier: none is given, and no run of this machine has any; add --tier host=50GB/s,15us, or measure with `kvscope bench run --tiers dram,file`",
                )
            })?);
        }
        Ok((tiers, found.warnings))
    }
}
