//! A run over tiers: declared, measured tier by tier, fitted and judged; then states, predicted from the fits.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use kvscope_protocol::run::{
    PlanRecord, Run, StateAsked, StatePart, TierName, TimeSpent, Transfer, transfer_verdicts, verdicts,
};

use super::declared::{OfTier, chosen, is_wanted, lay_out, links_of, predict};
use super::layout::{StateLayout, stride};
use super::room::Room;
use super::round_trip::{RoundTrip, TRANSFERS};
use super::sweep::{self, Bench};
use super::watch::{self, OfRun, Watch};
use super::{DeviceTier, Dram, FileTier, HostMemory, Memory, PAGE, Peer, Through, Tier, TierFolder};
use crate::bench::machine::{self, Environment};
use crate::bench::plan::{Progress, Stage};
use crate::bench::store::{RunWriter, Store};
use crate::bench::{BenchError, Interrupt, life, runner};

/// Of a tier's time, what goes into blocks of all sizes where states follow.
const SWEEP_SHARE: f64 = 0.6;

/// What a run over tiers may use.
#[derive(Clone, Debug)]
pub struct TierPlan {
    /// The tiers, each once.
    pub tiers: Vec<TierName>,
    /// The states that go to each of them and come back.
    pub states: Vec<StateLayout>,
    /// The same as they were asked for.
    pub asked: Vec<StateAsked>,
    /// The folder for files of tiers; they are in a folder of this process below it.
    pub folder: PathBuf,
    /// The time that the whole run may take, cases before the tiers included.
    pub budget: Duration,
    /// Seed of random blocks and places.
    pub seed: u64,
}

impl TierPlan {
    /// The tiers by their words.
    pub(crate) fn words(&self) -> Vec<String> {
        self.tiers.iter().map(|tier| tier.word().to_owned()).collect()
    }
}

/// Measures transfers to and from tiers, one tier after the other. The run is stored as it goes; a transfer that fails is in
/// the result with its reason, and the rest goes on. Where `cancel` becomes true the run ends before the next transfer.
/// `stored` is a run that goes on with the transfers that it is missing.
pub fn run_tiers(
    plan: &TierPlan,
    stored: Option<&Run>,
    store: &Store,
    progress: &mut dyn FnMut(Progress),
    cancel: &std::sync::atomic::AtomicBool,
) -> Result<Run, BenchError> {
    let begun = Instant::now();
    let before = Environment::now();
    let started = SystemTime::now();
    let (mut run, mut writer) = if let Some(stored) = stored {
        let mut run = stored.clone();
        let when = humantime::format_rfc3339_seconds(started);
        let writer = life::resume(&mut run, format!("resumed {when} for its tiers"), store)?;
        run.verdicts = verdicts(&run.cases);
        (run, writer)
    } else {
        let record = PlanRecord {
            budget_seconds: plan.budget.as_secs_f64(),
            seed: plan.seed,
            tiers: plan.words(),
            states: plan.asked.clone(),
            ..PlanRecord::default()
        };
        let run = life::begin("cpu", record, machine::describe(), None, started);
        let writer = life::create(&run, store)?;
        (run, writer)
    };
    let interrupt = Interrupt { cancel };
    let preparing = measure(plan, begun, &mut run, &mut writer, progress, interrupt);
    let whole = begun.elapsed();
    let spent = TimeSpent {
        calibrating_seconds: 0.0,
        preparing_seconds: preparing.as_secs_f64(),
        measuring_seconds: whole.saturating_sub(preparing).as_secs_f64(),
        whole_seconds: whole.as_secs_f64(),
    };
    // A file that takes no more lines is no reason to lose what is in memory.
    if let Err(error) = life::end(&mut run, &mut writer, before, spent, interrupt) {
        run.notes.push(life::end_not_stored(&error));
    }
    progress(Progress { fraction: 1.0, remaining_seconds: 0.0, ..known(&run, Stage::Done) });
    Ok(run)
}

/// Measures the tiers of a run that began at `begun`, and adds transfers and verdicts to it; how long it took to have and to
/// fill the tiers.
pub(crate) fn measure(
    plan: &TierPlan,
    begun: Instant,
    run: &mut Run,
    writer: &mut RunWriter,
    progress: &mut dyn FnMut(Progress),
    interrupt: Interrupt<'_>,
) -> Duration {
    // Tiers that need no file go on without the folder.
    let folder =
        TierFolder::open(&plan.folder).map_err(|error| format!("{}: {error}", plan.folder.display()));
    let room = Room::now(folder.as_ref().ok().map(TierFolder::path));
    let open = |tier, pages| open(&folder, tier, pages);
    let preparing = Duration::ZERO;
    let known = known(run, Stage::Measuring);
    let mut session =
        Session { plan, room, open: &open, begun, preparing, known, writer, progress, interrupt };
    session.measure_all(run);
    session.preparing
}

/// What progress says of a run whose tiers are measured.
pub(super) fn known(run: &Run, stage: Stage) -> Progress {
    Progress {
        stage,
        run: Some(run.run.clone()),
        cases: run.cases.len(),
        measured: runner::with_figures(&run.cases),
        ..Progress::default()
    }
}

/// A tier of so many pages.
pub(super) type Open<'a> = dyn Fn(TierName, usize) -> io::Result<Box<dyn Tier>> + 'a;

fn open(folder: &Result<TierFolder, String>, tier: TierName, pages: usize) -> io::Result<Box<dyn Tier>> {
    let file = |through| {
        let folder = folder.as_ref().map_err(|error| io::Error::other(error.clone()))?;
        FileTier::create(folder, pages, through)
    };
    Ok(match tier {
        TierName::Dram => Box::new(Dram::new(pages)?),
        TierName::Hbm => Box::new(DeviceTier::new(pages, HostMemory::Pinned)?),
        TierName::HbmPageable => Box::new(DeviceTier::new(pages, HostMemory::Pageable)?),
        TierName::File => Box::new(file(Through::Device)?),
        TierName::Cache => Box::new(file(Through::PageCache)?),
        TierName::Peer => Box::new(Peer::start(pages * PAGE)?),
    })
}

pub(super) struct Session<'a> {
    pub(super) plan: &'a TierPlan,
    pub(super) room: Room,
    pub(super) open: &'a Open<'a>,
    pub(super) begun: Instant,
    /// How long it took to have and to fill tiers.
    pub(super) preparing: Duration,
    pub(super) known: Progress,
    pub(super) writer: &'a mut RunWriter,
    pub(super) progress: &'a mut dyn FnMut(Progress),
    pub(super) interrupt: Interrupt<'a>,
}

/// What is measured of a tier while it is open.
enum Work<'w> {
    /// Blocks of all sizes, to and from so many bytes.
    Blocks(usize),
    /// A state of these blocks, there and back.
    State(&'w [StatePart]),
}

impl Work<'_> {
    fn pages(&self) -> io::Result<usize> {
        match self {
            Self::Blocks(bytes) => Ok(bytes / PAGE),
            Self::State(parts) => {
                let bytes: u64 = parts.iter().map(|part| part.blocks * stride(part)).sum();
                usize::try_from(bytes / PAGE as u64).map_err(io::Error::other)
            }
        }
    }

    fn measure(
        &self,
        tier: &mut dyn Tier,
        transfers: &mut [&mut Transfer],
        seed: u64,
        until: Instant,
        watch: &mut dyn Watch,
    ) -> io::Result<()> {
        match self {
            Self::Blocks(bytes) => {
                let mut memory = Memory::random(bytes / PAGE, seed)?;
                let mut bench = Bench::new(tier, &mut memory, *bytes, seed, until, watch)?;
                watch.ready();
                bench.measure(transfers, until, watch);
            }
            Self::State(parts) => {
                let mut trip = RoundTrip::new(tier, parts, seed)?;
                watch.ready();
                trip.measure(transfers, until, watch);
            }
        }
        Ok(())
    }
}

impl Session<'_> {
    pub(super) fn measure_all(&mut self, run: &mut Run) {
        let mut tiers = OfTier::all(self.plan, &self.room, &run.transfers);
        let mut declared: Vec<&mut Transfer> = tiers
            .iter_mut()
            .filter(|of_tier| of_tier.is_missing())
            .flat_map(|of_tier| of_tier.blocks.iter_mut().chain(&mut of_tier.states))
            .collect();
        self.store(&mut declared);
        let mut tiers_left = u32::try_from(tiers.iter().filter(|of| of.is_missing()).count()).unwrap_or(1);
        for of_tier in tiers.iter_mut().filter(|of_tier| of_tier.is_missing()) {
            let left = self.plan.budget.saturating_sub(self.begun.elapsed()).mul_f64(0.95) / tiers_left;
            tiers_left -= 1;
            let share = if of_tier.states.iter().any(is_wanted) { SWEEP_SHARE } else { 1.0 };
            let now = Instant::now();
            self.measure_blocks(of_tier, now + left.mul_f64(share));
            self.measure_states(of_tier, now + left);
        }
        let transfers: Vec<Transfer> = tiers.iter().flat_map(OfTier::transfers).cloned().collect();
        run.verdicts.extend(transfer_verdicts(&transfers));
        run.transfers = transfers.iter().map(watch::json).collect();
        let missing = transfers.iter().filter(|transfer| is_wanted(transfer)).count();
        if missing > 0 {
            let what = format!(
                "{missing} of {} transfers have no figure or too few samples; `kvscope bench run --resume {}` measures them",
                transfers.len(),
                run.run
            );
            // A file that takes no more lines is told with the end of the run.
            let _ = life::note(run, what, self.writer);
        }
    }

    fn measure_blocks(&mut self, of_tier: &mut OfTier, until: Instant) {
        let work = Work::Blocks(of_tier.bytes);
        let mut wanted: Vec<&mut Transfer> =
            of_tier.blocks.iter_mut().filter(|transfer| is_wanted(transfer)).collect();
        if wanted.is_empty() {
            return;
        }
        self.on_tier(of_tier.tier, &work, &mut wanted, until);
        sweep::put_fits(&mut of_tier.blocks);
        self.store(&mut of_tier.blocks.iter_mut().collect::<Vec<_>>());
    }

    fn measure_states(&mut self, of_tier: &mut OfTier, until: Instant) {
        let links = links_of(&of_tier.blocks);
        let plan = self.plan;
        let mut states: Vec<(&StateLayout, &mut [Transfer])> = plan
            .states
            .iter()
            .zip(of_tier.states.chunks_exact_mut(TRANSFERS.len()))
            .filter(|(_, transfers)| transfers.iter().any(is_wanted))
            .collect();
        let mut states_left = u32::try_from(states.len()).unwrap_or(1);
        for (layout, transfers) in &mut states {
            let share = until.saturating_duration_since(Instant::now()) / states_left;
            states_left -= 1;
            let chosen = chosen(layout, of_tier.limit, &links, share);
            match &chosen {
                Err(why) => {
                    for transfer in &mut **transfers {
                        transfer.status = format!("skipped: {why}");
                    }
                }
                Ok((parts, why)) => {
                    for (transfer, link) in transfers.iter_mut().zip(&links) {
                        lay_out(transfer, layout, parts);
                        transfer.warnings.extend(why.clone());
                        predict(transfer, parts, link.as_ref());
                    }
                }
            }
            let mut transfers: Vec<&mut Transfer> = transfers.iter_mut().collect();
            // The prediction is on the disk before the first block moves.
            self.store(&mut transfers);
            if let Ok((parts, _)) = &chosen
                && transfers.iter().all(|transfer| is_wanted(transfer))
            {
                self.on_tier(of_tier.tier, &Work::State(parts), &mut transfers, Instant::now() + share);
                self.store(&mut transfers);
            }
        }
    }

    /// Opens a tier and measures `transfers` on it; where it cannot be had or ends, each says why.
    fn on_tier(&mut self, tier: TierName, work: &Work<'_>, transfers: &mut [&mut Transfer], until: Instant) {
        if !self.interrupt.is_set() {
            let mut watch = OfRun {
                begun: self.begun,
                budget: self.plan.budget,
                known: &self.known,
                progress: self.progress,
                writer: self.writer,
                interrupt: self.interrupt,
                opened: Instant::now(),
                preparing: &mut self.preparing,
            };
            let opened = work.pages().and_then(|pages| (self.open)(tier, pages));
            let measured = opened.and_then(|mut tier| {
                work.measure(tier.as_mut(), transfers, self.plan.seed, until, &mut watch)
            });
            // What breaks while everything ends, or was not filled in its time, has not failed.
            if let Err(error) = measured
                && !self.interrupt.is_set()
                && error.kind() != io::ErrorKind::Interrupted
            {
                for transfer in transfers.iter_mut().filter(|transfer| is_wanted(transfer)) {
                    transfer.status = format!("failed: {error}");
                }
            }
        }
        let why = if self.interrupt.is_set() { "the run was cancelled" } else { "the budget was used up" };
        for transfer in transfers.iter_mut().filter(|one| one.measured.is_none() && is_wanted(one)) {
            transfer.status = format!("partial: {why} before the first sample");
        }
    }

    fn store(&mut self, transfers: &mut [&mut Transfer]) {
        watch::store(self.writer, transfers);
    }
}
