//! A plan that is asked over HTTP: its options by their names, read as the command line reads them.

use clap::{Arg, Command, FromArgMatches, Subcommand};
use kvscope_sizing::Settings;

use super::{Around, Asked, Plan, Use};
use crate::cli::request::OPTIONS_ALONE;
use crate::cli::usage;
use crate::failure::Failure;

/// Options of the command line alone.
const NOT_ASKED: [&str; 4] = ["json", "help", "version", "every_input"];

/// What `kvscope plan NAME --json` prints for these options, in one line of JSON.
///
/// # Errors
///
/// What the command line refuses, and any file but what came with the request.
pub(crate) fn answer(name: &str, pairs: &[(String, String)], around: &Around<'_>) -> Result<String, Failure> {
    let command = commands();
    let options = command.find_subcommand(name).expect("every plan has a command");
    let mut words = vec!["plan".to_owned(), name.to_owned()];
    let mut models = Vec::new();
    for (given, value) in pairs {
        match word(options, given, value)? {
            Word::Model => models.push(value.clone()),
            Word::Option(word) => words.push(word),
        }
    }
    words.push("--".to_owned());
    words.extend(models);
    let matches = command.try_get_matches_from(words).and_then(|matches| Plan::from_arg_matches(&matches));
    let plan = matches.map_err(|error| {
        if error.use_stderr() {
            Failure::input(usage(&error))
        } else {
            Failure::input("set: give NAME=VALUE")
        }
    })?;
    plan.with(Send(around))
}

struct Send<'a>(&'a Around<'a>);

impl Use for Send<'_> {
    type Result = Result<String, Failure>;

    fn of<A: Asked>(self, asked: &A) -> Self::Result {
        let answer = asked.answer(self.0)?;
        serde_json::to_string(&answer).map_err(Failure::check)
    }
}

enum Word {
    Model,
    Option(String),
}

/// An option of the plan, else a setting, by its name with underscores or hyphens.
fn word(options: &Command, given: &str, value: &str) -> Result<Word, Failure> {
    let known = |option: &&Arg| option.get_long().is_some_and(|long| long == given.replace('_', "-"));
    let positional = options.get_positionals().next().is_some();
    if given == "model" && positional {
        return Ok(Word::Model);
    }
    let option =
        options.get_arguments().find(known).filter(|option| !NOT_ASKED.contains(&option.get_id().as_str()));
    let Some(option) = option else {
        if Settings::NAMES.contains(&given)
            && !OPTIONS_ALONE.contains(&given)
            && options.get_arguments().any(|option| option.get_id() == "settings")
        {
            return Ok(Word::Option(format!("--set={given}={value}")));
        }
        return Err(Failure::input(format!(
            "{given}: unknown option; known: {}",
            names(options).collect::<Vec<_>>().join(", ")
        )));
    };
    let long = option.get_long().unwrap_or_default();
    if option.get_action().takes_values() {
        return Ok(Word::Option(format!("--{long}={value}")));
    }
    match value {
        "true" => Ok(Word::Option(format!("--{long}"))),
        _ => Err(Failure::input(format!("{given}: {value:?} is not true; leave it out for the other way"))),
    }
}

/// The options of a plan as a request names them, `model` first where there is one.
fn names(command: &Command) -> impl Iterator<Item = String> {
    listed(command).map(name)
}

fn listed(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_listed = |option: &&Arg| !option.is_hide_set() && !NOT_ASKED.contains(&option.get_id().as_str());
    command
        .get_positionals()
        .chain(command.get_arguments().filter(|option| !option.is_positional()))
        .filter(is_listed)
}

fn name(option: &Arg) -> String {
    option.get_long().map_or_else(|| "model".to_owned(), |long| long.replace('-', "_"))
}

/// The plans as subcommands.
fn commands() -> Command {
    Plan::augment_subcommands(Command::new("plan").disable_help_subcommand(true))
}

/// Every option of a plan with its help and whether it must be given, for the description of the API.
#[cfg(test)]
pub(crate) fn options(plan: &str) -> Vec<(String, String, bool)> {
    let commands = commands();
    let command = commands.find_subcommand(plan).expect("a plan");
    let help = |option: &Arg| option.get_help().map(ToString::to_string).unwrap_or_default();
    listed(command).map(|option| (name(option), help(option), option.is_required_set())).collect()
}
