use std::time::{Duration, Instant};

use crate::bench::backend::{Disturbance, PreparedCase};
use crate::bench::samples::{Sample, Samples};
use crate::bench::{BenchError, worker_time};

/// A case is warmed up by so many steps, or for so long where a step takes longer: clocks rise, address caches fill.
const WARM_UP_STEPS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(25);

/// A case in memory, with its samples.
pub(super) struct Active {
    pub(super) index: usize,
    pub(super) prepared: Box<dyn PreparedCase>,
    pub(super) empty_caches: bool,
    pub(super) is_hot: bool,
    pub(super) samples: Samples,
    /// Whether it can give no more samples that hold.
    pub(super) failed: bool,
    /// How long the last turn took, emptying of caches included.
    pub(super) turn: Duration,
}

impl Active {
    pub(super) fn is_done(&self) -> bool {
        self.failed || self.samples.is_enough()
    }

    /// Runs some steps that are no samples, and learns how long a turn is, of which emptying caches took `emptied`.
    pub(super) fn warm_up(&mut self, emptied: Duration) -> Result<(), BenchError> {
        let begun = Instant::now();
        for step in 0..WARM_UP_STEPS {
            if step > 0 && begun.elapsed() >= WARM_UP {
                break;
            }
            let begun = Instant::now();
            self.prepared.step()?;
            self.turn = emptied + begun.elapsed();
        }
        Ok(())
    }

    pub(super) fn sample(&mut self) -> Result<(), BenchError> {
        // Something else was in the caches since the last turn; a hot step follows one of its own.
        if self.is_hot {
            self.prepared.step()?;
        }
        let before = worker_time::of_this_process();
        let timed = self.prepared.step()?;
        self.samples.push(match timed.disturbance {
            Disturbance::OfDevice(held_back) => Sample::on_device(timed.elapsed, held_back),
            Disturbance::OfProcessor => {
                let after = worker_time::of_this_process();
                let processor = after.zip(before).map(|(after, before)| after.saturating_sub(before));
                Sample::new(timed.elapsed, processor)
            }
        });
        Ok(())
    }
}
