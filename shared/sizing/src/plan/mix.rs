//! Lengths of requests: one, or a mix of them.

use crate::{Error, Result, Tokens, counted};

/// How many lengths stand for a distribution: its quantiles at the middle of equal shares.
const QUANTILES: u32 = 256;

/// Lengths of concurrent requests, each as likely as the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    lengths: Vec<u64>,
    /// None is longer, which may be longer than each that stands for a share.
    longest: u64,
    /// What they are, in words.
    words: String,
}

impl Mix {
    /// Lengths as somebody measured them.
    ///
    /// # Errors
    ///
    /// No length, or none above zero.
    pub fn listed(lengths: Vec<u64>) -> Result<Self> {
        if lengths.iter().all(|length| *length == 0) {
            return Err(Error::setting("mix", "sums to nothing; give at least one length above 0"));
        }
        let words = format!("{} of a list", counted(lengths.len() as u64, "length", "lengths"));
        let longest = lengths.iter().copied().max().unwrap_or(0);
        Ok(Self { lengths, longest, words })
    }

    /// A log-normal distribution of lengths, cut at both ends: `mu` and `sigma` are mean and deviation of the natural
    /// logarithm (arXiv 2604.15039 gives 9.90 and 1.00 between 128 and 128K).
    ///
    /// # Errors
    ///
    /// Numbers that are none, a deviation below zero, or ends that leave nothing.
    pub fn log_normal(mu: f64, sigma: f64, from: u64, to: u64) -> Result<Self> {
        if !mu.is_finite() || !sigma.is_finite() || sigma < 0.0 {
            return Err(Error::setting("mix", format!("{mu} and {sigma} are no mean and deviation")));
        }
        if to == 0 || from > to {
            return Err(Error::setting("mix", format!("from {from} to {to} tokens leaves no length")));
        }
        let share = |length: u64| match (length, sigma > 0.0) {
            (0, _) => 0.0,
            (_, true) => normal_share(((length as f64).ln() - mu) / sigma),
            (_, false) => f64::from(u8::from((length as f64).ln() >= mu)),
        };
        let (low, high) = (share(from), share(to));
        if high - low <= f64::EPSILON {
            return Err(Error::setting("mix", "no request has a length between the two ends"));
        }
        let at = |place: u32| {
            let wanted = low + (high - low) * (f64::from(place) + 0.5) / f64::from(QUANTILES);
            let below = crate::capacity::largest_fitting(to, |length| share(length) <= wanted);
            below.clamp(from.max(1), to)
        };
        let words = format!("log-normal, μ {mu}, σ {sigma}, {from} to {to} tokens");
        let lengths: Vec<u64> = (0..QUANTILES).map(at).collect();
        let longest = if sigma > 0.0 { to } else { lengths[0] };
        Ok(Self { lengths, longest, words })
    }

    /// Every length.
    pub fn lengths(&self) -> impl Iterator<Item = Tokens> {
        self.lengths.iter().map(|length| Tokens::new(*length))
    }

    /// The longest that may come.
    pub fn longest(&self) -> Tokens {
        Tokens::new(self.longest)
    }

    /// The mean length.
    pub fn mean(&self) -> f64 {
        self.lengths.iter().map(|length| *length as f64).sum::<f64>() / self.lengths.len() as f64
    }

    /// What the lengths are, in words.
    pub fn words(&self) -> &str {
        &self.words
    }
}

/// The share of a normal distribution below `x` deviations (Abramowitz and Stegun 26.2.17, to 8 digits).
fn normal_share(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let tail = series * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// arXiv 2604.15039, case study: μ 9.90, σ 1.00, 128 to 128K tokens have a mean of about 27K.
    #[test]
    fn the_published_mix_has_its_published_mean() {
        let mix = Mix::log_normal(9.9, 1.0, 128, 128 * 1024).unwrap();
        let mean = mix.mean();
        assert!((26_500.0..28_500.0).contains(&mean), "{mean}");
        // A request may be as long as the cut allows, though the last share's middle is shorter.
        assert_eq!(mix.longest().get(), 128 * 1024);
        assert!(mix.lengths().all(|length| length < mix.longest()));
    }

    #[test]
    fn a_mix_without_requests_is_refused() {
        assert!(Mix::listed(Vec::new()).is_err());
        assert_eq!(Mix::listed(vec![0, 0]).unwrap_err().place(), Some("mix"));
        assert!(Mix::log_normal(f64::NAN, 1.0, 1, 10).is_err());
        assert!(Mix::log_normal(9.0, -1.0, 1, 10).is_err());
        assert!(Mix::log_normal(9.0, 1.0, 11, 10).is_err());
        // Ten deviations below the mean there is nothing.
        assert!(Mix::log_normal(20.0, 0.1, 1, 10).is_err());
        // Without a deviation all have one length.
        let one = Mix::log_normal(1000_f64.ln(), 0.0, 1, 5000).unwrap();
        assert!(one.lengths().all(|length| length.get().abs_diff(1000) <= 1));
    }

    #[test]
    fn the_normal_share_has_its_tabled_values() {
        for (x, share) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.0, 0.158_655_254), (1.959_964, 0.975)] {
            assert!((normal_share(x) - share).abs() < 1e-7, "{x}");
        }
    }
}
