//! A run over tiers: declared, measured tier by tier, fitted and judged; then states, predicted from the fits.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use kvscope_protocol::run::{
    Direction, Line, Pattern, PlanRecord, PredictedTransfer, Run, StateMoved, StatePart, TierName, TimeSpent,
    Transfer, transfer_verdicts,
};
use kvscope_sizing::Bytes;
use kvscope_sizing::prediction::{Grade, LinkFit};

use super::layout::{StateLayout, stride};
use super::room::{Limit, Room};
use super::round_trip::{RoundTrip, TRANSFERS};
use super::sweep::{self, Bench};
use super::{Dram, FileTier, Memory, PAGE, Peer, Through, Tier, TierFolder};
use crate::bench::machine::{self, Environment};
use crate::bench::plan::{Progress, Stage};
use crate::bench::samples::WANTED_SAMPLES;
use crate::bench::store::{RunWriter, Store};
use crate::bench::{BenchError, Interrupt, in_words, life};

/// What a tier is measured over, the largest that fits: far more than one transfer moves, so that caches hold none of it.
const SIZES: [usize; 3] = [256 << 20, 64 << 20, 16 << 20];
/// A transfer moves at most this part of the tier, so that the next one finds other blocks.
const PARTS: usize = 4;
/// The most of a state that is moved at once.
const LARGEST_STATE: u64 = 1 << 30;
/// Of a tier's time, what goes into blocks of all sizes where states follow.
const SWEEP_SHARE: f64 = 0.6;
/// Seconds that filling, checking and comparing a byte of a state take in one round trip; a guess, to choose its size.
const HANDLING: f64 = 4e-9;
/// Seconds that moving a byte takes where no fit says so.
const UNKNOWN_LINK: f64 = 2e-9;

/// What a run over tiers may use.
#[derive(Clone, Debug)]
pub struct TierPlan {
    /// The tiers, each once.
    pub tiers: Vec<TierName>,
    /// The states that go to each of them and come back.
    pub states: Vec<StateLayout>,
    /// The folder for files of tiers; they are in a folder of this process below it.
    pub folder: PathBuf,
    /// The time that the whole run may take, cases before the tiers included.
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
    cancel: &std::sync::atomic::AtomicBool,
) -> Result<Run, BenchError> {
    let begun = Instant::now();
    let before = Environment::now();
    let record = PlanRecord {
        budget_seconds: plan.budget.as_secs_f64(),
        forms: Vec::new(),
        seed: plan.seed,
        fit_half: Vec::new(),
    };
    let mut run = life::begin("cpu", record, machine::describe(), None, SystemTime::now());
    let mut writer = life::create(&run, store)?;
    let interrupt = Interrupt { cancel };
    let preparing = measure(plan, begun, &mut run, &mut writer, progress, interrupt)?;
    let whole = begun.elapsed();
    let spent = TimeSpent {
        calibrating_seconds: 0.0,
        preparing_seconds: preparing.as_secs_f64(),
        measuring_seconds: whole.saturating_sub(preparing).as_secs_f64(),
        whole_seconds: whole.as_secs_f64(),
    };
    life::end(&mut run, &mut writer, before, spent, interrupt)?;
    progress(Progress { stage: Stage::Done, fraction: 1.0, ..Progress::default() });
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
) -> Result<Duration, BenchError> {
    let failed = |source| BenchError::Store { path: plan.folder.clone(), source };
    let folder = TierFolder::open(&plan.folder).map_err(failed)?;
    let room = Room::now(folder.path()).map_err(failed)?;
    let open = |tier, pages| open(&folder, tier, pages);
    let preparing = Duration::ZERO;
    let mut session = Session { plan, room, open: &open, begun, preparing, writer, progress, interrupt };
    session.measure_all(run)?;
    Ok(session.preparing)
}

/// A tier of so many pages.
pub(super) type Open<'a> = dyn Fn(TierName, usize) -> io::Result<Box<dyn Tier>> + 'a;

fn open(folder: &TierFolder, tier: TierName, pages: usize) -> io::Result<Box<dyn Tier>> {
    Ok(match tier {
        TierName::Dram => Box::new(Dram::new(pages)?),
        TierName::File => Box::new(FileTier::create(folder, pages, Through::Device)?),
        TierName::Cache => Box::new(FileTier::create(folder, pages, Through::PageCache)?),
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
    pub(super) writer: &'a mut RunWriter,
    pub(super) progress: &'a mut dyn FnMut(Progress),
    pub(super) interrupt: Interrupt<'a>,
}

/// The transfers of one tier.
struct OfTier {
    tier: TierName,
    /// What it may take.
    limit: Limit,
    /// Bytes of the tier that random blocks are moved to and from.
    bytes: usize,
    blocks: Vec<Transfer>,
    /// Four of each state.
    states: Vec<Transfer>,
}

impl Session<'_> {
    pub(super) fn measure_all(&mut self, run: &mut Run) -> Result<(), BenchError> {
        let mut tiers: Vec<OfTier> = Vec::new();
        let mut first = 0;
        for tier in &self.plan.tiers {
            let declared = self.declare(*tier, first);
            first += declared.blocks.len() + declared.states.len();
            self.store(&declared.blocks)?;
            self.store(&declared.states)?;
            tiers.push(declared);
        }
        for place in 0..tiers.len() {
            let tiers_left = u32::try_from(tiers.len() - place).unwrap_or(1);
            let left = self.plan.budget.saturating_sub(self.begun.elapsed()).mul_f64(0.95) / tiers_left;
            let of_tier = &mut tiers[place];
            let share = if of_tier.states.is_empty() { 1.0 } else { SWEEP_SHARE };
            let now = Instant::now();
            self.measure_blocks(of_tier, now + left.mul_f64(share))?;
            sweep::put_fits(&mut of_tier.blocks);
            self.store(&of_tier.blocks)?;
            self.measure_states(of_tier, now + left)?;
        }
        let transfers: Vec<Transfer> =
            tiers.into_iter().flat_map(|of| [of.blocks, of.states]).flatten().collect();
        run.verdicts.extend(transfer_verdicts(&transfers));
        run.transfers = transfers.iter().map(as_json).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn declare(&self, tier: TierName, first: usize) -> OfTier {
        let limit = self.room.of(tier);
        let bytes = SIZES.into_iter().find(|bytes| *bytes as u64 <= limit.bytes).unwrap_or(0);
        let mut blocks = sweep::transfers(tier, first, usize::MAX);
        for transfer in blocks.iter_mut().filter(|transfer| transfer.bytes.get() > (bytes / PARTS) as u64) {
            transfer.status = match bytes {
                0 => format!("skipped: {limit}, and a tier of {} is the smallest", in_words(SIZES[2] as u64)),
                _ => format!(
                    "skipped: {limit} for a tier; the largest transfer that fits is {}",
                    in_words((bytes / PARTS) as u64)
                ),
            };
        }
        let mut states = Vec::new();
        for layout in &self.plan.states {
            for (pattern, direction) in TRANSFERS {
                let number = u32::try_from(first + blocks.len() + states.len()).unwrap_or(u32::MAX);
                let mut transfer = sweep::blank(number, tier, direction, pattern, (0, 1), false);
                lay_out(&mut transfer, layout, &layout.parts);
                states.push(transfer);
            }
        }
        OfTier { tier, limit, bytes, blocks, states }
    }

    /// Measures the transfers that are not skipped; where the tier itself cannot be had, each says why.
    fn measure_blocks(&mut self, of_tier: &mut OfTier, deadline: Instant) -> Result<(), BenchError> {
        let bytes = of_tier.bytes;
        let mut wanted: Vec<&mut Transfer> =
            of_tier.blocks.iter_mut().filter(|transfer| !transfer.status.starts_with("skipped")).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        if !self.interrupt.is_set() {
            let began = Instant::now();
            let opened = (self.open)(of_tier.tier, bytes / PAGE)
                .and_then(|tier| Ok((tier, Memory::random(bytes / PAGE, self.plan.seed)?)));
            let mut stored = Ok(());
            let measured = opened.and_then(|(mut tier, mut memory)| {
                let mut bench = Bench::new(tier.as_mut(), &mut memory, bytes, self.plan.seed)?;
                self.preparing += began.elapsed();
                let (mut stop, mut keep) = watch(
                    self.begun,
                    self.plan.budget,
                    self.interrupt,
                    self.progress,
                    self.writer,
                    &mut stored,
                );
                bench.measure(&mut wanted, deadline, &mut stop, &mut keep);
                Ok(())
            });
            stored?;
            if let Err(error) = measured {
                fail_unmeasured(wanted.iter_mut().map(|transfer| &mut **transfer), &error);
            }
        }
        self.end(wanted.into_iter());
        Ok(())
    }

    fn measure_states(&mut self, of_tier: &mut OfTier, deadline: Instant) -> Result<(), BenchError> {
        let states_left = of_tier.states.len() / TRANSFERS.len();
        let links = TRANSFERS.map(|kind| link_of(&of_tier.blocks, kind));
        let plan = self.plan;
        let layouts = plan.states.iter().zip(of_tier.states.chunks_exact_mut(TRANSFERS.len()));
        for (place, (layout, transfers)) in layouts.enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(states_left - place).unwrap_or(1);
            match chosen(layout, of_tier.limit, &links, share) {
                Err(why) => {
                    for transfer in &mut *transfers {
                        transfer.status = format!("skipped: {why}");
                    }
                }
                Ok((parts, why)) => {
                    for (transfer, link) in transfers.iter_mut().zip(&links) {
                        lay_out(transfer, layout, &parts);
                        transfer.warnings.extend(why.clone());
                        predict(transfer, &parts, link.as_ref());
                    }
                    // The prediction is on the disk before the first block moves.
                    self.store(transfers)?;
                    self.round_trips(of_tier.tier, &parts, transfers, Instant::now() + share)?;
                }
            }
            self.store(transfers)?;
        }
        Ok(())
    }

    fn round_trips(
        &mut self,
        tier: TierName,
        parts: &[StatePart],
        transfers: &mut [Transfer],
        deadline: Instant,
    ) -> Result<(), BenchError> {
        if !self.interrupt.is_set() {
            let began = Instant::now();
            let bytes: u64 = parts.iter().map(|part| part.blocks * stride(part)).sum();
            let opened = usize::try_from(bytes / PAGE as u64)
                .map_err(io::Error::other)
                .and_then(|pages| (self.open)(tier, pages));
            let mut stored = Ok(());
            let measured = opened.and_then(|mut tier| {
                let mut trip = RoundTrip::new(tier.as_mut(), parts, self.plan.seed)?;
                self.preparing += began.elapsed();
                let (mut stop, mut keep) = watch(
                    self.begun,
                    self.plan.budget,
                    self.interrupt,
                    self.progress,
                    self.writer,
                    &mut stored,
                );
                trip.measure(transfers, deadline, &mut stop, &mut keep);
                Ok(())
            });
            stored?;
            if let Err(error) = measured {
                fail_unmeasured(transfers.iter_mut(), &error);
            }
        }
        self.end(transfers.iter_mut());
        Ok(())
    }

    /// Says of what has no sample why it has none.
    fn end<'t>(&self, transfers: impl Iterator<Item = &'t mut Transfer>) {
        let why = if self.interrupt.is_set() { "the run was cancelled" } else { "the budget was used up" };
        for transfer in transfers.filter(|one| one.measured.is_none() && one.status.starts_with("partial")) {
            transfer.status = format!("partial: {why} before the first sample");
        }
    }

    fn store(&mut self, transfers: &[Transfer]) -> Result<(), BenchError> {
        transfers
            .iter()
            .try_for_each(|transfer| self.writer.append(&Line::Transfer(Box::new(as_json(transfer)?))))
    }
}

/// What measuring asks before each transfer, and what it does with those that are finished.
fn watch<'w>(
    begun: Instant,
    budget: Duration,
    interrupt: Interrupt<'w>,
    progress: &'w mut dyn FnMut(Progress),
    writer: &'w mut RunWriter,
    stored: &'w mut Result<(), BenchError>,
) -> (impl FnMut() -> bool + 'w, impl FnMut(&Transfer) + 'w) {
    let stop = move || {
        let (passed, budget) = (begun.elapsed().as_secs_f64(), budget.as_secs_f64());
        let fraction = (passed / budget).min(1.0);
        let remaining_seconds = (budget - passed).max(0.0);
        progress(Progress { stage: Stage::Measuring, fraction, remaining_seconds, ..Progress::default() });
        interrupt.is_set()
    };
    let keep = move |transfer: &Transfer| {
        if stored.is_ok() {
            *stored = as_json(transfer).and_then(|json| writer.append(&Line::Transfer(Box::new(json))));
        }
    };
    (stop, keep)
}

/// The blocks of a state that are moved, with why there are fewer than it has; an error says why there is none.
pub(super) fn chosen(
    layout: &StateLayout,
    limit: Limit,
    links: &[Option<LinkFit>; TRANSFERS.len()],
    time: Duration,
) -> Result<(Vec<StatePart>, Option<String>), String> {
    let smallest = layout.smallest();
    if limit.bytes < smallest {
        return Err(format!("one block takes {} and {limit}; not one block fits", in_words(smallest)));
    }
    let moving: f64 = links
        .iter()
        .map(|link| link.as_ref().map_or(UNKNOWN_LINK, |link| 1.0 / link.beta_bytes_per_second))
        .sum();
    let trips = (WANTED_SAMPLES + 2) as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
    let by_time = (time.as_secs_f64() * 0.8 / (trips * (moving + HANDLING))) as u64;
    let by_time = by_time.min(LARGEST_STATE).max(smallest);
    let Some(parts) = layout.within(limit.bytes.min(by_time)) else {
        return Err(format!("{limit}; not one block fits"));
    };
    let (blocks, all) = (parts.iter().map(|part| part.blocks).sum::<u64>(), layout.blocks());
    if blocks == all {
        return Ok((parts, None));
    }
    let who = if by_time < limit.bytes { "time allows".to_owned() } else { format!("fit: {limit}") };
    Ok((
        parts,
        Some(format!("{blocks} of {all} blocks were laid out, as many as {who}; all figures are for those")),
    ))
}

fn link_of(blocks: &[Transfer], (pattern, direction): (Pattern, Direction)) -> Option<LinkFit> {
    let of_kind = |one: &&Transfer| one.pattern == pattern && one.direction == direction;
    Some(blocks.iter().filter(of_kind).find_map(|one| one.fitted.as_ref())?.link.clone())
}

/// Says of a transfer which blocks of the state it moves.
fn lay_out(transfer: &mut Transfer, layout: &StateLayout, parts: &[StatePart]) {
    let sum = |of: &dyn Fn(&StatePart) -> u64| parts.iter().map(of).sum::<u64>();
    transfer.block_bytes = Bytes::new(parts.iter().map(stride).max().unwrap_or(0));
    transfer.blocks = sum(&|part| part.blocks);
    transfer.bytes = Bytes::new(sum(&|part| part.blocks.saturating_mul(stride(part))));
    transfer.state = Some(StateMoved {
        model: layout.model.clone(),
        engine: layout.engine.clone(),
        context: layout.context,
        block_tokens: layout.block_tokens,
        logical_bytes: layout.logical_bytes,
        blocks_total: layout.blocks(),
        parts: parts.to_vec(),
        page_padding_bytes: Bytes::new(sum(&|part| {
            part.blocks.saturating_mul(stride(part) - part.block_bytes.get())
        })),
    });
}

fn predict(transfer: &mut Transfer, parts: &[StatePart], link: Option<&LinkFit>) {
    let sizes: Vec<(u64, Bytes)> =
        parts.iter().map(|part| (part.blocks, Bytes::new(part.blocks * stride(part)))).collect();
    if link.is_none() {
        transfer
            .warnings
            .push("no steady transfer of the declared half gave α and β, so no time is predicted".to_owned());
    }
    transfer.predicted = Some(PredictedTransfer {
        bytes: transfer.bytes,
        seconds: link.map(|link| link.time(&sizes).0),
        grade: Grade::Fitted,
        link: link.cloned(),
    });
}

fn fail_unmeasured<'t>(transfers: impl Iterator<Item = &'t mut Transfer>, error: &io::Error) {
    for transfer in transfers.filter(|transfer| transfer.status.starts_with("partial")) {
        transfer.status = format!("failed: {error}");
    }
}

fn as_json(transfer: &Transfer) -> Result<serde_json::Value, BenchError> {
    serde_json::to_value(transfer).map_err(|error| BenchError::Form(format!("transfer: {error}")))
}
