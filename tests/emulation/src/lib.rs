//! Kernels of the agent, run on a CPU: the text of `agent/kernels` is compiled with a C++ compiler over a shim that gives
//! every GPU thread a fiber. What is shown so is the logic: results against f64, that no order of threads changes them, that
//! no two threads touch a place without an order between them, that no one leaves its memory. What is not: speed, fences,
//! and an operand's layout that shim and kernel would misread in the same way. The times of such runs mean nothing.
#![cfg(unix)]

mod faults;
mod job;
mod numbers;
mod run;

use std::path::Path;

pub use faults::*;
pub use job::{Argument, Buffer, Job, Launch};
pub use numbers::{Random, Storage, bf16, f32s, floats, narrow, to_bf16};
pub use run::{Failure, ORDERS, Results, run, run_everywhere, run_plain};

/// Every kernel of the agent by its name, separated by spaces.
pub const KERNELS: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels"));

/// The folder of libraries that stand for NVIDIA's: a driver that runs the agent's kernels on the CPU, a compiler whose images
/// are names, and a management library that knows one device. On Linux alone.
pub fn nvidia() -> &'static Path {
    Path::new(concat!(env!("OUT_DIR"), "/nvidia"))
}
