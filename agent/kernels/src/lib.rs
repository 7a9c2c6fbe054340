//! The GPU kernels of the agent: their text, what they are compiled for, and NVRTC, which compiles them.
//!
//! `*.cu` beside this folder are the kernels, `device.cuh` and `common.cuh` what they share. No CUDA header is needed. The
//! same text runs on a CPU in `tests/emulation`.

mod nvrtc;
mod search;
mod target;
mod usage;

use xxhash_rust::xxh3::xxh3_128;

pub use nvrtc::{Compiled, Nvrtc};
pub use search::places;
pub use target::{TARGETS, Target};
pub use usage::{Usage, usages};

/// One file of kernels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Source {
    /// Its name without the ending.
    pub name: &'static str,
    text: &'static str,
}

macro_rules! source {
    ($name:literal) => {
        Source { name: $name, text: include_str!(concat!("../", $name, ".cu")) }
    };
}

/// Every file of kernels, by name.
pub const SOURCES: [Source; 13] = [
    source!("ceilings"),
    source!("combine"),
    source!("compressor"),
    source!("convolution"),
    source!("delta"),
    source!("gqa"),
    source!("indexer"),
    source!("lightning"),
    source!("mamba1"),
    source!("mamba2"),
    source!("shared_rows"),
    source!("top_k"),
    source!("write"),
];

impl Source {
    /// What the compiler is given: the shared text and this file's, with the places that messages name.
    pub fn program(&self) -> String {
        let parts = [
            ("device.cuh", include_str!("../device.cuh")),
            ("common.cuh", include_str!("../common.cuh")),
            (&format!("{}.cu", self.name), self.text),
        ];
        let mut program = String::new();
        for (name, text) in parts {
            program.extend(["#line 1 \"", name, "\"\n", text, "\n"]);
        }
        program
    }

    /// The name of the file that holds an image of this text, from all that the image depends on.
    pub fn image_name(&self, target: Target, nvrtc_version: &str) -> String {
        let origin = [self.program(), Nvrtc::options(target).join(" "), nvrtc_version.to_owned()].join("\n");
        format!("{}-{nvrtc_version}-{:032x}.{}", self.name, xxh3_128(origin.as_bytes()), target.ending())
    }

    /// Whether a file of this name holds an image of this text, whichever NVRTC made it.
    pub fn is_image(&self, target: Target, file_name: &str) -> bool {
        let rest = file_name.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('-'));
        let version = rest.and_then(|rest| rest.split_once('-')).map(|(version, _)| version);
        version.is_some_and(|version| self.image_name(target, version) == file_name)
    }
}

/// Why kernels could not be compiled: one line each, a compiler's log aside.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No library in any place.
    #[error(
        "NVRTC is not here; looked in {tried}; name its folder with --nvrtc or KVSCOPE_NVRTC, or install it: python3 -m pip install nvidia-cuda-nvrtc"
    )]
    Missing {
        /// Where it was looked for.
        tried: String,
    },
    /// A library that does not load.
    #[error("{path}: {source}")]
    Load {
        /// The library.
        path: String,
        /// The system's error.
        source: libloading::Error,
    },
    /// The compiler's own refusal.
    #[error("{kernels} does not compile for {target}: {log}")]
    Compile {
        /// The file of kernels.
        kernels: String,
        /// What for.
        target: &'static str,
        /// What the compiler said.
        log: String,
    },
    /// Any other call that fails.
    #[error("NVRTC could not {what}: {reason}")]
    Call {
        /// What was asked for.
        what: &'static str,
        /// The library's word for it.
        reason: String,
    },
    /// A name that is no target.
    #[error("unknown target {name:?}; known: {known}")]
    Target {
        /// What was asked for.
        name: String,
        /// All names.
        known: String,
    },
    /// A log without the figures that were asked for.
    #[error("the log of {kernels} for {target} names no registers; NVRTC {version} prints it otherwise")]
    Log {
        /// The file of kernels.
        kernels: String,
        /// What for.
        target: &'static str,
        /// Of the library.
        version: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_text_target_and_compiler() {
        let target = TARGETS[0];
        let name = SOURCES[0].image_name(target, "13.0");
        assert!(name.starts_with("ceilings-13.0-") && name.ends_with("cubin"), "{name}");
        assert!(SOURCES[0].is_image(target, &name));
        assert!(!SOURCES[1].is_image(target, &name) && !SOURCES[0].is_image(TARGETS[1], &name));
        assert!(!SOURCES[0].is_image(target, "ceilings-13.0-0.cubin") && !SOURCES[0].is_image(target, "x"));
    }

    #[test]
    fn every_file_is_named_and_its_program_says_where_lines_are_from() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "cu"))
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        assert_eq!(files, SOURCES.map(|source| source.name));
        for source in SOURCES {
            let program = source.program();
            assert!(!program.contains("#include"), "{} includes something", source.name);
            assert!(program.contains(&format!("#line 1 \"{}.cu\"", source.name)));
            assert!(program.contains("KERNEL("), "{} has no kernel", source.name);
        }
    }
}
