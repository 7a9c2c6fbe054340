use std::ffi::c_int;

use cudarc::driver::DriverError;

use super::driver::{NoGpu, meaning};
use crate::bench::BenchError;

/// What went wrong on a device: one line each.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum GpuError {
    /// There is no device to measure on.
    #[error("{0}")]
    None(String),
    /// No image of the kernels could be had.
    #[error("{0}")]
    Image(String),
    /// The driver refused memory.
    #[error("the device has no {0} bytes left")]
    Memory(u64),
    /// The driver refused anything else.
    #[error("the CUDA driver could not {what}: error {code}, {}", meaning(*.code))]
    Call {
        /// What was asked for.
        what: &'static str,
        /// The driver's number for it.
        code: c_int,
    },
    /// A kernel did not end.
    #[error("a kernel did not end within {seconds} s")]
    Hang {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The device failed before.
    #[error("it failed before and gives no more results to this process")]
    Lost,
}

/// Codes after which a context answers every call with the same error.
const STICKY: [c_int; 14] = [4, 46, 201, 214, 220, 700, 702, 709, 714, 715, 716, 717, 718, 719];

impl GpuError {
    pub(super) fn of(what: &'static str, error: DriverError) -> Self {
        // Never by the error's own text: the binding asks the driver for it and panics where it cannot.
        let code = error.0 as c_int;
        Self::Call { what, code }
    }

    /// Whether the device can do nothing more in this process.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            Self::Hang { .. } | Self::Lost => true,
            Self::Call { code, .. } => STICKY.contains(code) || *code == 999,
            _ => false,
        }
    }
}

impl From<NoGpu> for GpuError {
    fn from(error: NoGpu) -> Self {
        Self::None(error.to_string())
    }
}

impl From<GpuError> for BenchError {
    fn from(error: GpuError) -> Self {
        match error {
            GpuError::Memory(bytes) => Self::Memory { bytes, why: "out of device memory".to_owned() },
            lost if lost.is_loss() => Self::DeviceLost(lost.to_string()),
            other => Self::Device(other.to_string()),
        }
    }
}
