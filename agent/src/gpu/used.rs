//! A device in use: its context, the loaded kernels, and whether it still answers.
#![allow(unsafe_code, reason = "one switch of the binding is unsafe; it is thrown before anything is shared")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUevent_flags, CUresult, CUstream};
use cudarc::driver::{CudaContext, CudaEvent, CudaModule, CudaStream, DriverError};
use kvscope_kernels::SOURCES;

use super::images::Images;
use super::{Device, Driver, GpuError, Kernel};

/// A kernel that runs longer than this hangs. The longest step that is measured takes a few seconds.
const LIMIT: Duration = Duration::from_secs(30);
/// For tests and for very slow devices: another limit, in seconds.
const LIMIT_VARIABLE: &str = "KVSCOPE_GPU_LIMIT";
/// So long an end is looked for without a pause.
const EAGER: Duration = Duration::from_millis(2);

/// One device with one stream.
pub(crate) struct Gpu {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    device: Device,
    driver: String,
    uuid: Option<String>,
    is_emulated: bool,
    images: Images,
    modules: RefCell<HashMap<&'static str, Arc<CudaModule>>>,
    is_lost: Cell<bool>,
    limit: Duration,
    waited: CudaEvent,
}

impl Gpu {
    /// Takes the first device with kernels into use.
    pub(crate) fn open() -> Result<Rc<Self>, GpuError> {
        let driver = Driver::find()?;
        let device = driver.measured()?.clone();
        let opened = quietly(|| CudaContext::new(device.number))?;
        let context = opened.map_err(|error| GpuError::of("use the device", error))?;
        // SAFETY: there is one stream, so nothing needs to be ordered by events.
        unsafe { context.disable_event_tracking() };
        let call = |what| move |error| GpuError::of(what, error);
        let stream = context.new_stream().map_err(call("make a stream"))?;
        let waited =
            context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(call("make an event"))?;
        let target = device.target().expect("`measured` gives devices with kernels");
        let seconds = std::env::var(LIMIT_VARIABLE).ok().and_then(|text| text.parse().ok());
        Ok(Rc::new(Self {
            uuid: context.uuid().ok().map(|uuid| uuid_text(uuid.bytes)),
            context,
            stream,
            device,
            driver: driver.version,
            is_emulated: driver.is_emulated,
            images: Images::of(target),
            modules: RefCell::default(),
            is_lost: Cell::new(false),
            limit: seconds.map_or(LIMIT, Duration::from_secs),
            waited,
        }))
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The CUDA version of the driver.
    pub(crate) fn driver(&self) -> &str {
        &self.driver
    }

    pub(crate) fn uuid(&self) -> Option<&str> {
        self.uuid.as_deref()
    }

    pub(crate) fn is_emulated(&self) -> bool {
        self.is_emulated
    }

    /// Where the code of the kernels came from, once one is loaded.
    pub(crate) fn image_origin(&self) -> Option<String> {
        self.images.origin()
    }

    /// Free memory of the device now.
    pub(crate) fn free_bytes(&self) -> Result<u64, GpuError> {
        self.check()?;
        self.done("tell its free memory", self.context.mem_get_info()).map(|(free, _)| free as u64)
    }

    /// The kernel of a name, `threads` a block.
    pub(crate) fn kernel(&self, file: &str, name: &str, threads: u32) -> Result<Kernel, GpuError> {
        self.kernel_with_shared(file, name, threads, 0)
    }

    /// The same with so many bytes of dynamic shared memory a block.
    pub(crate) fn kernel_with_shared(
        &self,
        file: &str,
        name: &str,
        threads: u32,
        shared: u32,
    ) -> Result<Kernel, GpuError> {
        self.check()?;
        let module = self.module(file)?;
        let function = self.done("find a kernel", module.load_function(name))?;
        Kernel::new(function, threads, shared)
    }

    fn module(&self, file: &str) -> Result<Arc<CudaModule>, GpuError> {
        let source = SOURCES.iter().find(|source| source.name == file).expect("kernels are in a known file");
        if let Some(module) = self.modules.borrow().get(source.name) {
            return Ok(Arc::clone(module));
        }
        let module = self.images.load(source, &self.context)?;
        self.modules.borrow_mut().insert(source.name, Arc::clone(&module));
        Ok(module)
    }

    /// Waits until all that was started has ended.
    pub(crate) fn wait(&self) -> Result<(), GpuError> {
        self.check()?;
        self.done("note a moment", self.waited.record(&self.stream))?;
        self.wait_for(&self.waited)
    }

    /// Waits for a moment of the stream, but not for ever: a kernel that hangs would take the process with it.
    pub(super) fn wait_for(&self, event: &CudaEvent) -> Result<(), GpuError> {
        let begun = Instant::now();
        loop {
            if self.done("run a kernel", event.try_is_complete())? {
                return Ok(());
            }
            let waited = begun.elapsed();
            if waited > self.limit {
                self.is_lost.set(true);
                return Err(GpuError::Hang { seconds: self.limit.as_secs() });
            }
            if waited > EAGER {
                std::thread::sleep(Duration::from_micros(100));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    pub(super) fn event(&self) -> Result<CudaEvent, GpuError> {
        self.check()?;
        // The default flags; without any the binding makes one that tells no time.
        self.done("make an event", self.context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)))
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    pub(super) fn raw_stream(&self) -> CUstream {
        self.stream.cu_stream()
    }

    /// An error where the device failed before.
    pub(super) fn check(&self) -> Result<(), GpuError> {
        if self.is_lost.get() { Err(GpuError::Lost) } else { Ok(()) }
    }

    /// What a call of the driver gave, in this project's words.
    pub(super) fn done<T>(&self, what: &'static str, result: Result<T, DriverError>) -> Result<T, GpuError> {
        result.map_err(|error| self.failed(what, error))
    }

    pub(super) fn failed(&self, what: &'static str, error: DriverError) -> GpuError {
        if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return GpuError::Memory(0);
        }
        let error = GpuError::of(what, error);
        if error.is_loss() {
            self.is_lost.set(true);
        }
        error
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.is_lost.get() {
            // To give a context back waits for its kernels, and one of them may never end. The process's end takes it.
            std::mem::forget(Arc::clone(&self.context));
            std::mem::forget(Arc::clone(&self.stream));
            for module in self.modules.borrow().values() {
                std::mem::forget(Arc::clone(module));
            }
        }
    }
}

/// Runs what panics where the driver's library is not what it should be, without the panic's report.
fn quietly<T>(work: impl FnOnce() -> T + panic::UnwindSafe) -> Result<T, GpuError> {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let result = panic::catch_unwind(work);
    panic::set_hook(usual);
    result.map_err(|_| {
        GpuError::None("the CUDA driver library cannot be used: a function is missing".to_owned())
    })
}

/// As NVIDIA's tools print it.
fn uuid_text(bytes: [std::ffi::c_char; 16]) -> String {
    let byte = |(place, byte): (usize, std::ffi::c_char)| {
        let dash = if [4, 6, 8, 10].contains(&place) { "-" } else { "" };
        format!("{dash}{:02x}", byte.to_ne_bytes()[0])
    };
    std::iter::once("GPU-".to_owned()).chain(bytes.into_iter().enumerate().map(byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_as_nvidia_prints_it() {
        let mut bytes = [0; 16];
        bytes[0] = -1;
        bytes[15] = 0x1F;
        assert_eq!(uuid_text(bytes), "GPU-ff000000-0000-0000-0000-00000000001f");
    }

    #[test]
    fn a_panic_of_the_binding_becomes_a_line() {
        let error = quietly(|| panic!("Missing symbol")).map(|(): ()| ()).unwrap_err();
        assert!(error.to_string().contains("cannot be used"));
    }
}
