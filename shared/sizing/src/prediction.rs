//! Predicted times, computed before a measurement: t = launches × t0 + max(bytes / read ceiling, FLOPs / FLOP ceiling).
//!
//! The ceilings are those of main memory. A working set that fits a cache runs faster than this says; the caller
//! measures with cold caches, so that the formula and the measurement speak of the same thing.

use serde::{Deserialize, Serialize};

use crate::{Bytes, Error, Result};

/// What one decode step does to the machine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Work {
    /// Bytes of state read from memory.
    pub read_bytes: Bytes,
    /// Floating point operations; a fused multiply-add counts as two.
    pub flops: u64,
    /// How often the machine's workers are started: once a layer.
    pub launches: u64,
}

/// What bounds a machine, whatever its source.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Ceilings {
    /// Bytes per second that all cores together read from memory.
    pub read_bytes_per_second: f64,
    /// Floating point operations per second of all cores together, in the type that accumulates.
    pub flops_per_second: f64,
    /// Seconds from asking all workers to start until all have ended, with nothing to do.
    pub launch_seconds: f64,
}

/// Ceilings measured on one machine, with how far their repeats lie apart.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Calibration {
    /// When it was measured, RFC 3339, UTC.
    pub date: String,
    /// Medians over the repeats.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// (p95 − p05) / median over the repeats of each ceiling.
    pub relative_spread: CeilingSpread,
    /// The last-level cache as the system reports it; a virtual machine may report that of a whole socket.
    pub last_level_cache_bytes: Option<Bytes>,
    /// Workers that measured, one a core.
    pub workers: u32,
}

/// The spread of each ceiling: (p95 − p05) / median, a plain ratio.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CeilingSpread {
    /// Of [`Ceilings::read_bytes_per_second`].
    pub read: f64,
    /// Of [`Ceilings::flops_per_second`].
    pub flops: f64,
    /// Of [`Ceilings::launch_seconds`].
    pub launch: f64,
}

/// Where a prediction's constants come from. The three are never mixed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// From published figures of the hardware.
    Datasheet,
    /// From ceilings measured on this machine, none of them by the kernel that is predicted.
    Calibrated,
    /// From measured points of the same kernel: a fit, judged only on points that it has not seen.
    Fitted,
}

/// Which term of the formula is the larger one.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Reading the state takes longer than computing.
    Memory,
    /// Computing takes longer than reading the state.
    Compute,
    /// Starting the workers takes longer than either.
    Launch,
}

/// A predicted time and the terms that it is made of, in seconds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct PredictedTime {
    /// `launch_seconds + max(memory_seconds, compute_seconds)`.
    pub seconds: f64,
    /// Where the constants come from.
    pub grade: Grade,
    /// The largest term.
    pub bound: Bound,
    /// Launches × t0.
    pub launch_seconds: f64,
    /// Bytes over the read ceiling.
    pub memory_seconds: f64,
    /// FLOPs over the FLOP ceiling.
    pub compute_seconds: f64,
}

/// Predicts the time of `work` under `ceilings`; an error where a ceiling is not a positive number.
pub fn predict(work: Work, ceilings: &Ceilings, grade: Grade) -> Result<PredictedTime> {
    let positive = |name: &str, value: f64| {
        if value.is_finite() && value > 0.0 {
            return Ok(value);
        }
        Err(Error::field(name, format!("{value} is not a positive number; measure the ceilings again")))
    };
    let read = positive("read_bytes_per_second", ceilings.read_bytes_per_second)?;
    let rate = positive("flops_per_second", ceilings.flops_per_second)?;
    let launch = ceilings.launch_seconds;
    if !launch.is_finite() || launch < 0.0 {
        return Err(Error::field(
            "launch_seconds",
            format!("{launch} is not a time; measure the ceilings again"),
        ));
    }

    let memory_seconds = work.read_bytes.get() as f64 / read;
    let compute_seconds = work.flops as f64 / rate;
    let launch_seconds = work.launches as f64 * launch;
    let busy = memory_seconds.max(compute_seconds);
    let bound = if launch_seconds > busy {
        Bound::Launch
    } else if memory_seconds >= compute_seconds {
        Bound::Memory
    } else {
        Bound::Compute
    };
    Ok(PredictedTime {
        seconds: launch_seconds + busy,
        grade,
        bound,
        launch_seconds,
        memory_seconds,
        compute_seconds,
    })
}

impl Calibration {
    /// Predicts the time of `work` on the calibrated machine.
    pub fn predict(&self, work: Work) -> Result<PredictedTime> {
        predict(work, &self.ceilings, Grade::Calibrated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEILINGS: Ceilings =
        Ceilings { read_bytes_per_second: 20e9, flops_per_second: 200e9, launch_seconds: 10e-6 };

    fn work(read_bytes: u64, flops: u64, launches: u64) -> Work {
        Work { read_bytes: Bytes::new(read_bytes), flops, launches }
    }

    #[test]
    fn the_larger_term_bounds_and_the_launches_add() {
        // By hand: 2 GB at 20 GB/s = 0.1 s; 10 GFLOP at 200 GFLOP/s = 0.05 s; 62 launches of 10 µs = 0.62 ms.
        let time = predict(work(2_000_000_000, 10_000_000_000, 62), &CEILINGS, Grade::Calibrated).unwrap();
        assert!((time.seconds - 0.100_62).abs() < 1e-12);
        assert_eq!(time.bound, Bound::Memory);

        // 40 GFLOP at 200 GFLOP/s = 0.2 s beats the 0.1 s of reading.
        let time = predict(work(2_000_000_000, 40_000_000_000, 0), &CEILINGS, Grade::Datasheet).unwrap();
        assert!((time.seconds - 0.2).abs() < 1e-12);
        assert_eq!((time.bound, time.grade), (Bound::Compute, Grade::Datasheet));

        // 20 kB take 1 µs, the launch 10 µs.
        assert_eq!(predict(work(20_000, 0, 1), &CEILINGS, Grade::Calibrated).unwrap().bound, Bound::Launch);
    }

    #[test]
    fn a_ceiling_that_is_not_a_positive_number_is_named() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let broken = Ceilings { read_bytes_per_second: value, ..CEILINGS };
            let error = predict(work(1, 1, 1), &broken, Grade::Calibrated).unwrap_err();
            assert_eq!(error.place(), Some("read_bytes_per_second"));
            let broken = Ceilings { flops_per_second: value, ..CEILINGS };
            assert_eq!(
                predict(work(1, 1, 1), &broken, Grade::Calibrated).unwrap_err().place(),
                Some("flops_per_second")
            );
        }
        let broken = Ceilings { launch_seconds: f64::NAN, ..CEILINGS };
        assert_eq!(
            predict(work(1, 1, 1), &broken, Grade::Calibrated).unwrap_err().place(),
            Some("launch_seconds")
        );
    }
}
