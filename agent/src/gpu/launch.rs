//! Kernels with their arguments, and graphs of them.
#![allow(unsafe_code, reason = "kernels are started through the driver's C interface")]

use std::ffi::c_void;
use std::rc::Rc;
use std::time::Duration;

use cudarc::driver::sys::{CUfunction_attribute, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaEvent, CudaFunction, CudaGraph, result};

use super::{Gpu, GpuError, Memory};

/// A loaded kernel.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    function: CudaFunction,
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub(crate) shared: u32,
}

/// The structure that a kernel takes, member by member as C++ lays it out.
#[derive(Clone, Debug, Default)]
#[must_use]
pub(crate) struct Arguments {
    bytes: Vec<u8>,
}

/// Kernels that were recorded once and run together.
pub(crate) struct Graph {
    gpu: Rc<Gpu>,
    graph: Option<CudaGraph>,
}

/// Two moments of the stream.
pub(crate) struct Stopwatch {
    gpu: Rc<Gpu>,
    events: Option<(CudaEvent, CudaEvent)>,
}

impl Kernel {
    pub(super) fn new(function: CudaFunction, threads: u32, shared: u32) -> Result<Self, GpuError> {
        const WITHOUT_ASKING: u32 = 48 << 10;
        if shared > WITHOUT_ASKING {
            let bytes = i32::try_from(shared).expect("shared memory is some hundred KiB");
            let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function
                .set_attribute(most, bytes)
                .map_err(|error| GpuError::of("give a kernel its shared memory", error))?;
        }
        Ok(Self { function, threads, shared })
    }

    /// Blocks of it that one multiprocessor runs at once; at least 1.
    pub(crate) fn blocks_at_once(&self) -> u32 {
        let asked = self.function.occupancy_max_active_blocks_per_multiprocessor(
            self.threads,
            self.shared as usize,
            None,
        );
        asked.map_or(1, |blocks| blocks.max(1))
    }
}

impl Arguments {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A pointer to the start of memory.
    pub(crate) fn memory(self, memory: &Memory) -> Self {
        self.long(memory.at(0))
    }

    /// A pointer into memory.
    pub(crate) fn memory_at(self, memory: &Memory, offset: u64) -> Self {
        self.long(memory.at(offset))
    }

    /// A pointer to memory that may be absent.
    pub(crate) fn optional(self, memory: Option<&Memory>) -> Self {
        self.long(memory.map_or(0, |memory| memory.at(0)))
    }

    /// A 32-bit count.
    pub(crate) fn count(self, value: usize) -> Self {
        let value = i32::try_from(value).expect("counts were checked when the case was made");
        self.member(&value.to_le_bytes())
    }

    pub(crate) fn float(self, value: f32) -> Self {
        self.member(&value.to_le_bytes())
    }

    pub(crate) fn word(self, value: u32) -> Self {
        self.member(&value.to_le_bytes())
    }

    /// A pointer or a 64-bit count.
    pub(crate) fn long(self, value: u64) -> Self {
        self.member(&value.to_le_bytes())
    }

    fn member(mut self, bytes: &[u8]) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(bytes.len()), 0);
        self.bytes.extend(bytes);
        self
    }

    /// Aligned, and longer than any kernel's structure: the driver copies as many bytes as the kernel takes.
    fn words(&self) -> [u64; Self::MOST] {
        let mut words = [0; Self::MOST];
        for (word, bytes) in words.iter_mut().zip(self.bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        assert!(self.bytes.len() <= 8 * Self::MOST, "kernels take at most {} bytes", 8 * Self::MOST);
        words
    }

    const MOST: usize = 32;
}

impl Gpu {
    /// Starts a kernel on a grid of blocks.
    pub(crate) fn launch(
        &self,
        kernel: &Kernel,
        grid: [usize; 3],
        arguments: &Arguments,
    ) -> Result<(), GpuError> {
        self.check()?;
        let [x, y, z] =
            grid.map(|blocks| u32::try_from(blocks).expect("grids were checked with their cases"));
        let mut words = arguments.words();
        let mut parameters = [words.as_mut_ptr().cast::<c_void>()];
        // SAFETY: every kernel takes one structure, which the caller names member by member; the driver copies it now. Memory
        // that it points to waits for the kernel before it is given back.
        let launched = unsafe {
            result::launch_kernel(
                kernel.function.cu_function(),
                (x, y, z),
                (kernel.threads, 1, 1),
                kernel.shared,
                self.raw_stream(),
                &mut parameters,
            )
        };
        self.done("start a kernel", launched)
    }

    /// Records what `work` starts, without running it.
    pub(crate) fn record(
        self: &Rc<Self>,
        work: impl FnOnce() -> Result<(), GpuError>,
    ) -> Result<Graph, GpuError> {
        self.check()?;
        let stream = self.stream();
        let begun = stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        self.done("record kernels", begun)?;
        let worked = work();
        // Ended in any case, or the stream would stay in this state.
        let graph = stream.end_capture(CUgraphInstantiate_flags(0));
        worked?;
        let graph = self.done("make a graph of kernels", graph)?;
        if let Some(graph) = &graph {
            self.done("send a graph of kernels", graph.upload())?;
        }
        Ok(Graph { gpu: Rc::clone(self), graph })
    }
}

impl Graph {
    /// Starts everything that was recorded.
    pub(crate) fn start(&self) -> Result<(), GpuError> {
        self.gpu.check()?;
        match &self.graph {
            Some(graph) => self.gpu.done("start a graph of kernels", graph.launch()),
            None => Ok(()),
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.gpu.wait().is_err() {
            std::mem::forget(self.graph.take());
        }
    }
}

impl Stopwatch {
    pub(crate) fn new(gpu: &Rc<Gpu>) -> Result<Self, GpuError> {
        Ok(Self { gpu: Rc::clone(gpu), events: Some((gpu.event()?, gpu.event()?)) })
    }

    /// How long the device took for what `work` starts.
    pub(crate) fn time(&self, work: impl FnOnce() -> Result<(), GpuError>) -> Result<Duration, GpuError> {
        let (begin, end) = self.events.as_ref().expect("events are there until the end");
        let gpu = &self.gpu;
        gpu.check()?;
        gpu.done("note a moment", begin.record(gpu.stream()))?;
        work()?;
        gpu.done("note a moment", end.record(gpu.stream()))?;
        gpu.wait_for(end)?;
        let milliseconds = gpu.done("tell a time", begin.elapsed_ms(end))?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        if self.gpu.check().is_err() {
            std::mem::forget(self.events.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The System V ABI aligns each member to its size: an int before a pointer leaves 4 bytes.
    #[test]
    fn members_lie_where_c_puts_them() {
        let arguments = Arguments::new().long(0x0102).count(7).long(9).float(1.0);
        let words = arguments.words();
        assert_eq!(&words[..4], &[0x0102, 7, 9, u64::from(1.0_f32.to_bits())]);
        let two = Arguments::new().count(1).word(2).words();
        assert_eq!(two[0], 2 << 32 | 1);
    }
}
