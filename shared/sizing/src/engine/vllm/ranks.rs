//! Which pipeline rank holds which layers.

/// Last layers of every rank, exclusive. What does not divide goes to the ranks from the second last backwards
/// (vLLM, `distributed/utils.py`); drafts follow the last layer.
pub(super) fn boundaries(layers: usize, ranks: u64) -> Vec<usize> {
    let ranks = usize::try_from(ranks).unwrap_or(1).max(1);
    let mut counts = vec![layers / ranks; ranks];
    for extra in 0..layers % ranks {
        // With `ranks − 1` layers left over, the first rank gets the last of them.
        let from_end = extra + 2;
        if let Some(count) = ranks.checked_sub(from_end).and_then(|index| counts.get_mut(index)) {
            *count += 1;
        }
    }
    let mut ends: Vec<usize> = counts
        .iter()
        .scan(0, |end, count| {
            *end += count;
            Some(*end)
        })
        .collect();
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
