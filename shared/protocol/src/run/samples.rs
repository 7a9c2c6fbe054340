/// The `share` quantile, 0 to 1, with linear interpolation between samples; `None` without samples.
pub fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the last index"
    )]
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_by_hand() {
        // Of 1, 2, 4, 8: the middle lies between 2 and 4, nine tenths at place 2.7: 4 + 0.7 × 4.
        let samples = [8.0, 1.0, 4.0, 2.0];
        assert_eq!(quantile(&samples, 0.0), Some(1.0));
        assert_eq!(quantile(&samples, 0.5), Some(3.0));
        assert!((quantile(&samples, 0.9).unwrap() - 6.8).abs() < 1e-12);
        assert_eq!(quantile(&samples, 1.0), Some(8.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
