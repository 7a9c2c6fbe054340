use std::ops::Range;
use std::sync::Arc;

use super::conv::Convolution;
use super::element::Storage;
use super::form::Recurrence;
use crate::bench::BenchError;
use crate::bench::cpu::pool::share;
use crate::bench::cpu::simd::InstructionSet;

/// What one layer keeps and does: a convolution, a recurrence, or the first feeding the second.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) convolution: Option<(Convolution, Storage)>,
    pub(crate) recurrence: Option<(Arc<dyn Recurrence>, Storage)>,
}

impl Layer {
    /// State values of a request's recurrence.
    pub(crate) fn recurrent_values(&self) -> usize {
        self.recurrence.as_ref().map_or(0, |(form, _)| form.units() * form.unit_values())
    }

    /// State values of a request's convolution.
    pub(crate) fn conv_values(&self) -> usize {
        self.convolution.as_ref().map_or(0, |(convolution, _)| convolution.values())
    }

    /// State bytes of a request.
    pub(crate) fn bytes(&self) -> usize {
        let recurrent = self.recurrence.as_ref().map_or(0, |(_, storage)| storage.bytes());
        let conv = self.convolution.as_ref().map_or(0, |(_, storage)| storage.bytes());
        self.recurrent_values() * recurrent + self.conv_values() * conv
    }

    /// Values that a request's projections give, gates aside.
    pub(crate) fn inputs(&self) -> usize {
        match (&self.convolution, &self.recurrence) {
            (Some((convolution, _)), _) => convolution.inputs(),
            (None, Some((form, _))) => form.activations(),
            (None, None) => 0,
        }
    }

    /// Gates of a request.
    pub(crate) fn gates(&self) -> usize {
        self.recurrence.as_ref().map_or(0, |(form, _)| form.gates())
    }

    /// Values of a request's output.
    pub(crate) fn outputs(&self) -> usize {
        match (&self.recurrence, &self.convolution) {
            (Some((form, _)), _) => form.units() * form.unit_outputs(),
            (None, Some((convolution, _))) => convolution.channels,
            (None, None) => 0,
        }
    }

    /// The first of `available` whose vectors divide what this layer keeps, or why no kernel can run it.
    pub(crate) fn instruction_set(&self, available: &[InstructionSet]) -> Result<InstructionSet, BenchError> {
        if let Some((convolution, _)) = &self.convolution
            && (convolution.kernel < 2 || !convolution.is_whole())
        {
            return Err(BenchError::Shape(format!(
                "a convolution of {} taps over {} channels; the kernel needs 2 taps or more and a multiple of {} channels",
                convolution.kernel,
                convolution.channels,
                Convolution::BLOCK
            )));
        }
        if let (Some((convolution, _)), Some((form, _))) = (&self.convolution, &self.recurrence)
            && convolution.channels != form.activations()
        {
            return Err(BenchError::Shape(format!(
                "the convolution has {} channels and the recurrence takes {}",
                convolution.channels,
                form.activations()
            )));
        }
        let fits = match &self.recurrence {
            Some((form, _)) => available.iter().copied().find(|set| form.fits(*set)),
            None => available.first().copied(),
        };
        fits.ok_or_else(|| {
            let row = self.recurrence.as_ref().map_or(0, |(form, _)| form.row());
            BenchError::Shape(format!("rows of {row} state values are no whole vectors; a multiple of 16 is"))
        })
    }
}

/// What `worker` of `workers` takes where each of `requests` has `units` equal parts: a range of units for each request
/// that it touches.
pub(crate) fn pieces(
    requests: usize,
    units: usize,
    worker: usize,
    workers: usize,
) -> Vec<(usize, Range<usize>)> {
    let Range { start: mut next, end } = share(requests * units, worker, workers);
    let mut pieces = Vec::new();
    while next < end {
        let (request, first) = (next / units, next % units);
        let last = units.min(first + end - next);
        pieces.push((request, first..last));
        next += last - first;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_every_unit_of_every_request_once() {
        for (requests, units, workers) in [(1, 7, 2), (3, 5, 2), (4, 1, 3), (2, 3, 16), (0, 4, 2)] {
            let mut seen = Vec::new();
            for worker in 0..workers {
                for (request, range) in pieces(requests, units, worker, workers) {
                    assert!(!range.is_empty());
                    seen.extend(range.map(|unit| (request, unit)));
                }
            }
            let all: Vec<_> = (0..requests).flat_map(|r| (0..units).map(move |u| (r, u))).collect();
            assert_eq!(seen, all);
        }
    }
}
