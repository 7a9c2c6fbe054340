//! Lightning attention (arXiv 2401.04658; MiniMax-01, Ling 2.5): S ← λ·S + k·vᵀ; o = qᵀ·S.
//!
//! The state of a head is `[dim][dim]`, keys by values; λ = exp(−slope) is fixed for each head of a layer. Query, key and
//! value come ready from the projections here; there is no convolution.
//!
//! - **Bytes**: `heads × dim × dim` values are read and as many written.
//! - **FLOPs**: 5 a value: decay (1), rank-one update (2), product with the query (2).
//! - **Arithmetic intensity**: 5 / 8 FLOP a byte with f32 state, 5 / 4 with bf16: bound by memory.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

use super::element::{Element, by_storage, prefetch};
use super::form::{Before, Recurrence, Span};
use super::reference::{self, Outcome};
use crate::bench::cpu::simd::{InstructionSet, Simd, dispatch};

/// Rows whose outputs are added up in registers before they go to the output.
const ROWS: usize = 4;
/// How far ahead of the rows that are read memory is asked for.
const AHEAD_BYTES: usize = 4096;

/// A lightning attention layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lightning {
    pub(crate) heads: usize,
    pub(crate) dim: usize,
}

impl Recurrence for Lightning {
    fn units(&self) -> usize {
        self.heads
    }

    fn unit_values(&self) -> usize {
        self.dim * self.dim
    }

    fn unit_outputs(&self) -> usize {
        self.dim
    }

    /// Queries, keys and values of all heads.
    fn activations(&self) -> usize {
        3 * self.heads * self.dim
    }

    /// λ of all heads.
    fn gates(&self) -> usize {
        self.heads
    }

    fn row(&self) -> usize {
        self.dim
    }

    fn scratch(&self) -> usize {
        0
    }

    fn draw_gates(&self, _random: &mut fastrand::Rng, gates: &mut [f32]) {
        let heads = gates.len() as f32;
        for (head, decay) in gates.iter_mut().enumerate() {
            // Slopes fall geometrically from head to head, to 2^-8, as ALiBi's do.
            let slope = (-8.0 * (head + 1) as f32 / heads).exp2();
            *decay = (-slope).exp();
        }
    }

    fn update(&self, set: InstructionSet, span: Span<'_>) {
        span.check(self, set);
        dispatch!(set, body, (*self, span), (Lightning, Span<'_>));
    }

    fn reference(&self, before: &Before<'_>) -> Outcome {
        let Self { heads, dim } = *self;
        let mut outcome = Outcome::of(before.state);
        for (head, state) in outcome.state.chunks_mut(dim * dim).enumerate() {
            let [query, key, value] =
                [0, 1, 2].map(|part| &before.activations[(part * heads + head) * dim..][..dim]);
            outcome.output.extend(reference::lightning(state, before.gates[head], query, key, value));
        }
        outcome
    }
}

#[inline(always)]
unsafe fn body<S: Simd>((layer, mut span): (Lightning, Span<'_>)) {
    // SAFETY: `update` checked the lengths.
    unsafe { by_storage!(&mut span.state, state => update_heads::<S>(layer, state, span)) }
}

#[inline(always)]
unsafe fn update_heads<S: Simd, E: Element>(layer: Lightning, state: *mut E, span: Span<'_>) {
    let Lightning { heads, dim } = layer;
    let part = heads * dim;
    for (place, head) in span.units.enumerate() {
        let query = &span.activations[head * dim..][..dim];
        let key = &span.activations[part + head * dim..][..dim];
        let value = &span.activations[2 * part + head * dim..][..dim];
        let output = &mut span.output[place * dim..][..dim];
        output.fill(0.0);
        let operands = Operands {
            width: dim,
            decay: span.gates[head],
            value: value.as_ptr(),
            summed: output.as_mut_ptr(),
        };
        let mut row = 0;
        while row + ROWS <= dim {
            let (mut keys, mut queries) = ([0.0; ROWS], [0.0; ROWS]);
            keys.copy_from_slice(&key[row..row + ROWS]);
            queries.copy_from_slice(&query[row..row + ROWS]);
            // SAFETY: `update` checked the lengths: places lie within the state of these units.
            unsafe {
                let rows = state.add((place * dim + row) * dim);
                prefetch::<S, E>(rows, AHEAD_BYTES, ROWS * dim);
                update_rows::<S, E>(&operands, rows, keys, queries);
            }
            row += ROWS;
        }
    }
}

/// What the rows of one head share.
struct Operands {
    width: usize,
    decay: f32,
    value: *const f32,
    summed: *mut f32,
}

/// s ← λ·s + k·v for four rows, and q·s added to the outputs.
#[inline(always)]
unsafe fn update_rows<S: Simd, E: Element>(
    operands: &Operands,
    rows: *mut E,
    keys: [f32; ROWS],
    queries: [f32; ROWS],
) {
    // SAFETY: the caller has four rows of `width` values.
    unsafe {
        let decay = S::splat(operands.decay);
        let mut d = 0;
        while d < operands.width {
            let value = [S::load(operands.value.add(d)), S::load(operands.value.add(d + S::LANES))];
            let summed = operands.summed.add(d);
            let mut sums = [S::load(summed), S::load(summed.add(S::LANES))];
            for row in 0..ROWS {
                let at = rows.add(row * operands.width + d);
                let s = E::load_pair::<S>(at);
                let (key, query) = (S::splat(keys[row]), S::splat(queries[row]));
                let even = S::fma(key, value[0], S::mul(decay, s[0]));
                let odd = S::fma(key, value[1], S::mul(decay, s[1]));
                sums = [S::fma(query, even, sums[0]), S::fma(query, odd, sums[1])];
                E::store_pair::<S>(at, [even, odd]);
            }
            S::store(summed, sums[0]);
            S::store(summed.add(S::LANES), sums[1]);
            d += 2 * S::LANES;
        }
    }
}
