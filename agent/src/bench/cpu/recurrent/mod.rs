//! Recurrent forms: one decode step over a state of fixed size, which is read and written as a whole.
//!
//! A module a form says its formula, shapes, bytes and FLOPs: `gdn` and `kda` (over `delta`), `mamba1`, `mamba2`,
//! `lightning`, and `conv`, the short convolution alone or before the others. `form` is what all recurrences do, `reference`
//! the same in f64. `layer` says what a layer keeps, `state` holds it, `step` runs a layer on all workers: each owns
//! channels and heads, filled them first, and waits once between convolution and recurrence.

mod barrier;
mod conv;
mod delta;
mod element;
mod form;
mod gdn;
mod kda;
mod lightning;
mod layer;
mod mamba1;
mod mamba2;
mod reference;
mod shared;
mod state;
mod step;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kvscope_sizing::Bytes;

use self::conv::Around;
use self::element::Storage;
use self::form::Before;
use self::layer::Layer;
use self::reference::{Outcome, convolution, silu, widen};
use self::state::{Extent, State};
use self::step::Step;
use super::pool::Pool;
use super::simd::InstructionSet;
use crate::bench::BenchError;
use crate::bench::backend::{Check, PreparedCase, Resident};
use crate::bench::memory;

/// State and step of one case.
struct RecurrentCase {
    pool: Arc<Pool>,
    extent: Extent,
    state: State,
    step: Step,
    resident: Option<Resident>,
}

impl RecurrentCase {
    fn new(
        layer: Layer,
        set: InstructionSet,
        extent: Extent,
        seed: u64,
        pool: Arc<Pool>,
    ) -> Result<Self, BenchError> {
        let before = memory::resident();
        let state = State::new(&layer, extent, seed, &pool)?;
        let resident = memory::resident().zip(before).map(|(after, before)| after.since(before));
        let step = Step::new(layer, set, extent.requests, seed ^ 0x5157, pool.workers());
        Ok(Self { pool, extent, state, step, resident })
    }

    /// Runs one more step of the last layer and compares what it leaves and gives for `request` with the reference.
    fn compare(&mut self, request: usize) -> Differences {
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

    fn check(&mut self) -> Check {
        Check { largest_relative_error: self.compare(0).largest(), tokens: 1 }
    }

    fn step(&mut self) -> Duration {
        let (step, state, pool) = (&mut self.step, &mut self.state, &self.pool);
        let elapsed = pool.enter(|| {
            let started = Instant::now();
            for at in 0..state.layers() {
                step.run_layer(state, at, pool);
            }
            started.elapsed()
        });
        self.step.advance();
        elapsed
    }
}

/// Differences from the reference, each relative to the largest right value, beyond the rounding of what is stored.
#[derive(Clone, Copy, Debug, Default)]
struct Differences {
    recurrent: f64,
    conv: f64,
    output: f64,
}

impl Differences {
    fn largest(self) -> f64 {
        self.recurrent.max(self.conv).max(self.output)
    }
}

/// What a step of one request should leave and give.
struct Right {
    recurrent: Vec<f64>,
    conv: Vec<f64>,
    output: Vec<f64>,
}

impl Right {
    /// From the recurrent state and the convolution state before.
    fn compute(step: &Step, [recurrent, conv]: &[Vec<f64>; 2], request: usize) -> Self {
        let (layer, token) = (&step.layer, step.token());
        let of_request = |values: &[f32], count: usize| widen(&values[request * count..(request + 1) * count]);
        let mut activations = of_request(&token.inputs, layer.inputs());
        let mut conv = conv.clone();
        if let Some((shape, _)) = &layer.convolution {
            let taps: Vec<f64> =
                step.weights.taps.iter().map(|bits| half::bf16::from_bits(*bits).to_f64()).collect();
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
        let gates = of_request(&token.gates, form.gates());
        let weights = widen(&step.weights.recurrence);
        let before =
            Before { state: recurrent, activations: &activations, gates: &gates, weights: &weights };
        let Outcome { state, output } = form.reference(&before);
        Self { recurrent: state, conv, output }
    }
}

/// The largest difference over the largest right value, less what rounding to the storage takes.
fn relative(got: &[f64], right: &[f64], storage: Storage) -> f64 {
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
