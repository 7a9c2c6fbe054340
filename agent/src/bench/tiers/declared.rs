//! What is measured of a tier, declared before anything is: blocks of all sizes and states, less what a stored run has.

use std::time::Duration;

use kvscope_protocol::run::{
    Direction, Pattern, PredictedTransfer, StateMoved, StatePart, TierName, Transfer, is_missing_transfer,
};
use kvscope_sizing::Bytes;
use kvscope_sizing::prediction::{Grade, LinkFit};
use serde_json::Value;

use super::layout::{StateLayout, stride};
use super::room::{Limit, Room};
use super::round_trip::TRANSFERS;
use super::session::TierPlan;
use super::sweep;
use crate::bench::in_words;
use crate::bench::samples::WANTED_SAMPLES;

/// What a tier is measured over, the largest that fits: far more than one transfer moves, so that caches hold none of it.
const SIZES: [usize; 3] = [256 << 20, 64 << 20, 16 << 20];
/// A transfer moves at most this part of the tier, so that the next one finds other blocks.
const PARTS: usize = 4;
/// The most of a state that is moved at once.
const LARGEST_STATE: u64 = 1 << 30;
/// Seconds that filling, checking and comparing a byte of a state take in one round trip; a guess, to choose its size.
const HANDLING: f64 = 4e-9;
/// Seconds that moving a byte takes where no fit says so.
const UNKNOWN_LINK: f64 = 2e-9;

/// The transfers of one tier.
#[derive(Debug)]
pub(super) struct OfTier {
    pub(super) tier: TierName,
    /// What it may take.
    pub(super) limit: Limit,
    /// Bytes of the tier that random blocks are moved to and from.
    pub(super) bytes: usize,
    pub(super) blocks: Vec<Transfer>,
    /// Four of each state.
    pub(super) states: Vec<Transfer>,
}

impl OfTier {
    /// Every transfer of every tier of a plan; those that `stored` has figures of, or a reason for none, are as they are
    /// stored.
    pub(super) fn all(plan: &TierPlan, room: &Room, stored: &[Value]) -> Vec<Self> {
        let known: Vec<Transfer> = stored
            .iter()
            .filter(|one| !is_missing_transfer(one))
            .filter_map(|one| Transfer::read(one).ok())
            .collect();
        let mut first = 0;
        let declare = |tier: &TierName| {
            let mut declared = Self::new(plan, room, *tier, first);
            first += declared.blocks.len() + declared.states.len();
            declared.take(&known);
            declared
        };
        plan.tiers.iter().map(declare).collect()
    }

    fn new(plan: &TierPlan, room: &Room, tier: TierName, first: usize) -> Self {
        let limit = room.of(tier);
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
        for layout in &plan.states {
            for (pattern, direction) in TRANSFERS {
                let number = u32::try_from(first + blocks.len() + states.len()).unwrap_or(u32::MAX);
                let mut transfer = sweep::blank(number, tier, direction, pattern, (0, 1), false);
                lay_out(&mut transfer, layout, &layout.parts);
                states.push(transfer);
            }
        }
        Self { tier, limit, bytes, blocks, states }
    }

    /// Puts in what is known. A state's transfers move the same blocks, so that all of them are known or none.
    fn take(&mut self, known: &[Transfer]) {
        let of = |blank: &Transfer| known.iter().find(|one| is_same(one, blank)).cloned();
        for transfer in &mut self.blocks {
            if let Some(known) = of(transfer) {
                *transfer = known;
            }
        }
        for state in self.states.chunks_exact_mut(TRANSFERS.len()) {
            if let Some(known) = state.iter().map(of).collect::<Option<Vec<_>>>() {
                state.clone_from_slice(&known);
            }
        }
    }

    /// Every transfer of the tier.
    pub(super) fn transfers(&self) -> impl Iterator<Item = &Transfer> {
        self.blocks.iter().chain(&self.states)
    }

    /// Whether there is something to measure.
    pub(super) fn is_missing(&self) -> bool {
        self.transfers().any(is_wanted)
    }
}

/// Whether a transfer is to be measured.
pub(super) fn is_wanted(transfer: &Transfer) -> bool {
    transfer.status.starts_with("partial")
}

fn is_same(a: &Transfer, b: &Transfer) -> bool {
    let kind = |one: &Transfer| (one.transfer, one.tier, one.direction, one.pattern, one.fit_half);
    let what = |one: &Transfer| match &one.state {
        Some(state) => (state.context.get(), state.blocks_total, state.model.clone()),
        None => (one.block_bytes.get(), one.blocks, String::new()),
    };
    kind(a) == kind(b) && what(a) == what(b)
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

/// The fit of each of [`TRANSFERS`].
pub(super) fn links_of(blocks: &[Transfer]) -> [Option<LinkFit>; TRANSFERS.len()] {
    let link = |(pattern, direction): (Pattern, Direction)| {
        let of_kind = |one: &&Transfer| one.pattern == pattern && one.direction == direction;
        Some(blocks.iter().filter(of_kind).find_map(|one| one.fitted.as_ref())?.link.clone())
    };
    TRANSFERS.map(link)
}

/// Says of a transfer which blocks of the state it moves.
pub(super) fn lay_out(transfer: &mut Transfer, layout: &StateLayout, parts: &[StatePart]) {
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

pub(super) fn predict(transfer: &mut Transfer, parts: &[StatePart], link: Option<&LinkFit>) {
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
