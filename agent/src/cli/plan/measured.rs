//! What the stored runs of this machine say of its tiers and links.

use kvscope_protocol::run::{Machine, Run};
use kvscope_sizing::plan::ChosenLink;
use kvscope_sizing::plan::offload::{Tier, TierGrade};
use kvscope_sizing::prediction::LinkFit;
use serde::Deserialize as _;

use super::around::Around;
use crate::bench::{Store, this_machine};
use crate::failure::Failure;

/// Names the newest run that has what is asked for.
pub(super) const NEWEST: &str = "newest";

/// A tier as a run fitted it.
#[derive(Debug)]
pub(super) struct Fitted {
    /// `dram`, `file`, `peer`, …
    tier: String,
    pattern: String,
    fit: LinkFit,
    source: String,
}

/// The fits of a run that is named, whatever machine it was measured on, or of the newest one of this machine that has any.
pub(super) fn named(around: &Around<'_>, run: &str) -> Result<Vec<Fitted>, Failure> {
    if run == NEWEST {
        let found = newest(around, |_| true)?;
        return found.ok_or_else(|| {
            Failure::input(
                "measured: no run of this machine has tiers; start one with `kvscope bench run --tiers dram,file`",
            )
        });
    }
    let store = around.runs.as_ref().ok_or_else(|| Failure::input(format!("measured: no run {run}")))?;
    let fits = fits_of(&store.show(run).map_err(Failure::input)?.run);
    if fits.is_empty() {
        return Err(Failure::input(format!("measured: {run} has no fits to restored blocks")));
    }
    Ok(fits)
}

/// The fits that `wanted` takes of the newest run of this machine that has any such.
pub(super) fn newest(
    around: &Around<'_>,
    wanted: impl Fn(&Fitted) -> bool,
) -> Result<Option<Vec<Fitted>>, Failure> {
    let Some(store) = &around.runs else { return Ok(None) };
    newest_of(store, &this_machine(), wanted)
}

fn newest_of(
    store: &Store,
    here: &Machine,
    wanted: impl Fn(&Fitted) -> bool,
) -> Result<Option<Vec<Fitted>>, Failure> {
    for summary in store.list().map_err(Failure::check)? {
        let Ok(read) = store.show(&summary.run) else { continue };
        if !is_same(&read.run.machine, here) {
            continue;
        }
        let fits: Vec<Fitted> = fits_of(&read.run).into_iter().filter(&wanted).collect();
        if !fits.is_empty() {
            return Ok(Some(fits));
        }
    }
    Ok(None)
}

/// Whether a run's machine is this one, by what does not change from day to day: runs of others can be imported.
fn is_same(run: &Machine, here: &Machine) -> bool {
    (&run.architecture, &run.cpu, run.memory_bytes) == (&here.architecture, &here.cpu, here.memory_bytes)
}

fn fits_of(run: &Run) -> Vec<Fitted> {
    let mut fits: Vec<Fitted> = Vec::new();
    for transfer in run.transfers.iter().filter(|transfer| transfer["direction"] == "restore") {
        let Ok(fit) = LinkFit::deserialize(&transfer["fitted"]["link"]) else { continue };
        let word = |key: &str| transfer[key].as_str().unwrap_or_default().to_owned();
        let (tier, pattern) = (word("tier"), word("pattern"));
        if fits.iter().all(|known| (&known.tier, &known.pattern) != (&tier, &pattern)) {
            let source = format!("fitted to {} transfers of run {}: {}", fit.points, run.run, word("medium"));
            fits.push(Fitted { tier, pattern, fit, source });
        }
    }
    fits
}

impl Fitted {
    /// Whether another process keeps the blocks, as a decode worker would.
    pub(super) fn is_peer(&self) -> bool {
        self.tier == "peer"
    }

    fn name(&self) -> String {
        format!("{}, {}", self.tier, self.pattern)
    }

    pub(super) fn tier(self) -> Tier {
        Tier {
            name: self.name(),
            start_seconds: self.fit.start_seconds,
            alpha_seconds: self.fit.alpha_seconds,
            beta_bytes_per_second: self.fit.beta_bytes_per_second,
            ranks: 1,
            grade: TierGrade::Fitted,
            source: self.source,
        }
    }

    pub(super) fn link(self) -> ChosenLink {
        ChosenLink {
            link: self.name(),
            grade: "fitted",
            start_seconds: self.fit.start_seconds,
            alpha_seconds: self.fit.alpha_seconds,
            bytes_per_second: self.fit.beta_bytes_per_second,
            source: self.source,
        }
    }
}

#[cfg(test)]
mod tests {
    use kvscope_protocol::run::{Header, Line, PlanRecord, RUN_SCHEMA};
    use serde_json::{Value, json};

    use super::*;

    fn machine(cpu: &str) -> Machine {
        Machine { cpu: Some(cpu.to_owned()), ..Machine::default() }
    }

    fn run_of(transfers: &[Value]) -> Run {
        let mut run = Run { run: "r1".to_owned(), ..read("r1", "a") };
        run.transfers = transfers.to_vec();
        run
    }

    fn header(run: &str, cpu: &str) -> String {
        let header = Line::Header(Box::new(Header {
            run: run.to_owned(),
            schema: RUN_SCHEMA,
            backend: "cpu".to_owned(),
            started: "2026-11-29T15:00:00Z".to_owned(),
            version: None,
            plan: PlanRecord { budget_seconds: 30.0, ..PlanRecord::default() },
            machine: machine(cpu),
            calibration: None,
        }));
        serde_json::to_string(&header).unwrap()
    }

    fn read(run: &str, cpu: &str) -> Run {
        kvscope_protocol::run::read_lines(&header(run, cpu)).unwrap().run
    }

    fn transfer(tier: &str, direction: &str, beta: Option<f64>) -> Value {
        let fitted = beta.map(|beta| {
            json!({"link": {
                "points": 4, "start_seconds": 1e-4, "alpha_seconds": 2e-6, "beta_bytes_per_second": beta, "residuals": []
            }})
        });
        json!({"transfer": 0, "status": "ok", "tier": tier, "medium": "memory", "direction": direction, "pattern": "fragments", "fitted": fitted})
    }

    #[test]
    fn tiers_of_a_run_are_those_of_its_fits_to_restored_blocks() {
        let run = run_of(&[
            transfer("dram", "save", Some(9e9)),
            transfer("dram", "restore", Some(5e9)),
            transfer("dram", "restore", Some(5e9)),
            transfer("file", "restore", None),
        ]);
        let tiers: Vec<Tier> = fits_of(&run).into_iter().map(Fitted::tier).collect();
        assert_eq!(tiers.len(), 1);
        assert_eq!((tiers[0].name.as_str(), tiers[0].grade), ("dram, fragments", TierGrade::Fitted));
        assert_eq!(tiers[0].source, "fitted to 4 transfers of run r1: memory");
        assert!(
            (tiers[0].beta_bytes_per_second - 5e9).abs() < 1.0
                && (tiers[0].alpha_seconds - 2e-6).abs() < 1e-12
        );
    }

    #[test]
    fn the_newest_run_of_this_machine_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        for (run, cpu, beta) in
            [("20260101", "this", 1e9), ("20260102", "this", 2e9), ("20260103", "that", 3e9)]
        {
            let mut line = transfer("peer", "restore", Some(beta));
            line["line"] = json!("transfer");
            let text = format!("{}\n{line}\n", header(run, cpu));
            store.import(&format!("{run}.jsonl"), &text).unwrap();
        }
        let beta = |wanted: fn(&Fitted) -> bool| {
            let fits = newest_of(&store, &machine("this"), wanted).unwrap();
            fits.map(|mut fits| fits.remove(0).link().bytes_per_second / 1e9)
        };
        assert_eq!(beta(Fitted::is_peer), Some(2.0));
        assert_eq!(beta(|fit| !fit.is_peer()), None);
        // A run that is named may be another machine's.
        let around =
            Around { files: crate::input::Files::OfSystem, runs: Some(store.clone()), most_made_requests: 1 };
        assert_eq!(
            named(&around, "20260103").unwrap()[0].source,
            "fitted to 4 transfers of run 20260103: memory"
        );
        assert!(named(&around, "20260104").is_err());
    }
}
