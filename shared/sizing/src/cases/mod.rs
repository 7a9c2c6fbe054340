//! Runs case files: what a public log, report or document says that an engine did, against what this crate answers.
//!
//! Text in, outcomes out. A case that cannot be answered is a failure with its reason, never a skip.

mod compare;
mod row;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

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
    /// The case's id, or `line N` where it has none.
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
pub fn run_cases(text: &str) -> Vec<CaseOutcome> {
    let lines =
        text.trim_start_matches('\u{feff}').lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut first: HashMap<String, usize> = HashMap::new();
    lines
        .map(|(index, line)| {
            let mut outcome = run_line(index + 1, line);
            match first.entry(outcome.id.clone()) {
                Entry::Occupied(earlier) => {
                    note(&mut outcome.detail, &format!("line {} has the same id", earlier.get()));
                }
                Entry::Vacant(new) => {
                    new.insert(index + 1);
                }
            }
            outcome
        })
        .collect()
}

/// Adds to the one line of a detail.
fn note(detail: &mut String, more: &str) {
    detail.push_str("; ");
    detail.push_str(more);
}

fn run_line(number: usize, line: &str) -> CaseOutcome {
    let row = match Row::parse(line) {
        Ok(row) => row,
        Err(why) => {
            return CaseOutcome {
                id: Row::id_of(line).unwrap_or_else(|| format!("line {number}")),
                ok: false,
                got: Value::Null,
                expected: Value::Null,
                detail: why,
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
    let key = row.value.as_str().unwrap_or_default();
    let messages: Vec<String> = match architecture(row) {
        Err(error) => vec![error.to_string()],
        Ok(architecture) => architecture.warnings().iter().map(ToString::to_string).collect(),
    };
    let named = messages.iter().find(|message| !key.is_empty() && message.contains(key));
    match named {
        Some(message) => (true, row.value.clone(), message.clone()),
        None if messages.is_empty() => (false, Value::Null, "read without an error or a warning".to_owned()),
        None => (false, Value::Null, format!("{key:?} is not named: {}", messages.join("; "))),
    }
}

fn number(figure: Figure) -> Value {
    serde_json::to_value(figure).unwrap_or(Value::Null)
}
