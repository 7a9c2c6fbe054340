//! The clock of a multiprocessor, read by a kernel: where no library tells that the device is held back, this does.

use std::rc::Rc;

use crate::gpu::{Arguments, Gpu, GpuError, Kernel, Memory};

/// Ticks that a reading takes: some ten microseconds.
const TICKS: u64 = 20_000;
/// A clock below this share of the fastest that was seen held the device back.
const HELD_BACK: f64 = 0.75;

/// Reads the clock after each sample.
pub(in crate::bench::cuda) struct ClockWatch {
    gpu: Rc<Gpu>,
    kernel: Kernel,
    times: Memory,
    fastest: std::cell::Cell<f64>,
}

impl ClockWatch {
    pub(in crate::bench::cuda) fn new(gpu: &Rc<Gpu>) -> Result<Self, GpuError> {
        Ok(Self {
            kernel: gpu.kernel("ceilings", "ceiling_clock", 32)?,
            times: Memory::new(gpu, 16)?,
            fastest: std::cell::Cell::new(0.0),
            gpu: Rc::clone(gpu),
        })
    }

    /// Ticks and the nanoseconds that they took.
    pub(in crate::bench::cuda) fn read(&self) -> Result<(u64, u64), GpuError> {
        let arguments = Arguments::new().memory(&self.times).long(TICKS);
        self.gpu.launch(&self.kernel, [1, 1, 1], &arguments)?;
        let bytes = self.times.read(0, 16)?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Ok((word(0), word(8)))
    }

    /// Whether the multiprocessors are much slower now than they were at their fastest, in a sentence.
    pub(in crate::bench::cuda) fn held_back(&self) -> Result<Option<String>, GpuError> {
        let (ticks, nanoseconds) = self.read()?;
        if ticks == 0 || nanoseconds == 0 {
            return Ok(None);
        }
        let hertz = ticks as f64 / nanoseconds as f64 * 1e9;
        let fastest = self.fastest.get().max(hertz);
        self.fastest.set(fastest);
        Ok(sentence(hertz, fastest))
    }
}

fn sentence(hertz: f64, fastest: f64) -> Option<String> {
    (hertz < HELD_BACK * fastest)
        .then(|| format!("the multiprocessors ran at {:.2} GHz instead of {:.2}", hertz / 1e9, fastest / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_of_the_fastest_clock_are_held_back() {
        assert_eq!(sentence(1.5e9, 1.98e9), None);
        let why = sentence(1.4e9, 1.98e9).unwrap();
        assert_eq!(why, "the multiprocessors ran at 1.40 GHz instead of 1.98");
    }
}
