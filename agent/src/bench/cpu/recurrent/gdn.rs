//! Gated DeltaNet (arXiv 2412.06464; Qwen3-Next, Qwen3.5): S ← α·S; u = β(v − S·k); S ← S + u·kᵀ; o = S·q.
//!
//! The state of a value head is `[v_dim][k_dim]`; a head has one decay α = exp(−e^A·softplus(a + bias)) and one
//! β = σ(b), which come ready with the projections here. Queries and keys, one for each key head, come from the
//! convolution and are normalised to length 1 in the step, the query divided by `√k_dim`; `v_heads / k_heads` value
//! heads share them.
//!
//! - **Bytes**: `v_heads × v_dim × k_dim` values are read and as many written.
//! - **FLOPs**: 7 a value: two products (4), decay (1), rank-one update (2).
//! - **Arithmetic intensity**: 7 / 8 FLOP a byte with f32 state, 7 / 4 with bf16: bound by memory.

use super::delta::{Decay, DeltaRule};

/// A gated DeltaNet layer; `v_heads` must be a multiple of `k_heads`.
pub(crate) fn layer(k_heads: usize, v_heads: usize, k_dim: usize, v_dim: usize) -> DeltaRule {
    assert!(k_heads > 0 && v_heads.is_multiple_of(k_heads));
    DeltaRule { k_heads, v_heads, k_dim, v_dim, decay: Decay::Head }
}
