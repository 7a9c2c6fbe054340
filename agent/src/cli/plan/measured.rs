//! What the stored runs of this machine say of its tiers and links.

use kvscope_protocol::run::{Machine, Run};
use kvscope_sizing::Warning;
use kvscope_sizing::plan::{Measured, MeasuredLink};
use kvscope_sizing::prediction::LinkFit;
use serde::Deserialize as _;

use super::around::Around;
use crate::bench::{Store, this_machine};
use crate::failure::Failure;

/// Names the newest run that has what is asked for.
pub(super) const NEWEST: &str = "newest";

/// The fits of a run that is named, whatever machine it was measured on, or of the newest one of this machine that has any.
pub(super) fn named(around: &Around<'_>, run: &str) -> Result<Measured, Failure> {
    if run == NEWEST {
        let found = newest(around, |_| true)?;
        if !found.measured.is_empty() {
            return Ok(found);
        }
        let mut said = vec![
            "measured: no run of this machine has tiers; start one with `kvscope bench run --tiers dram,file`",
        ];
        said.extend(found.warnings.iter().map(|warning| warning.message.as_str()));
        return Err(Failure::input(said.join("; ")));
    }
    let store = around.runs.as_ref().ok_or_else(|| Failure::input(format!("measured: no run {run}")))?;
    let links = fits_of(&store.show(run).map_err(Failure::input)?.run);
    if links.is_empty() {
        return Err(Failure::input(format!("measured: {run} has no fits to restored blocks")));
    }
    Ok(Measured { measured: links, warnings: Vec::new() })
}

/// The fits that `wanted` takes of the newest run of this machine that has any such.
pub(super) fn newest(
    around: &Around<'_>,
    wanted: impl Fn(&MeasuredLink) -> bool,
) -> Result<Measured, Failure> {
    match &around.runs {
        None => Ok(Measured::default()),
        Some(store) => newest_of(store, &this_machine(), wanted),
    }
}

fn newest_of(
    store: &Store,
    here: &Machine,
    wanted: impl Fn(&MeasuredLink) -> bool,
) -> Result<Measured, Failure> {
    let mut found = Measured::default();
    for summary in store.list().map_err(Failure::check)? {
        let name = &summary.run;
        let run = match store.show(name) {
            Ok(read) => read.run,
            Err(error) => {
                found.warnings.push(Warning::new("measured", format!("run {name} is left out: {error}")));
                continue;
            }
        };
        let mut links = fits_of(&run);
        links.retain(&wanted);
        if links.is_empty() {
            continue;
        }
        match whose(&run.machine, here) {
            Whose::Ours => return Ok(Measured { measured: links, ..found }),
            Whose::Another => {}
            Whose::Unknown(what) => {
                let message = format!(
                    "run {name} is left out: its {what} or this machine's is not known; give --measured {name} to take it"
                );
                found.warnings.push(Warning::new("measured", message));
            }
        }
    }
    Ok(found)
}

/// Whose run it is.
#[derive(Debug, Eq, PartialEq)]
enum Whose {
    /// This machine's.
    Ours,
    /// Another's: runs can be imported.
    Another,
    /// Nobody can tell, for want of this.
    Unknown(&'static str),
}

/// By what does not change from day to day.
fn whose(run: &Machine, here: &Machine) -> Whose {
    let differs = run.architecture != here.architecture
        || run.cpu.as_ref().zip(here.cpu.as_ref()).is_some_and(|(run, here)| run != here)
        || run.memory_bytes.zip(here.memory_bytes).is_some_and(|(run, here)| run != here);
    match (&run.cpu, &here.cpu, run.memory_bytes, here.memory_bytes) {
        _ if differs => Whose::Another,
        (None, ..) | (_, None, ..) => Whose::Unknown("processor"),
        (_, _, None, _) | (_, _, _, None) => Whose::Unknown("memory"),
        _ => Whose::Ours,
    }
}

fn fits_of(run: &Run) -> Vec<MeasuredLink> {
    let mut links: Vec<MeasuredLink> = Vec::new();
    for transfer in run.transfers.iter().filter(|transfer| transfer["direction"] == "restore") {
        let Ok(fit) = LinkFit::deserialize(&transfer["fitted"]["link"]) else { continue };
        let word = |key: &str| transfer[key].as_str().unwrap_or_default().to_owned();
        let (tier, pattern) = (word("tier"), word("pattern"));
        if links.iter().all(|known| (&known.tier, &known.pattern) != (&tier, &pattern)) {
            links.push(MeasuredLink {
                run: run.run.clone(),
                source: format!("fitted to {} transfers of run {}: {}", fit.points, run.run, word("medium")),
                tier,
                pattern,
                start_seconds: fit.start_seconds,
                alpha_seconds: fit.alpha_seconds,
                beta_bytes_per_second: fit.beta_bytes_per_second,
            });
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use kvscope_protocol::run::{Header, Line, PlanRecord, RUN_SCHEMA};
    use kvscope_sizing::Bytes;
    use kvscope_sizing::plan::offload::TierGrade;
    use serde_json::{Value, json};

    use super::*;

    fn machine(cpu: &str) -> Machine {
        Machine { cpu: Some(cpu.to_owned()), memory_bytes: Some(Bytes::new(1 << 34)), ..Machine::default() }
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
        let tiers: Vec<_> = fits_of(&run).iter().map(MeasuredLink::as_tier).collect();
        assert_eq!(tiers.len(), 1);
        assert_eq!((tiers[0].name.as_str(), tiers[0].grade), ("dram, fragments", TierGrade::Fitted));
        assert_eq!(tiers[0].source, "fitted to 4 transfers of run r1: memory");
        assert!(
            (tiers[0].beta_bytes_per_second - 5e9).abs() < 1.0
                && (tiers[0].alpha_seconds - 2e-6).abs() < 1e-12
        );
    }

    fn store(folder: &std::path::Path, runs: &[(&str, &str, f64)]) -> Store {
        let store = Store::open(folder).unwrap();
        for (run, cpu, beta) in runs {
            let mut line = transfer("peer", "restore", Some(*beta));
            line["line"] = json!("transfer");
            let text = format!("{}\n{line}\n", header(run, cpu));
            store.import(&format!("{run}.jsonl"), &text).unwrap();
        }
        store
    }

    #[test]
    fn the_newest_run_of_this_machine_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let runs = [("20260101", "this", 1e9), ("20260102", "this", 2e9), ("20260103", "that", 3e9)];
        let store = store(folder.path(), &runs);
        let beta = |wanted: fn(&MeasuredLink) -> bool| {
            let found = newest_of(&store, &machine("this"), wanted).unwrap();
            assert_eq!(found.warnings, []);
            found.measured.first().map(|link| link.as_link().bytes_per_second / 1e9)
        };
        assert_eq!(beta(MeasuredLink::is_peer), Some(2.0));
        assert_eq!(beta(|link| !link.is_peer()), None);
        // A run that is named may be another machine's.
        let around =
            Around { files: crate::input::Files::OfSystem, runs: Some(store.clone()), most_made_requests: 1 };
        assert_eq!(
            named(&around, "20260103").unwrap().measured[0].source,
            "fitted to 4 transfers of run 20260103: memory"
        );
        assert!(named(&around, "20260104").is_err());
    }

    /// Two machines of which nothing is known are not the same, and a run that cannot be read is told.
    #[test]
    fn what_is_left_out_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), &[("20260101", "this", 1e9)]);
        std::fs::write(folder.path().join("20260102.jsonl"), "{}\n").unwrap();
        let found = newest_of(&store, &machine("this"), |_| true).unwrap();
        assert_eq!(found.measured.len(), 1);
        assert!(found.warnings[0].message.starts_with("run 20260102 is left out: "), "{:?}", found.warnings);
        let nobody = Machine { cpu: None, ..machine("this") };
        let found = newest_of(&store, &nobody, |_| true).unwrap();
        assert!(found.measured.is_empty());
        assert!(found.warnings[1].message.contains("run 20260101 is left out: its processor"));
        assert_eq!(
            whose(&machine("this"), &Machine { memory_bytes: None, ..machine("this") }),
            Whose::Unknown("memory")
        );
        assert_eq!(
            whose(&machine("this"), &Machine { memory_bytes: None, ..machine("that") }),
            Whose::Another
        );
    }
}
