//! Where a hit may end.

use crate::growth::Growth;
use crate::mixer::Mixer;
use crate::size::StateModel;
use crate::state::ComponentKind;
use crate::{Architecture, Error, Result};

/// The ends that every component of a model accepts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ends {
    /// A hit ends at a multiple of so many tokens; at least 1.
    pub grain: u64,
    /// Where states were saved, rising; absent where the model has none to save.
    pub checkpoints: Option<Vec<u64>>,
}

impl Ends {
    /// The last end up to `reach` tokens, zero where there is none.
    pub fn last_up_to(&self, reach: u64) -> u64 {
        let fits = |end: &u64| *end <= reach && end.is_multiple_of(self.grain);
        match &self.checkpoints {
            None => reach / self.grain * self.grain,
            Some(saved) => saved.iter().copied().filter(fits).max().unwrap_or(0),
        }
    }
}

/// The ends of the steps that a prompt of `tokens` tokens is prefilled in, where vLLM stops at whole blocks (mode `align`,
/// `_mamba_block_aligned_split` in `v1/core/sched/scheduler.py`): after every whole number of blocks that a step has room for,
/// and after the last whole block, or `dropped` tokens before it.
pub(super) fn aligned_steps(tokens: u64, block: u64, batch_tokens: u64, dropped: u64) -> Result<Vec<u64>> {
    let step = batch_tokens / block * block;
    if step == 0 {
        let what =
            format!("a step of {} holds no block of {block}", crate::Tokens::new(batch_tokens).counted());
        return Err(Error::setting("max_num_batched_tokens", what));
    }
    let last = (tokens / block * block).saturating_sub(dropped);
    let count = usize::try_from(last / step).unwrap_or(usize::MAX).min(MOST_STEPS);
    let mut ends: Vec<u64> = (1..=count as u64).map(|index| index * step).collect();
    if last > 0 && ends.last() != Some(&last) {
        ends.push(last);
    }
    Ok(ends)
}

/// More steps than any prompt takes: 2^40 tokens in steps of 2^20.
const MOST_STEPS: usize = 1 << 20;

/// What windows and chunks ask for where a request goes on from an end at which none was kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windows {
    /// Window tokens of all window layers together: each layer's window looks back from the window of the one above it.
    sum: u64,
    /// The widest window.
    pub(super) widest: u64,
    /// Tokens of a chunk.
    chunk: u64,
}

impl Windows {
    pub(super) fn of(state: &StateModel) -> Self {
        let mut windows = Self::default();
        for part in state.parts() {
            match part.component.growth {
                Growth::Window { window, .. } => {
                    windows.sum = windows.sum.saturating_add(window.get().saturating_mul(part.layers));
                    windows.widest = windows.widest.max(window.get());
                }
                Growth::Chunk { chunk, .. } => windows.chunk = windows.chunk.max(chunk.get()),
                _ => {}
            }
        }
        windows
    }

    pub(super) fn any(self) -> bool {
        self.widest > 0 || self.chunk > 0
    }

    /// Tokens before `end` that run again to fill every window; a chunk starts anew at its boundary.
    pub(super) fn replay(self, end: u64) -> u64 {
        let chunk = end.checked_rem(self.chunk).unwrap_or(0);
        self.sum.max(chunk).min(end)
    }
}

/// Whether a recurrent or convolution state has to be saved for a hit.
pub(super) fn has_states(state: &StateModel) -> bool {
    let is_state = |kind| matches!(kind, ComponentKind::RecurrentState | ComponentKind::ConvState);
    state.parts().iter().any(|part| is_state(part.component.kind))
}

/// Tokens of whole groups of every compressed stream; 1 without one.
pub(super) fn whole_groups(state: &StateModel) -> Result<u64> {
    let mut groups: u64 = 1;
    for part in state.parts() {
        if let Growth::Compressed { ratio, .. } = part.component.growth {
            groups = common_multiple(groups, ratio.get())?;
        }
    }
    Ok(groups)
}

/// Tokens of a page of SGLang's tree: 256 for DeepSeek-V4 and its successors, 64 for DSA, else single tokens (0.5.23).
pub(super) fn sglang_page(architecture: &Architecture) -> u64 {
    let mixers = || architecture.mixers();
    if mixers().any(|mixer| matches!(mixer, Mixer::Compressed(_))) {
        256
    } else if mixers().any(|mixer| matches!(mixer, Mixer::Dsa { .. })) {
        64
    } else {
        1
    }
}

pub(super) fn common_multiple(a: u64, b: u64) -> Result<u64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).checked_mul(b).ok_or_else(|| Error::overflow("a run of whole groups"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_ends_at_a_whole_block_or_where_a_state_was_saved() {
        let blocks = Ends { grain: 16, checkpoints: None };
        assert_eq!([0, 15, 16, 100].map(|reach| blocks.last_up_to(reach)), [0, 0, 16, 96]);
        let saved = Ends { grain: 1, checkpoints: Some(vec![8000, 8300]) };
        assert_eq!([7999, 8000, 8299, 9000].map(|reach| saved.last_up_to(reach)), [0, 8000, 8000, 8300]);
    }

    /// 8,192 tokens a step hold 15 blocks of 528: 7,920.
    #[test]
    fn steps_end_at_whole_blocks() {
        assert_eq!(aligned_steps(480, 528, 8192, 0).unwrap(), Vec::<u64>::new());
        assert_eq!(aligned_steps(979, 528, 8192, 0).unwrap(), [528]);
        assert_eq!(aligned_steps(20_000, 528, 8192, 0).unwrap(), [7920, 15_840, 19_536]);
        assert_eq!(aligned_steps(20_000, 528, 8192, 528).unwrap(), [7920, 15_840, 19_008]);
        assert!(aligned_steps(20_000, 8320, 8192, 0).unwrap_err().to_string().contains("no block of 8320"));
    }
}
