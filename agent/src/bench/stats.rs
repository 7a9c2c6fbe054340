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
    })
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
    }

    #[test]
    fn few_samples_claim_no_spread() {
        assert!(summarise(&[]).is_none());
        assert_eq!(summarise(&[2.0]).unwrap().cv, None);
    }
}
