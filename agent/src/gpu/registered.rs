//! Memory of this process that the device copies to and from by itself while this lives.
#![allow(
    unsafe_code,
    reason = "the driver locks the pages of a range that this module holds no reference to"
)]

use std::ffi::c_void;
use std::fmt;
use std::rc::Rc;

use cudarc::driver::sys;

use super::{Gpu, GpuError};

/// A locked range. Whoever registers it keeps it mapped until this is dropped.
pub(crate) struct Registered {
    gpu: Rc<Gpu>,
    start: *mut c_void,
}

impl Registered {
    /// Locks the pages of a range, which must begin at a page.
    pub(crate) fn new(gpu: &Rc<Gpu>, range: &mut [u8]) -> Result<Self, GpuError> {
        gpu.check()?;
        let start = range.as_mut_ptr().cast();
        // SAFETY: the range is mapped, and stays so as long as the caller keeps its promise.
        let locked = unsafe {
            sys::cuMemHostRegister_v2(start, range.len(), sys::CU_MEMHOSTREGISTER_PORTABLE).result()
        };
        gpu.done("lock memory of this process", locked)?;
        Ok(Self { gpu: Rc::clone(gpu), start })
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("start", &self.start).finish_non_exhaustive()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.gpu.wait().is_ok() {
            // SAFETY: nothing copies to or from it any more.
            let _ = unsafe { sys::cuMemHostUnregister(self.start).result() };
        }
    }
}
