//! The exact `k` largest of a stream of scores, in one pass.
//!
//! Candidates are kept in a buffer of twice `k`; when it is full the lower half goes, and what is below the lowest that
//! stayed is turned away from then on. On scores in random order about `k × ln(n / k)` of n enter the buffer, so that a
//! pass costs one comparison a score.

/// The `k` best of what was offered so far. Of equal scores the earlier index is the better one.
#[derive(Clone, Debug)]
pub(crate) struct TopK {
    k: usize,
    /// Order of the score, then of the index turned round: a larger key is better, and no two are equal.
    keys: Vec<u64>,
    /// No score below this can be among the best.
    least: f32,
}

impl TopK {
    /// Keeps the best `k`; at least 1.
    pub(crate) fn new(k: usize) -> Self {
        assert!(k > 0);
        Self { k, keys: Vec::with_capacity(2 * k), least: f32::NEG_INFINITY }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.least = f32::NEG_INFINITY;
    }

    /// Offers `scores` of the indices from `first` on; none is NaN.
    pub(crate) fn offer(&mut self, first: u32, scores: &[f32]) {
        for (index, score) in (first..).zip(scores) {
            // Most scores end here.
            if *score < self.least {
                continue;
            }
            self.keys.push(key(*score, index));
            if self.keys.len() == 2 * self.k {
                self.shrink();
            }
        }
    }

    /// Offers what another has kept.
    pub(crate) fn merge(&mut self, other: &Self) {
        for key in &other.keys {
            self.keys.push(*key);
            if self.keys.len() == 2 * self.k {
                self.shrink();
            }
        }
    }

    /// Puts the indices of the best in `chosen`, in rising order.
    pub(crate) fn finish(&mut self, chosen: &mut Vec<u32>) {
        if self.keys.len() > self.k {
            self.shrink();
        }
        chosen.clear();
        chosen.extend(self.keys.iter().map(|key| index(*key)));
        chosen.sort_unstable();
    }

    fn shrink(&mut self) {
        let (.., least, _) = self.keys.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a));
        self.least = score(*least);
        self.keys.truncate(self.k);
    }
}

/// Bits whose order as an integer is that of the scores.
fn key(score: f32, index: u32) -> u64 {
    let bits = score.to_bits();
    let ordered = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    u64::from(ordered) << 32 | u64::from(!index)
}

fn score(key: u64) -> f32 {
    let ordered = upper(key);
    f32::from_bits(if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered })
}

fn index(key: u64) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
    let low = key as u32;
    !low
}

#[allow(clippy::cast_possible_truncation, reason = "32 bits are left")]
fn upper(key: u64) -> u32 {
    (key >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sorted whole: by score from the highest, then by index.
    fn sorted(scores: &[f32], k: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..u32::try_from(scores.len()).unwrap()).collect();
        order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b)));
        order.truncate(k);
        order.sort_unstable();
        order
    }

    #[test]
    fn exactly_the_best_whatever_the_order_and_the_pieces() {
        let mut random = fastrand::Rng::with_seed(1);
        for (count, k, levels) in
            [(1, 1, 9), (10, 16, 3), (1000, 7, 1_000_000), (5000, 512, 40), (4096, 2048, 5)]
        {
            let scores: Vec<f32> =
                (0..count).map(|_| (random.i32(0..levels) - levels / 2) as f32 * 0.37).collect();
            let mut rising = scores.clone();
            rising.sort_by(f32::total_cmp);
            for scores in [scores, rising] {
                let (mut parts, mut chosen) = (vec![TopK::new(k); 3], Vec::new());
                let mut first = 0;
                for (place, piece) in scores.chunks(61).enumerate() {
                    parts[place % 3].offer(first, piece);
                    first += u32::try_from(piece.len()).unwrap();
                }
                let mut all = TopK::new(k);
                for part in &parts {
                    all.merge(part);
                }
                all.finish(&mut chosen);
                assert_eq!(chosen, sorted(&scores, k), "{count} scores, k {k}");
                all.clear();
                all.offer(0, &scores);
                all.finish(&mut chosen);
                assert_eq!(chosen, sorted(&scores, k), "{count} scores, k {k}, after another use");
            }
        }
    }
}
