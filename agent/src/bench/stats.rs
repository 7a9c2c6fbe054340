//! Statistics over samples.

use kvscope_protocol::run::{SampleSummary, quantile};

/// Median, p05, p95, count and coefficient of variation; `None` without samples.
pub(crate) fn summarise(samples: &[f64]) -> Option<SampleSummary> {
    Some(SampleSummary {
        median: quantile(samples, 0.5)?,
        p05: quantile(samples, 0.05)?,
        p95: quantile(samples, 0.95)?,
        n: u32::try_from(samples.len()).unwrap_or(u32::MAX),
        cv: coefficient_of_variation(samples),
        uncertainty: median_uncertainty(samples),
    })
}

/// Half the 95 % confidence interval of the median, over the median: between the samples whose ranks lie 0.98 √n from the
/// middle, as the number below the true median is binomial (normal approximation; fewer than 6 span less than 95 %).
/// `None` for fewer than two samples.
pub(crate) fn median_uncertainty(samples: &[f64]) -> Option<f64> {
    if samples.len() < 2 {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let reach = 0.98 * count.sqrt();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates; a rank is small"
    )]
    let rank = |rank: f64| (rank as usize).clamp(1, sorted.len()) - 1;
    let (low, high) =
        (sorted[rank((count / 2.0 - reach).floor())], sorted[rank((count / 2.0 + 1.0 + reach).ceil())]);
    Some((high - low) / 2.0 / median(samples))
}

/// How far the medians of the first and of the second half lie apart, over the median of all; 0 for fewer than four samples.
pub(crate) fn drift(samples: &[f64]) -> f64 {
    if samples.len() < 4 {
        return 0.0;
    }
    let (first, second) = samples.split_at(samples.len() / 2);
    (median(second) - median(first)).abs() / median(samples)
}

/// The middle value; NaN without samples.
pub(crate) fn median(samples: &[f64]) -> f64 {
    at(samples, 0.5)
}

/// (p95 − p05) / median; NaN without samples.
pub(crate) fn relative_spread(samples: &[f64]) -> f64 {
    (at(samples, 0.95) - at(samples, 0.05)) / at(samples, 0.5)
}

/// Sample standard deviation over mean; `None` for fewer than two samples.
pub(crate) fn coefficient_of_variation(samples: &[f64]) -> Option<f64> {
    if samples.len() < 2 {
        return None;
    }
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some(variance.sqrt() / mean)
}

/// NaN without samples.
fn at(samples: &[f64], share: f64) -> f64 {
    quantile(samples, share).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_by_hand() {
        // 1 … 21: median 11, p05 the second, p95 the twentieth; variance of 1 … n is n(n + 1)/12 = 38.5.
        let samples: Vec<f64> = (1..=21).rev().map(f64::from).collect();
        let summary = summarise(&samples).unwrap();
        assert!((summary.median - 11.0).abs() < 1e-12);
        assert!((summary.p05 - 2.0).abs() < 1e-12);
        assert!((summary.p95 - 20.0).abs() < 1e-12);
        assert!((summary.cv.unwrap() - 38.5_f64.sqrt() / 11.0).abs() < 1e-12);
        assert_eq!(summary.n, 21);
        assert!((relative_spread(&samples) - 18.0 / 11.0).abs() < 1e-12);
        // Ranks 10.5 − 4.49 and 11.5 + 4.49, rounded outwards: the 6th and the 16th sample.
        assert!((summary.uncertainty.unwrap() - (16.0 - 6.0) / 2.0 / 11.0).abs() < 1e-12);
    }

    #[test]
    fn a_median_of_many_wide_samples_is_certain_and_a_moving_one_is_not() {
        // 20 % up and down by turns, 400 times: ranks 180 and 221 of 400 still lie on both sides.
        let wide: Vec<f64> = (0..400).map(|n| 1.0 + 0.2 * f64::from(n % 41 - 20) / 20.0).collect();
        assert!(median_uncertainty(&wide).unwrap() < 0.03 && drift(&wide) < 0.02);
        assert!((drift(&[1.0, 1.0, 2.0, 2.0]) - 1.0 / 1.5).abs() < 1e-12);
        assert!(drift(&[1.0, 9.0]).abs() < 1e-12);
    }

    #[test]
    fn few_samples_claim_no_spread() {
        assert!(summarise(&[]).is_none());
        assert_eq!(summarise(&[2.0]).unwrap().cv, None);
        assert_eq!(summarise(&[2.0]).unwrap().uncertainty, None);
    }
}
