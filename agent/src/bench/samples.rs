//! The samples of one case: which count, which are dropped and why, and when there are enough.

use std::time::Duration;

use kvscope_protocol::run::Drop;

use super::stats;

/// Fewer samples than this make no figure that holds.
pub(crate) const LEAST_SAMPLES: usize = 3;
/// Samples that each case is to have where the budget allows it.
pub(crate) const WANTED_SAMPLES: usize = 10;
/// Figures are stored when a case or a transfer has this many samples, so that a killed run keeps them.
pub(crate) const STORED_AT: [usize; 4] = [LEAST_SAMPLES, WANTED_SAMPLES, 20, 30];
/// More samples than this show nothing new.
const MOST_SAMPLES: usize = 40;
/// A standard error of the mean below this is steady enough to stop.
const STEADY_ERROR: f64 = 0.0025;
/// So many more samples that leave the noise as it was show that it will stay so.
const STABLE_OVER: usize = 8;
/// A coefficient of variation that changed by less than this share is as it was.
const STABLE_NOISE: f64 = 0.05;
/// A sample that is so much longer than the median, and during which the process got a smaller share of its cores than
/// usual, was disturbed by another process.
const DISTURBED_TIME: f64 = 1.25;
const DISTURBED_SHARE: f64 = 0.9;

/// Samples in the order of measuring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    all: Vec<Sample>,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    /// Processor time of this process over the time of the step; `None` where the system does not say.
    pub(crate) cores: Option<f64>,
    /// What held the device back during the step, where it says so.
    pub(crate) held_back: Option<String>,
}

impl Sample {
    /// A step that took `elapsed`, during which the process used `processor`.
    pub(crate) fn new(elapsed: Duration, processor: Option<Duration>) -> Self {
        let seconds = elapsed.as_secs_f64();
        let cores = processor.map(|time| time.as_secs_f64() / seconds.max(1e-9));
        Self { seconds, cores, held_back: None }
    }

    /// A step on a device, which says whether something held it back.
    pub(crate) fn on_device(elapsed: Duration, held_back: Option<String>) -> Self {
        Self { seconds: elapsed.as_secs_f64(), cores: None, held_back }
    }
}

impl Samples {
    pub(crate) fn push(&mut self, sample: Sample) {
        self.all.push(sample);
    }

    /// Samples in all, dropped ones included.
    pub(crate) fn taken(&self) -> usize {
        self.all.len()
    }

    /// Seconds of those that count.
    pub(crate) fn kept(&self) -> Vec<f64> {
        self.all.iter().filter(|sample| self.disturbance(sample).is_none()).map(|s| s.seconds).collect()
    }

    /// Those that do not count, with the reason.
    pub(crate) fn drops(&self) -> Vec<Drop> {
        let dropped =
            |sample: &Sample| self.disturbance(sample).map(|reason| Drop { seconds: sample.seconds, reason });
        self.all.iter().filter_map(dropped).collect()
    }

    /// Whether more samples would show nothing new.
    pub(crate) fn is_enough(&self) -> bool {
        let kept = self.kept();
        if self.taken() >= MOST_SAMPLES {
            return true;
        }
        let Some(noise) = stats::coefficient_of_variation(&kept) else { return false };
        if kept.len() < WANTED_SAMPLES {
            return false;
        }
        let error = noise / (kept.len() as f64).sqrt();
        let before = kept
            .len()
            .checked_sub(STABLE_OVER)
            .filter(|count| *count >= WANTED_SAMPLES)
            .and_then(|count| stats::coefficient_of_variation(&kept[..count]));
        error < STEADY_ERROR || before.is_some_and(|before| (noise / before - 1.0).abs() < STABLE_NOISE)
    }

    fn disturbance(&self, sample: &Sample) -> Option<String> {
        if let Some(why) = &sample.held_back {
            return Some(why.clone());
        }
        if self.all.len() < LEAST_SAMPLES {
            return None;
        }
        let median = |values: Vec<f64>| stats::median(&values);
        let usual_time = median(self.all.iter().map(|sample| sample.seconds).collect());
        let usual_cores = median(self.all.iter().filter_map(|sample| sample.cores).collect());
        let cores = sample.cores?;
        let is_disturbed =
            sample.seconds > usual_time * DISTURBED_TIME && cores < usual_cores * DISTURBED_SHARE;
        is_disturbed.then(|| {
            format!("the process got {cores:.2} cores instead of {usual_cores:.2}: another one used them")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(of: &[(f64, f64)]) -> Samples {
        Samples {
            all: of
                .iter()
                .map(|(seconds, cores)| Sample { seconds: *seconds, cores: Some(*cores), held_back: None })
                .collect(),
        }
    }

    #[test]
    fn only_what_was_both_long_and_short_of_cores_is_dropped() {
        let samples = samples(&[(1.0, 2.0), (1.01, 2.0), (1.6, 1.2), (1.6, 2.0), (1.1, 1.2), (0.99, 2.0)]);
        assert_eq!(samples.kept(), [1.0, 1.01, 1.6, 1.1, 0.99]);
        let drops = samples.drops();
        assert_eq!(drops.len(), 1);
        assert_eq!(drops[0].reason, "the process got 1.20 cores instead of 2.00: another one used them");
        assert_eq!(samples.taken(), 6);
    }

    #[test]
    fn nothing_is_dropped_where_the_system_does_not_say() {
        let all = [1.0, 1.0, 9.0].map(|s| Sample::on_device(Duration::from_secs_f64(s), None)).to_vec();
        assert_eq!(Samples { all }.kept().len(), 3);
    }

    #[test]
    fn what_a_device_says_held_it_back_is_dropped_with_its_reason() {
        let sample = |why: Option<&str>| Sample::on_device(Duration::from_secs(1), why.map(str::to_owned));
        let samples = Samples { all: vec![sample(None), sample(Some("it was too hot")), sample(None)] };
        assert_eq!((samples.kept().len(), samples.drops().len()), (2, 1));
        assert_eq!(samples.drops()[0].reason, "it was too hot");
    }

    #[test]
    fn steady_or_stable_noise_or_forty_are_enough() {
        let of = |count: usize, wobble: f64| {
            samples(
                &(0..count)
                    .map(|n| (if n % 2 == 0 { 1.0 + wobble } else { 1.0 - wobble }, 2.0))
                    .collect::<Vec<_>>(),
            )
        };
        // A wobble of w has a coefficient of variation near w: 0.1 % over √10 is steady, 5 % is not.
        assert!(!of(9, 0.001).is_enough() && of(10, 0.001).is_enough());
        assert!(!of(12, 0.05).is_enough());
        // The same noise after eight more: stable.
        assert!(of(18, 0.05).is_enough());
        let growing: Vec<(f64, f64)> = (0..24_i32).map(|n| (1.3_f64.powi(n), 2.0)).collect();
        assert!(!samples(&growing).is_enough());
        assert!(samples(&vec![(1.0, 2.0); 40]).is_enough());
    }
}
