//! A run over tiers: declared, measured tier by tier, fitted and judged.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kvscope_protocol::run::{
    Ended, Header, Line, PlanRecord, RUN_SCHEMA, Run, TierName, Transfer, transfer_verdicts,
};

use super::sweep::{self, Bench};
use super::{Dram, FileTier, Memory, PAGE, Peer, Through, Tier, TierFolder, file};
use crate::bench::machine::{self, Environment};
use crate::bench::plan::{Progress, Stage};
use crate::bench::store::{RunWriter, Store};
use crate::bench::{BenchError, in_words, memory};

/// What a tier is measured over, the largest that fits: far more than one transfer moves, so that caches hold none of it.
const SIZES: [usize; 3] = [256 << 20, 64 << 20, 16 << 20];
/// A transfer moves at most this part of the tier, so that the next one finds other blocks.
const PARTS: usize = 4;
/// Blocks are in memory and in the tier, which may be memory as well.
const COPIES: u64 = 2;

/// What a run over tiers may use.
#[derive(Clone, Debug)]
pub struct TierPlan {
    /// The tiers, each once.
    pub tiers: Vec<TierName>,
    /// The folder for files of tiers; they are in a folder of this process below it.
    pub folder: PathBuf,
    /// The time that the whole run may take.
    pub budget: Duration,
    /// Seed of random blocks and places.
    pub seed: u64,
}

/// Measures transfers to and from tiers, one tier after the other. The run is stored as it goes; a transfer that fails is in
/// the result with its reason, and the rest goes on. Where `cancel` becomes true the run ends before the next transfer.
pub fn run_tiers(
    plan: &TierPlan,
    store: &Store,
    progress: &mut dyn FnMut(Progress),
    cancel: &AtomicBool,
) -> Result<Run, BenchError> {
    let begun = Instant::now();
    let before = Environment::now();
    let mut run = begin(plan);
    let mut writer = store.create(&run.run)?;
    writer.append(&Line::Header(Box::new(Header::of(&run))))?;
    let folder = TierFolder::open(&plan.folder)
        .map_err(|source| BenchError::Store { path: plan.folder.clone(), source })?;

    let room = memory::free_bytes() / 2 / COPIES;
    let bytes = SIZES.into_iter().find(|bytes| *bytes as u64 <= room).unwrap_or(0);
    let mut transfers: Vec<Vec<Transfer>> = Vec::new();
    for tier in &plan.tiers {
        let first = transfers.iter().map(Vec::len).sum();
        let mut of_tier = sweep::transfers(*tier, first, usize::MAX);
        for transfer in of_tier.iter_mut().filter(|transfer| transfer.bytes.get() > (bytes / PARTS) as u64) {
            transfer.status = format!(
                "skipped: memory leaves {} for a tier; the largest transfer that fits is {}",
                in_words(bytes as u64),
                in_words((bytes / PARTS) as u64)
            );
        }
        store_all(&mut writer, &of_tier)?;
        transfers.push(of_tier);
    }
    for (place, of_tier) in transfers.iter_mut().enumerate() {
        let tiers_left = u32::try_from(plan.tiers.len() - place).unwrap_or(1);
        let left = plan.budget.saturating_sub(begun.elapsed()).mul_f64(0.95);
        let mut session = Session {
            plan,
            folder: &folder,
            bytes,
            begun,
            deadline: Instant::now() + left / tiers_left,
            writer: &mut writer,
            progress,
            cancel,
        };
        session.measure(plan.tiers[place], of_tier)?;
        sweep::put_fits(of_tier);
        store_all(&mut writer, of_tier)?;
    }

    let transfers: Vec<Transfer> = transfers.into_iter().flatten().collect();
    run.verdicts = transfer_verdicts(&transfers);
    for verdict in &run.verdicts {
        writer.append(&Line::Verdict(Box::new(verdict.clone())))?;
    }
    run.transfers = transfers.iter().map(as_json).collect::<Result<_, _>>()?;
    run.ended = if cancel.load(Ordering::Relaxed) { Ended::Cancelled } else { Ended::Complete };
    before.end(&mut run.machine);
    writer.append(&Line::End { ended: run.ended, machine: Box::new(run.machine.clone()) })?;
    progress(Progress { stage: Stage::Done, fraction: 1.0, remaining_seconds: 0.0, case: None });
    Ok(run)
}

struct Session<'a> {
    plan: &'a TierPlan,
    folder: &'a TierFolder,
    bytes: usize,
    begun: Instant,
    deadline: Instant,
    writer: &'a mut RunWriter,
    progress: &'a mut dyn FnMut(Progress),
    cancel: &'a AtomicBool,
}

impl Session<'_> {
    /// Measures the transfers that are not skipped; where the tier itself cannot be had, each says why.
    fn measure(&mut self, name: TierName, transfers: &mut [Transfer]) -> Result<(), BenchError> {
        let has_some = transfers.iter().any(|transfer| !transfer.status.starts_with("skipped"));
        if !has_some || self.cancel.load(Ordering::Relaxed) {
            return Ok(());
        }
        let pages = self.bytes / PAGE;
        let opened = self.open(name).and_then(|tier| Ok((tier, Memory::random(pages, self.plan.seed)?)));
        let mut stored = Ok(());
        let measured = opened.and_then(|(mut tier, mut memory)| {
            let mut bench = Bench::new(tier.as_mut(), &mut memory, self.bytes, self.plan.seed)?;
            let mut wanted: Vec<&mut Transfer> =
                transfers.iter_mut().filter(|transfer| !transfer.status.starts_with("skipped")).collect();
            let (begun, budget, cancel) = (self.begun, self.plan.budget, self.cancel);
            bench.measure(
                &mut wanted,
                self.deadline,
                &mut || {
                    (self.progress)(passed(begun, budget));
                    cancel.load(Ordering::Relaxed)
                },
                &mut |transfer| {
                    if stored.is_ok() {
                        stored = as_json(transfer)
                            .and_then(|json| self.writer.append(&Line::Transfer(Box::new(json))));
                    }
                },
            );
            Ok(())
        });
        if let Err(error) = measured {
            for transfer in transfers.iter_mut().filter(|transfer| transfer.status.starts_with("partial")) {
                transfer.status = format!("failed: {error}");
            }
        }
        stored
    }

    fn open(&self, name: TierName) -> io::Result<Box<dyn Tier>> {
        let pages = self.bytes / PAGE;
        let file = |through| -> io::Result<Box<dyn Tier>> {
            let free = file::free_bytes(self.folder.path())?;
            if free < self.bytes as u64 {
                return Err(io::Error::new(
                    io::ErrorKind::StorageFull,
                    format!(
                        "the disk has {} left and the tier takes {}; choose another folder by KVSCOPE_HOME",
                        in_words(free),
                        in_words(self.bytes as u64)
                    ),
                ));
            }
            Ok(Box::new(FileTier::create(self.folder, pages, through)?))
        };
        match name {
            TierName::Dram => Ok(Box::new(Dram::new(pages)?)),
            TierName::File => file(Through::Device),
            TierName::Cache => file(Through::PageCache),
            TierName::Peer => Ok(Box::new(Peer::start(self.bytes)?)),
        }
    }
}

fn passed(begun: Instant, budget: Duration) -> Progress {
    let (passed, budget) = (begun.elapsed().as_secs_f64(), budget.as_secs_f64());
    let fraction = (passed / budget).min(1.0);
    Progress { stage: Stage::Measuring, fraction, remaining_seconds: (budget - passed).max(0.0), case: None }
}

fn store_all(writer: &mut RunWriter, transfers: &[Transfer]) -> Result<(), BenchError> {
    transfers.iter().try_for_each(|transfer| writer.append(&Line::Transfer(Box::new(as_json(transfer)?))))
}

fn as_json(transfer: &Transfer) -> Result<serde_json::Value, BenchError> {
    serde_json::to_value(transfer).map_err(|error| BenchError::Form(format!("transfer: {error}")))
}

fn begin(plan: &TierPlan) -> Run {
    let started = SystemTime::now();
    let stamp = humantime::format_rfc3339_seconds(started).to_string();
    let nanoseconds = started.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    Run {
        run: format!("{}-{:04x}", stamp.replace(['-', ':'], ""), nanoseconds >> 14),
        schema: RUN_SCHEMA,
        backend: "cpu".to_owned(),
        started: stamp,
        ended: Ended::Interrupted,
        plan: PlanRecord {
            budget_seconds: plan.budget.as_secs_f64(),
            forms: Vec::new(),
            seed: plan.seed,
            fit_half: Vec::new(),
        },
        machine: machine::describe(),
        calibration: None,
        cases: Vec::new(),
        transfers: Vec::new(),
        verdicts: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_over_tiers_is_stored_with_what_failed_and_leaves_no_file() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path().join("runs")).unwrap();
        let plan = TierPlan {
            tiers: vec![TierName::Dram, TierName::Cache],
            folder: home.path().join("tiers"),
            budget: Duration::from_secs(3),
            seed: 5,
        };
        let run = run_tiers(&plan, &store, &mut |_| {}, &AtomicBool::new(false)).unwrap();
        assert_eq!(run.ended, Ended::Complete);
        let of: Vec<&str> = run.verdicts.iter().map(|verdict| verdict.of.as_str()).collect();
        assert_eq!(of, ["dram", "cache"]);
        let read = store.show(&run.run).unwrap();
        assert_eq!((read.warnings.len(), &read.run.transfers), (0, &run.transfers));
        assert!(
            run.transfers.iter().all(|transfer| transfer["medium"].as_str().unwrap().starts_with("memory"))
        );
        let left: Vec<_> =
            std::fs::read_dir(&plan.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["lock"]);
    }

    #[test]
    fn a_cancelled_run_says_so_and_keeps_what_it_declared() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path().join("runs")).unwrap();
        let tiers = vec![TierName::Dram];
        let plan =
            TierPlan { tiers, folder: home.path().join("tiers"), budget: Duration::from_mins(1), seed: 5 };
        let run = run_tiers(&plan, &store, &mut |_| {}, &AtomicBool::new(true)).unwrap();
        assert_eq!((run.ended, run.transfers.len()), (Ended::Cancelled, 84));
        assert!(run.transfers.iter().all(|transfer| transfer["status"] == "partial: not measured yet"));
    }
}
