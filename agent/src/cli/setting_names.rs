//! The names that `--set` takes, by the engines that have them.

use std::ffi::OsStr;

use clap::builder::{StringValueParser, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::{Arg, Command};
use kvscope_sizing::Settings;
use kvscope_sizing::engine::{Engine, EngineKind, has_setting};

use crate::failure::Failure;
use crate::output::Figures;

/// What is asked for in place of `NAME=VALUE` to list the names.
const ASKS: &str = "help";

/// Names that have an option of their own.
const OWN_OPTIONS: [&str; 2] = ["context", "batch"];

/// Reads `NAME=VALUE` as it stands, and answers `help` with the list of names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair;

impl TypedValueParser for Pair {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        let text = StringValueParser::new().parse_ref(command, argument, value)?;
        if text == ASKS { Err(Error::raw(ErrorKind::DisplayHelp, listing())) } else { Ok(text) }
    }
}

/// Refuses a name that no engine knows, with the names that this one has.
///
/// # Errors
///
/// Such a name.
pub(super) fn check(name: &str, engine: &Engine) -> Result<(), Failure> {
    if Settings::NAMES.contains(&name) {
        return Ok(());
    }
    let kind = engine.kind();
    let known: Vec<&str> = names().filter(|name| has_setting(kind, name)).collect();
    let what = format!(
        "{name}: unknown setting; {} has {}; `--set {ASKS}` lists those of every engine",
        kind.name(),
        known.join(", ")
    );
    Err(Failure::input(what))
}

fn names() -> impl Iterator<Item = &'static str> {
    Settings::NAMES.iter().copied().filter(|name| !OWN_OPTIONS.contains(name))
}

/// Every name with the engines that have it and what it is, those of all engines first.
fn listing() -> String {
    let owners = |name: &str| -> Vec<&'static str> {
        EngineKind::ALL.into_iter().filter(|kind| has_setting(*kind, name)).map(EngineKind::name).collect()
    };
    let mut rows: Vec<(&str, Vec<&str>)> = names().map(|name| (name, owners(name))).collect();
    rows.sort_by_key(|(_, owners)| std::cmp::Reverse(owners.len()));
    let mut table = Figures::new(2, &["name", "engines", "what it is"]).text_last();
    for (name, owners) in rows {
        let engines =
            if owners.len() == EngineKind::ALL.len() { "all".to_owned() } else { owners.join(", ") };
        table.row([name.to_owned(), engines, Settings::about(name).to_owned()]);
    }
    format!(
        "Settings of --set NAME=VALUE; tokens may be 128Ki or 100K, bytes 80GB or 80GiB\n\n{}",
        table.render()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_the_engines_of_every_setting() {
        let listing = listing();
        for (name, engines) in [
            ("n_ubatch", "llama.cpp"),
            ("gdn_prefill_backend", "vllm"),
            ("kv_dtype", "all"),
            ("max_num_batched_tokens", "vllm, sglang"),
        ] {
            let line = listing.lines().find(|line| line.starts_with(name)).unwrap();
            assert!(line[name.len()..].trim_start().starts_with(engines), "{line}");
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_those_of_the_engine() {
        let error = check("n_batch", &"llama.cpp".parse().unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("n_batch: unknown setting; llama.cpp has kv_dtype, "), "{error}");
        assert!(error.contains("n_ubatch") && !error.contains("gdn_prefill_backend"), "{error}");
        assert!(check("tp", &"vllm".parse().unwrap()).is_ok());
    }
}
