use clap::Args;
use kvscope_sizing::cost::{CostOf, FlopWeights, Operand};
use kvscope_sizing::hardware::find_gpu;
use kvscope_sizing::plan::offload::{
    OffloadPlan, OffloadQuestion, Recompute, Restore, Tier, TierGrade, Way, offload,
};
use kvscope_sizing::plan::share_of_rate;
use kvscope_sizing::{Settings, Tokens, UnitSystem, group_digits};
use serde::Serialize;

use super::cost::TypeChoice;
use super::measured;
use super::quantity::{
    bytes_per_second, number, rate_words, seconds, sensitivity_words, three_digits, time_words,
};
use super::{Around, Asked};
use crate::cli::request::{Accounting, Contexts};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::Figures;

#[derive(Args, Debug)]
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
    #[arg(long, value_name = "TFLOPS", required_unless_present = "gpu")]
    tflops: Option<String>,
    /// The GPU that computes, by its datasheet's bf16 rate: h200, see `kvscope plan hardware`
    #[arg(long, value_name = "GPU", conflicts_with = "tflops")]
    gpu: Option<String>,
    /// How many of them
    #[arg(long, default_value_t = 1, value_name = "N", requires = "gpu")]
    count: u64,
    /// Percent of that rate that a prefill reaches
    #[arg(long, default_value_t = 40.0, value_name = "PERCENT", requires = "gpu")]
    efficiency: f64,
    #[command(flatten)]
    types: TypeChoice,
    #[command(flatten)]
    accounting: Accounting,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
pub(super) struct Answer {
    #[serde(flatten)]
    plan: OffloadPlan,
    #[serde(flatten)]
    computing: Computing,
    settings: Settings,
}

/// Where the rate of computing comes from.
#[derive(Clone, Copy, Serialize)]
struct Computing {
    /// `given`, or `estimated` from the datasheet's rate.
    compute_from: &'static str,
    /// Percent of that rate that it is estimated at; null where a rate is given.
    efficiency_percent: Option<f64>,
}

impl Asked for Arguments {
    type Answer = Vec<Answer>;

    fn answer(&self, around: &Around<'_>) -> Result<Vec<Answer>, Failure> {
        answers(self, around)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, answers: &Vec<Answer>) -> Result<(), Failure> {
        super::print(answers, text, |answer| (&answer.plan.model, &answer.plan.warnings))
    }
}

fn answers(arguments: &Arguments, around: &Around<'_>) -> Result<Vec<Answer>, Failure> {
    let settings = arguments.accounting.logical_settings_and(&["block_size"])?;
    let (flops_per_second, computing) = arguments.rate()?;
    let tiers = arguments.tiers(around)?;
    let mut answers = Vec::new();
    for name in &arguments.models {
        let model = Model::load_from(around.files, name, arguments.accounting.unknown())?;
        let context = arguments.contexts.one_of(&model.architecture)?;
        let parameters = model.subject().parameters().map_err(|error| model.failure(&error))?;
        let cost = CostOf {
            architecture: &model.architecture,
            parameters: &parameters,
            settings: &settings,
            types: arguments.types.types(&model)?,
            weights: FlopWeights::plain(),
        };
        let flops = |n: Tokens| Ok(cost.prefill(n, 1)?.flops as f64);
        let question = OffloadQuestion {
            model: &model.label,
            architecture: &model.architecture,
            settings: &settings,
            context,
            tiers: &tiers,
            recompute: Recompute { flops: &flops, flops_per_second },
        };
        let plan = offload(&question).map_err(|error| model.failure(&error))?;
        answers.push(Answer { plan, computing, settings: settings.clone() });
    }
    Ok(answers)
}

impl Arguments {
    /// Operations a second, and where the figure comes from.
    fn rate(&self) -> Result<(f64, Computing), Failure> {
        if let Some(tflops) = &self.tflops {
            let given = Computing { compute_from: "given", efficiency_percent: None };
            return Ok((number("tflops", tflops)? * 1e12, given));
        }
        let gpu = find_gpu(self.gpu.as_deref().unwrap_or_default())?;
        let one = gpu.flops_per_second.of(Operand::Bf16).ok_or_else(|| {
            Failure::input(format!("gpu: the datasheet of {} prints no bf16 rate; give --tflops", gpu.name))
        })?;
        if self.count == 0 {
            return Err(Failure::input("count: 0 GPUs compute nothing; give at least 1"));
        }
        let rate = one as f64 * self.count as f64 * share_of_rate(self.efficiency)?;
        let efficiency_percent = Some(self.efficiency);
        Ok((rate, Computing { compute_from: "estimated", efficiency_percent }))
    }

    /// Those that are given, else those that were measured here, else what the datasheet of the GPU says.
    fn tiers(&self, around: &Around<'_>) -> Result<Vec<Tier>, Failure> {
        let mut tiers = self.tiers.iter().map(|text| given(text)).collect::<Result<Vec<_>, _>>()?;
        if let Some(run) = &self.measured {
            tiers.extend(measured::named(around, run)?.into_iter().map(measured::Fitted::tier));
        }
        if !tiers.is_empty() {
            return Ok(tiers);
        }
        if let Some(fits) = measured::newest(around, |_| true)? {
            return Ok(fits.into_iter().map(measured::Fitted::tier).collect());
        }
        let gpu = self.gpu.as_deref().map(find_gpu).transpose()?;
        let link = gpu.and_then(|gpu| gpu.host_link.as_ref().map(|link| (gpu, link)));
        let (gpu, link) = link.ok_or_else(|| {
            Failure::input(
                "tier: none is given, and no run of this machine has any; add --tier host=50GB/s,15us, or measure with `kvscope bench run --tiers dram,file`",
            )
        })?;
        Ok(vec![Tier {
            name: "host".to_owned(),
            start_seconds: 0.0,
            alpha_seconds: 0.0,
            beta_bytes_per_second: link.bytes_per_second as f64,
            // Each of several GPUs restores what it holds.
            ranks: self.count,
            grade: TierGrade::Datasheet,
            source: format!("{} of each {}, by its datasheet", link.name, gpu.name),
        }])
    }
}

/// `host=50GB/s,15us,1ms`
fn given(text: &str) -> Result<Tier, Failure> {
    let form = || {
        Failure::input(format!("tier: {text:?} is not NAME=RATE[,ALPHA[,START]], such as host=50GB/s,15us"))
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

fn text(answer: &Answer) -> String {
    let plan = &answer.plan;
    let header =
        ["tier", "layout", "pieces", "bytes", "time", "rate", "κ", "breaks even at", "quicker from token on"];
    let none = || "–".to_owned();
    let mut table = Figures::new(2, &header).text_last();
    for row in &plan.rows {
        table.row([
            row.tier.clone(),
            row.layout.name().replace('_', " "),
            group_digits(row.copies),
            row.bytes.display(UnitSystem::Decimal),
            row.seconds.map_or_else(none, time_words),
            row.bytes_per_second.map_or_else(none, rate_words),
            row.kappa.map_or_else(none, three_digits),
            break_even(row),
            turns(row),
        ]);
    }
    let mut sources: Vec<String> = Vec::new();
    for row in &plan.rows {
        let ranks = if row.ranks > 1 {
            format!(
                "; {} ranks restore at once, the fullest {}",
                row.ranks,
                row.rank_bytes.display(UnitSystem::Decimal)
            )
        } else {
            String::new()
        };
        let line = format!("{}: {}{ranks}", row.tier, row.source);
        if row.grade != TierGrade::Given && !sources.contains(&line) {
            sources.push(line);
        }
    }
    let mut parts = vec![format!(
        "{}: {} tokens in blocks of {}; computed again in {} ({:.3e} FLOP at {} TFLOP/s, {})",
        plan.model,
        plan.context_tokens,
        plan.block_tokens,
        time_words(plan.recompute_seconds),
        plan.recompute_flops,
        three_digits(plan.flops_per_second / 1e12),
        answer.computing.words(),
    )];
    parts.push(table.render());
    parts.extend(sensitivity_words("κ of the first tier", &plan.sensitivities, three_digits));
    parts.extend(sources);
    format!("{}\n", parts.join("\n").trim_end())
}

impl Computing {
    fn words(self) -> String {
        self.efficiency_percent.map_or_else(
            || self.compute_from.to_owned(),
            |percent| format!("estimated at {percent} % of the datasheet's rate"),
        )
    }
}

fn break_even(row: &Restore) -> String {
    match (row.seconds, row.break_even_bytes_per_second) {
        (None, _) => "–".to_owned(),
        (_, None) => "no rate".to_owned(),
        (_, Some(rate)) => rate_words(rate),
    }
}

/// `recompute 1, restore 1,024`
fn turns(row: &Restore) -> String {
    let words = row.turns.iter().map(|turn| {
        let way = match turn.quicker {
            Way::Restore => "restore",
            Way::Recompute => "recompute",
        };
        format!("{way} {}", turn.from_tokens)
    });
    words.collect::<Vec<_>>().join(", ")
}
