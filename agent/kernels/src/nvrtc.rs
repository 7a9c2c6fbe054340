//! NVIDIA's run-time compiler, loaded where it is used: a machine without it builds and runs the agent.
#![allow(unsafe_code, reason = "NVRTC is a C library; its handles and buffers stay in this module")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library;

use crate::search::libraries;
use crate::{Error, Source, Target, places};

/// A loaded compiler. It may be used by several threads.
#[derive(Debug)]
pub struct Nvrtc {
    functions: Functions,
    version: (c_int, c_int),
    path: String,
    // Kept loaded, in this order: NVRTC finds its other half by name among what is loaded.
    _library: Library,
    _builtins: Option<Library>,
}

/// Code for one target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Compiled {
    /// A cubin, or PTX without its closing NUL.
    pub image: Vec<u8>,
    /// What compiler and assembler said; registers and memory of each kernel are in it, PTX aside.
    pub log: String,
}

type Handle = *mut c_void;

/// The calls that are needed, by NVRTC's documentation; all give 0 where they succeed.
#[derive(Clone, Copy, Debug)]
struct Functions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int,
    log: Output,
    cubin: Output,
    ptx: Output,
    reason: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// A call for a size and a call that fills so many bytes.
#[derive(Clone, Copy, Debug)]
struct Output {
    size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    fill: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
}

/// A program of NVRTC's, given back at its end.
struct Program<'a> {
    nvrtc: &'a Nvrtc,
    handle: Handle,
}

impl Nvrtc {
    /// Loads it from the first of [`places`] that has it, or by its plain name.
    pub fn find(asked_for: Option<&Path>) -> Result<Self, Error> {
        let places = places(asked_for);
        if let Some((builtins, library)) = places.iter().find_map(|folder| libraries(folder)) {
            return Self::load(builtins.as_deref(), &library);
        }
        if asked_for.is_none() {
            let names = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];
            if let Some(found) = names.iter().find_map(|name| Self::load(None, Path::new(name)).ok()) {
                return Ok(found);
            }
        }
        let tried = places.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
        Err(Error::Missing { tried: if tried.is_empty() { "the system's places".to_owned() } else { tried } })
    }

    /// Its version, `13.0`.
    pub fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// The library's file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What the compiler is asked for, in words that two equal builds share.
    pub fn options(target: Target) -> Vec<String> {
        let mut options = vec![
            format!("--gpu-architecture={}", target.name()),
            "--std=c++17".to_owned(),
            // Shared text that one file does not need.
            "--diag-suppress=177".to_owned(),
        ];
        if !target.is_portable() {
            options.push("--ptxas-options=-v".to_owned());
        }
        options
    }

    /// Compiles a file of kernels.
    pub fn compile(&self, source: &Source, target: Target) -> Result<Compiled, Error> {
        self.compile_text(source.name, &source.program(), target)
    }

    fn compile_text(&self, name: &str, text: &str, target: Target) -> Result<Compiled, Error> {
        let program = Program::new(self, name, text)?;
        let options: Vec<CString> = Self::options(target).into_iter().map(c_string).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).expect("a handful of options");
        // SAFETY: the handle is live; the options live until the call returns.
        let status = unsafe { (self.functions.compile)(program.handle, count, pointers.as_ptr()) };
        let log = String::from_utf8_lossy(&program.output(self.functions.log, "give its log")?).into_owned();
        if status != 0 {
            let log = if log.is_empty() { self.reason(status) } else { log };
            return Err(Error::Compile { kernels: name.to_owned(), target: target.name(), log });
        }
        let image = if target.is_portable() {
            program.output(self.functions.ptx, "give PTX")?
        } else {
            program.bytes(self.functions.cubin, "give a cubin")?
        };
        Ok(Compiled { image, log })
    }

    fn load(builtins: Option<&Path>, library: &Path) -> Result<Self, Error> {
        let open = |path: &Path| {
            // SAFETY: NVIDIA's library has no initialisers that ask anything of the caller.
            unsafe { Library::new(path) }
                .map_err(|source| Error::Load { path: path.display().to_string(), source })
        };
        let builtins = builtins.map(open).transpose()?;
        let loaded = open(library)?;
        let functions = Functions::of(&loaded)
            .map_err(|source| Error::Load { path: library.display().to_string(), source })?;
        let mut version = (0, 0);
        // SAFETY: both places are live.
        unsafe { (functions.version)(&raw mut version.0, &raw mut version.1) };
        let path = library.display().to_string();
        Ok(Self { functions, version, path, _library: loaded, _builtins: builtins })
    }

    fn check(&self, status: c_int, what: &'static str) -> Result<(), Error> {
        if status == 0 { Ok(()) } else { Err(Error::Call { what, reason: self.reason(status) }) }
    }

    fn reason(&self, status: c_int) -> String {
        // SAFETY: the library answers with a text of its own for every number.
        unsafe {
            let text = (self.functions.reason)(status);
            if text.is_null() {
                format!("status {status}")
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        }
    }
}

impl Functions {
    fn of(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: types are those of NVRTC's documentation.
        unsafe {
            Ok(Self {
                version: *library.get(b"nvrtcVersion\0")?,
                create: *library.get(b"nvrtcCreateProgram\0")?,
                destroy: *library.get(b"nvrtcDestroyProgram\0")?,
                compile: *library.get(b"nvrtcCompileProgram\0")?,
                log: Output {
                    size: *library.get(b"nvrtcGetProgramLogSize\0")?,
                    fill: *library.get(b"nvrtcGetProgramLog\0")?,
                },
                cubin: Output {
                    size: *library.get(b"nvrtcGetCUBINSize\0")?,
                    fill: *library.get(b"nvrtcGetCUBIN\0")?,
                },
                ptx: Output {
                    size: *library.get(b"nvrtcGetPTXSize\0")?,
                    fill: *library.get(b"nvrtcGetPTX\0")?,
                },
                reason: *library.get(b"nvrtcGetErrorString\0")?,
            })
        }
    }
}

impl<'a> Program<'a> {
    fn new(nvrtc: &'a Nvrtc, name: &str, text: &str) -> Result<Self, Error> {
        let (text, name) = (c_string(text), c_string(format!("{name}.cu")));
        let mut handle = ptr::null_mut();
        // SAFETY: the texts live until the call returns; no headers are given.
        let status = unsafe {
            (nvrtc.functions.create)(
                &raw mut handle,
                text.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        nvrtc.check(status, "take a program")?;
        Ok(Self { nvrtc, handle })
    }

    /// A text, without its closing NUL.
    fn output(&self, output: Output, what: &'static str) -> Result<Vec<u8>, Error> {
        let mut bytes = self.bytes(output, what)?;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Ok(bytes)
    }

    fn bytes(&self, output: Output, what: &'static str) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        // SAFETY: the handle is live, and the buffer has the size that the library has just named.
        unsafe {
            self.nvrtc.check((output.size)(self.handle, &raw mut size), what)?;
            let mut bytes = vec![0_u8; size];
            self.nvrtc.check((output.fill)(self.handle, bytes.as_mut_ptr().cast()), what)?;
            Ok(bytes)
        }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is live until here.
        unsafe { (self.nvrtc.functions.destroy)(&raw mut self.handle) };
    }
}

fn c_string(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).expect("texts of kernels and options hold no NUL")
}
