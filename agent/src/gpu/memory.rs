//! Memory of the device.
#![allow(
    unsafe_code,
    reason = "the driver hands out addresses; places are checked here before they are given to it"
)]

use std::rc::Rc;

use cudarc::driver::{result, sys};

use super::{Gpu, GpuError};

/// Memory on the device, given back at its end.
pub(crate) struct Memory {
    gpu: Rc<Gpu>,
    address: sys::CUdeviceptr,
    bytes: u64,
}

/// One copy between the host and a place in memory of the device.
pub(crate) enum Exchange<'a> {
    /// To the device.
    To(u64, &'a [u8]),
    /// From it.
    From(u64, &'a mut [u8]),
}

impl Memory {
    /// Asks for memory; what it holds is not defined.
    pub(crate) fn new(gpu: &Rc<Gpu>, bytes: u64) -> Result<Self, GpuError> {
        gpu.check()?;
        let count = usize::try_from(bytes.max(1)).map_err(|_| GpuError::Memory(bytes))?;
        // SAFETY: the context is current on this thread.
        let asked = unsafe { result::malloc_sync(count) };
        match asked {
            Ok(address) => Ok(Self { gpu: Rc::clone(gpu), address, bytes }),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(GpuError::Memory(bytes)),
            Err(error) => Err(gpu.failed("give memory", error)),
        }
    }

    /// The same with these bytes in it.
    pub(crate) fn of(gpu: &Rc<Gpu>, bytes: &[u8]) -> Result<Self, GpuError> {
        let memory = Self::new(gpu, bytes.len() as u64)?;
        memory.write(0, bytes)?;
        Ok(memory)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its address on the device, `offset` bytes in.
    pub(crate) fn at(&self, offset: u64) -> u64 {
        assert!(offset <= self.bytes, "{offset} is beyond {} bytes", self.bytes);
        self.address + offset
    }

    /// Puts bytes there, after what was started before.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.gpu.check()?;
        self.demand(offset, bytes.len() as u64);
        // SAFETY: the place lies within this memory, and the bytes live until the copy has ended.
        let copied = unsafe { result::memcpy_htod_async(self.at(offset), bytes, self.gpu.raw_stream()) };
        self.gpu.done("copy to the device", copied)?;
        self.gpu.wait()
    }

    /// What is there after all that was started before.
    pub(crate) fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, GpuError> {
        self.gpu.wait()?;
        self.demand(offset, bytes as u64);
        let mut to = vec![0; bytes];
        // SAFETY: the place lies within this memory, and the buffer lives until the copy has ended.
        let copied = unsafe { result::memcpy_dtoh_async(&mut to, self.at(offset), self.gpu.raw_stream()) };
        self.gpu.done("copy from the device", copied)?;
        self.gpu.wait()?;
        Ok(to)
    }

    /// Copies all of these, one after the other without a pause; they are done when this returns.
    pub(crate) fn exchange(&self, copies: &mut [Exchange<'_>]) -> Result<(), GpuError> {
        self.gpu.check()?;
        let started = copies.iter_mut().try_for_each(|copy| self.start(copy));
        // Also after an error: what was started before still uses the caller's memory.
        let ended = self.gpu.wait();
        started.and(ended)
    }

    fn start(&self, copy: &mut Exchange<'_>) -> Result<(), GpuError> {
        let stream = self.gpu.raw_stream();
        match copy {
            Exchange::To(offset, bytes) => {
                self.demand(*offset, bytes.len() as u64);
                // SAFETY: the place lies within this memory, and `exchange` waits before the bytes are given back.
                let copied = unsafe { result::memcpy_htod_async(self.at(*offset), bytes, stream) };
                self.gpu.done("copy to the device", copied)
            }
            Exchange::From(offset, bytes) => {
                self.demand(*offset, bytes.len() as u64);
                // SAFETY: as above.
                let copied = unsafe { result::memcpy_dtoh_async(bytes, self.at(*offset), stream) };
                self.gpu.done("copy from the device", copied)
            }
        }
    }

    /// Every byte becomes `value`, after what was started before.
    pub(crate) fn fill(&self, value: u8) -> Result<(), GpuError> {
        self.gpu.check()?;
        let count = usize::try_from(self.bytes).map_err(|_| GpuError::Memory(self.bytes))?;
        // SAFETY: the whole of this memory.
        let filled = unsafe { result::memset_d8_async(self.address, value, count, self.gpu.raw_stream()) };
        self.gpu.done("fill memory", filled)
    }

    /// The first `pattern` bytes again and again, until it is full.
    pub(crate) fn repeat(&self, pattern: u64) -> Result<(), GpuError> {
        self.demand(0, pattern);
        let mut done = pattern;
        while done > 0 && done < self.bytes {
            // A whole number of patterns, or the rest.
            let more = done.min(self.bytes - done);
            let count = usize::try_from(more).map_err(|_| GpuError::Memory(more))?;
            // SAFETY: both places lie within this memory and do not meet.
            let copied = unsafe {
                result::memcpy_dtod_async(self.at(done), self.address, count, self.gpu.raw_stream())
            };
            self.gpu.done("copy on the device", copied)?;
            done += more;
        }
        self.gpu.wait()
    }

    fn demand(&self, offset: u64, bytes: u64) {
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(fits, "{bytes} bytes at {offset} are beyond {}", self.bytes);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // To give memory back waits for kernels, and one that hangs would be waited for without end.
        if self.gpu.wait().is_ok() {
            // SAFETY: nothing uses it any more.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}
