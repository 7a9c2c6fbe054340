//! Predicted times, computed before a measurement: t = launches × t0 + max(bytes / bandwidth, Σ FLOPs / rate).
//!
//! Bandwidth is that of the place where the state lies: main memory where caches are cold or too small, else the cache
//! that holds the working set. Rates are by the type of the operand and by how often each of its values is used; where
//! the operands come from memory and that was measured too, the rate while they do is a third term of the maximum.
//!
//! Three sources of constants are three types: a [`Datasheet`], a [`Calibration`], a [`Fit`]. A fit gives a
//! [`FittedTime`], which is no [`PredictedTime`].

mod ceilings;
mod fit;
mod link;

use serde::{Deserialize, Serialize};

use crate::cost::{Operations, StepCost};
use crate::{Bytes, Error, Result, word_record};

pub use ceilings::{
    Calibration, CeilingSpread, Ceilings, CoreBandwidth, Datasheet, OperandRate, ReadPoint, Unsteady,
};
pub use fit::{Fit, FitPoint, FittedTime};
pub use link::{LinkFit, LinkPoint};

/// What one decode step does to the machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Work {
    /// Bytes of state that are read, those that are written back included.
    pub read_bytes: Bytes,
    /// How many of them are written back in place.
    pub rewritten_bytes: Bytes,
    /// Operations by operand and use.
    pub operations: Vec<Operations>,
    /// Exponentials.
    pub exponentials: u64,
    /// How often the machine's workers are started.
    pub launches: u64,
    /// Where the state lies when the step starts.
    pub place: Place,
}

/// Where the state lies when a step starts.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In main memory: caches are cold, or too small.
    #[default]
    Memory,
    /// Wherever a working set of so many bytes stays from one step to the next.
    Hot(Bytes),
}

impl Work {
    /// The work of a step that costs `cost` and starts the workers `launches` times.
    pub fn of(cost: &StepCost, launches: u64, place: Place) -> Self {
        Self {
            read_bytes: cost.read_bytes,
            rewritten_bytes: cost.rewritten_bytes,
            operations: cost.operations.clone(),
            exponentials: cost.exponentials,
            launches,
            place,
        }
    }
}

/// Where a prediction's constants come from. The three are never mixed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
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
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Reading the state takes longer than computing.
    Memory,
    /// Computing takes longer than reading the state.
    Compute,
    /// Starting the workers takes longer than either.
    Launch,
}

impl Grade {
    /// The word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Datasheet => "datasheet",
            Self::Calibrated => "calibrated",
            Self::Fitted => "fitted",
        }
    }
}

word_record!(Grade, name, [Datasheet, Calibrated, Fitted]);
word_record!(Bound, name, [Memory, Compute, Launch]);

impl Bound {
    /// The word in JSON and on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Compute => "compute",
            Self::Launch => "launch",
        }
    }
}

/// A predicted time and the terms that it is made of, in seconds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct PredictedTime {
    /// `launch_seconds + max(memory_seconds, compute_seconds, streamed_seconds)`.
    pub seconds: f64,
    /// Where the constants come from.
    pub grade: Grade,
    /// The largest term.
    pub bound: Bound,
    /// Launches × t0.
    pub launch_seconds: f64,
    /// Bytes over the bandwidth of their place.
    pub memory_seconds: f64,
    /// Operations over their rates on cached operands.
    pub compute_seconds: f64,
    /// Operations over their rates while the operands come from memory; absent where the state lies in a cache or such rates
    /// were not measured.
    pub streamed_seconds: Option<f64>,
}

impl PredictedTime {
    /// The larger of reading and computing, each at its own ceiling: what no step is faster than.
    pub fn bound_seconds(&self) -> f64 {
        self.memory_seconds.max(self.compute_seconds)
    }

    /// The time of a step whose starts cost nothing.
    pub fn busy_seconds(&self) -> f64 {
        self.bound_seconds().max(self.streamed_seconds.unwrap_or(0.0))
    }
}

/// An error where a ceiling is not a positive number.
fn predict(work: &Work, ceilings: &Ceilings, grade: Grade) -> Result<PredictedTime> {
    ceilings.check()?;
    let only_read = work.read_bytes.get().saturating_sub(work.rewritten_bytes.get());
    let moved = work.rewritten_bytes.get().saturating_mul(2);
    let memory_seconds =
        only_read as f64 / ceilings.read_from(work.place) + moved as f64 / ceilings.update_in(work.place);
    let exponential_seconds =
        work.exponentials as f64 / ceilings.exponentials_per_second.unwrap_or(ceilings.flops_per_second);
    let cached = |one: &Operations| ceilings.rate(one.operand, one.rows).unwrap_or(ceilings.flops_per_second);
    let seconds = |rate: &dyn Fn(&Operations) -> f64| {
        work.operations.iter().map(|one| one.flops as f64 / rate(one)).sum::<f64>() + exponential_seconds
    };
    let compute_seconds = seconds(&cached);
    // A recurrence's operations are no multiply-adds of rows with a stream: what it changes in place is measured as such.
    let is_streamed = work.place == Place::Memory
        && work.rewritten_bytes == Bytes::ZERO
        && !ceilings.streamed_rates.is_empty();
    let streamed_seconds = is_streamed.then(|| {
        seconds(&|one| ceilings.streamed_rate(one.operand, one.rows).unwrap_or_else(|| cached(one)))
    });
    let launch_seconds = work.launches as f64 * ceilings.launch_seconds;
    let busy = memory_seconds.max(compute_seconds).max(streamed_seconds.unwrap_or(0.0));
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
        streamed_seconds,
    })
}

fn positive(name: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::field(name, format!("{value} is not a positive number; measure the ceilings again")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Operand;

    fn ceilings() -> Ceilings {
        Ceilings {
            read_bytes_per_second: 20e9,
            flops_per_second: 200e9,
            launch_seconds: 10e-6,
            update_bytes_per_second: Some(25e9),
            read_by_working_set: vec![
                ReadPoint { working_set_bytes: Bytes::new(1 << 20), bytes_per_second: 80e9 },
                ReadPoint { working_set_bytes: Bytes::new(16 << 20), bytes_per_second: 40e9 },
            ],
            rates: vec![
                OperandRate { operand: Operand::Bf16, rows: 1, flops_per_second: 50e9 },
                OperandRate { operand: Operand::Bf16, rows: 5, flops_per_second: 130e9 },
            ],
            ..Ceilings::default()
        }
    }

    fn work(read_bytes: u64, flops: u64, launches: u64) -> Work {
        let operations = vec![Operations { operand: Operand::F32, rows: 1, flops }];
        Work { read_bytes: Bytes::new(read_bytes), operations, launches, ..Work::default() }
    }

    fn calibrated(work: &Work) -> PredictedTime {
        predict(work, &ceilings(), Grade::Calibrated).unwrap()
    }

    #[test]
    fn the_larger_term_bounds_and_the_launches_add() {
        // By hand: 2 GB at 20 GB/s = 0.1 s; 10 GFLOP at 200 GFLOP/s = 0.05 s; 62 launches of 10 µs = 0.62 ms.
        let time = calibrated(&work(2_000_000_000, 10_000_000_000, 62));
        assert!((time.seconds - 0.100_62).abs() < 1e-12);
        assert_eq!((time.bound, time.grade), (Bound::Memory, Grade::Calibrated));

        // 40 GFLOP at 200 GFLOP/s = 0.2 s beats the 0.1 s of reading.
        let time = calibrated(&work(2_000_000_000, 40_000_000_000, 0));
        assert!((time.seconds - 0.2).abs() < 1e-12);
        assert_eq!(time.bound, Bound::Compute);

        // 20 kB take 1 µs, the launch 10 µs.
        assert_eq!(calibrated(&work(20_000, 0, 1)).bound, Bound::Launch);
    }

    #[test]
    fn what_is_written_back_moves_twice() {
        // 1 GB only read at 20 GB/s = 50 ms, 1 GB read and written at 25 GB/s = 80 ms.
        let work = Work {
            read_bytes: Bytes::new(2_000_000_000),
            rewritten_bytes: Bytes::new(1_000_000_000),
            ..Work::default()
        };
        assert!((calibrated(&work).seconds - 0.13).abs() < 1e-12);
    }

    #[test]
    fn a_hot_working_set_is_read_at_the_speed_of_its_place() {
        let seconds = |bytes: u64| {
            let place = Place::Hot(Bytes::new(bytes));
            let work = Work { read_bytes: Bytes::new(4_000_000_000), place, ..Work::default() };
            calibrated(&work).seconds
        };
        // 80 GB/s in the inner cache; halfway between 1 and 16 MiB on the logarithmic axis, 4 MiB, 60; beyond the last
        // point, memory's 20.
        assert!((seconds(1 << 19) - 0.05).abs() < 1e-12);
        assert!((seconds(4 << 20) - 4.0 / 60.0).abs() < 1e-12);
        assert!((seconds(17 << 20) - 0.2).abs() < 1e-12);
    }

    #[test]
    fn rates_are_by_operand_and_use() {
        let seconds = |operand, rows| {
            let operations = vec![Operations { operand, rows, flops: 9_000_000_000 }];
            calibrated(&Work { operations, ..Work::default() }).seconds
        };
        assert!((seconds(Operand::Bf16, 1) - 0.18).abs() < 1e-12);
        // Three rows lie halfway between 1 and 5: 90 GFLOP/s. Beyond 5 nothing more is known: 130.
        assert!((seconds(Operand::Bf16, 3) - 0.1).abs() < 1e-12);
        assert!((seconds(Operand::Bf16, 64) - 9.0 / 130.0).abs() < 1e-12);
        // No rate of its own: the plain ceiling.
        assert!((seconds(Operand::Fp8, 1) - 9.0 / 200.0).abs() < 1e-12);
    }

    #[test]
    fn reading_and_multiplying_at_once_is_slower_than_either() {
        let streamed =
            |rows, flops_per_second| OperandRate { operand: Operand::Bf16, rows, flops_per_second };
        let ceilings = Ceilings { streamed_rates: vec![streamed(1, 16e9), streamed(5, 60e9)], ..ceilings() };
        let of = |rows, place, rewritten| {
            let operations = vec![Operations { operand: Operand::Bf16, rows, flops: 3_800_000_000 }];
            let work = Work {
                read_bytes: Bytes::new(1_200_000_000),
                rewritten_bytes: Bytes::new(rewritten),
                operations,
                place,
                ..Work::default()
            };
            predict(&work, &ceilings, Grade::Calibrated).unwrap()
        };
        // Three rows lie halfway between 16 and 60 GFLOP/s: 3.8 GFLOP in 0.1 s; 1.2 GB at 20 GB/s alone are 0.06 s.
        let time = of(3, Place::Memory, 0);
        assert!((time.seconds - 0.1).abs() < 1e-12);
        assert!((time.bound_seconds() - 0.06).abs() < 1e-12);
        assert_eq!(time.bound, Bound::Memory);
        // In a cache, changed in place, or with more rows than were measured, it says nothing.
        assert_eq!(of(3, Place::Hot(Bytes::new(1 << 20)), 0).streamed_seconds, None);
        assert_eq!(of(3, Place::Memory, 1).streamed_seconds, None);
        let many = of(64, Place::Memory, 0);
        assert!((many.streamed_seconds.unwrap() - many.compute_seconds).abs() < 1e-12);
    }

    #[test]
    fn exponentials_add_to_computing() {
        // 9 GFLOP at 200 GFLOP/s = 45 ms, and 1e9 exponentials at 5e9 a second = 200 ms.
        let work = Work { exponentials: 1_000_000_000, ..work(0, 9_000_000_000, 0) };
        let fast = Ceilings { exponentials_per_second: Some(5e9), ..ceilings() };
        assert!((predict(&work, &fast, Grade::Calibrated).unwrap().seconds - 0.245).abs() < 1e-12);
    }

    #[test]
    fn a_ceiling_that_is_not_a_positive_number_is_named() {
        let refused = |ceilings: Ceilings| {
            predict(&work(1, 1, 1), &ceilings, Grade::Calibrated).unwrap_err().place().unwrap().to_owned()
        };
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                refused(Ceilings { read_bytes_per_second: value, ..ceilings() }),
                "read_bytes_per_second"
            );
            assert_eq!(refused(Ceilings { flops_per_second: value, ..ceilings() }), "flops_per_second");
            let update = Ceilings { update_bytes_per_second: Some(value), ..ceilings() };
            assert_eq!(refused(update), "update_bytes_per_second");
            let rates = vec![OperandRate { operand: Operand::Bf16, rows: 1, flops_per_second: value }];
            assert_eq!(refused(Ceilings { rates, ..ceilings() }), "rates");
        }
        assert_eq!(refused(Ceilings { launch_seconds: f64::NAN, ..ceilings() }), "launch_seconds");
    }

    #[test]
    fn ceilings_of_older_runs_are_read() {
        let text = r#"{"date": "2026-11-29T15:00:00Z", "read_bytes_per_second": 2e10, "flops_per_second": 2e11,
            "launch_seconds": 1e-5, "relative_spread": {"read": 0.1, "flops": 0.1, "launch": 0.2},
            "last_level_cache_bytes": null, "workers": 2}"#;
        let calibration: Calibration = serde_json::from_str(text).unwrap();
        let time = calibration.predict(&work(2_000_000_000, 0, 0)).unwrap();
        assert!((time.seconds - 0.1).abs() < 1e-12);
    }
}
