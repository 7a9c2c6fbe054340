//! The page's crate to a WASM module and its loader script.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use wasm_bindgen_cli_support::Bindgen;

use crate::error::{Error, Result};
use crate::output;
use crate::process;
use crate::site::files::{self, SiteFile};
use crate::site::{names, order};
use crate::workspace::Workspace;

/// The module, as the loader and the boot script name it before hashing.
pub(crate) const MODULE: &str = "kvscope_bg.wasm";
/// The script that wasm-bindgen writes.
pub(crate) const LOADER: &str = "kvscope.js";

const TARGET: &str = "wasm32-unknown-unknown";
/// A panic ends the page at once, whatever it has to say: the words and places of all panics weigh 14 KB. Added to the flags of
/// `.cargo/config.toml`.
const PANICS: &str =
    "target.wasm32-unknown-unknown.rustflags=[\"-Zunstable-options\", \"-Cpanic=immediate-abort\"]";
const DEBIAN_PACKAGES: &str = "rustc-web cargo-web rust-web-src";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";

/// Who can compile to wasm32 here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toolchain {
    /// The toolchain that runs this task.
    Own,
    /// Debian's compiler for web pages, which builds the standard library from source.
    Debian,
}

/// Finds or installs what compiles to wasm32.
pub(crate) fn toolchain() -> Result<Toolchain> {
    if own_toolchain_has_target()? {
        return Ok(Toolchain::Own);
    }
    output::progress("adding the wasm32 target");
    let mut rustup = Command::new("rustup");
    if process::run(rustup.args(["target", "add", TARGET])).is_ok() && own_toolchain_has_target()? {
        return Ok(Toolchain::Own);
    }
    if !debian_toolchain_is_there() {
        output::progress("that failed; installing Debian's compiler for web pages");
        process::install_debian_packages(DEBIAN_PACKAGES);
    }
    if debian_toolchain_is_there() {
        return Ok(Toolchain::Debian);
    }
    let remedy = if Path::new("/etc/debian_version").exists() {
        format!("rustup target add {TARGET}` or, as root, `apt-get install {DEBIAN_PACKAGES}")
    } else {
        format!("rustup target add {TARGET}")
    };
    Err(Error::NoWasmTarget { remedy })
}

impl Toolchain {
    /// Cargo with a subcommand and the options that select wasm32.
    pub(crate) fn cargo(self, workspace: &Workspace, subcommand: &str) -> Result<Command> {
        let mut cargo = match self {
            Self::Own => workspace.cargo(),
            Self::Debian => debian_cargo(workspace)?,
        };
        cargo.arg(subcommand);
        if self == Self::Debian {
            cargo.args(["-Z", "build-std=std,panic_abort"]);
        }
        cargo.args(["--package", "kvscope-frontend", "--lib", "--target", TARGET]);
        Ok(cargo)
    }
}

/// Compiles the page's crate; cargo knows whether anything changed.
pub(crate) fn compile(workspace: &Workspace) -> Result<PathBuf> {
    let toolchain = toolchain()?;
    let mut cargo = toolchain.cargo(workspace, "build")?;
    cargo.args(["--profile", "page"]);
    if toolchain == Toolchain::Own && library_source()? {
        // The library that comes with the toolchain is made for speed: what the page uses of it weighs more than the page.
        cargo.env("RUSTC_BOOTSTRAP", "1").args([
            "-Z",
            "build-std=std,panic_abort",
            "-Z",
            "build-std-features=optimize_for_size",
            "--config",
            PANICS,
        ]);
    }
    process::run(&mut cargo)?;
    Ok(workspace.target().join(TARGET).join("page").join("kvscope_frontend.wasm"))
}

/// Turns the compiled module into one that a browser loads, with its loader script and snippets.
pub(crate) fn bind(workspace: &Workspace, module: &Path) -> Result<Vec<SiteFile>> {
    fn run(module: &Path, folder: &Path) -> std::result::Result<(), impl std::fmt::Display> {
        Bindgen::new()
            .input_path(module)
            .out_name("kvscope")
            .web(true)?
            .typescript(false)
            .remove_name_section(true)
            .remove_producers_section(true)
            .generate(folder)
    }
    std::fs::create_dir_all(workspace.own_folder()).map_err(Error::file(&workspace.own_folder()))?;
    let folder =
        tempfile::tempdir_in(workspace.own_folder()).map_err(Error::file(&workspace.own_folder()))?;
    run(module, folder.path())
        .map_err(|error| Error::Bindgen { path: module.to_path_buf(), detail: format!("{error:#}") })?;
    let mut files = files::read_folder(folder.path())?;
    let failed = |detail: String| Error::Bindgen { path: module.to_path_buf(), detail };
    let place = |name: &str| files.iter().position(|file| file.name == name);
    let (Some(bound), Some(loader)) = (place(MODULE), place(LOADER)) else {
        return Err(failed(format!("it made no {MODULE} or no {LOADER}")));
    };
    let packed = packed(&files[bound].bytes, &String::from_utf8_lossy(&files[loader].bytes));
    (files[bound].bytes, files[loader].bytes) = packed.map_err(|error| failed(error.to_string()))?;
    Ok(files)
}

/// Module and loader as they weigh least.
fn packed(module: &[u8], loader: &str) -> std::result::Result<(Vec<u8>, Vec<u8>), order::Error> {
    let (module, loader) = names::shortened(module, loader)?;
    Ok((order::by_likeness(&module)?, loader.into_bytes()))
}

fn own_toolchain_has_target() -> Result<bool> {
    let library = sysroot()?.join("lib").join("rustlib").join(TARGET).join("lib");
    Ok(library.is_dir())
}

/// Whether the standard library's source is there, added where it can be.
fn library_source() -> Result<bool> {
    let source = sysroot()?.join("lib/rustlib/src/rust/library/Cargo.lock");
    if source.exists() {
        return Ok(true);
    }
    output::progress("adding the source of the standard library, which makes the page smaller");
    let mut rustup = Command::new("rustup");
    let is_added = process::run(rustup.args(["component", "add", "rust-src"])).is_ok();
    Ok(is_added && source.exists())
}

fn debian_toolchain_is_there() -> bool {
    process::succeeds(Command::new(DEBIAN_CARGO).arg("--version")) && Path::new("/usr/bin/rustc").exists()
}

/// Debian's cargo, with unstable options allowed and the linker of the own toolchain on the PATH.
fn debian_cargo(workspace: &Workspace) -> Result<Command> {
    let host = host()?;
    let linker_folder = sysroot()?.join("lib").join("rustlib").join(host).join("bin");
    let mut folders = vec![PathBuf::from("/usr/bin"), linker_folder];
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path = env::join_paths(folders)
        .map_err(|error| Error::Unexpected { command: "PATH".to_owned(), detail: error.to_string() })?;
    let mut cargo = Command::new(DEBIAN_CARGO);
    cargo
        .current_dir(workspace.root())
        .env("PATH", path)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", "/usr/bin/rustc");
    // What rustup sets for its own cargo would lead Debian's back to it.
    for name in ["CARGO", "RUSTDOC", "RUSTUP_TOOLCHAIN", "LD_LIBRARY_PATH"] {
        cargo.env_remove(name);
    }
    Ok(cargo)
}

fn sysroot() -> Result<PathBuf> {
    Ok(PathBuf::from(process::capture(rustc().args(["--print", "sysroot"]))?.trim()))
}

fn host() -> Result<String> {
    Ok(process::capture(rustc().args(["--print", "host-tuple"]))?.trim().to_owned())
}

fn rustc() -> Command {
    Command::new(env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc")))
}
