//! Mamba-2 (arXiv 2405.21060; Nemotron-H, Granite 4, Bamba, Falcon-H1): H ← a·H + Δ·x·Bᵀ; y = H·C + D·x.
//!
//! The state of a head is `[head_dim][d_state]`, a row for each channel; a head has one decay a = exp(Δ·A) and one step
//! Δ, which come ready with the projections here. x, B and C come from the convolution; heads / groups heads share B
//! and C.
//!
//! - **Bytes**: `heads × head_dim × d_state` values are read and as many written.
//! - **FLOPs**: 5 a value: decay (1), rank-one update (2), product with C (2).
//! - **Arithmetic intensity**: 5 / 8 FLOP a byte with f32 state, 5 / 4 with bf16: bound by memory.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

use super::element::{Element, by_storage, prefetch};
use super::form::{Before, Recurrence, Span, draw_logarithmic};
use super::reference::{self, Mamba2Head, Outcome};
use crate::bench::cpu::simd::{InstructionSet, Simd, dispatch};

/// Rows that share the loads of B and C, and one reduction.
const ROWS: usize = 4;
/// How far ahead of the rows that are read memory is asked for.
const AHEAD_BYTES: usize = 4096;

/// A Mamba-2 layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Mamba2 {
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) d_state: usize,
    /// A divisor of `heads`.
    pub(crate) groups: usize,
}

impl Recurrence for Mamba2 {
    fn units(&self) -> usize {
        self.heads
    }

    fn unit_values(&self) -> usize {
        self.head_dim * self.d_state
    }

    fn unit_outputs(&self) -> usize {
        self.head_dim
    }

    /// x of all heads, B of all groups, C of all groups.
    fn activations(&self) -> usize {
        self.heads * self.head_dim + 2 * self.groups * self.d_state
    }

    /// The decays of all heads, then their steps.
    fn gates(&self) -> usize {
        2 * self.heads
    }

    /// D of all heads.
    fn weights(&self) -> usize {
        self.heads
    }

    fn row(&self) -> usize {
        self.d_state
    }

    fn scratch(&self) -> usize {
        0
    }

    fn draw_gates(&self, random: &mut fastrand::Rng, gates: &mut [f32]) {
        let (decays, steps) = gates.split_at_mut(self.heads);
        for (decay, step) in decays.iter_mut().zip(steps) {
            // −A from 1 to 16, as models begin.
            *step = draw_logarithmic(random, 0.001, 0.1);
            *decay = (-*step * draw_logarithmic(random, 1.0, 16.0)).exp();
        }
    }

    fn draw_weights(&self, random: &mut fastrand::Rng, weights: &mut [f32]) {
        weights.fill_with(|| 0.5 + random.f32());
    }

    fn update(&self, set: InstructionSet, span: Span<'_>) {
        span.check(self, set);
        dispatch!(set, body, (*self, span), (Mamba2, Span<'_>));
    }

    fn reference(&self, before: &Before<'_>) -> Outcome {
        let Self { heads, head_dim, d_state, groups } = *self;
        let (x, rest) = before.activations.split_at(heads * head_dim);
        let (b, c) = rest.split_at(groups * d_state);
        let mut outcome = Outcome::of(before.state);
        for (head, state) in outcome.state.chunks_mut(head_dim * d_state).enumerate() {
            let group = head * groups / heads;
            let head = Mamba2Head {
                decay: before.gates[head],
                step: before.gates[heads + head],
                x: &x[head * head_dim..][..head_dim],
                b: &b[group * d_state..][..d_state],
                c: &c[group * d_state..][..d_state],
                skip: before.weights[head],
            };
            outcome.output.extend(reference::mamba2(state, &head));
        }
        outcome
    }
}

#[inline(always)]
unsafe fn body<S: Simd>((layer, mut span): (Mamba2, Span<'_>)) {
    // SAFETY: `update` checked the lengths.
    unsafe { by_storage!(&mut span.state, state => update_heads::<S>(layer, state, span)) }
}

#[inline(always)]
unsafe fn update_heads<S: Simd, E: Element>(layer: Mamba2, state: *mut E, span: Span<'_>) {
    let Mamba2 { heads, head_dim, d_state: width, groups } = layer;
    // SAFETY: `update` checked the lengths: places lie within the activations, gates and state of these units.
    unsafe {
        let groups_from = span.activations.as_ptr().add(heads * head_dim);
        for (place, head) in span.units.enumerate() {
            let group = head / (heads / groups);
            let (b, c) = (groups_from.add(group * width), groups_from.add((groups + group) * width));
            let operands = Operands { width, decay: span.gates[head], b, c };
            let (step, skip) = (span.gates[heads + head], span.weights[head]);
            let state = state.add(place * head_dim * width);
            let x = &span.activations[head * head_dim..][..head_dim];
            let output = &mut span.output[place * head_dim..][..head_dim];
            let mut row = 0;
            while row + ROWS <= head_dim {
                let rows = state.add(row * width);
                prefetch::<S, E>(rows, AHEAD_BYTES, ROWS * width);
                let mut input = [0.0; ROWS];
                for n in 0..ROWS {
                    input[n] = step * x[row + n];
                }
                let sums = S::sum4(update_rows::<S, E, ROWS>(&operands, rows, input));
                for n in 0..ROWS {
                    output[row + n] = sums[n] + skip * x[row + n];
                }
                row += ROWS;
            }
            while row < head_dim {
                let sums = update_rows::<S, E, 1>(&operands, state.add(row * width), [step * x[row]]);
                output[row] = S::sum(sums[0]) + skip * x[row];
                row += 1;
            }
        }
    }
}

/// What the rows of one head share.
struct Operands {
    width: usize,
    decay: f32,
    b: *const f32,
    c: *const f32,
}

/// h ← a·h + input·B for `R` rows, and the lane sums of their products with C.
#[inline(always)]
unsafe fn update_rows<S: Simd, E: Element, const R: usize>(
    operands: &Operands,
    rows: *mut E,
    input: [f32; R],
) -> [S::F; R] {
    // SAFETY: the caller has `R` rows of `width` values.
    unsafe {
        let decay = S::splat(operands.decay);
        let mut factors = [decay; R];
        for row in 0..R {
            factors[row] = S::splat(input[row]);
        }
        let mut sums = [S::splat(0.0); R];
        let mut n = 0;
        while n < operands.width {
            let b = [S::load(operands.b.add(n)), S::load(operands.b.add(n + S::LANES))];
            let c = [S::load(operands.c.add(n)), S::load(operands.c.add(n + S::LANES))];
            for row in 0..R {
                let at = rows.add(row * operands.width + n);
                let h = E::load_pair::<S>(at);
                let even = S::fma(factors[row], b[0], S::mul(decay, h[0]));
                let odd = S::fma(factors[row], b[1], S::mul(decay, h[1]));
                sums[row] = S::fma(odd, c[1], S::fma(even, c[0], sums[row]));
                E::store_pair::<S>(at, [even, odd]);
            }
            n += 2 * S::LANES;
        }
        sums
    }
}
