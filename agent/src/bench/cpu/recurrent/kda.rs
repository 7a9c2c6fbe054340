//! Kimi Delta Attention (arXiv 2510.26692; Kimi Linear): the gated delta rule with a decay for each key dimension:
//! S ← S·diag(α); u = β(v − S·k); S ← S + u·kᵀ; o = S·q.
//!
//! The state of a head is `[dim][dim]`, values by keys. The decays, heads × dim of them, and β come ready with the
//! projections here; query, key and value of every head come from its convolutions, and query and key are normalised to
//! length 1 in the step, the query divided by √dim.
//!
//! - **Bytes**: `heads × dim × dim` values are read and as many written.
//! - **FLOPs**: 7 a value: two products (4), decay (1), rank-one update (2).
//! - **Arithmetic intensity**: 7 / 8 FLOP a byte with f32 state, 7 / 4 with bf16: bound by memory.

use super::delta::{Decay, DeltaRule};

/// A KDA layer.
pub(crate) fn layer(heads: usize, dim: usize) -> DeltaRule {
    DeltaRule { k_heads: heads, v_heads: heads, k_dim: dim, v_dim: dim, decay: Decay::Key }
}
