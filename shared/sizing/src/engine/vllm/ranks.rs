//! Which pipeline rank holds which layers.

use crate::engine::shard::{Surplus, pipeline_ranges};

/// Last layers of every rank, exclusive; drafts follow the last layer.
pub(super) fn boundaries(layers: usize, ranks: u64) -> Vec<usize> {
    let ranges = pipeline_ranges(layers, ranks, Surplus::BeforeLast);
    let mut ends: Vec<usize> = ranges.into_iter().map(|range| range.end).collect();
    if let Some(last) = ends.last_mut() {
        *last = usize::MAX;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_divide_goes_to_the_middle() {
        assert_eq!(boundaries(80, 2), [40, usize::MAX]);
        // 61 over 4: 15, 15, 16, 15. 62 over 4: 15, 16, 16, 15.
        assert_eq!(boundaries(61, 4), [15, 30, 46, usize::MAX]);
        assert_eq!(boundaries(62, 4), [15, 31, 47, usize::MAX]);
        assert_eq!(boundaries(5, 1), [usize::MAX]);
    }
}
