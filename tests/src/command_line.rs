//! The built `kvscope`, run to its end.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// How a run of `kvscope` ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// `None` when a signal ended it.
    pub status: Option<i32>,
    /// What it printed as its result.
    pub stdout: String,
    /// What it said besides.
    pub stderr: String,
}

/// Runs `kvscope` with these arguments.
pub fn kvscope<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Finished {
    let home = tempfile::tempdir().expect("a temporary folder");
    let output = command_at(home.path()).args(arguments).output().expect("kvscope starts");
    Finished {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}

/// The rows that `kvscope size … --json` prints; it must succeed.
pub fn size<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Vec<Value> {
    let mut all = vec![OsStr::new("size").to_owned()];
    all.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
    all.push(OsStr::new("--json").to_owned());
    let finished = kvscope(&all);
    assert_eq!(finished.status, Some(0), "kvscope {all:?}: {}", finished.stderr);
    serde_json::from_str(&finished.stdout).expect("size prints a JSON array")
}

/// Bytes that one request of a version holds at a context, by the command line.
pub fn resident_bytes(model: &str, context: u64) -> u64 {
    let rows = size([model, "--context", &context.to_string()]);
    rows[0]["resident_bytes"].as_u64().expect("resident_bytes is a plain integer")
}

/// A `kvscope` that keeps its files in `home`, whatever the user of this machine has stored.
pub fn command_at(home: &Path) -> Command {
    let mut command = Command::new(binary());
    let names = [
        "KVSCOPE_HOME",
        "HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
        "LOCALAPPDATA",
    ];
    for name in names {
        command.env(name, home);
    }
    command
}

/// The `kvscope` that `KVSCOPE_BIN` names, or one built now.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| env::var_os("KVSCOPE_BIN").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(repository()).args(["build", "--quiet", "--package", "kvscope"]);
    if site().join("index.html").is_file() {
        command.args(["--features", "embed-site"]);
    }
    assert!(command.status().is_ok_and(|status| status.success()), "kvscope does not build");
    // This test runs from `…/debug/deps`.
    let test = env::current_exe().expect("a running test has a path");
    let folder =
        test.ancestors().find(|folder| folder.ends_with("debug")).expect("tests run from a debug build");
    folder.join(format!("kvscope{}", env::consts::EXE_SUFFIX))
}

/// The built site, which `cargo xtask site` leaves here.
pub fn site() -> PathBuf {
    env::var_os("KVSCOPE_SITE").map_or_else(|| repository().join("target").join("site"), PathBuf::from)
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is a folder of the repository")
}
