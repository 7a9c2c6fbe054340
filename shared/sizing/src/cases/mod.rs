//! Runs case files: what a public log, report or document says that an engine did, against what this crate answers.
//!
//! Text in, outcomes out. A case that cannot be answered is a failure with its reason, never a skip.

mod compare;
mod lines;
mod row;

use serde::Serialize;
use serde_json::Value;

use crate::architecture::Architecture;
use crate::engine::{Engine, Figure, Quantity, Query, answer};
use crate::error::one_line;
use crate::{Error, Result, find_entry, read_config_value};
use row::Row;

/// The quantity of a config that must be refused or warned about.
const LOAD_ERROR: &str = "load_error";

/// What became of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseOutcome {
    /// The case's id.
    pub id: String,
    /// Whether the answer agrees within the case's tolerance.
    pub ok: bool,
    /// The answer; null where there is none.
    pub got: Value,
    /// What the case states.
    pub expected: Value,
    /// One line: how far they are apart, or why there is no answer.
    pub detail: String,
    /// Whether the case itself could not be recomputed by who collected it; such a case is not counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// The engine that the case is about.
    #[serde(skip)]
    pub engine: String,
}

impl CaseOutcome {
    /// One line for a terminal. What comes from the file cannot break it, steer the terminal or look like another case.
    pub fn line(&self) -> String {
        let verdict = match (self.unverified, self.ok) {
            (true, _) => "not counted",
            (false, true) => "ok",
            (false, false) => "FAILED",
        };
        one_line(format!(
            "{verdict:<8} {}: {} (expected {}) {}",
            self.id, self.got, self.expected, self.detail
        ))
    }
}

/// Runs every line of a case file. Empty lines are passed over, and so is a byte order mark.
///
/// # Errors
///
/// A line that is no JSON object, with its number and the offset in bytes, or one whose id is missing, empty, not one word, or that of
/// another line. Nothing is run then. An object that is no case is a failure among the outcomes.
pub fn run_cases(text: &str) -> Result<Vec<CaseOutcome>> {
    let lines = lines::read(text)?;
    Ok(lines.into_iter().map(run_line).collect())
}

/// Adds to the one line of a detail.
fn note(detail: &mut String, more: &str) {
    detail.push_str("; ");
    detail.push_str(more);
}

fn run_line(line: lines::Line<'_>) -> CaseOutcome {
    let row = match Row::parse(line.object) {
        Ok(row) => row,
        Err(why) => {
            return CaseOutcome {
                id: line.id,
                ok: false,
                got: Value::Null,
                expected: line.value,
                detail: format!("line {}: {why}", line.number),
                unverified: false,
                engine: String::new(),
            };
        }
    };
    let (ok, got, mut detail) = match outcome(&row) {
        Ok(found) => found,
        Err(error) => (false, Value::Null, error.to_string()),
    };
    if let (Some(model), Some(_)) = (&row.model, &row.config) {
        note(&mut detail, &format!("model {model:?} is not used, since the case has a config"));
    }
    for name in &line.unknown {
        note(&mut detail, &format!("{name:?} is no field of a case and is not read"));
    }
    if let Some(warning) = row.engine.parse::<Engine>().ok().and_then(|engine| engine.warning()) {
        note(&mut detail, &warning.to_string());
    }
    CaseOutcome {
        id: row.id,
        ok,
        got,
        expected: row.value,
        detail,
        unverified: row.unverified,
        engine: row.engine,
    }
}

fn outcome(row: &Row) -> Result<(bool, Value, String)> {
    let engine: Engine = row.engine.parse()?;
    if row.quantity == LOAD_ERROR {
        return Ok(load_error(row));
    }
    let quantity: Quantity = row.quantity.parse()?;
    let architecture = architecture(row)?;
    let query = Query::new(&architecture, engine, &row.settings)?;
    let figure = answer(&query, quantity)?;
    let (ok, detail) = compare::agrees(figure, &row.value, row.rel_tol, row.unit.as_deref());
    Ok((ok, number(figure), detail))
}

fn architecture(row: &Row) -> Result<Architecture> {
    match (&row.config, &row.model) {
        (Some(config), _) => read_config_value(config),
        (None, Some(model)) => find_entry(model)?.architecture(),
        (None, None) => Err(Error::syntax("the case has neither a model nor a config")),
    }
}

/// The config must be refused, or warned about, by the name of the key.
fn load_error(row: &Row) -> (bool, Value, String) {
    let Some(key) = row.value.as_str().filter(|key| !key.is_empty()) else {
        return (false, Value::Null, format!("{} is no config key", row.value));
    };
    let messages: Vec<(String, String)> = match architecture(row) {
        Err(error) => vec![(error.place().unwrap_or_default().to_owned(), error.to_string())],
        Ok(architecture) => architecture
            .warnings()
            .iter()
            .map(|warning| (warning.field.clone(), warning.to_string()))
            .collect(),
    };
    let is_key = |word: &str| row.config.as_ref().is_some_and(|config| has_key(config, word));
    let named = messages.iter().find(|(place, message)| {
        place.split(['.', '[', ']']).any(|part| part == key) || is_key(key) && has_word(message, key)
    });
    let all = || messages.iter().map(|(_, message)| message.as_str()).collect::<Vec<_>>().join("; ");
    match named {
        Some((_, message)) => (true, row.value.clone(), message.clone()),
        None if messages.is_empty() => (false, Value::Null, "read without an error or a warning".to_owned()),
        None => (false, Value::Null, format!("{key:?} is not named: {}", all())),
    }
}

/// Whether `key` is a key of the config at any depth.
fn has_key(config: &Value, key: &str) -> bool {
    match config {
        Value::Object(fields) => fields.iter().any(|(name, inner)| name == key || has_key(inner, key)),
        Value::Array(items) => items.iter().any(|item| has_key(item, key)),
        _ => false,
    }
}

/// Whether the text has the word, not as part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

fn number(figure: Figure) -> Value {
    serde_json::to_value(figure).unwrap_or(Value::Null)
}
