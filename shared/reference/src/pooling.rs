//! The compressor of DeepSeek-V4's attention (arXiv 2606.19348): how the tokens of a group become one entry.

/// One group with what a trained compressor brings.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Channels of an entry.
    pub width: usize,
    /// Tokens of a group.
    pub ratio: usize,
    /// 2 where groups overlap by one, else 1.
    pub halves: usize,
    /// `[place in the group][half][width]`, added to the gates.
    pub bias: &'a [f64],
    /// `[width]`, of the norm.
    pub gains: &'a [f64],
    /// Cosine and sine for each pair of the rotary channels, the last ones.
    pub turns: &'a [(f64, f64)],
}

impl Group<'_> {
    /// The entry of group `number`: `row(token)` is `[half][width]` values, then `[half][width]` gates.
    pub fn entry(&self, number: usize, row: &dyn Fn(usize) -> Vec<f64>) -> Vec<f64> {
        let Self { width, ratio, halves, .. } = *self;
        let mut entry: Vec<f64> = (0..width)
            .map(|channel| {
                let mut members = Vec::new();
                for place in 0..ratio {
                    let mut add = |group: usize, half: usize| {
                        let row = row(group * ratio + place);
                        let bias = self.bias[(place * halves + half) * width + channel];
                        members.push((
                            row[(halves + half) * width + channel] + bias,
                            row[half * width + channel],
                        ));
                    };
                    add(number, halves - 1);
                    // Tokens before the first have no part in the first overlapping group.
                    if halves == 2 && number > 0 {
                        add(number - 1, 0);
                    }
                }
                let total: f64 = members.iter().map(|(gate, _)| gate.exp()).sum();
                members.iter().map(|(gate, value)| gate.exp() / total * value).sum()
            })
            .collect();
        let mean = entry.iter().map(|x| x * x).sum::<f64>() / width as f64;
        for (x, gain) in entry.iter_mut().zip(self.gains) {
            *x *= gain / (mean + 1e-6).sqrt();
        }
        let plain = width - 2 * self.turns.len();
        for (pair, (cosine, sine)) in entry[plain..].chunks_mut(2).zip(self.turns) {
            let (x, y) = (pair[0], pair[1]);
            pair.copy_from_slice(&[x * cosine - y * sine, x * sine + y * cosine]);
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tokens_by_hand() {
        // Channel 0: equal gates, values 2 and 6: 4. Channel 1: gates 0 and ln 3, values 8 and 4: 2 + 3 = 5. Mean square 20.5.
        let ln3 = 3.0_f64.ln();
        let group = Group { width: 2, ratio: 2, halves: 1, bias: &[0.0; 4], gains: &[1.0, 2.0], turns: &[] };
        let entry = group
            .entry(0, &|token| if token == 0 { vec![2.0, 8.0, 1.0, 0.0] } else { vec![6.0, 4.0, 1.0, ln3] });
        let length = 20.5_f64.sqrt();
        assert!(
            (entry[0] - 4.0 / length).abs() < 1e-6 && (entry[1] - 10.0 / length).abs() < 1e-6,
            "{entry:?}"
        );
        // A quarter turn swaps the pair.
        let entry =
            Group { gains: &[1.0; 2], turns: &[(0.0, 1.0)], ..group }.entry(0, &|_| vec![3.0, 4.0, 0.0, 0.0]);
        let length = 12.5_f64.sqrt();
        assert!(
            (entry[0] + 4.0 / length).abs() < 1e-6 && (entry[1] - 3.0 / length).abs() < 1e-6,
            "{entry:?}"
        );
    }

    #[test]
    fn overlapping_groups_take_half_a_of_the_group_before() {
        // One token a group; gates equal: the mean of half B of token 1 and half A of token 0.
        let group = Group { width: 1, ratio: 1, halves: 2, bias: &[0.0; 2], gains: &[1.0], turns: &[] };
        let row =
            |token: usize| if token == 0 { vec![3.0, 50.0, 0.0, 0.0] } else { vec![70.0, 5.0, 0.0, 0.0] };
        // An RMS norm of one channel leaves its sign.
        assert!((group.entry(1, &row)[0] - 1.0).abs() < 1e-6);
        let wide = Group { width: 2, bias: &[0.0; 4], gains: &[1.0; 2], ..group };
        let row = |token: usize| {
            if token == 0 {
                [3.0, 1.0, 9.0, 9.0, 0.0, 0.0, 0.0, 0.0].to_vec()
            } else {
                [9.0, 9.0, 5.0, 2.0, 0.0, 0.0, 0.0, 0.0].to_vec()
            }
        };
        let entry = wide.entry(1, &row);
        assert!((entry[0] / entry[1] - 4.0 / 1.5).abs() < 1e-9, "{entry:?}");
    }
}
