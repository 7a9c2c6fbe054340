//! Everything that is checked before a change lands, with one closing line that adds up all runners.

mod browser;
mod tally;

use std::ffi::OsStr;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::error::Result;
use crate::kernels::{self, Builds};
use crate::output;
use crate::process;
use crate::rules;
use crate::site;
use crate::workspace::Workspace;

pub(crate) use browser::find_or_install;
use tally::Tally;

/// The agent that the tests start is the one that users get, with the page inside. It needs a built site.
const SITE_FEATURES: [&str; 2] = ["--features", "kvscope/embed-site"];
/// Tests inside a module of this name need a browser.
const BROWSER_MODULE: &str = "in_chromium";

/// Runs all checks in order. Those that do not need a failed one still run.
pub(crate) fn test(workspace: &Workspace) -> ExitCode {
    let mut checks = Checks { total: Tally::default(), failures: Vec::new() };

    add_missing_components();
    checks.one("formatting", || process::run(workspace.cargo().args(["fmt", "--all", "--check"])));
    for rule in rules::all() {
        checks.one(rule.name, || rule.check(workspace));
    }

    let site = checks.value("the page for wasm32", || site::build(workspace));
    if let Some(site) = &site {
        output::line(&site.size_table());
        checks.one("the site's size", || site.check_budget());
    }
    // The page's crate has no code of one target alone, so it is linted here as well. With the site in place the agent is linted as
    // it ships.
    let features: &[&str] = if site.is_some() { &SITE_FEATURES } else { &[] };
    checks.one("clippy", || {
        let mut clippy = workspace.cargo();
        clippy.args(["clippy", "--workspace", "--all-targets"]).args(features);
        process::run(clippy.args(["--", "--deny", "warnings"]))
    });

    // One selection of packages and features for building and testing, or cargo would build the dependencies twice.
    let built = checks.value("building the tests", || {
        let mut build = workspace.cargo();
        // Not `--bins`: that would replace this program while it runs, which Windows refuses.
        build.args(["build", "--workspace", "--bin", "kvscope", "--tests", "--examples"]);
        process::run(build.args(features))
    });
    if built.is_some() {
        checks.many("unit and property tests, command line tests", || {
            tally::run(test_runner(workspace).args(features).args(["--", "--skip", BROWSER_MODULE]))
        });
        checks.many("doc tests", || {
            let mut doc_tests = workspace.cargo();
            doc_tests.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
            tally::run(doc_tests.args(features))
        });
    }
    checks.one("kernels for every GPU, without spills", || {
        if cfg!(target_os = "macos") {
            output::progress("not on macOS, for which there is no NVRTC");
            return Ok(());
        }
        kernels::build(workspace, Builds::Missing)?.check_spills()
    });
    if built.is_some() && site.is_some() {
        checks.many("the page in Chromium", || {
            let browser = find_or_install()?;
            let mut tests = test_runner(workspace);
            browser.name_in(&mut tests);
            tally::run(tests.args(features).args(["--", BROWSER_MODULE]))
        });
    }
    checks.report()
}

/// What has been checked so far.
struct Checks {
    total: Tally,
    failures: Vec<String>,
}

impl Checks {
    /// A check that counts as one.
    fn one(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        self.value(name, check);
    }

    /// A check that counts as one and yields something that later ones need.
    fn value<T>(&mut self, name: &str, check: impl FnOnce() -> Result<T>) -> Option<T> {
        let mut value = None;
        self.many(name, || {
            value = Some(check()?);
            Ok(Tally { passed: 1, failed: 0 })
        });
        value
    }

    /// A runner with results of its own; one that could not run at all is one failure.
    fn many(&mut self, name: &str, run: impl FnOnce() -> Result<Tally>) {
        output::progress(name);
        let start = Instant::now();
        let tally = run().unwrap_or_else(|error| {
            output::error(&error);
            Tally { passed: 0, failed: 1 }
        });
        let seconds = start.elapsed().as_secs();
        output::progress(&format!("{name}: {tally} ({seconds} s)"));
        if tally.failed > 0 {
            self.failures.push(name.to_owned());
        }
        self.total += tally;
    }

    fn report(self) -> ExitCode {
        if !self.failures.is_empty() {
            output::line(&format!("Failed: {}", self.failures.join("; ")));
        }
        output::line(&self.total.to_string());
        if self.total.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// `cargo nextest` where it is installed, since it runs the test binaries side by side; else `cargo test`.
fn test_runner(workspace: &Workspace) -> Command {
    let mut cargo = workspace.cargo();
    if process::succeeds(workspace.cargo().args(["nextest", "--version"])) {
        cargo.args(["nextest", "run", "--workspace", "--no-fail-fast", "--no-tests", "pass"]);
    } else {
        cargo.args(["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"]);
    }
    // The agent that the build step has just put there, and the site.
    cargo.env("KVSCOPE_BIN", workspace.agent("debug")).env("KVSCOPE_SITE", workspace.site());
    cargo
}

/// A minimal toolchain lacks these two. Where they cannot be added, the checks that need them fail and say so.
fn add_missing_components() {
    for component in ["rustfmt", "clippy"] {
        let program = if component == "rustfmt" { "fmt" } else { "clippy" };
        if !process::succeeds(process::cargo().args([OsStr::new(program), OsStr::new("--version")])) {
            let _ = process::run(Command::new("rustup").args(["component", "add", component]));
        }
    }
}
