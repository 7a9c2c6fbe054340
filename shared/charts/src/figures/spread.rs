//! Spreading labels so that none overlap and each stays as near to its place as the others allow.

/// Places for labels that want to be at `wanted` (any order), at least `pitch` apart and within `low..=high`. The sum of
/// squared moves is the least possible; equal wishes keep their order. Labels that cannot fit overhang at the end, so
/// drop some before.
pub(crate) fn spread(wanted: &[f64], pitch: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    kvscope_sizing::sort_short(&mut order, |&a, &b| wanted[a].total_cmp(&wanted[b]).is_gt());
    // In coordinates that shrink by `pitch` a label, "at least a pitch apart" becomes "not falling", which merging
    // neighbours that fall into blocks at their mean solves exactly.
    let mut blocks: Vec<Block> = Vec::new();
    for (rank, &index) in order.iter().enumerate() {
        let mut block = Block { sum: wanted[index] - rank as f64 * pitch, count: 1 };
        while let Some(previous) = blocks.pop_if(|previous| previous.mean() > block.mean()) {
            block = Block { sum: block.sum + previous.sum, count: block.count + previous.count };
        }
        blocks.push(block);
    }
    let highest = (high - (wanted.len().max(1) - 1) as f64 * pitch).max(low);
    let mut places = vec![0.0; wanted.len()];
    let mut rank = 0;
    for block in blocks {
        let mean = block.mean().clamp(low, highest);
        for _ in 0..block.count {
            places[order[rank]] = mean + rank as f64 * pitch;
            rank += 1;
        }
    }
    places
}

struct Block {
    sum: f64,
    count: usize,
}

impl Block {
    fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_that_collide_move_half_each() {
        assert_eq!(spread(&[100.0, 104.0, 200.0], 16.0, 0.0, 400.0), [94.0, 110.0, 200.0]);
    }

    #[test]
    fn the_edges_hold() {
        assert_eq!(spread(&[-5.0, -5.0], 10.0, 0.0, 100.0), [0.0, 10.0]);
        assert_eq!(spread(&[99.0, 99.0], 10.0, 0.0, 100.0), [90.0, 100.0]);
    }

    proptest! {
        #[test]
        fn labels_never_overlap_nor_leave(wanted in prop::collection::vec(-50.0..450.0_f64, 1..25)) {
            let places = spread(&wanted, 16.0, 0.0, 400.0);
            let mut sorted = places.clone();
            sorted.sort_by(f64::total_cmp);
            prop_assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 16.0 - 1e-6), "{sorted:?}");
            prop_assert!(sorted[0] >= -1e-6 && sorted[sorted.len() - 1] <= 400.0 + 1e-6, "{sorted:?}");
            for (a, b) in wanted.iter().zip(&places).flat_map(|first| wanted.iter().zip(&places).map(move |second| (first, second))) {
                prop_assert!(a.0 >= b.0 || a.1 < b.1, "order is kept");
            }
        }
    }
}
