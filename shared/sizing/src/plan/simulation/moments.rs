//! What a replay had found on its way.

/// The most moments of a replay.
const MOMENTS: usize = 120;

/// What a replay had found when so many requests were served, least recently used out first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// Requests that were served.
    pub requests: u64,
    /// Blocks that they asked.
    pub asked_blocks: u64,
    /// Blocks from a request's first one on that were there.
    pub resident_blocks: u64,
    /// Those up to where a hit could end.
    pub hit_blocks: u64,
    /// Requests that had use for a checkpoint.
    pub asked_checkpoints: u64,
    /// Requests that took over something.
    pub hit_requests: u64,
    /// Blocks that Belady's rule had taken over by then; none where it is not computed.
    pub optimum_hit_blocks: Option<u64>,
    /// Tier by tier.
    pub tiers: Vec<TierMoment>,
}

/// What a tier held and had lost by then.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TierMoment {
    /// Bytes held.
    pub used_bytes: u64,
    /// Blocks that had left it.
    pub evicted_blocks: u64,
    /// Checkpoints that had.
    pub evicted_checkpoints: u64,
}

/// Whether `served` of `all` requests are a moment that is kept: evenly apart, and the end.
pub(super) fn is_kept(served: usize, all: usize) -> bool {
    served == all || served.is_multiple_of(all.div_ceil(MOMENTS).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_few_and_the_last_is_the_end() {
        for all in [1, 2, 119, 120, 121, 1000, 1_000_000] {
            let kept: Vec<usize> = (1..=all).filter(|served| is_kept(*served, all)).collect();
            assert!(kept.len() <= MOMENTS + 1 && kept.last() == Some(&all), "{all}: {}", kept.len());
        }
    }
}
