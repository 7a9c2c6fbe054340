//! `bench run --tiers`: transfers of blocks to and from tiers.

use kvscope_protocol::run::{Run, TierName};
use kvscope_sizing::{Bytes, UnitSystem};
use serde_json::Value;

use super::print::seconds;
use crate::failure::Failure;
use crate::output::{self, Figures};

/// A tier by its name on the command line.
pub(super) fn parse_tier(name: &str) -> Result<TierName, String> {
    TierName::ALL.into_iter().find(|tier| tier.word() == name).ok_or_else(|| {
        let known: Vec<&str> = TierName::ALL.iter().map(|tier| tier.word()).collect();
        format!("{name:?} is no tier; choose of {}", known.join(", "))
    })
}

#[cfg(target_os = "linux")]
pub(super) fn measure(arguments: &super::RunArguments, store: &crate::bench::Store) -> Result<(), Failure> {
    use std::sync::atomic::AtomicBool;

    use crate::bench::{self, Progress, TierPlan};

    let mut tiers = Vec::new();
    for tier in &arguments.tiers {
        if !tiers.contains(tier) {
            tiers.push(*tier);
        }
    }
    let plan = TierPlan {
        tiers,
        folder: crate::home::tiers()?,
        budget: super::budget(&arguments.budget)?,
        seed: 0x6B76,
    };
    let mut show = |progress: Progress| output::progress(&super::progress_line(&progress));
    let run = bench::run_tiers(&plan, store, &mut show, &AtomicBool::new(false));
    output::progress_done();
    let run = run.map_err(Failure::check)?;
    print(&run, arguments.json)?;
    let wrong = run.transfers.iter().find(|transfer| transfer["correct"] == false);
    wrong.map_or(Ok(()), |transfer| {
        Err(Failure::check(format!("transfer {}: {}", transfer["transfer"], text(transfer, "status"))))
    })
}

/// The other end of the tier `peer`: prints its port, and ends when standard input does.
#[cfg(target_os = "linux")]
pub(super) fn keep(bytes: usize) -> Result<(), Failure> {
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

#[cfg(not(target_os = "linux"))]
pub(super) fn measure(_: &super::RunArguments, _: &crate::bench::Store) -> Result<(), Failure> {
    Err(Failure::input("tiers: they are measured on Linux alone"))
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing is measured there"))]
fn print(run: &Run, json: bool) -> Result<(), Failure> {
    if json {
        return output::json(run);
    }
    let mut figures = format!("run {}\n\n{}\n{}", run.run, links(run).render(), transfers(run).render());
    for verdict in &run.verdicts {
        figures.push('\n');
        figures.push_str(&verdict.sentence);
    }
    figures.push('\n');
    output::figures(&figures)
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
    for transfer in &run.transfers {
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
        assert_eq!(parse_tier("disk").unwrap_err(), "\"disk\" is no tier; choose of dram, cache, peer, file");
    }
}
