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

/// One bf16, low byte first.
pub(crate) fn bf16(bytes: [u8; 2]) -> f64 {
    half::bf16::from_le_bytes(bytes).to_f64()
}

/// One f32, low byte first.
pub(crate) fn f32_le(bytes: &[u8]) -> f64 {
    f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes")))
}

/// One fp8 number as the OCP 8-bit floating point specification defines E4M3: bias 7, subnormals, no infinity.
pub(crate) fn e4m3(code: u8) -> f64 {
    let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
    let magnitude = match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => mantissa / 8.0 * 2_f64.powi(-6),
        _ => (1.0 + mantissa / 8.0) * 2_f64.powi(exponent - 7),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// One fp4 number as the OCP microscaling specification defines E2M1: bias 1, one mantissa bit, a sign.
pub(crate) fn e2m1(code: u8) -> f64 {
    let magnitude = match code & 7 {
        0 => 0.0,
        1 => 0.5,
        code => (1.0 + f64::from(code & 1) / 2.0) * 2_f64.powi(i32::from(code >> 1) - 1),
    };
    if code & 8 == 0 { magnitude } else { -magnitude }
}

/// One scale as the same specification defines E8M0: a power of two, bias 127.
pub(crate) fn e8m0(code: u8) -> f64 {
    if code == 255 { f64::NAN } else { 2_f64.powi(i32::from(code) - 127) }
}

/// The largest difference over the largest right value; infinite where something is no number.
pub(crate) fn relative_error(right: impl IntoIterator<Item = f64>, got: &[f32]) -> f64 {
    let (mut difference, mut largest, mut count) = (0.0_f64, 0.0_f64, 0);
    for (right, got) in right.into_iter().zip(got) {
        let off = (right - f64::from(*got)).abs();
        // `max` would drop NaN.
        difference = if off.is_nan() { f64::INFINITY } else { difference.max(off) };
        largest = largest.max(right.abs());
        count += 1;
    }
    assert_eq!(count, got.len(), "as many right values as computed ones");
    difference / largest
}

/// Σ a × b.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
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
