//! The gated delta rule, which gated DeltaNet and KDA share: one head's `state[value][key]`, a decay for each key
//! dimension.
//!
//! The rows of the state do not depend on each other, and both of a row's products are taken before it changes:
//! with α·k and α·q at hand, p = s·(α·k) and r = s·(α·q) give u = β(v − p) and the output o = r + u·(k·q); then
//! s ← α·s + u·k. So four rows are read from memory once, changed while they are in the first-level cache, and
//! written once.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

use super::element::{Element, by_storage, prefetch};
use super::form::{Before, Recurrence, Span, draw_decay};
use super::reference::{DeltaHead, Outcome, delta_rule};
use crate::bench::cpu::simd::{InstructionSet, Simd, dispatch};

/// Rows that share the loads of key, query and decay, and one reduction.
const ROWS: usize = 4;
/// How far ahead of the rows that are read memory is asked for.
const AHEAD_BYTES: usize = 4096;
/// Added to a squared length before the root, as flash-linear-attention does.
const LENGTH_FLOOR: f32 = 1e-6;

/// A layer of the gated delta rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DeltaRule {
    pub(super) k_heads: usize,
    /// A multiple of `k_heads`: so many value heads share a key and a query.
    pub(super) v_heads: usize,
    pub(super) k_dim: usize,
    pub(super) v_dim: usize,
    pub(super) decay: Decay,
}

/// What one decay applies to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Decay {
    /// A whole head.
    Head,
    /// One key dimension of a head.
    Key,
}

impl DeltaRule {
    /// Decays of a head.
    fn decays(&self) -> usize {
        match self.decay {
            Decay::Head => 1,
            Decay::Key => self.k_dim,
        }
    }

    /// Where value head `head` finds its query, key and value among the activations.
    fn places(&self, head: usize) -> [usize; 3] {
        let shared = head / (self.v_heads / self.k_heads) * self.k_dim;
        let keys = self.k_heads * self.k_dim;
        [shared, keys + shared, 2 * keys + head * self.v_dim]
    }
}

impl Recurrence for DeltaRule {
    fn units(&self) -> usize {
        self.v_heads
    }

    fn unit_values(&self) -> usize {
        self.v_dim * self.k_dim
    }

    fn unit_outputs(&self) -> usize {
        self.v_dim
    }

    /// Queries, keys and values of all heads.
    fn activations(&self) -> usize {
        2 * self.k_heads * self.k_dim + self.v_heads * self.v_dim
    }

    /// The decays of all heads, then one β for each head.
    fn gates(&self) -> usize {
        self.v_heads * (self.decays() + 1)
    }

    fn row(&self) -> usize {
        self.k_dim
    }

    fn scratch(&self) -> usize {
        5 * self.k_dim
    }

    fn draw_gates(&self, random: &mut fastrand::Rng, gates: &mut [f32]) {
        let (decays, betas) = gates.split_at_mut(self.v_heads * self.decays());
        decays.fill_with(|| draw_decay(random));
        betas.fill_with(|| 0.05 + 0.9 * random.f32());
    }

    fn update(&self, set: InstructionSet, span: Span<'_>) {
        span.check(self, set);
        dispatch!(set, body, (*self, span), (DeltaRule, Span<'_>));
    }

    fn reference(&self, before: &Before<'_>) -> Outcome {
        let Self { k_heads, v_heads, k_dim, v_dim, decay } = *self;
        let (queries, rest) = before.activations.split_at(k_heads * k_dim);
        let (keys, values) = rest.split_at(k_heads * k_dim);
        let mut outcome = Outcome::of(before.state);
        for (head, state) in outcome.state.chunks_mut(v_dim * k_dim).enumerate() {
            let (decays, beta) = match decay {
                Decay::Head => (vec![before.gates[head]; k_dim], before.gates[v_heads + head]),
                Decay::Key => {
                    (before.gates[head * k_dim..][..k_dim].to_vec(), before.gates[v_heads * k_dim + head])
                }
            };
            let k_head = head * k_heads / v_heads;
            let query = &queries[k_head * k_dim..][..k_dim];
            let key = &keys[k_head * k_dim..][..k_dim];
            let value = &values[head * v_dim..][..v_dim];
            outcome.output.extend(delta_rule(state, &DeltaHead { decay: &decays, beta, query, key, value }));
        }
        outcome
    }
}

#[inline(always)]
unsafe fn body<S: Simd>((layer, mut span): (DeltaRule, Span<'_>)) {
    // SAFETY: `update` checked the lengths.
    unsafe { by_storage!(&mut span.state, state => update_heads::<S>(layer, state, span)) }
}

#[inline(always)]
unsafe fn update_heads<S: Simd, E: Element>(layer: DeltaRule, state: *mut E, span: Span<'_>) {
    let width = layer.k_dim;
    // SAFETY: `update` checked the lengths: places lie within the activations, gates and state of these units.
    unsafe {
        let scratch = span.scratch.as_mut_ptr();
        let (key, query) = (scratch, scratch.add(width));
        let (decayed_key, decayed_query) = (scratch.add(2 * width), scratch.add(3 * width));
        let repeated = scratch.add(4 * width);
        for (place, head) in span.units.enumerate() {
            let [query_at, key_at, value_at] = layer.places(head);
            let activations = span.activations.as_ptr();
            let agreement =
                normalise::<S>(activations.add(key_at), activations.add(query_at), key, query, width);
            let decay = match layer.decay {
                Decay::Head => {
                    std::slice::from_raw_parts_mut(repeated, width).fill(span.gates[head]);
                    repeated.cast_const()
                }
                Decay::Key => span.gates.as_ptr().add(head * width),
            };
            let mut d = 0;
            while d < width {
                let a = S::load(decay.add(d));
                S::store(decayed_key.add(d), S::mul(a, S::load(key.add(d))));
                S::store(decayed_query.add(d), S::mul(a, S::load(query.add(d))));
                d += S::LANES;
            }
            let operands = Operands { width, decay, key, decayed_key, decayed_query };
            let correction =
                Correction { beta: span.gates[layer.v_heads * layer.decays() + head], agreement };
            let state = state.add(place * width * layer.v_dim);
            let value = span.activations.as_ptr().add(value_at);
            let output = span.output.as_mut_ptr().add(place * layer.v_dim);
            let mut row = 0;
            while row + ROWS <= layer.v_dim {
                let rows = state.add(row * width);
                prefetch::<S, E>(rows, AHEAD_BYTES, ROWS * width);
                let sums = products::<S, E, ROWS>(&operands, rows);
                let (p, r) = (S::sum4(sums[0]), S::sum4(sums[1]));
                let u = correction.apply(&p, &r, value.add(row), output.add(row));
                change::<S, E, ROWS>(&operands, rows, u);
                row += ROWS;
            }
            while row < layer.v_dim {
                let rows = state.add(row * width);
                let sums = products::<S, E, 1>(&operands, rows);
                let (p, r) = ([S::sum(sums[0][0])], [S::sum(sums[1][0])]);
                let u = correction.apply(&p, &r, value.add(row), output.add(row));
                change::<S, E, 1>(&operands, rows, u);
                row += 1;
            }
        }
    }
}

/// Vectors of one head.
struct Operands {
    width: usize,
    decay: *const f32,
    key: *const f32,
    decayed_key: *const f32,
    decayed_query: *const f32,
}

struct Correction {
    beta: f32,
    /// k·q.
    agreement: f32,
}

impl Correction {
    /// u of each row, from its products with the decayed key and query; writes the outputs.
    #[inline(always)]
    unsafe fn apply<const R: usize>(
        &self,
        p: &[f32; R],
        r: &[f32; R],
        value: *const f32,
        output: *mut f32,
    ) -> [f32; R] {
        let mut u = [0.0; R];
        for row in 0..R {
            // SAFETY: the caller has `R` values and outputs left.
            unsafe {
                u[row] = self.beta * (value.add(row).read() - p[row]);
                output.add(row).write(r[row] + u[row] * self.agreement);
            }
        }
        u
    }
}

/// Writes key and query brought to length 1, the query also divided by √width, and gives their product.
#[inline(always)]
unsafe fn normalise<S: Simd>(
    from_key: *const f32,
    from_query: *const f32,
    key: *mut f32,
    query: *mut f32,
    width: usize,
) -> f32 {
    // SAFETY: all have `width` values.
    unsafe {
        let zero = S::splat(0.0);
        let (mut keys, mut queries, mut both) = (zero, zero, zero);
        let mut d = 0;
        while d < width {
            let (k, q) = (S::load(from_key.add(d)), S::load(from_query.add(d)));
            keys = S::fma(k, k, keys);
            queries = S::fma(q, q, queries);
            both = S::fma(k, q, both);
            d += S::LANES;
        }
        let of_key = 1.0 / (S::sum(keys) + LENGTH_FLOOR).sqrt();
        let of_query = 1.0 / ((S::sum(queries) + LENGTH_FLOOR) * width as f32).sqrt();
        d = 0;
        while d < width {
            S::store(key.add(d), S::mul(S::load(from_key.add(d)), S::splat(of_key)));
            S::store(query.add(d), S::mul(S::load(from_query.add(d)), S::splat(of_query)));
            d += S::LANES;
        }
        S::sum(both) * of_key * of_query
    }
}

/// Lane sums of `R` rows' products with the decayed key, then with the decayed query.
#[inline(always)]
unsafe fn products<S: Simd, E: Element, const R: usize>(
    operands: &Operands,
    rows: *const E,
) -> [[S::F; R]; 2] {
    // SAFETY: the caller has `R` rows of `width` values.
    unsafe {
        let mut with_key = [S::splat(0.0); R];
        let mut with_query = with_key;
        let mut d = 0;
        while d < operands.width {
            let k = [S::load(operands.decayed_key.add(d)), S::load(operands.decayed_key.add(d + S::LANES))];
            let q =
                [S::load(operands.decayed_query.add(d)), S::load(operands.decayed_query.add(d + S::LANES))];
            for row in 0..R {
                let s = E::load_pair::<S>(rows.add(row * operands.width + d));
                with_key[row] = S::fma(s[1], k[1], S::fma(s[0], k[0], with_key[row]));
                with_query[row] = S::fma(s[1], q[1], S::fma(s[0], q[0], with_query[row]));
            }
            d += 2 * S::LANES;
        }
        [with_key, with_query]
    }
}

/// s ← α·s + u·k for `R` rows.
#[inline(always)]
unsafe fn change<S: Simd, E: Element, const R: usize>(operands: &Operands, rows: *mut E, u: [f32; R]) {
    // SAFETY: the caller has `R` rows of `width` values.
    unsafe {
        let mut factors = [S::splat(0.0); R];
        for row in 0..R {
            factors[row] = S::splat(u[row]);
        }
        let mut d = 0;
        while d < operands.width {
            let a = [S::load(operands.decay.add(d)), S::load(operands.decay.add(d + S::LANES))];
            let k = [S::load(operands.key.add(d)), S::load(operands.key.add(d + S::LANES))];
            for row in 0..R {
                let at = rows.add(row * operands.width + d);
                let s = E::load_pair::<S>(at);
                let even = S::fma(factors[row], k[0], S::mul(a[0], s[0]));
                let odd = S::fma(factors[row], k[1], S::mul(a[1], s[1]));
                E::store_pair::<S>(at, [even, odd]);
            }
            d += 2 * S::LANES;
        }
    }
}
