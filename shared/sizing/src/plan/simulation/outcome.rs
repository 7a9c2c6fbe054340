//! What a replay found, in the form that is printed.

use serde::Serialize;

use super::lru::{Tail, TierTail};
use super::moments::Moment;
use super::optimum::Best;
use super::running::Running;
use super::sizes::StateSizes;
use super::{Replay, StoreTier};
use crate::plan::Sensitivity;
use crate::state::ComponentKind;
use crate::{Bytes, Result, Tokens};

/// What a replay found.
#[derive(Clone, Debug, Serialize)]
pub struct Simulation {
    /// Requests.
    pub requests: u64,
    /// Seconds from the first arrival to the last.
    pub seconds: f64,
    /// Different blocks.
    pub distinct_blocks: u64,
    /// Bytes of a block and of a checkpoint.
    pub sizes: StateSizes,
    /// With least recently used out first.
    pub lru: Counts,
    /// By Belady's rule with the bytes of all tiers in one place.
    pub optimum: Option<Optimum>,
    /// Least recently used, by what is kept.
    pub kinds: Vec<KindOutcome>,
    /// Least recently used, tier by tier.
    pub tiers: Vec<TierOutcome>,
    /// Bytes that were brought to the first tier before anyone asked for them.
    pub prefetched_bytes: Bytes,
    /// How many of them nobody asked for before they left it.
    pub wasted_prefetch_bytes: Bytes,
    /// State of the requests that are being served; null where no rates are given.
    pub running: Option<Running>,
    /// What was found on the way, for a figure.
    #[serde(skip)]
    pub moments: Vec<Moment>,
    /// What a tenth of each input does to the share of blocks that are taken over, the input that matters most first; empty
    /// where inputs are not moved.
    pub sensitivities: Vec<Sensitivity>,
}

/// What was asked and found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counts {
    /// Blocks of all requests.
    pub asked_blocks: u64,
    /// Blocks from a request's first one on that were there.
    pub resident_blocks: u64,
    /// Those up to where a hit could end.
    pub hit_blocks: u64,
    /// `resident_blocks` over `asked_blocks`; null where no block was asked.
    pub resident_rate: Option<f64>,
    /// `hit_blocks` over `asked_blocks`; null where no block was asked.
    pub hit_rate: Option<f64>,
    /// Tokens of all prompts.
    pub input_tokens: u64,
    /// Those that were not computed.
    pub hit_tokens: u64,
    /// `hit_tokens` over `input_tokens`.
    pub token_hit_rate: Option<f64>,
    /// Requests that took over something.
    pub hit_requests: u64,
}

/// The optimum beside the least recently used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Optimum {
    /// What it finds.
    #[serde(flatten)]
    pub counts: Counts,
    /// Whether no policy finds more: objects have one size and save alike, which checkpoints do not.
    pub is_bound: bool,
}

/// What was found of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindOutcome {
    /// What is kept.
    pub kind: ComponentKind,
    /// `block` for what keeps every token, `checkpoint` for what is kept where a request ends.
    pub unit: &'static str,
    /// Units asked: blocks, or checkpoints of requests that found a block.
    pub asked: u64,
    /// Units found.
    pub found: u64,
    /// Found over asked; null where none was asked.
    pub hit_rate: Option<f64>,
    /// Bytes found.
    pub found_bytes: Bytes,
}

/// What one tier saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierOutcome {
    /// The tier.
    #[serde(flatten)]
    pub tier: StoreTier,
    /// The most bytes that it held.
    pub peak_bytes: Bytes,
    /// The mean over time; null where the trace takes none.
    pub mean_bytes: Option<f64>,
    /// Blocks found in it.
    pub hit_blocks: u64,
    /// Checkpoints found in it.
    pub hit_checkpoints: u64,
    /// Blocks that left it for the next tier, or for good.
    pub evicted_blocks: u64,
    /// Checkpoints that did.
    pub evicted_checkpoints: u64,
    /// Bytes that came into it.
    pub received_bytes: Bytes,
}

pub(super) fn gather(
    replay: &Replay<'_>,
    sizes: StateSizes,
    tail: &Tail,
    best: Option<Best>,
    running: Option<Running>,
) -> Result<Simulation> {
    let requests = replay.trace.requests();
    let seconds = replay.trace.seconds() - requests.first().map_or(0.0, |first| first.arrival_seconds);
    let counts = |resident_blocks: u64, hit_blocks: u64, hit_tokens: u64, hit_requests: u64| Counts {
        asked_blocks: tail.asked_blocks,
        resident_blocks,
        hit_blocks,
        resident_rate: share(resident_blocks, tail.asked_blocks),
        hit_rate: share(hit_blocks, tail.asked_blocks),
        input_tokens: tail.input_tokens,
        hit_tokens,
        token_hit_rate: share(hit_tokens, tail.input_tokens),
        hit_requests,
    };
    let mut moments = tail.moments.clone();
    if let Some(best) = &best {
        for (moment, hits) in moments.iter_mut().zip(&best.moments) {
            moment.optimum_hit_blocks = Some(*hits);
        }
    }
    // A checkpoint saves all blocks before it: to keep what is used soonest is best only where objects save alike.
    let is_bound = !sizes.needs_checkpoint();
    let tiers =
        replay.tiers.iter().zip(&tail.tiers).map(|(tier, seen)| seen.outcome(tier, seconds)).collect();
    Ok(Simulation {
        requests: requests.len() as u64,
        seconds,
        distinct_blocks: u64::from(replay.trace.distinct_blocks()),
        kinds: kinds(&sizes, tail)?,
        lru: counts(tail.resident_blocks, tail.hit_blocks, tail.hit_tokens, tail.hit_requests),
        optimum: best.map(|best| Optimum {
            counts: counts(best.resident_blocks, best.hit_blocks, best.hit_tokens, best.hit_requests),
            is_bound,
        }),
        tiers,
        prefetched_bytes: Bytes::new(tail.prefetched_bytes),
        wasted_prefetch_bytes: Bytes::new(tail.prefetched_bytes - tail.used_prefetch_bytes),
        moments,
        running,
        sizes,
        sensitivities: Vec::new(),
    })
}

fn kinds(sizes: &StateSizes, tail: &Tail) -> Result<Vec<KindOutcome>> {
    let mut kinds = Vec::new();
    for size in &sizes.kinds {
        let blocks = size.block_bytes.times(tail.resident_blocks)?;
        let checkpoints = size.found_checkpoints(&tail.found_at, tail.hit_requests)?;
        let units = [
            ("block", size.block_bytes, tail.asked_blocks, tail.resident_blocks, blocks),
            ("checkpoint", size.checkpoint_bytes, tail.asked_checkpoints, tail.hit_requests, checkpoints),
        ];
        for (unit, bytes, asked, found, found_bytes) in units {
            if bytes > Bytes::ZERO {
                let hit_rate = share(found, asked);
                kinds.push(KindOutcome { kind: size.kind, unit, asked, found, hit_rate, found_bytes });
            }
        }
    }
    Ok(kinds)
}

impl TierTail {
    fn outcome(&self, tier: &StoreTier, seconds: f64) -> TierOutcome {
        TierOutcome {
            tier: tier.clone(),
            peak_bytes: Bytes::new(self.peak),
            mean_bytes: (seconds > 0.0).then(|| self.byte_seconds / seconds),
            hit_blocks: self.hit_blocks,
            hit_checkpoints: self.hit_checkpoints,
            evicted_blocks: self.evicted_blocks,
            evicted_checkpoints: self.evicted_checkpoints,
            received_bytes: Bytes::new(self.received_bytes),
        }
    }
}

pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Simulation {
    /// Tokens of a block.
    pub fn block_tokens(&self) -> Tokens {
        self.sizes.block_tokens
    }
}
