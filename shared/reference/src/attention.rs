//! Decode attention over keys and values that are found by functions of head and token.

use std::fmt;

use crate::dot;

/// One request's attention: its queries and how its rows are found.
pub struct Attention<'a> {
    /// `[head][width]`, as given, not scaled.
    pub queries: &'a [Vec<f64>],
    /// What scores are multiplied with before the softmax.
    pub scale: f64,
    /// Tokens of the context.
    pub tokens: usize,
    /// Key of (head, token).
    pub key: &'a (dyn Fn(usize, usize) -> Vec<f64> + Sync),
    /// Value of (head, token).
    pub value: &'a (dyn Fn(usize, usize) -> Vec<f64> + Sync),
}

impl fmt::Debug for Attention<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attention")
            .field("scale", &self.scale)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// The output of one head: softmax(scale × q·K) V.
pub fn attend(attention: &Attention<'_>, head: usize) -> Vec<f64> {
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

/// The output of one head over rows that are key and, in their first `value_width` values, value; with a sink, which is a
/// score without a value, where there is one.
pub fn attend_rows(
    query: &[f64],
    scale: f64,
    rows: &[Vec<f64>],
    value_width: usize,
    sink: Option<f64>,
) -> Vec<f64> {
    let weights: Vec<f64> = rows.iter().map(|row| (scale * dot(query, row)).exp()).collect();
    let total: f64 = weights.iter().sum::<f64>() + sink.map_or(0.0, f64::exp);
    (0..value_width)
        .map(|d| rows.iter().zip(&weights).map(|(row, weight)| weight / total * row[d]).sum())
        .collect()
}

/// An indexer's score of one key: Σ over its heads of weight × max(0, q·k) (DeepSeek-V3.2, arXiv 2512.02556).
pub fn index_score(queries: &[Vec<f64>], weights: &[f64], key: &[f64]) -> f64 {
    queries.iter().zip(weights).map(|(query, weight)| weight * dot(query, key).max(0.0)).sum()
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

    #[test]
    fn a_sink_takes_its_share_and_gives_nothing() {
        // Scores 0 and ln 3, a sink of ln 4: weights 1/8 and 3/8, the sink 4/8.
        let ln3 = 3.0_f64.ln();
        let rows = [vec![0.0, 8.0], vec![ln3, 16.0]];
        let output = attend_rows(&[1.0, 0.0], 1.0, &rows, 2, Some(4.0_f64.ln()));
        assert!((output[0] - 0.375 * ln3).abs() < 1e-12 && (output[1] - 7.0).abs() < 1e-12);
    }

    #[test]
    fn negative_products_of_an_indexer_count_as_nothing() {
        let score = index_score(&[vec![1.0, 2.0], vec![-1.0, 0.0]], &[0.5, 100.0], &[3.0, 4.0]);
        assert!((score - 5.5).abs() < 1e-12);
    }
}
