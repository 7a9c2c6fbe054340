use serde::{Deserialize, Serialize};

use super::PredictedTime;
use crate::record::FromJson;
use crate::{Result, deserialize_record};

/// Constants fitted to measured points of one form: t = `launch_seconds` × launches + `factor` × busy, where busy is the
/// larger of reading and computing under the calibrated ceilings.
///
/// It describes the points that it was fitted to. What it says of others is judged on points that it has not seen.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Fit {
    /// Points that it was fitted to.
    pub points: u32,
    /// Seconds that each start of the workers adds.
    pub launch_seconds: f64,
    /// Measured over calibrated busy time.
    pub factor: f64,
}

/// One measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitPoint {
    /// The calibrated prediction.
    pub predicted: PredictedTime,
    /// Starts of the workers.
    pub launches: u64,
    /// Measured seconds.
    pub measured_seconds: f64,
}

/// A time that a [`Fit`] gives, in seconds. It is no prediction from ceilings.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct FittedTime(pub f64);

impl FromJson for FittedTime {
    fn from_json(value: &serde_json::Value) -> Result<Self> {
        f64::from_json(value).map(Self)
    }
}

deserialize_record!(FittedTime);

impl Fit {
    /// The constants with the least sum of squared relative differences, neither below zero; none where no point has a
    /// time.
    pub fn of(points: &[FitPoint]) -> Option<Self> {
        // Divided by the measured time, each point asks for u × launch + v × factor = 1.
        let shares: Vec<(f64, f64)> = points
            .iter()
            .filter(|point| point.measured_seconds > 0.0)
            .map(|point| {
                let time = point.measured_seconds;
                (point.launches as f64 / time, point.predicted.busy_seconds() / time)
            })
            .collect();
        let sum = |term: fn(f64, f64) -> f64| shares.iter().map(|(u, v)| term(*u, *v)).sum::<f64>();
        let (uu, uv, vv) = (sum(|u, _| u * u), sum(|u, v| u * v), sum(|_, v| v * v));
        let (u, v) = (sum(|u, _| u), sum(|_, v| v));
        let determinant = uu * vv - uv * uv;
        let (launch, factor) = ((u * vv - v * uv) / determinant, (v * uu - u * uv) / determinant);
        // Points of equal mix do not tell the two apart.
        let told_apart = determinant > 1e-9 * uu * vv;
        let (launch_seconds, factor) = match (told_apart && launch >= 0.0, factor >= 0.0) {
            (true, true) => (launch, factor),
            (true, false) => (u / uu, 0.0),
            (false, _) => (0.0, v / vv),
        };
        (launch_seconds.is_finite() && factor.is_finite() && !shares.is_empty()).then(|| Self {
            points: u32::try_from(shares.len()).unwrap_or(u32::MAX),
            launch_seconds,
            factor,
        })
    }

    /// The time of work that was predicted as `predicted` and starts the workers `launches` times.
    pub fn time(&self, predicted: &PredictedTime, launches: u64) -> FittedTime {
        FittedTime(self.launch_seconds * launches as f64 + self.factor * predicted.busy_seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::{Bound, Grade};

    fn point(busy: f64, launches: u64, measured_seconds: f64) -> FitPoint {
        let predicted = PredictedTime {
            seconds: busy,
            grade: Grade::Calibrated,
            bound: Bound::Memory,
            launch_seconds: 0.0,
            memory_seconds: busy,
            compute_seconds: busy / 2.0,
            streamed_seconds: None,
        };
        FitPoint { predicted, launches, measured_seconds }
    }

    #[test]
    fn constants_that_made_the_points_come_back() {
        // t = 2 ms × launches + 1.5 × busy.
        let made = |busy, launches: u64| point(busy, launches, 0.002 * launches as f64 + 1.5 * busy);
        let fit = Fit::of(&[made(0.1, 4), made(0.01, 8), made(0.5, 1)]).unwrap();
        assert!((fit.launch_seconds - 0.002).abs() < 1e-9 && (fit.factor - 1.5).abs() < 1e-9);
        assert_eq!(fit.points, 3);
        let unseen = made(0.3, 2);
        assert!((fit.time(&unseen.predicted, 2).0 - unseen.measured_seconds).abs() < 1e-9);
    }

    #[test]
    fn equal_points_give_one_factor_and_none_give_nothing() {
        // 1.2 and 0.8 of busy: v = 1/1.2 and 1/0.8; Σv / Σv² by hand.
        let fit = Fit::of(&[point(0.1, 3, 0.12), point(0.1, 3, 0.08)]).unwrap();
        let right = (1.0 / 1.2 + 1.0 / 0.8) / (1.0 / 1.44 + 1.0 / 0.64);
        assert!((fit.factor - right).abs() < 1e-9 && fit.launch_seconds == 0.0, "{fit:?}");
        assert_eq!(Fit::of(&[]), None);
        assert_eq!(Fit::of(&[point(0.0, 0, 0.1)]), None);
    }

    #[test]
    fn no_constant_is_below_zero() {
        // Longer runs are relatively faster than any start of workers could explain backwards.
        let fit = Fit::of(&[point(0.1, 1, 0.05), point(1.0, 1, 1.0)]).unwrap();
        assert!(fit.launch_seconds >= 0.0 && fit.factor > 0.0);
    }
}
