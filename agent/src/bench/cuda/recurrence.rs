//! Each recurrence as its kernel has it: widths, arguments, random inputs, and the same in f64.

use kvscope_reference::recurrence::{
    DeltaHead, Mamba1Channel, Mamba2Head, delta_rule, lightning, mamba1, mamba2,
};

use super::numbers::Random;
use super::plan::sizes;
use super::recurrent::Storage;
use crate::bench::BenchError;
use crate::bench::shape::{RecurrenceShape, RecurrentShape};
use crate::gpu::{Arguments, Memory};

/// A recurrence with the widths of one request's state.
#[derive(Clone, Copy, Debug)]
pub(super) enum Recurrence {
    /// The gated delta rule; one decay a head, or one for each key dimension.
    Delta {
        decay: Decay,
        k_heads: usize,
        v_heads: usize,
        k_dim: usize,
        v_dim: usize,
    },
    Mamba1 {
        channels: usize,
    },
    Mamba2 {
        heads: usize,
        head_dim: usize,
        d_state: usize,
        groups: usize,
    },
    Lightning {
        heads: usize,
        dim: usize,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Decay {
    Head,
    Key,
}

/// The state of a channel of Mamba-1 that the kernel is for.
const MAMBA1_STATE: usize = 16;
/// Widths of rows that kernels are for.
const ROWS: [usize; 3] = [64, 128, 256];

/// What a step starts from, as numbers, of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before<'a> {
    pub(super) activations: &'a [f64],
    pub(super) gates: &'a [f64],
    pub(super) weights: &'a [Vec<f64>],
}

impl Recurrence {
    /// None for a convolution alone.
    pub(super) fn new(shape: &RecurrentShape) -> Result<Option<Self>, BenchError> {
        let recurrence = match shape.recurrence {
            RecurrenceShape::GatedDeltaNet { k_heads, v_heads, k_dim, v_dim } => {
                let [k_heads, v_heads, k_dim, v_dim] = sizes(shape, [k_heads, v_heads, k_dim, v_dim])?;
                Self::Delta { decay: Decay::Head, k_heads, v_heads, k_dim, v_dim }
            }
            RecurrenceShape::Kda { heads, dim } => {
                let [heads, dim] = sizes(shape, [heads, dim])?;
                Self::Delta { decay: Decay::Key, k_heads: heads, v_heads: heads, k_dim: dim, v_dim: dim }
            }
            RecurrenceShape::Mamba1 { d_inner, d_state } => {
                let [channels, d_state] = sizes(shape, [d_inner, d_state])?;
                if d_state != MAMBA1_STATE {
                    let what = format!("Mamba-1 with {d_state} values a channel: GPU kernels are for 16");
                    return Err(BenchError::Shape(what));
                }
                Self::Mamba1 { channels }
            }
            RecurrenceShape::Mamba2 { heads, head_dim, d_state, groups } => {
                let [heads, head_dim, d_state, groups] = sizes(shape, [heads, head_dim, d_state, groups])?;
                Self::Mamba2 { heads, head_dim, d_state, groups }
            }
            RecurrenceShape::Lightning { heads, dim } => {
                let [heads, dim] = sizes(shape, [heads, dim])?;
                Self::Lightning { heads, dim }
            }
            RecurrenceShape::ShortConv => return Ok(None),
        };
        recurrence.checked().map(Some)
    }

    fn checked(self) -> Result<Self, BenchError> {
        let (shared, row) = match self {
            Self::Delta { k_heads, v_heads, k_dim, .. } => (v_heads.is_multiple_of(k_heads), Some(k_dim)),
            Self::Mamba1 { .. } => (true, None),
            Self::Mamba2 { heads, groups, d_state, .. } => (heads.is_multiple_of(groups), Some(d_state)),
            Self::Lightning { dim, .. } => (true, Some(dim)),
        };
        if !shared {
            return Err(BenchError::Shape(format!(
                "{self:?}: heads are no multiple of those that they share"
            )));
        }
        match row.filter(|row| !ROWS.contains(row)) {
            Some(row) => Err(BenchError::Shape(format!(
                "rows of {row} state values: GPU kernels are for 64, 128 and 256"
            ))),
            None => Ok(self),
        }
    }

    /// The file of the kernel, and its name.
    pub(super) fn kernel(self, storage: Storage) -> (&'static str, String) {
        let storage = storage.name();
        match self {
            Self::Delta { decay: Decay::Head, k_dim, .. } => ("delta", format!("gdn_{storage}_{k_dim}")),
            Self::Delta { decay: Decay::Key, k_dim, .. } => ("delta", format!("kda_{storage}_{k_dim}")),
            Self::Mamba1 { .. } => ("mamba1", format!("mamba1_{storage}_16")),
            Self::Mamba2 { d_state, .. } => ("mamba2", format!("mamba2_{storage}_{d_state}")),
            Self::Lightning { dim, .. } => ("lightning", format!("lightning_{storage}_{dim}")),
        }
    }

    pub(super) fn grid(self, storage: Storage, requests: usize) -> [usize; 3] {
        // Channels of Mamba-1 and columns of lightning are as many 16-byte pieces, whatever a value takes.
        let wide = if storage == Storage::F32 { 1 } else { 2 };
        match self {
            Self::Delta { v_heads, v_dim, .. } => [v_dim.div_ceil(32), v_heads, requests],
            Self::Mamba1 { channels } => [channels.div_ceil(128 * wide), requests, 1],
            Self::Mamba2 { heads, head_dim, .. } => [head_dim.div_ceil(32), heads, requests],
            Self::Lightning { heads, dim } => [dim / (32 * wide), heads, requests],
        }
    }

    /// State values of a request.
    pub(super) fn values(self) -> usize {
        match self {
            Self::Delta { v_heads, k_dim, v_dim, .. } => v_heads * v_dim * k_dim,
            Self::Mamba1 { channels } => channels * MAMBA1_STATE,
            Self::Mamba2 { heads, head_dim, d_state, .. } => heads * head_dim * d_state,
            Self::Lightning { heads, dim } => heads * dim * dim,
        }
    }

    /// Values that the projections, or the convolution after them, give a request.
    pub(super) fn activations(self) -> usize {
        match self {
            Self::Delta { k_heads, v_heads, k_dim, v_dim, .. } => 2 * k_heads * k_dim + v_heads * v_dim,
            Self::Mamba1 { channels } => channels,
            Self::Mamba2 { heads, head_dim, d_state, groups } => heads * head_dim + 2 * groups * d_state,
            Self::Lightning { heads, dim } => 3 * heads * dim,
        }
    }

    pub(super) fn outputs(self) -> usize {
        match self {
            Self::Delta { v_heads, v_dim, .. } => v_heads * v_dim,
            Self::Mamba1 { channels } => channels,
            Self::Mamba2 { heads, head_dim, .. } => heads * head_dim,
            Self::Lightning { heads, dim } => heads * dim,
        }
    }

    fn decays(self) -> usize {
        match self {
            Self::Delta { decay: Decay::Head, v_heads, .. } => v_heads,
            Self::Delta { decay: Decay::Key, v_heads, k_dim, .. } => v_heads * k_dim,
            _ => 0,
        }
    }

    /// Gates of a request, all of a step's inputs that are no activations.
    pub(super) fn gates(self) -> usize {
        match self {
            Self::Delta { v_heads, .. } => self.decays() + v_heads,
            Self::Mamba1 { channels } => channels + 2 * MAMBA1_STATE,
            Self::Mamba2 { heads, .. } => 2 * heads,
            Self::Lightning { .. } => 0,
        }
    }

    pub(super) fn random_gates(self, random: &mut Random) -> Vec<f32> {
        match self {
            Self::Delta { .. } | Self::Mamba2 { .. } => random.between(0.05, 0.99, self.gates()),
            Self::Mamba1 { channels } => {
                [random.between(0.001, 0.1, channels), random.between(-2.0, 2.0, 2 * MAMBA1_STATE)].concat()
            }
            Self::Lightning { .. } => Vec::new(),
        }
    }

    /// What belongs to the layer: A × log2 e and D of Mamba-1, D of Mamba-2, the decays of lightning.
    pub(super) fn random_weights(self, random: &mut Random) -> Vec<Vec<f32>> {
        match self {
            Self::Delta { .. } => Vec::new(),
            Self::Mamba1 { channels } => {
                vec![random.between(-24.0, -1.0, channels * MAMBA1_STATE), random.between(0.5, 1.5, channels)]
            }
            Self::Mamba2 { heads, .. } => vec![random.between(0.5, 1.5, heads)],
            Self::Lightning { heads, .. } => vec![random.between(0.5, 0.99, heads)],
        }
    }

    /// After the state's pointer: activations, gates and weights, the output, then the widths.
    pub(super) fn arguments(
        self,
        state: Arguments,
        activations: &Memory,
        gates: &Memory,
        weights: &[Memory],
        output: &Memory,
    ) -> Arguments {
        let arguments = state.memory(activations);
        let has_gates = self.gates() > 0;
        let arguments = if has_gates { arguments.memory(gates) } else { arguments };
        let arguments = weights.iter().fold(arguments, Arguments::memory).memory(output);
        match self {
            Self::Delta { k_heads, v_heads, v_dim, .. } => {
                arguments.count(k_heads).count(v_heads).count(v_dim)
            }
            Self::Mamba1 { channels } => arguments.count(channels),
            Self::Mamba2 { heads, head_dim, groups, .. } => {
                arguments.count(heads).count(head_dim).count(groups)
            }
            Self::Lightning { heads, .. } => arguments.count(heads),
        }
    }

    /// One step of one request in f64; `state` is left as it is afterwards.
    pub(super) fn reference(self, state: &mut [f64], before: Before<'_>) -> Vec<f64> {
        let Before { activations, gates, weights } = before;
        match self {
            Self::Delta { decay, k_heads, v_heads, k_dim, v_dim } => {
                let step = |(head, state): (usize, &mut [f64])| {
                    let decays = match decay {
                        Decay::Head => vec![gates[head]; k_dim],
                        Decay::Key => gates[head * k_dim..][..k_dim].to_vec(),
                    };
                    let k_head = head * k_heads / v_heads;
                    let head = DeltaHead {
                        decay: &decays,
                        beta: gates[self.decays() + head],
                        query: &activations[k_head * k_dim..][..k_dim],
                        key: &activations[(k_heads + k_head) * k_dim..][..k_dim],
                        value: &activations[2 * k_heads * k_dim + head * v_dim..][..v_dim],
                    };
                    delta_rule(state, &head)
                };
                state.chunks_mut(v_dim * k_dim).enumerate().flat_map(step).collect()
            }
            Self::Mamba1 { channels } => {
                let step = |(channel, state): (usize, &mut [f64])| {
                    // The kernel takes A × log2 e.
                    let a = &weights[0][channel * MAMBA1_STATE..][..MAMBA1_STATE];
                    let a: Vec<f64> = a.iter().map(|a| a * std::f64::consts::LN_2).collect();
                    let channel = Mamba1Channel {
                        step: gates[channel],
                        x: activations[channel],
                        a: &a,
                        b: &gates[channels..][..MAMBA1_STATE],
                        c: &gates[channels + MAMBA1_STATE..][..MAMBA1_STATE],
                        skip: weights[1][channel],
                    };
                    mamba1(state, &channel)
                };
                state.chunks_mut(MAMBA1_STATE).enumerate().map(step).collect()
            }
            Self::Mamba2 { heads, head_dim, d_state, groups } => {
                let step = |(head, state): (usize, &mut [f64])| {
                    let group = heads * head_dim + head * groups / heads * d_state;
                    let head = Mamba2Head {
                        decay: gates[head],
                        step: gates[heads + head],
                        x: &activations[head * head_dim..][..head_dim],
                        b: &activations[group..][..d_state],
                        c: &activations[group + groups * d_state..][..d_state],
                        skip: weights[0][head],
                    };
                    mamba2(state, &head)
                };
                state.chunks_mut(head_dim * d_state).enumerate().flat_map(step).collect()
            }
            Self::Lightning { heads, dim } => {
                let step = |(head, state): (usize, &mut [f64])| {
                    let [query, key, value] =
                        [0, 1, 2].map(|part| &activations[(part * heads + head) * dim..][..dim]);
                    lightning(state, weights[0][head], query, key, value)
                };
                state.chunks_mut(dim * dim).enumerate().flat_map(step).collect()
            }
        }
    }
}
