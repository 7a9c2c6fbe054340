//! Pipeline ranks: which layers each has, and which rank figures are of.

use std::ops::Range;

use crate::architecture::Architecture;
use crate::settings::Settings;
use crate::warning::Warning;
use crate::{Error, Result, Tokens};

/// Layers of a model by index.
pub(crate) type LayerRange = Range<usize>;

/// Which pipeline ranks take the layers that equal shares leave over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Surplus {
    /// One each to the first ranks (TensorRT-LLM `Mapping.pp_layers`).
    First,
    /// One each to the ranks before the last, from the back (vLLM 0.33 `get_pp_indices`).
    BeforeLast,
    /// One each to the last ranks (SGLang 0.5.23 `get_pp_indices`).
    Last,
}

/// The layers of each pipeline rank, first rank first.
pub(crate) fn pipeline_ranges(layers: usize, ranks: u64, surplus: Surplus) -> Vec<LayerRange> {
    let ranks = usize::try_from(ranks).unwrap_or(usize::MAX).clamp(1, layers.max(1));
    let (share, left_over) = (layers / ranks, layers % ranks);
    let from_the_back = match surplus {
        Surplus::First => ranks - left_over + 1..ranks + 1,
        Surplus::BeforeLast => 2..left_over + 2,
        Surplus::Last => 1..left_over + 1,
    };
    let mut start = 0;
    (0..ranks)
        .map(|rank| {
            let extra = usize::from(from_the_back.contains(&(ranks - rank)));
            let range = start..start + share + extra;
            start = range.end;
            range
        })
        .collect()
}

/// The layers that each rank may have under `layers_on_rank` or `pp`; one range where neither is set.
///
/// # Errors
///
/// More layers on a rank, or more ranks, than the model has layers.
pub(crate) fn rank_ranges(
    architecture: &Architecture,
    settings: &Settings,
    surplus: Surplus,
) -> Result<Vec<LayerRange>> {
    let total = architecture.own_layers();
    if let Some(layers) = settings.layers_on_rank {
        let layers = usize::try_from(layers).ok().filter(|layers| *layers <= total).ok_or_else(|| {
            Error::setting("layers_on_rank", format!("{layers} layers, but the model has {total}"))
        })?;
        return Ok(std::iter::once(0..layers).collect());
    }
    Ok(pipeline_ranges(total, pipeline_ranks(settings, architecture)?, surplus))
}

/// Pipeline ranks, each with at least one layer. Equal shares (`get_pp_indices` of vLLM 0.33 and SGLang 0.5.23) would leave
/// the others with none, and what an engine reserves there is not known.
///
/// # Errors
///
/// More ranks than layers.
pub(crate) fn pipeline_ranks(settings: &Settings, architecture: &Architecture) -> Result<u64> {
    let (ranks, layers) = (settings.pp(), architecture.own_layers());
    if ranks > layers as u64 {
        return Err(Error::setting("pp", format!("{ranks} ranks, but the model has {layers} layers")));
    }
    Ok(ranks)
}

/// A length at which every window is full, for what ranks hold where no context is asked.
pub(crate) fn beyond_windows() -> Tokens {
    Tokens::new(1 << 24)
}

/// The rank that figures are of: the one that holds most, the first of equals.
pub(crate) fn fullest<T: Ord>(held: &[T]) -> usize {
    let most = held.iter().max();
    held.iter().position(|own| Some(own) == most).unwrap_or(0)
}

/// Says which of several ranks figures are of, where others hold less than [`fullest`].
pub(crate) fn shown_rank<T: Ord>(ranks: &[LayerRange], held: &[T]) -> Option<Warning> {
    let shown = fullest(held);
    let layers = ranks.get(shown)?;
    if held.iter().all(|own| *own == held[shown]) {
        return None;
    }
    let message = format!(
        "figures are of pipeline rank {} of {}, the one that holds most: layers {} to {}, counted from 0",
        shown + 1,
        ranks.len(),
        layers.start,
        layers.end.saturating_sub(1)
    );
    Some(Warning::new("pp", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// vLLM's table: 10 layers over 4 ranks are 2, 3, 3, 2.
    #[test]
    fn what_equal_shares_leave_over_goes_by_the_engine() {
        let lengths = |layers, ranks, surplus| -> Vec<usize> {
            pipeline_ranges(layers, ranks, surplus).iter().map(ExactSizeIterator::len).collect()
        };
        assert_eq!(lengths(10, 4, Surplus::BeforeLast), [2, 3, 3, 2]);
        assert_eq!(lengths(61, 2, Surplus::BeforeLast), [31, 30]);
        assert_eq!(lengths(7, 4, Surplus::BeforeLast), [2, 2, 2, 1]);
        // `torch.tensor_split`.
        assert_eq!(lengths(10, 4, Surplus::First), [3, 3, 2, 2]);
        assert_eq!(lengths(10, 4, Surplus::Last), [2, 2, 3, 3]);
        assert_eq!(lengths(61, 2, Surplus::Last), [30, 31]);
        assert_eq!(lengths(3, 8, Surplus::Last), [1, 1, 1]);
    }

    #[test]
    fn the_first_of_the_fullest_ranks_is_shown() {
        assert_eq!((fullest(&[1, 3, 3, 2]), fullest(&[7]), fullest::<u64>(&[])), (1, 0, 0));
        let ranges = pipeline_ranges(4, 2, Surplus::Last);
        assert_eq!(shown_rank(&ranges, &[5, 5]), None);
        let told = shown_rank(&ranges, &[5, 6]).unwrap().message;
        assert!(told.contains("rank 2 of 2") && told.contains("layers 2 to 3"), "{told}");
    }
}
