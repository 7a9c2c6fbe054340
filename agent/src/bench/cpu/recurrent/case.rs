use std::sync::Arc;
use std::time::Instant;

use kvscope_sizing::Bytes;

use super::conv::Around;
use super::element::{Storage, in_order};
use super::form::Before;
use super::layer::Layer;
use super::reference::{Outcome, convolution, silu, widen};
use super::state::{Extent, State};
use super::step::Step;
use crate::bench::backend::{Check, PreparedCase, Resident, Timed};
use crate::bench::cpu::pool::Pool;
use crate::bench::cpu::simd::InstructionSet;
use crate::bench::{BenchError, memory};

/// State and step of one case.
pub(super) struct RecurrentCase {
    pool: Arc<Pool>,
    extent: Extent,
    pub(super) state: State,
    pub(super) step: Step,
    resident: Option<Resident>,
}

impl RecurrentCase {
    pub(super) fn new(
        layer: Layer,
        set: InstructionSet,
        extent: Extent,
        seed: u64,
        pool: Arc<Pool>,
    ) -> Result<Self, BenchError> {
        let before = memory::resident();
        let state = State::new(&layer, set, extent, seed, &pool)?;
        let resident = memory::resident().zip(before).map(|(after, before)| after.since(before));
        let step = Step::new(layer, set, extent.requests, seed ^ 0x5157, pool.workers());
        Ok(Self { pool, extent, state, step, resident })
    }

    /// Runs one more step of the last layer and compares what it leaves and gives for `request` with the reference.
    pub(super) fn compare(&mut self, request: usize) -> Differences {
        let last = self.extent.layers - 1;
        let place = last * self.extent.requests + request;
        let before = self.state.widen(place, &self.step.layer);
        let right = Right::compute(&self.step, &before, request);
        let (step, state, pool) = (&mut self.step, &mut self.state, &self.pool);
        self.pool.enter(|| step.run_layer(state, last, pool));
        let [recurrent, conv] = self.state.widen(place, &self.step.layer);
        let outputs = self.step.layer.outputs();
        let output = widen(&self.step.output()[request * outputs..(request + 1) * outputs]);
        self.step.advance();
        let layer = &self.step.layer;
        let recurrent_storage = layer.recurrence.as_ref().map_or(Storage::F32, |(_, storage)| *storage);
        let conv_storage = layer.convolution.as_ref().map_or(Storage::F32, |(_, storage)| *storage);
        Differences {
            recurrent: relative(&recurrent, &right.recurrent, recurrent_storage),
            conv: relative(&conv, &right.conv, conv_storage),
            output: relative(&output, &right.output, Storage::F32),
        }
    }
}

impl PreparedCase for RecurrentCase {
    fn asked_bytes(&self) -> Bytes {
        Bytes::new(self.state.bytes())
    }

    fn resident(&self) -> Option<Resident> {
        self.resident
    }

    fn check(&mut self) -> Result<Check, BenchError> {
        let part = (self.extent.requests > 1)
            .then(|| format!("the first of {} requests, in the last layer", self.extent.requests));
        Ok(Check { largest_relative_error: self.compare(0).largest(), part })
    }

    fn step(&mut self) -> Result<Timed, BenchError> {
        let (step, state, pool) = (&mut self.step, &mut self.state, &self.pool);
        let elapsed = pool.enter(|| {
            let started = Instant::now();
            for at in 0..state.layers() {
                step.run_layer(state, at, pool);
            }
            started.elapsed()
        });
        self.step.advance();
        Ok(Timed::on_processors(elapsed))
    }
}

/// Differences from the reference, each relative to the largest right value, beyond the rounding of what is stored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Differences {
    recurrent: f64,
    conv: f64,
    output: f64,
}

impl Differences {
    pub(super) fn largest(self) -> f64 {
        self.recurrent.max(self.conv).max(self.output)
    }
}

/// What a step of one request should leave and give.
pub(super) struct Right {
    pub(super) recurrent: Vec<f64>,
    pub(super) conv: Vec<f64>,
    output: Vec<f64>,
}

impl Right {
    /// From the recurrent state and the convolution state before.
    pub(super) fn compute(step: &Step, [recurrent, conv]: &[Vec<f64>; 2], request: usize) -> Self {
        let (layer, token) = (&step.layer, step.token());
        let mut activations = widen(token.inputs(request, layer));
        let mut conv = conv.clone();
        if let Some((shape, _)) = &layer.convolution {
            let taps = in_order(&step.weights.taps, shape.channels, 2 * step.set.lanes());
            let taps: Vec<f64> = taps.iter().map(|bits| half::bf16::from_bits(*bits).to_f64()).collect();
            let (x, factors) = activations.split_at(shape.channels);
            let (before, after) = match shape.around {
                Around::Silu => (None, None),
                Around::Factors => (Some(&factors[..shape.channels]), Some(&factors[shape.channels..])),
            };
            let x: Vec<f64> = (0..shape.channels).map(|c| x[c] * before.map_or(1.0, |by| by[c])).collect();
            let Outcome { state, output } = convolution(&conv, &taps, &x);
            let finish = |(channel, y): (usize, f64)| after.map_or_else(|| silu(y), |by| y * by[channel]);
            let output = output.into_iter().enumerate().map(finish).collect();
            (conv, activations) = (state, output);
        }
        let Some((form, _)) = &layer.recurrence else {
            return Self { recurrent: Vec::new(), conv, output: activations };
        };
        let gates = widen(token.gates(request, layer));
        let weights = widen(&step.weights.recurrence);
        let before = Before { state: recurrent, activations: &activations, gates: &gates, weights: &weights };
        let Outcome { state, output } = form.reference(&before);
        Self { recurrent: state, conv, output }
    }
}

/// The largest difference over the largest right value, less what rounding to the storage takes.
pub(super) fn relative(got: &[f64], right: &[f64], storage: Storage) -> f64 {
    if got.len() != right.len() {
        return f64::INFINITY;
    }
    let largest = right.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    got.iter().zip(right).fold(0.0, |worst: f64, (got, right)| {
        let off = ((got - right).abs() - storage.half_unit(*right)) / largest;
        // `max` would drop NaN.
        if off.is_nan() { f64::INFINITY } else { worst.max(off) }
    })
}
