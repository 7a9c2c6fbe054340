//! One decode step of every recurrence in f64, which the kernels are checked against.

pub(crate) use kvscope_reference::recurrence::{
    DeltaHead, Mamba1Channel, Mamba2Head, Outcome, convolution, delta_rule, lightning, mamba1, mamba2, silu,
};
pub(crate) use kvscope_reference::widen;
