//! The CUDA driver, asked what is there. A machine without one, with a stub in a container image, with a driver that is too
//! old or without a device gives one line that says so.
#![allow(unsafe_code, reason = "the driver is a C library; its functions and buffers stay in this module")]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint};

use kvscope_kernels::Target;
use kvscope_sizing::Bytes;
use libloading::Library;

use super::symbols::NEEDED;

/// The driver's library by its plain name, as every installation has it.
const LIBRARY: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// A driver that answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Driver {
    /// The CUDA version that it knows, `13.0`.
    pub(crate) version: String,
    pub(crate) devices: Vec<Device>,
    /// Whether it says that it only stands for a driver.
    pub(crate) is_emulated: bool,
    /// The first function that measuring needs and that it lacks.
    pub(crate) lacks: Option<&'static str>,
    number: c_int,
}

/// What a device says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Device {
    /// Its place among the devices that this process may see.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) capability: (u32, u32),
    pub(crate) memory: Bytes,
    pub(crate) multiprocessors: u32,
    pub(crate) second_level_cache: Bytes,
    /// That of a block, where a kernel asks for it.
    pub(crate) most_shared: Bytes,
}

impl Device {
    /// The image of the kernels that runs on it; `None` for chips before A100.
    pub(crate) fn target(&self) -> Option<Target> {
        Target::for_capability(self.capability)
    }
}

/// Why there is no GPU to measure on: one line each.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoGpu {
    #[error("no CUDA driver here ({0})")]
    Library(String),
    #[error("the CUDA driver library has no {0}: a stub of a container image, or a driver that is too old")]
    Symbol(&'static str),
    #[error("the CUDA driver could not {what}: error {code}, {meaning}")]
    Call { what: &'static str, code: c_int, meaning: &'static str },
    #[error("the CUDA driver {0} finds no device")]
    Device(String),
    #[error("the CUDA driver {version} is too old; measuring needs one for CUDA {least} or newer: {why}")]
    Old { version: String, least: &'static str, why: String },
    #[error("no device that the kernels run on: they need compute capability 8.0 (A100) or newer, here: {0}")]
    Chips(String),
}

/// What the kernels' images and the bindings need.
const LEAST_VERSION: (c_int, &str) = (12000, "12.0");
/// A driver that stands for one in tests has this function.
const EMULATION: &[u8] = b"kvscope_emulated_driver";

impl Driver {
    /// Loads the driver of this machine and asks it.
    pub(crate) fn find() -> Result<Self, NoGpu> {
        Self::open(OsStr::new(LIBRARY))
    }

    fn open(library: &OsStr) -> Result<Self, NoGpu> {
        // SAFETY: loading the driver runs NVIDIA's own initialisers, which ask nothing of the caller.
        let library = unsafe { Library::new(library) }.map_err(|error| NoGpu::Library(error.to_string()))?;
        let calls = Calls::of(&library)?;
        let mut version = 0;
        // SAFETY: types are those of the driver API's documentation; every place that is written to is live.
        unsafe {
            check("start", (calls.init)(0))?;
            check("tell its version", (calls.version)(&raw mut version))?;
        }
        let number = version;
        let version = format!("{}.{}", version / 1000, version % 1000 / 10);
        let mut count = 0;
        // SAFETY: as above.
        check("count its devices", unsafe { (calls.count)(&raw mut count) })?;
        if count <= 0 {
            return Err(NoGpu::Device(version));
        }
        let devices = (0..count).map(|number| calls.device(number)).collect::<Result<_, _>>()?;
        // SAFETY: the symbols are looked up and not called.
        let has = |name: &[u8]| unsafe { library.get::<unsafe extern "C" fn()>(name).is_ok() };
        let lacks = NEEDED.into_iter().find(|name| !has(name.as_bytes()));
        let driver = Self { version, devices, is_emulated: has(EMULATION), lacks, number };
        // The binding finds by name what is loaded, so that both ask the same library.
        std::mem::forget(library);
        Ok(driver)
    }

    #[cfg(test)]
    pub(crate) fn for_tests(version: &str, devices: Vec<Device>) -> Self {
        Self { version: version.to_owned(), devices, is_emulated: false, lacks: None, number: 13000 }
    }

    /// The device that is measured, the first with kernels, or why there is none.
    pub(crate) fn measured(&self) -> Result<&Device, NoGpu> {
        let (least, words) = LEAST_VERSION;
        let old = |why: String| NoGpu::Old { version: self.version.clone(), least: words, why };
        if self.number < least {
            return Err(old("update it".to_owned()));
        }
        if let Some(name) = self.lacks {
            return Err(old(format!("its library has no {name}")));
        }
        self.devices.iter().find(|device| device.target().is_some()).ok_or_else(|| {
            let chips = self.devices.iter().map(|device| {
                let (major, minor) = device.capability;
                format!("{} ({major}.{minor})", device.name)
            });
            NoGpu::Chips(chips.collect::<Vec<_>>().join(", "))
        })
    }
}

/// The few functions that are needed. All give 0 where they succeed.
#[derive(Clone, Copy, Debug)]
struct Calls {
    init: unsafe extern "C" fn(c_uint) -> c_int,
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
    get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    memory: unsafe extern "C" fn(*mut usize, c_int) -> c_int,
}

impl Calls {
    fn of(library: &Library) -> Result<Self, NoGpu> {
        fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T, NoGpu> {
            // SAFETY: `T` is the type that the driver API's documentation gives to that name.
            unsafe { library.get::<T>(name.as_bytes()) }.map(|found| *found).map_err(|_| NoGpu::Symbol(name))
        }
        Ok(Self {
            init: symbol(library, "cuInit")?,
            version: symbol(library, "cuDriverGetVersion")?,
            count: symbol(library, "cuDeviceGetCount")?,
            get: symbol(library, "cuDeviceGet")?,
            name: symbol(library, "cuDeviceGetName")?,
            attribute: symbol(library, "cuDeviceGetAttribute")?,
            memory: symbol(library, "cuDeviceTotalMem_v2")?,
        })
    }

    fn device(&self, number: c_int) -> Result<Device, NoGpu> {
        let (mut device, mut memory, mut name) = (0, 0_usize, [0; 256]);
        // SAFETY: every place that is written to is live, and the name's length is given.
        let name = unsafe {
            check("open a device", (self.get)(&raw mut device, number))?;
            check("name a device", (self.name)(name.as_mut_ptr(), 255, device))?;
            check("tell a device's memory", (self.memory)(&raw mut memory, device))?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        let attribute = |attribute: c_int| {
            let mut value = 0;
            // SAFETY: as above.
            check("tell an attribute", unsafe { (self.attribute)(&raw mut value, attribute, device) })?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        Ok(Device {
            number: usize::try_from(number).unwrap_or(0),
            name,
            // Numbers of CUdevice_attribute.
            capability: (attribute(75)?, attribute(76)?),
            memory: Bytes::new(memory as u64),
            multiprocessors: attribute(16)?,
            second_level_cache: Bytes::new(attribute(38)?.into()),
            most_shared: Bytes::new(attribute(97)?.into()),
        })
    }
}

fn check(what: &'static str, code: c_int) -> Result<(), NoGpu> {
    if code == 0 { Ok(()) } else { Err(NoGpu::Call { what, code, meaning: meaning(code) }) }
}

/// What the driver API's documentation says of the codes that a start can end with.
pub(super) fn meaning(code: c_int) -> &'static str {
    match code {
        1 => "an argument that is not allowed",
        2 => "out of memory",
        34 => "this library is a stub; the real one comes with NVIDIA's driver",
        35 => "the kernel's driver is older than this library; update it",
        46 => "the device is in use by another process or not available",
        98 | 200 | 209 => "no image of the kernels that this device runs",
        100 => "no device; is it given to this container?",
        101 => "no such device",
        214 => "a memory error that cannot be corrected",
        218 | 222 => "this driver is too old for the kernels' PTX",
        500 => "no such kernel in the image",
        700 => "a kernel left its memory",
        701 => "a kernel asks for more registers or shared memory than the device has",
        702 => "a kernel ran longer than the system's display allows",
        715 => "an instruction that the device does not have",
        716 => "an address that is not aligned",
        719 => "a kernel failed",
        802 => "the system is not ready; the fabric manager may still start",
        803 => "library and kernel driver are of different versions; restart after an update",
        804 => "this compatibility library does not work on this device",
        _ => "see CUresult in NVIDIA's documentation",
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// A library with a driver's functions, built with the C compiler that Rust links with.
    fn fake(folder: &Path, define: &str) -> std::path::PathBuf {
        let (source, library) = (folder.join("fake.c"), folder.join("libfake.so"));
        std::fs::write(&source, include_str!("fake_driver.c")).unwrap();
        let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        command.args(["-shared", "-fPIC"]).arg(format!("-D{define}")).arg("-o").args([&library, &source]);
        assert!(command.status().unwrap().success());
        library
    }

    fn probe(define: &str) -> Result<Driver, NoGpu> {
        let folder = tempfile::tempdir().unwrap();
        Driver::open(fake(folder.path(), define).as_os_str())
    }

    #[test]
    fn devices_say_what_they_are_and_which_image_runs_on_them() {
        let driver = probe("DEVICES=2").unwrap();
        assert_eq!((driver.version.as_str(), driver.devices.len()), ("12.8", 2));
        let device = &driver.devices[1];
        assert_eq!((device.number, driver.is_emulated), (1, false));
        // It has only what a look at the devices needs.
        let refused = driver.measured().unwrap_err().to_string();
        assert!(refused.contains("driver 12.8 is too old") && refused.contains("has no cu"), "{refused}");
        assert_eq!((device.name.as_str(), device.capability), ("Emulated GPU 1", (9, 0)));
        assert_eq!((device.memory, device.multiprocessors), (Bytes::new(80 << 30), 132));
        assert_eq!(device.target().map(Target::name), Some("sm_90a"));
    }

    #[test]
    fn every_way_of_having_no_gpu_is_one_line() {
        let missing = Driver::open(OsStr::new("libnothing-of-the-kind.so.1")).unwrap_err().to_string();
        assert!(missing.starts_with("no CUDA driver here"), "{missing}");
        for (define, words) in [
            ("STUB", "has no cuDeviceGetCount"),
            ("INIT=100", "could not start: error 100, no device"),
            ("INIT=803", "of different versions"),
            ("DEVICES=0", "the CUDA driver 12.8 finds no device"),
            ("BUSY=46", "could not open a device: error 46, the device is in use"),
        ] {
            let line = probe(define).unwrap_err().to_string();
            assert!(line.contains(words) && !line.contains('\n'), "{define}: {line}");
        }
    }
}
