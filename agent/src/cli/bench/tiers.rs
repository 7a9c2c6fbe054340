//! `bench run --tiers`: transfers of blocks to and from tiers.

use std::sync::atomic::AtomicBool;

use clap::Args;
use kvscope_protocol::run::{Run, TierName};
#[cfg(target_os = "linux")]
use kvscope_protocol::run::{StateAsked, is_missing_transfer};
use kvscope_sizing::{Bytes, Tokens, UnitSystem, group_digits};
#[cfg(target_os = "linux")]
use kvscope_sizing::{Settings, engine::Engine};
use serde_json::Value;

use super::print::seconds;
#[cfg(target_os = "linux")]
use crate::bench::{self, StateLayout, TierPlan};
use crate::bench::{CaseRequest, Place, Plan, Progress, Store};
#[cfg(target_os = "linux")]
use crate::cli::request::warn;
use crate::failure::Failure;
#[cfg(target_os = "linux")]
use crate::model::Model;
use crate::output::{self, Figures};

/// A tier by its name on the command line.
pub(super) fn parse_tier(name: &str) -> Result<TierName, String> {
    TierName::ALL.into_iter().find(|tier| tier.word() == name).ok_or_else(|| {
        let known: Vec<&str> = TierName::ALL.iter().map(|tier| tier.word()).collect();
        format!("{name:?} is no tier; choose of {}", known.join(", "))
    })
}

/// The states that go to each tier and come back.
#[derive(Args, Debug)]
pub(super) struct StateArguments {
    /// The state of this model at each of --lengths is saved to each tier, dropped, restored and compared: catalogue id, config.json or GGUF file, folder, or - for standard input
    #[arg(long = "state", value_delimiter = ',', value_name = "MODEL", requires = "tiers")]
    states: Vec<String>,
    /// Whose blocks a state lies in: vllm, vllm@0.33, or logical for those of `kvscope describe`
    #[arg(long, default_value = "vllm", value_name = "ENGINE", requires = "states")]
    engine: String,
    /// Any setting of the state by its name, such as `kv_dtype=fp8`
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "states")]
    settings: Vec<String>,
}

/// What of a budget goes to the cases where tiers follow them.
#[cfg(target_os = "linux")]
const CASES_SHARE: f64 = 0.5;

/// Tokens of a state where no length is given.
#[cfg(target_os = "linux")]
const USUAL_LENGTH: Tokens = Tokens::new(16 << 10);

/// The tiers that a run measures after its cases, and the states that go to them.
#[derive(Debug, Default)]
pub(super) struct Tiers {
    tiers: Vec<TierName>,
    #[cfg(target_os = "linux")]
    states: Vec<(StateAsked, StateLayout)>,
}

impl Tiers {
    pub(super) fn is_empty(&self) -> bool {
        self.tiers.is_empty()
    }
}

#[cfg(target_os = "linux")]
impl Tiers {
    /// Those that the arguments ask for.
    pub(super) fn asked(arguments: &super::RunArguments) -> Result<Self, Failure> {
        let mut tiers = Vec::new();
        for tier in &arguments.tiers {
            if !tiers.contains(tier) {
                tiers.push(*tier);
            }
        }
        // A GPU has time for its links as well.
        if arguments.backend == super::Backend::Cuda && tiers.is_empty() && arguments.forms.is_empty() {
            tiers.extend([TierName::Hbm, TierName::HbmPageable]);
        }
        let contexts = match arguments.lengths.as_slice() {
            [] => vec![USUAL_LENGTH],
            lengths => lengths.iter().map(|text| Ok(text.parse()?)).collect::<Result<Vec<_>, Failure>>()?,
        };
        let mut states = Vec::new();
        for name in &arguments.state.states {
            let model = Model::load(name)?;
            for context in &contexts {
                states.push(state(
                    &model,
                    StateAsked {
                        model: model.label.clone(),
                        engine: arguments.state.engine.clone(),
                        context: *context,
                        settings: arguments.state.settings.clone(),
                    },
                )?);
            }
        }
        Ok(Self { tiers, states })
    }

    /// Those of a stored run, where it has no figures of some of them.
    pub(super) fn missing(run: &Run) -> Result<Self, Failure> {
        let is_whole = !run.transfers.is_empty() && !run.transfers.iter().any(is_missing_transfer);
        if run.plan.tiers.is_empty() || is_whole {
            return Ok(Self::default());
        }
        let tiers = run.plan.tiers.iter().map(|tier| parse_tier(tier)).collect::<Result<_, _>>();
        let states = run.plan.states.iter().map(|asked| state(&Model::load(&asked.model)?, asked.clone()));
        Ok(Self { tiers: tiers.map_err(Failure::input)?, states: states.collect::<Result<_, _>>()? })
    }

    /// Measures the tiers, after `cases` where there are any.
    pub(super) fn measure(
        self,
        place: Place,
        plan: Plan,
        cases: &[CaseRequest],
        store: &Store,
        progress: &mut dyn FnMut(Progress),
        cancel: &AtomicBool,
    ) -> Result<Run, Failure> {
        let (asked, states) = self.states.into_iter().unzip();
        let tier_plan = TierPlan {
            tiers: self.tiers,
            states,
            asked,
            folder: crate::home::tiers()?,
            budget: plan.budget,
            seed: plan.seed,
        };
        let run = if cases.is_empty() {
            let stored = plan.resumed.as_ref().map(|resumed| &resumed.run);
            bench::run_tiers(&tier_plan, stored, store, progress, cancel)
        } else {
            let plan = Plan { kept: plan.budget.mul_f64(1.0 - CASES_SHARE), ..plan };
            bench::run_with_tiers(place, &plan, cases, &tier_plan, store, progress, cancel)
        };
        run.map_err(super::failed)
    }
}

#[cfg(target_os = "linux")]
fn state(model: &Model, asked: StateAsked) -> Result<(StateAsked, StateLayout), Failure> {
    let engine: Engine = asked.engine.parse()?;
    let mut settings = Settings::default();
    for pair in &asked.settings {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| Failure::input(format!("set: {pair:?} is not NAME=VALUE")))?;
        settings.set(name.trim(), value.trim())?;
    }
    let layout = StateLayout::of(&model.label, &model.architecture, &engine, asked.context, &settings)
        .map_err(|error| model.failure(&error))?;
    warn(layout.warnings.iter().map(|warning| (model.label.as_str(), warning)));
    Ok((asked, layout))
}

#[cfg(not(target_os = "linux"))]
impl Tiers {
    pub(super) fn asked(arguments: &super::RunArguments) -> Result<Self, Failure> {
        match arguments.tiers.as_slice() {
            [] => Ok(Self::default()),
            _ => Err(Failure::input("tiers: they are measured on Linux alone")),
        }
    }

    /// What a run of another machine is missing of its tiers is not measured here.
    pub(super) fn missing(_: &Run) -> Result<Self, Failure> {
        Ok(Self::default())
    }

    pub(super) fn measure(
        self,
        _: Place,
        _: Plan,
        _: &[CaseRequest],
        _: &Store,
        _: &mut dyn FnMut(Progress),
        _: &AtomicBool,
    ) -> Result<Run, Failure> {
        Err(Failure::input("tiers: they are measured on Linux alone"))
    }
}

/// The first transfer that brought back other bytes than were saved.
pub(super) fn wrong(run: &Run) -> Option<String> {
    let wrong = run.transfers.iter().find(|transfer| transfer["correct"] == false)?;
    Some(format!("transfer {}: {}", wrong["transfer"], text(wrong, "status")))
}

/// The other end of the tier `peer`: prints its port, and ends when standard input does.
#[cfg(target_os = "linux")]
pub(super) fn keep(bytes: usize) -> Result<(), Failure> {
    // Ctrl-C goes to the whole group of processes; the one that started this one decides what it means.
    let _ = ctrlc::set_handler(|| {});
    let mut announced = Ok(());
    let kept = crate::bench::serve_peer(
        bytes,
        |port| announced = output::figures(&format!("{port}\n")),
        std::io::stdin().lock(),
    );
    announced?;
    kept.map_err(|error| Failure::check(format!("peer: {error}")))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn keep(_: usize) -> Result<(), Failure> {
    Err(Failure::input("peer: it is kept on Linux alone"))
}

/// The tables of a run's transfers; none where it has none.
pub(super) fn tables(run: &Run) -> Option<String> {
    if run.transfers.is_empty() {
        return None;
    }
    let mut tables = vec![links(run).render(), transfers(run).render()];
    if run.transfers.iter().any(is_state) {
        tables.push(states(run).render());
    }
    Some(tables.join("\n"))
}

fn is_state(transfer: &Value) -> bool {
    !transfer["state"].is_null()
}

/// States that were saved, dropped and restored.
fn states(run: &Run) -> Figures {
    let header = [
        "state of",
        "context",
        "tier",
        "direction",
        "blocks",
        "laid out",
        "of",
        "predicted bytes",
        "asked bytes",
        "predicted time",
        "measured",
        "p05",
        "p95",
        "error",
        "status",
    ];
    let mut table = Figures::new(4, &header).text_last();
    for transfer in run.transfers.iter().filter(|transfer| is_state(transfer)) {
        let number = |pointer: &str| transfer.pointer(pointer).and_then(Value::as_f64);
        let whole = |pointer: &str| transfer.pointer(pointer).and_then(Value::as_u64);
        let time = |pointer: &str| or_dash(number(pointer).map(seconds));
        let error = number("/predicted/seconds")
            .zip(number("/measured/seconds/median"))
            .map(|(predicted, measured)| format!("{:+.1} %", (predicted / measured - 1.0) * 100.0));
        table.row([
            text(&transfer["state"], "model"),
            or_dash(whole("/state/context").map(|tokens| Tokens::new(tokens).short())),
            text(transfer, "tier"),
            text(transfer, "direction"),
            text(transfer, "pattern"),
            format!("{} of {}", transfer["blocks"], transfer["state"]["blocks_total"]),
            or_dash(whole("/block_bytes").map(|bytes| format!("{} B", group_digits(bytes)))),
            or_dash(whole("/predicted/bytes").map(group_digits)),
            or_dash(whole("/measured/asked_bytes").map(group_digits)),
            time("/predicted/seconds"),
            time("/measured/seconds/median"),
            time("/measured/seconds/p05"),
            time("/measured/seconds/p95"),
            or_dash(error),
            text(transfer, "status"),
        ]);
    }
    table
}

/// What has to be known of a run's transfers, each once.
pub(super) fn warnings(run: &Run) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for transfer in &run.transfers {
        for warning in transfer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let line =
                format!("{} on {}: {warning}", text(&transfer["state"], "model"), text(transfer, "tier"));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

/// α and β of every tier, direction and pattern.
fn links(run: &Run) -> Figures {
    let header = [
        "tier",
        "lies in",
        "direction",
        "blocks",
        "start, fitted",
        "α, fitted",
        "β, fitted",
        "largest residual",
        "by",
    ];
    let mut table = Figures::new(4, &header).text_last();
    let mut seen: Vec<[String; 3]> = Vec::new();
    for transfer in &run.transfers {
        let key = ["tier", "direction", "pattern"].map(|field| text(transfer, field));
        let Some(link) = transfer.pointer("/fitted/link") else { continue };
        if seen.contains(&key) {
            continue;
        }
        let residuals = link["residuals"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        let largest = residuals.max_by(|a, b| a.abs().total_cmp(&b.abs()));
        let [tier, direction, pattern] = key.clone();
        table.row([
            tier,
            text(transfer, "medium"),
            direction,
            pattern,
            or_dash(link["start_seconds"].as_f64().map(seconds)),
            or_dash(link["alpha_seconds"].as_f64().map(seconds)),
            or_dash(link["beta_bytes_per_second"].as_f64().map(rate)),
            or_dash(largest.map(|residual| format!("{:+.0} %", residual * 100.0))),
            text(transfer, "method"),
        ]);
        seen.push(key);
    }
    table
}

fn transfers(run: &Run) -> Figures {
    let header = [
        "tier",
        "direction",
        "blocks",
        "of",
        "count",
        "bytes",
        "fitted time",
        "measured",
        "cv",
        "rate",
        "role",
        "status",
    ];
    let mut table = Figures::new(3, &header).text_last();
    for transfer in run.transfers.iter().filter(|transfer| !is_state(transfer)) {
        let number = |pointer: &str| transfer.pointer(pointer).and_then(Value::as_f64);
        let bytes = |field: &str| {
            or_dash(transfer[field].as_u64().map(|bytes| Bytes::new(bytes).display(UnitSystem::Binary)))
        };
        table.row([
            text(transfer, "tier"),
            text(transfer, "direction"),
            text(transfer, "pattern"),
            bytes("block_bytes"),
            or_dash(transfer["blocks"].as_u64().map(|blocks| blocks.to_string())),
            bytes("bytes"),
            or_dash(number("/fitted/seconds").map(seconds)),
            or_dash(number("/measured/seconds/median").map(seconds)),
            or_dash(number("/measured/seconds/cv").map(|cv| format!("{:.1} %", cv * 100.0))),
            or_dash(number("/measured/bytes_per_second").map(rate)),
            if transfer["fit_half"] == true { "fits" } else { "judges" }.to_owned(),
            text(transfer, "status"),
        ]);
    }
    table
}

fn text(transfer: &Value, field: &str) -> String {
    transfer[field].as_str().unwrap_or("–").to_owned()
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn rate(bytes_per_second: f64) -> String {
    format!("{:.2} GB/s", bytes_per_second / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_known_by_their_words() {
        assert_eq!(parse_tier("file"), Ok(TierName::File));
        assert_eq!(
            parse_tier("disk").unwrap_err(),
            "\"disk\" is no tier; choose of dram, cache, peer, file, hbm, hbm-pageable"
        );
    }
}
