//! What bounds a machine: published, or measured on it.

use serde::Serialize;

use super::{Grade, Place, PredictedTime, Work, positive, predict};
use crate::cost::Operand;
use crate::{Bytes, Error, Result, record};

/// What bounds a machine, whatever its source. What is not known is absent, and the formula falls back on what is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ceilings {
    /// Bytes per second that all cores together read from main memory.
    pub read_bytes_per_second: f64,
    /// Floating point operations per second of all cores together, multiply-adds in f32 on values in registers.
    pub flops_per_second: f64,
    /// Seconds from asking all workers to start until all have ended, with nothing to do.
    pub launch_seconds: f64,
    /// Bytes per second that all cores together write to main memory.
    pub write_bytes_per_second: Option<f64>,
    /// Bytes per second of a copy in main memory, read and written ones added.
    pub copy_bytes_per_second: Option<f64>,
    /// Bytes per second of a change in place in main memory, read and written ones added.
    pub update_bytes_per_second: Option<f64>,
    /// The same of one core, the others at rest.
    pub one_core: Option<CoreBandwidth>,
    /// Bytes per second that all cores together read again and again of working sets that caches may hold, rising in size.
    pub read_by_working_set: Vec<ReadPoint>,
    /// Operations per second of all cores together by operand and use, on data in the first-level cache.
    pub rates: Vec<OperandRate>,
    /// The same on operands that come from main memory meanwhile: where reading and multiplying take about as long, neither
    /// ceiling alone is reached.
    pub streamed_rates: Vec<OperandRate>,
    /// Exponentials per second of all cores together, on values in the first-level cache.
    pub exponentials_per_second: Option<f64>,
}

/// What one core does while the others rest, in bytes per second of main memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoreBandwidth {
    /// Read.
    pub read_bytes_per_second: f64,
    /// Written.
    pub write_bytes_per_second: f64,
    /// Copied, read and written ones added.
    pub copy_bytes_per_second: f64,
}

/// How fast a working set is read that stays where it is from one pass to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReadPoint {
    /// Of all cores together.
    pub working_set_bytes: Bytes,
    /// Of all cores together.
    pub bytes_per_second: f64,
}

/// How fast multiply-adds are with operands that must be loaded and widened.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OperandRate {
    /// What is loaded.
    pub operand: Operand,
    /// How often each loaded value is used.
    pub rows: u64,
    /// Operations per second of all cores together.
    pub flops_per_second: f64,
}

/// Published ceilings of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Datasheet {
    /// The figures.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// Who publishes them.
    pub source: String,
}

/// Ceilings measured on one machine, with how far their repeats lie apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// When it was measured, RFC 3339, UTC.
    pub date: String,
    /// Medians over the repeats.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// How far each ceiling is uncertain, as a share of it.
    pub relative_spread: CeilingSpread,
    /// The last-level cache as the system reports it; a virtual machine may report that of a whole socket.
    pub last_level_cache_bytes: Option<Bytes>,
    /// Workers that measured, one a core.
    pub workers: u32,
    /// Why the machine was not steady meanwhile; empty where it was.
    pub unsteady: Vec<Unsteady>,
}

/// Why ceilings do not hold still.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsteady {
    /// `core` for a core that others used, else the ceiling: `read`, `flops`.
    pub of: String,
    /// In one sentence.
    pub sentence: String,
}

/// The spread of each ceiling: (p95 − p05) / median, a plain ratio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CeilingSpread {
    /// Of [`Ceilings::read_bytes_per_second`].
    pub read: f64,
    /// Of [`Ceilings::flops_per_second`].
    pub flops: f64,
    /// Of [`Ceilings::launch_seconds`].
    pub launch: f64,
    /// Of [`Ceilings::update_bytes_per_second`], where it was measured.
    pub update: Option<f64>,
}

record!(Ceilings {
    read_bytes_per_second, flops_per_second, launch_seconds, write_bytes_per_second, copy_bytes_per_second,
    update_bytes_per_second, one_core, exponentials_per_second; or default read_by_working_set, rates, streamed_rates
});
record!(CoreBandwidth { read_bytes_per_second, write_bytes_per_second, copy_bytes_per_second });
record!(ReadPoint { working_set_bytes, bytes_per_second });
record!(OperandRate { operand, rows, flops_per_second });
record!(Datasheet { source; flat ceilings });
record!(Calibration {
    date, relative_spread, last_level_cache_bytes, workers; or default unsteady; flat ceilings
});
record!(Unsteady { of, sentence });
record!(CeilingSpread { read, flops, launch, update });

/// The measured uses of an operand next to `rows`, from below and from above.
fn around(
    rates: &[OperandRate],
    operand: Operand,
    rows: u64,
) -> (Option<&OperandRate>, Option<&OperandRate>) {
    let of = || rates.iter().filter(|rate| rate.operand == operand);
    (
        of().filter(|rate| rate.rows <= rows).max_by_key(|rate| rate.rows),
        of().filter(|rate| rate.rows >= rows).min_by_key(|rate| rate.rows),
    )
}

fn between(below: &OperandRate, above: &OperandRate, rows: u64) -> f64 {
    if below.rows == above.rows {
        return below.flops_per_second;
    }
    let share = (rows - below.rows) as f64 / (above.rows - below.rows) as f64;
    below.flops_per_second + share * (above.flops_per_second - below.flops_per_second)
}

impl Ceilings {
    /// Bytes per second that all cores together read from a place: between two measured working sets on a straight line
    /// over the logarithm of the size, below the smallest as there, beyond the largest as from memory.
    pub fn read_from(&self, place: Place) -> f64 {
        let Place::Hot(bytes) = place else { return self.read_bytes_per_second };
        let points = &self.read_by_working_set;
        let above = points.partition_point(|point| point.working_set_bytes < bytes);
        match (above.checked_sub(1).and_then(|below| points.get(below)), points.get(above)) {
            (_, None) => self.read_bytes_per_second,
            (None, Some(smallest)) => smallest.bytes_per_second,
            (Some(below), Some(above)) => {
                let at = |bytes: Bytes| (bytes.get() as f64).ln();
                let share = (at(bytes) - at(below.working_set_bytes))
                    / (at(above.working_set_bytes) - at(below.working_set_bytes));
                below.bytes_per_second + share * (above.bytes_per_second - below.bytes_per_second)
            }
        }
    }

    /// Bytes per second, read and written ones added, that change in place; in a cache it is taken to gain as reading does.
    pub fn update_in(&self, place: Place) -> f64 {
        let in_memory = self.update_bytes_per_second.unwrap_or(self.read_bytes_per_second);
        in_memory * (self.read_from(place) / self.read_bytes_per_second)
    }

    /// Operations per second with such an operand, each value used `rows` times: on a straight line between measured uses,
    /// beyond the largest as there. `None` where the operand was not measured.
    pub fn rate(&self, operand: Operand, rows: u64) -> Option<f64> {
        let (below, above) = around(&self.rates, operand, rows);
        match (below, above) {
            (Some(below), Some(above)) => Some(between(below, above, rows)),
            (Some(only), None) | (None, Some(only)) => Some(only.flops_per_second),
            (None, None) => None,
        }
    }

    /// The same while the operands come from main memory. `None` beyond the largest measured use as well: there reading is
    /// not what multiplying waits for.
    pub fn streamed_rate(&self, operand: Operand, rows: u64) -> Option<f64> {
        match around(&self.streamed_rates, operand, rows) {
            (Some(below), Some(above)) => Some(between(below, above, rows)),
            _ => None,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        positive("read_bytes_per_second", self.read_bytes_per_second)?;
        positive("flops_per_second", self.flops_per_second)?;
        if let Some(update) = self.update_bytes_per_second {
            positive("update_bytes_per_second", update)?;
        }
        if let Some(rate) = self.exponentials_per_second {
            positive("exponentials_per_second", rate)?;
        }
        for point in &self.read_by_working_set {
            positive("read_by_working_set", point.bytes_per_second)?;
        }
        for rate in self.rates.iter().chain(&self.streamed_rates) {
            positive("rates", rate.flops_per_second)?;
        }
        let launch = self.launch_seconds;
        if !launch.is_finite() || launch < 0.0 {
            let what = format!("{launch} is not a time; measure the ceilings again");
            return Err(Error::field("launch_seconds", what));
        }
        Ok(())
    }
}

impl Datasheet {
    /// Predicts the time of `work` from published figures.
    pub fn predict(&self, work: &Work) -> Result<PredictedTime> {
        predict(work, &self.ceilings, Grade::Datasheet)
    }
}

impl Calibration {
    /// Predicts the time of `work` on the calibrated machine.
    pub fn predict(&self, work: &Work) -> Result<PredictedTime> {
        predict(work, &self.ceilings, Grade::Calibrated)
    }

    /// Whether nothing else disturbed the machine while it was measured.
    pub fn is_steady(&self) -> bool {
        self.unsteady.is_empty()
    }
}
