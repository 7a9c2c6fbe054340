//! Fuzzing of the readers and engine profiles for as long as asked; the tests replay its corpora within seconds.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::error::{Error, Result};
use crate::output;
use crate::process;
use crate::workspace::Workspace;

/// Every target of `shared/sizing/fuzz`.
pub(crate) const TARGETS: [&str; 4] = ["config", "gguf", "engine", "log"];
/// A reader that needs more than this for an input of a few kilobytes has lost count.
const MOST_MEMORY_MIB: u32 = 2048;

/// Fuzzes each of `targets` for `minutes`, from the catalogue's versions and the logs of the tests. What it finds stays in the build
/// folder.
pub(crate) fn fuzz(workspace: &Workspace, targets: &[String], minutes: u32) -> Result<ExitCode> {
    let tools = find_or_install(workspace)?;
    let folder = workspace.root().join("shared/sizing/fuzz");
    let mut seed = process::cargo();
    seed.arg("run").arg("--manifest-path").arg(folder.join("Cargo.toml"));
    process::run(
        seed.args(["--quiet", "--bin", "seed", "--target-dir"]).arg(workspace.target().join("fuzz")),
    )?;
    for target in targets {
        output::progress(&format!("fuzzing {target} for {minutes} minutes"));
        let found = workspace.target().join("fuzz-corpus").join(target);
        fs::create_dir_all(&found).map_err(Error::file(&found))?;
        let mut run = Command::new("rustup");
        run.args(["run", "nightly", "cargo", "fuzz", "run", "--fuzz-dir"]).arg(&folder);
        run.arg("--target-dir").arg(workspace.target().join("fuzz")).arg(target);
        run.arg(&found).arg(folder.join("corpus").join(target)).arg("--");
        run.arg(format!("-max_total_time={}", u64::from(minutes) * 60));
        run.arg(format!("-rss_limit_mb={MOST_MEMORY_MIB}"));
        // libFuzzer's line a second is of no use on a terminal.
        run.args(["-timeout=10", "-print_final_stats=1", "-verbosity=0"]);
        process::run(run.env("PATH", &tools))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The search path with `cargo fuzz` on it, which is installed into the build folder where it is missing.
fn find_or_install(workspace: &Workspace) -> Result<std::ffi::OsString> {
    let own = workspace.target().join("tools");
    let all = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(own.join("bin")).chain(env::split_paths(&all));
    let path = env::join_paths(folders.collect::<Vec<PathBuf>>()).unwrap_or(all);
    let mut known = Command::new("rustup");
    known.args(["run", "nightly", "cargo", "fuzz", "--version"]).env("PATH", &path);
    if !process::succeeds(&mut known) {
        process::run(Command::new("rustup").args([
            "toolchain",
            "install",
            "nightly",
            "--profile",
            "minimal",
        ]))?;
        process::run(process::cargo().args(["install", "--locked", "cargo-fuzz", "--root"]).arg(&own))?;
    }
    Ok(path)
}
