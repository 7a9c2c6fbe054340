//! The GPU: what a machine has for measuring on one, and one that is in use. Nothing here knows what is measured.
//!
//! `driver` asks the driver what is there without more than loading a library, `images` finds code of the kernels that the
//! device runs, `launch` starts kernels, `memory` is theirs. [`Gpu`] keeps the context. All calls of the binding are in this
//! folder; `symbols` are those that it needs.

mod driver;
mod error;
mod images;
mod launch;
mod memory;
mod registered;
mod symbols;
mod telemetry;
mod used;

pub(crate) use driver::{Device, Driver};
pub(crate) use error::GpuError;
pub(crate) use launch::{Arguments, Graph, Kernel, Stopwatch};
pub(crate) use memory::{Exchange, Memory};
pub(crate) use registered::Registered;
pub(crate) use telemetry::Telemetry;
pub(crate) use used::Gpu;
