//! Decode attention and narrow numbers in f64, which kernels are checked against; places in the pages are computed anew by
//! the `reference` module of each layout.

pub(crate) use kvscope_reference::attention::{Attention, attend};
pub(crate) use kvscope_reference::numbers::{bf16, e2m1, e4m3, e8m0, f32_le};
pub(crate) use kvscope_reference::{dot, relative_error};
