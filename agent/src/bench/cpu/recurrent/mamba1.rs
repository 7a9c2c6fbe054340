//! Mamba-1 (arXiv 2312.00752; Jamba, Falcon-Mamba): h ← exp(Δ·A)·h + Δ·x·B; y = C·h + D·x for each channel.
//!
//! The state of a channel is `[d_state]`. x comes from the convolution; Δ of each channel and B and C, which all channels
//! share, come ready with the projections here. A is a parameter of the layer, `[d_inner][d_state]`, so every state value
//! has its own exponential in the step.
//!
//! - **Bytes**: `d_inner × d_state` values are read and as many written. A and D are weights, which are not counted.
//! - **FLOPs**: 6 a value, Δ·A (1), decay and update (3), product with C (2), and an exponential, 11 operations here.
//! - **Arithmetic intensity**: 3 / 4 FLOP a byte with f32 state, 3 / 2 with bf16, and an exponential for every 8 or 4 bytes.
//!   With AVX2 the exponentials bound it: about 20 cycles a vector, half of what memory allows with f32 state and a
//!   quarter with bf16.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

use super::element::{Element, by_storage, prefetch};
use super::form::{Before, Recurrence, Span, draw_logarithmic};
use super::reference::{self, Mamba1Channel, Outcome};
use crate::bench::cpu::simd::{InstructionSet, Simd, dispatch, exp2_each};

/// Channels that share the loads of B and C, and one reduction.
const CHANNELS: usize = 4;
/// How far ahead of the rows that are read memory is asked for.
const AHEAD_BYTES: usize = 2048;

/// A Mamba-1 layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Mamba1 {
    pub(crate) d_inner: usize,
    pub(crate) d_state: usize,
}

impl Recurrence for Mamba1 {
    fn units(&self) -> usize {
        self.d_inner
    }

    fn unit_values(&self) -> usize {
        self.d_state
    }

    fn unit_outputs(&self) -> usize {
        1
    }

    /// x of all channels.
    fn activations(&self) -> usize {
        self.d_inner
    }

    /// Δ of all channels, then B, then C.
    fn gates(&self) -> usize {
        self.d_inner + 2 * self.d_state
    }

    /// A × log₂e, so that a decay is a power of two, then D of all channels.
    fn weights(&self) -> usize {
        self.d_inner * (self.d_state + 1)
    }

    fn row(&self) -> usize {
        self.d_state
    }

    /// A state of 16 is one vector of 16 lanes.
    fn fits(&self, set: InstructionSet) -> bool {
        self.d_state > 0 && self.d_state.is_multiple_of(set.lanes())
    }

    fn scratch(&self) -> usize {
        0
    }

    fn draw_gates(&self, random: &mut fastrand::Rng, gates: &mut [f32]) {
        let (steps, shared) = gates.split_at_mut(self.d_inner);
        steps.fill_with(|| draw_logarithmic(random, 0.001, 0.1));
        shared.fill_with(|| 4.0 * random.f32() - 2.0);
    }

    fn draw_weights(&self, random: &mut fastrand::Rng, weights: &mut [f32]) {
        let (a, skips) = weights.split_at_mut(self.d_inner * self.d_state);
        for (place, a) in a.iter_mut().enumerate() {
            // −A = 1, 2, … d_state, as models begin, and what training makes of it.
            let n = (place % self.d_state + 1) as f32;
            *a = -n * (0.5 + random.f32()) * std::f32::consts::LOG2_E;
        }
        skips.fill_with(|| 0.5 + random.f32());
    }

    fn update(&self, set: InstructionSet, span: Span<'_>) {
        span.check(self, set);
        dispatch!(set, body, (*self, span), (Mamba1, Span<'_>));
    }

    fn reference(&self, before: &Before<'_>) -> Outcome {
        let Self { d_inner, d_state } = *self;
        let (steps, shared) = before.gates.split_at(d_inner);
        let (b, c) = shared.split_at(d_state);
        let (a, skips) = before.weights.split_at(d_inner * d_state);
        let mut outcome = Outcome::of(before.state);
        for (channel, state) in outcome.state.chunks_mut(d_state).enumerate() {
            let a: Vec<f64> =
                a[channel * d_state..][..d_state].iter().map(|a| a * std::f64::consts::LN_2).collect();
            let (step, x, skip) = (steps[channel], before.activations[channel], skips[channel]);
            outcome.output.push(reference::mamba1(state, &Mamba1Channel { step, x, a: &a, b, c, skip }));
        }
        outcome
    }
}

#[inline(always)]
unsafe fn body<S: Simd>((layer, mut span): (Mamba1, Span<'_>)) {
    // SAFETY: `update` checked the lengths.
    unsafe { by_storage!(&mut span.state, state => update_channels::<S>(layer, state, span)) }
}

#[inline(always)]
unsafe fn update_channels<S: Simd, E: Element>(layer: Mamba1, state: *mut E, span: Span<'_>) {
    let Mamba1 { d_inner, d_state: width } = layer;
    let (first, count) = (span.units.start, span.units.len());
    let x = &span.activations[first..first + count];
    let steps = &span.gates[first..first + count];
    let skips = &span.weights[d_inner * width + first..][..count];
    // SAFETY: `update` checked the lengths: places lie within the weights, gates and state of these units.
    unsafe {
        let b = span.gates.as_ptr().add(d_inner);
        let operands = Operands { width, b, c: b.add(width) };
        let a = span.weights.as_ptr().add(first * width);
        let mut channel = 0;
        while channel + CHANNELS <= count {
            let (rows, a) = (state.add(channel * width), a.add(channel * width));
            prefetch::<S, E>(rows, AHEAD_BYTES, CHANNELS * width);
            prefetch::<S, f32>(a, AHEAD_BYTES, CHANNELS * width);
            let (mut step, mut input) = ([0.0; CHANNELS], [0.0; CHANNELS]);
            for n in 0..CHANNELS {
                step[n] = steps[channel + n];
                input[n] = step[n] * x[channel + n];
            }
            let sums = S::sum4(update_rows::<S, E, CHANNELS>(&operands, rows, a, step, input));
            for n in 0..CHANNELS {
                span.output[channel + n] = sums[n] + skips[channel + n] * x[channel + n];
            }
            channel += CHANNELS;
        }
        while channel < count {
            let (rows, a) = (state.add(channel * width), a.add(channel * width));
            let input = steps[channel] * x[channel];
            let sums = update_rows::<S, E, 1>(&operands, rows, a, [steps[channel]], [input]);
            span.output[channel] = S::sum(sums[0]) + skips[channel] * x[channel];
            channel += 1;
        }
    }
}

/// What all channels share.
struct Operands {
    width: usize,
    b: *const f32,
    c: *const f32,
}

/// h ← 2^(Δ·a)·h + input·B for `R` channels, and the lane sums of their products with C.
#[inline(always)]
unsafe fn update_rows<S: Simd, E: Element, const R: usize>(
    operands: &Operands,
    rows: *mut E,
    a: *const f32,
    steps: [f32; R],
    inputs: [f32; R],
) -> [S::F; R] {
    let width = operands.width;
    // SAFETY: the caller has `R` rows of `width` values in state and weights, a multiple of the lanes.
    unsafe {
        let mut sums = [S::splat(0.0); R];
        let mut n = 0;
        while n + 2 * S::LANES <= width {
            let mut held = [[S::splat(0.0); 2]; R];
            for row in 0..R {
                held[row] = E::load_pair::<S>(rows.add(row * width + n));
            }
            for half in 0..2 {
                let at = n + half * S::LANES;
                let decays = decays::<S, R>(a.add(at), width, steps);
                let (b, c) = (S::load(operands.b.add(at)), S::load(operands.c.add(at)));
                for row in 0..R {
                    let h = S::fma(S::splat(inputs[row]), b, S::mul(decays[row], held[row][half]));
                    sums[row] = S::fma(h, c, sums[row]);
                    held[row][half] = h;
                }
            }
            for row in 0..R {
                E::store_pair::<S>(rows.add(row * width + n), held[row]);
            }
            n += 2 * S::LANES;
        }
        if n < width {
            let decays = decays::<S, R>(a.add(n), width, steps);
            let (b, c) = (S::load(operands.b.add(n)), S::load(operands.c.add(n)));
            for row in 0..R {
                let at = rows.add(row * width + n);
                let h = S::fma(S::splat(inputs[row]), b, S::mul(decays[row], E::load::<S>(at)));
                sums[row] = S::fma(h, c, sums[row]);
                E::store::<S>(at, h);
            }
        }
        sums
    }
}

/// 2^(Δ·a) of one vector of `R` rows.
#[inline(always)]
unsafe fn decays<S: Simd, const R: usize>(a: *const f32, width: usize, steps: [f32; R]) -> [S::F; R] {
    // SAFETY: the caller has a vector in each of `R` rows.
    unsafe {
        let mut exponents = [S::splat(0.0); R];
        for row in 0..R {
            exponents[row] = S::mul(S::splat(steps[row]), S::load(a.add(row * width)));
        }
        exp2_each::<S, R>(exponents)
    }
}
