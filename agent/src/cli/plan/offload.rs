use clap::Args;
use kvscope_sizing::cost::{CostOf, FlopWeights, Operand};
use kvscope_sizing::hardware::find_gpu;
use kvscope_sizing::plan::offload::{
    OffloadPlan, OffloadQuestion, Recompute, Restore, Tier, TierGrade, Way, offload,
};
use kvscope_sizing::prediction::LinkFit;
use kvscope_sizing::{Settings, Tokens, UnitSystem, Warning, group_digits};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::cost::TypeChoice;
use super::quantity::{
    bytes_per_second, number, rate_words, seconds, sensitivity_words, three_digits, time_words,
};
use crate::bench::Store;
use crate::cli::request::{Accounting, Contexts};
use crate::failure::Failure;
use crate::home;
use crate::model::Model;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Catalogue ids, config.json or GGUF files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    #[command(flatten)]
    contexts: Contexts,
    /// A tier with its β, what each piece adds (α) and what a transfer takes to start: host=50GB/s,15us or nvme=26GB/s,20us,1ms
    #[arg(long = "tier", value_name = "NAME=RATE[,ALPHA[,START]]")]
    tiers: Vec<String>,
    /// The tiers of a run of `kvscope bench run --tiers`; of the newest one that has any, where none is named
    #[arg(long, num_args = 0..=1, default_missing_value = "newest", value_name = "RUN")]
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
struct Answer {
    #[serde(flatten)]
    plan: OffloadPlan,
    /// Where the rate of computing comes from: `given` or `datasheet`.
    compute_from: &'static str,
    settings: Settings,
    warnings: Vec<Warning>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.accounting.logical_settings_and(&["block_size"])?;
    let context = arguments.contexts.one()?;
    let (flops_per_second, compute_from) = arguments.rate()?;
    let tiers = arguments.tiers()?;
    let mut answers = Vec::new();
    for name in &arguments.models {
        let model = Model::load_checked(name, arguments.accounting.unknown())?;
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
        let warnings = model.architecture.warnings().to_vec();
        answers.push(Answer { plan, compute_from, settings: settings.clone(), warnings });
    }
    if arguments.json {
        return output::json(&answers);
    }
    super::print(&answers, text, |answer| (&answer.plan.model, &answer.warnings))
}

impl Arguments {
    /// Operations a second, and where the figure comes from.
    fn rate(&self) -> Result<(f64, &'static str), Failure> {
        if let Some(tflops) = &self.tflops {
            return Ok((number("tflops", tflops)? * 1e12, "given"));
        }
        let gpu = find_gpu(self.gpu.as_deref().unwrap_or_default())?;
        let one = gpu.flops_per_second.of(Operand::Bf16).ok_or_else(|| {
            Failure::input(format!("gpu: the datasheet of {} prints no bf16 rate; give --tflops", gpu.name))
        })?;
        if self.count == 0 || !(self.efficiency > 0.0 && self.efficiency <= 100.0) {
            return Err(Failure::input(format!(
                "efficiency: {} percent of {} GPUs compute nothing; give 1 or more and up to 100 percent",
                self.efficiency, self.count
            )));
        }
        Ok((one as f64 * self.count as f64 * self.efficiency / 100.0, "datasheet"))
    }

    fn tiers(&self) -> Result<Vec<Tier>, Failure> {
        let mut tiers = self.tiers.iter().map(|text| given(text)).collect::<Result<Vec<_>, _>>()?;
        if let Some(run) = &self.measured {
            tiers.extend(measured(run)?);
        }
        if tiers.is_empty() {
            return Err(Failure::input(
                "tier: none is given; add --tier host=50GB/s,15us, or --measured for those of a run",
            ));
        }
        Ok(tiers)
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
        grade: TierGrade::Given,
        source: "given".to_owned(),
    })
}

/// The tiers that a run measured, by the fits to its transfers back from them.
fn measured(run: &str) -> Result<Vec<Tier>, Failure> {
    let store = Store::open(home::runs()?).map_err(Failure::check)?;
    if run != "newest" {
        let tiers = tiers_of(run, &store.show(run).map_err(Failure::input)?.run.transfers);
        if tiers.is_empty() {
            return Err(Failure::input(format!("measured: {run} has no fits to restored blocks")));
        }
        return Ok(tiers);
    }
    for summary in store.list().map_err(Failure::check)? {
        let Ok(read) = store.show(&summary.run) else { continue };
        let tiers = tiers_of(&summary.run, &read.run.transfers);
        if !tiers.is_empty() {
            return Ok(tiers);
        }
    }
    Err(Failure::input("measured: no run has tiers; start one with `kvscope bench run --tiers dram,file`"))
}

fn tiers_of(run: &str, transfers: &[Value]) -> Vec<Tier> {
    let mut tiers: Vec<Tier> = Vec::new();
    for transfer in transfers.iter().filter(|transfer| transfer["direction"] == "restore") {
        let Ok(fit) = LinkFit::deserialize(&transfer["fitted"]["link"]) else { continue };
        let word = |key: &str| transfer[key].as_str().unwrap_or_default().to_owned();
        let name = format!("{}, {}", word("tier"), word("pattern"));
        if tiers.iter().all(|known| known.name != name) {
            let source = format!("fitted to {} transfers of run {run}: {}", fit.points, word("medium"));
            tiers.push(Tier::fitted(name, &fit, source));
        }
    }
    tiers
}

fn text(answer: &Answer) -> String {
    let plan = &answer.plan;
    let header =
        ["tier", "layout", "pieces", "bytes", "time", "rate", "κ", "breaks even at", "quicker from token on"];
    let mut table = Figures::new(2, &header).text_last();
    for row in &plan.rows {
        table.row([
            row.tier.clone(),
            row.layout.name().replace('_', " "),
            group_digits(row.copies),
            row.bytes.display(UnitSystem::Decimal),
            time_words(row.seconds),
            rate_words(row.bytes_per_second),
            three_digits(row.kappa),
            row.break_even_bytes_per_second.map_or("no rate".to_owned(), rate_words),
            turns(row),
        ]);
    }
    let mut sources: Vec<String> = Vec::new();
    for row in &plan.rows {
        let line = format!("{}: {}", row.tier, row.source);
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
        answer.compute_from,
    )];
    parts.push(table.render());
    parts.extend(sensitivity_words(&plan.sensitivities, |kappa| format!("κ = {}", three_digits(kappa))));
    parts.extend(sources);
    format!("{}\n", parts.join("\n").trim_end())
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tiers_of_a_run_are_those_of_its_fits_to_restored_blocks() {
        let link = json!({"points": 4, "start_seconds": 1e-4, "alpha_seconds": 2e-6, "beta_bytes_per_second": 5e9, "residuals": []});
        let transfer = |tier: &str, direction: &str, fitted: Value| json!({"tier": tier, "medium": "memory", "direction": direction, "pattern": "fragments", "fitted": fitted});
        let transfers = [
            transfer("dram", "save", json!({"link": link})),
            transfer("dram", "restore", json!({"link": link})),
            transfer("dram", "restore", json!({"link": link})),
            transfer("file", "restore", Value::Null),
        ];
        let tiers = tiers_of("r1", &transfers);
        assert_eq!(tiers.len(), 1);
        assert_eq!((tiers[0].name.as_str(), tiers[0].grade), ("dram, fragments", TierGrade::Fitted));
        assert_eq!(tiers[0].source, "fitted to 4 transfers of run r1: memory");
        assert!(
            (tiers[0].beta_bytes_per_second - 5e9).abs() < 1.0
                && (tiers[0].alpha_seconds - 2e-6).abs() < 1e-12
        );
    }
}
