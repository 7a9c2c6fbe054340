//! Decode attention in f64, one obvious step after the other, for checking the kernels. Nothing here is fast, and
//! nothing here is shared with the kernels: places in the pages are computed anew.

/// One request's attention: its queries and how its rows are found.
pub(crate) struct Attention<'a> {
    /// `[head][width]`, as given, not scaled.
    pub(crate) queries: &'a [Vec<f64>],
    /// What scores are multiplied with before the softmax.
    pub(crate) scale: f64,
    /// Tokens of the context.
    pub(crate) tokens: usize,
    /// Key of (head, token).
    pub(crate) key: &'a (dyn Fn(usize, usize) -> Vec<f64> + Sync),
    /// Value of (head, token).
    pub(crate) value: &'a (dyn Fn(usize, usize) -> Vec<f64> + Sync),
}

/// The output of one head: softmax(scale × q·K) V.
pub(crate) fn attend(attention: &Attention<'_>, head: usize) -> Vec<f64> {
    let query = &attention.queries[head];
    let scores: Vec<f64> = (0..attention.tokens)
        .map(|token| attention.scale * dot(query, &(attention.key)(head, token)))
        .collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let total: f64 = weights.iter().sum();

    let mut output = Vec::new();
    for (token, weight) in weights.iter().enumerate() {
        let value = (attention.value)(head, token);
        output.resize(value.len(), 0.0);
        for (sum, component) in output.iter_mut().zip(&value) {
            *sum += weight / total * component;
        }
    }
    output
}

/// bf16 bits as a number.
pub(crate) fn widen(values: &[u16]) -> Vec<f64> {
    values.iter().map(|bits| half::bf16::from_bits(*bits).to_f64()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tokens_by_hand() {
        // Scores 0 and ln 3: weights 1/4 and 3/4; values (4, 0) and (0, 8) give (1, 6).
        let ln3 = 3.0_f64.ln();
        let attention = Attention {
            queries: &[vec![2.0]],
            scale: 0.5,
            tokens: 2,
            key: &move |_, token| vec![if token == 0 { 0.0 } else { ln3 }],
            value: &|_, token| if token == 0 { vec![4.0, 0.0] } else { vec![0.0, 8.0] },
        };
        let output = attend(&attention, 0);
        assert!((output[0] - 1.0).abs() < 1e-12 && (output[1] - 6.0).abs() < 1e-12);
    }
}
