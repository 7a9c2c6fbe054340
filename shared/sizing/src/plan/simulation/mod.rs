//! A replay of a request trace over tiers with a model's exact state sizes: what is found, what is evicted, what is moved.
//!
//! Requests are runs of hashed blocks, each hash standing for all tokens up to its block's end, as in the public Mooncake trace.
//! What keeps every token is kept block by block. States and windows are kept as one checkpoint where a request ends, so that a
//! hit ends where all its blocks and a checkpoint are there. Least recently used goes first; of one request the tail is the
//! older, as engines free blocks in reverse order. What leaves a tier goes to the next and is lost behind the last.

mod lists;
mod lru;
mod moments;
mod optimum;
mod outcome;
mod places;
mod running;
mod sizes;
mod synthetic;
mod trace;

use serde::Serialize;

use super::{Moving, Sensitivity, sensitivities, sensitivity};
use crate::size::StateModel;
use crate::{Bytes, Error, Result, Tokens};

pub use moments::{Moment, TierMoment};
pub use outcome::{Counts, KindOutcome, Optimum, Simulation, TierOutcome};
pub use running::{Rates, Running};
pub use sizes::StateSizes;
pub use trace::{Request, Trace};

/// A place that keeps state between requests.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct StoreTier {
    /// Its name.
    pub name: String,
    /// Bytes that it holds; absent where there is no limit.
    pub capacity_bytes: Option<Bytes>,
}

/// What a replay is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'q> {
    /// The requests.
    pub trace: &'q Trace,
    /// The model whose state is kept.
    pub state: &'q StateModel,
    /// Where it is kept, the nearest first.
    pub tiers: &'q [StoreTier],
    /// Blocks that are brought to the first tier after a request: those that followed its last shared block the last time.
    pub prefetch_blocks: u64,
    /// How fast requests are served; absent where only what is kept is of interest.
    pub rates: Option<Rates>,
    /// Whether the optimum is computed beside it.
    pub optimum: Compare,
    /// Whether inputs are moved, which takes two replays an input.
    pub moving: Moving,
}

/// What a replay is compared with.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Compare {
    /// Nothing.
    Alone,
    /// Belady's rule with the same bytes in one place.
    #[default]
    WithOptimum,
}

/// The most tiers.
const MOST_TIERS: usize = 8;

/// Replays the trace.
///
/// # Errors
///
/// No requests, no tier, a tier that holds nothing, a block that cuts a compression group, rates that serve nothing, or an
/// overflow.
pub fn simulate(replay: &Replay<'_>) -> Result<Simulation> {
    if replay.trace.requests().is_empty() {
        return Err(Error::setting("trace", "it holds no request"));
    }
    if replay.tiers.is_empty() || replay.tiers.len() > MOST_TIERS {
        let what = format!("{} tiers; give 1 to {MOST_TIERS}", replay.tiers.len());
        return Err(Error::setting("tier", what));
    }
    let sizes = StateSizes::of_trace(replay.state, replay.trace)?;
    have_room(replay.tiers, &sizes)?;
    if let Some(rates) = &replay.rates {
        rates.check()?;
    }
    let tail = lru::replay(replay, &sizes)?;
    let optimum = match replay.optimum {
        Compare::Alone => None,
        Compare::WithOptimum => Some(optimum::replay(replay, &sizes)),
    };
    let running =
        replay.rates.map(|rates| running::replay(replay, &rates, &tail.found_tokens)).transpose()?;
    let sensitivities = replay.moving.rows(|| move_inputs(replay, &sizes));
    Ok(Simulation { sensitivities, ..outcome::gather(replay, sizes, &tail, optimum, running)? })
}

fn have_room(tiers: &[StoreTier], sizes: &StateSizes) -> Result<()> {
    let least = sizes.block_bytes.max(sizes.checkpoint_bytes);
    match tiers.iter().find(|tier| tier.capacity_bytes.is_some_and(|bytes| bytes < least)) {
        None => Ok(()),
        Some(tier) => {
            let what = format!("{}: holds less than one block or state of {least}", tier.name);
            Err(Error::setting("tier", what))
        }
    }
}

const CAPACITIES: [&str; MOST_TIERS] = [
    "capacity of the first tier",
    "capacity of the second tier",
    "capacity of the third tier",
    "capacity of the fourth tier",
    "capacity of the fifth tier",
    "capacity of the sixth tier",
    "capacity of the seventh tier",
    "capacity of the eighth tier",
];
/// Blocks brought ahead of which a tenth is at least one.
const MOVABLE_BLOCKS: u64 = 10;

/// What a tenth of each input does to the share of blocks that are taken over. A tier without a limit has no tenth.
fn move_inputs(replay: &Replay<'_>, sizes: &StateSizes) -> Vec<Sensitivity> {
    let capacity = |tier: &StoreTier| tier.capacity_bytes.map_or(0.0, |bytes| bytes.get() as f64);
    let mut inputs: Vec<(&str, f64)> =
        CAPACITIES.into_iter().zip(replay.tiers.iter().map(capacity)).collect();
    inputs.push(("bytes of a block", sizes.block_bytes.get() as f64));
    inputs.push(("bytes of a checkpoint", sizes.checkpoint_bytes.get() as f64));
    if replay.prefetch_blocks >= MOVABLE_BLOCKS {
        inputs.push(("blocks brought ahead", replay.prefetch_blocks as f64));
    }
    sensitivities(&inputs, |of| {
        let (capacities, rest) = of.split_at_checked(replay.tiers.len())?;
        let [block, checkpoint, ahead @ ..] = rest else { return None };
        let mut tiers = replay.tiers.to_vec();
        for (tier, bytes) in tiers.iter_mut().zip(capacities) {
            if tier.capacity_bytes.is_some() {
                tier.capacity_bytes = Some(Bytes::new(sensitivity::count(*bytes)?));
            }
        }
        let scaled = |bytes: &Bytes| {
            let times = *checkpoint / (sizes.checkpoint_bytes.get() as f64).max(1.0);
            sensitivity::count(bytes.get() as f64 * times).map(Bytes::new)
        };
        let sizes = StateSizes {
            block_bytes: Bytes::new(sensitivity::count(*block)?),
            checkpoint_bytes: Bytes::new(sensitivity::count(*checkpoint)?),
            by_place: sizes.by_place.iter().map(scaled).collect::<Option<_>>()?,
            ..sizes.clone()
        };
        have_room(&tiers, &sizes).ok()?;
        let prefetch_blocks =
            ahead.first().map_or(Some(replay.prefetch_blocks), |blocks| sensitivity::count(*blocks))?;
        let tail = lru::replay(&Replay { tiers: &tiers, prefetch_blocks, ..*replay }, &sizes).ok()?;
        outcome::share(tail.hit_blocks, tail.asked_blocks)
    })
}

/// Tokens that a hit of so many blocks saves: at least the last token of the prompt is computed.
fn found_tokens(request: &Request, blocks: usize, block_tokens: Tokens) -> u64 {
    let found = (blocks as u64).saturating_mul(block_tokens.get());
    found.min(request.input_tokens.saturating_sub(1))
}
