//! Site, agent, browser.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};

use crate::error::{Error, Result};
use crate::output;
use crate::process;
use crate::site;
use crate::workspace::Workspace;

/// Whether to open the address once the agent has named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Browser {
    Open,
    LeaveClosed,
}

/// Builds what is missing and runs the agent until it ends.
pub(crate) fn serve(workspace: &Workspace, browser: Browser, agent_arguments: &[String]) -> Result<ExitCode> {
    site::build(workspace)?;
    output::progress("building the agent (release)");
    build_agent(workspace)?;

    let mut agent = Command::new(workspace.agent("release"));
    agent.arg("serve").args(agent_arguments).stdout(Stdio::piped());
    let failed = |source| Error::Start { command: "kvscope serve".to_owned(), source };
    let mut child = agent.spawn().map_err(failed)?;
    // Ctrl-C reaches the agent as well; it shuts down in order, and this process waits for it.
    let _ = ctrlc::set_handler(|| {});

    let mut opened = browser == Browser::LeaveClosed;
    if let Some(pipe) = child.stdout.take() {
        for line in BufReader::new(pipe).lines().map_while(io::Result::ok) {
            output::line(&line);
            let _ = io::stdout().flush();
            if let (false, Some(address)) = (opened, address_in(&line)) {
                open_in_browser(address);
                opened = true;
            }
        }
    }
    let status = child.wait().map_err(failed)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The release binary with the site in it, and with the images of the GPU kernels where `cargo xtask kernels` made them.
pub(crate) fn build_agent(workspace: &Workspace) -> Result<()> {
    let has_images = crate::kernels::images(workspace).is_dir();
    let features = if has_images { "embed-site,embed-kernels" } else { "embed-site" };
    process::run(workspace.cargo().args([
        "build",
        "--release",
        "--package",
        "kvscope",
        "--features",
        features,
    ]))
}

/// The first web address in a line.
fn address_in(line: &str) -> Option<&str> {
    let from = &line[line.find("http://")?..];
    let end =
        from.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>')).unwrap_or(from.len());
    Some(&from[..end])
}

/// Opens the user's browser where there is a desktop. The address is on the terminal, so failing is no harm.
fn open_in_browser(address: &str) {
    let Some(mut opener) = opener() else { return };
    let _ = opener.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

fn opener() -> Option<Command> {
    if cfg!(target_os = "macos") {
        return Some(Command::new("open"));
    }
    if cfg!(windows) {
        let mut command = Command::new("cmd");
        // `start` takes a first quoted argument for a window title.
        command.args(["/c", "start", ""]);
        return Some(command);
    }
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()));
    has_desktop.then(|| Command::new("xdg-open"))
}

#[cfg(test)]
mod tests {
    use super::address_in;

    #[test]
    fn the_address_keeps_its_token_and_nothing_after_it() {
        assert_eq!(
            address_in("kvscope is at http://127.0.0.1:8765/#token=ab12 (Ctrl-C stops it)"),
            Some("http://127.0.0.1:8765/#token=ab12")
        );
        assert_eq!(address_in("reading http headers"), None);
    }
}
