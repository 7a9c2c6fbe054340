//! One decode step of every form in f64, one obvious step after the other: what kernels are checked against, on a CPU, in
//! emulation and on a GPU. Nothing here is fast, and nothing here is shared with a kernel.

pub mod attention;
pub mod numbers;
pub mod pooling;
pub mod recurrence;

/// The largest difference over the largest right value; infinite where something is no number.
pub fn relative_error(right: impl IntoIterator<Item = f64>, got: &[f32]) -> f64 {
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
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Every value as f64.
pub fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}
