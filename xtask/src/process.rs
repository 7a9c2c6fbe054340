//! Running other programs: cargo first of all.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::error::{Error, Result};

/// The cargo that runs this task.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// Runs a command to its end, with its output on the terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|source| Error::Start { command: shown(command), source })?;
    expect_success(command, status)
}

/// Runs a command to its end and gives its stdout.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::Start { command: shown(command), source })?;
    expect_success(command, output.status)?;
    String::from_utf8(output.stdout)
        .map_err(|error| Error::Unexpected { command: shown(command), detail: error.to_string() })
}

/// Whether a command can be started and succeeds; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a command with its output on the terminal, and gives that output too.
///
/// Lines of stdout and stderr are in the order in which they arrived.
pub(crate) fn tee(command: &mut Command) -> Result<(ExitStatus, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| Error::Start { command: shown(command), source })?;
    let (sender, lines) = mpsc::channel();
    let readers = [
        child.stdout.take().map(|pipe| forward(pipe, std::io::stdout(), sender.clone())),
        child.stderr.take().map(|pipe| forward(pipe, std::io::stderr(), sender)),
    ];
    let text = lines.iter().collect::<String>();
    for reader in readers.into_iter().flatten() {
        let _ = reader.join();
    }
    let status = child.wait().map_err(|source| Error::Start { command: shown(command), source })?;
    Ok((status, text))
}

fn forward(
    pipe: impl Read + Send + 'static,
    mut terminal: impl Write + Send + 'static,
    lines: mpsc::Sender<String>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            // The terminal may be gone; the lines still count.
            let _ = terminal.write_all(&line);
            let _ = lines.send(String::from_utf8_lossy(&line).into_owned());
            line.clear();
        }
    })
}

/// The full path of a program on the PATH.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(&file)).find(|path| is_executable(path))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// A command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut text = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

fn expect_success(command: &Command, status: ExitStatus) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed { command: shown(command), status: status.to_string() })
}

/// Installs Debian packages where that can work: on Debian or Ubuntu, as root. The caller looks at what came of it.
pub(crate) fn install_debian_packages(packages: &str) {
    if find_program("apt-get").is_none() || !is_root() {
        return;
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    let _ = run(apt().args(["update", "--quiet"]));
    let _ =
        run(apt().args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(packages.split(' ')));
}

fn is_root() -> bool {
    capture(Command::new("id").arg("--user")).is_ok_and(|id| id.trim() == "0")
}
