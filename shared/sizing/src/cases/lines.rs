//! The lines of a case file: one JSON object each, with an id of its own.

use std::collections::HashMap;

use serde_json::Value;

use super::row::unknown_fields;
use crate::{Error, Result};

/// One line that holds an object.
pub(super) struct Line<'t> {
    pub(super) id: String,
    pub(super) number: usize,
    /// What the line states.
    pub(super) value: Value,
    /// Fields that no case has.
    pub(super) unknown: Vec<String>,
    pub(super) object: &'t str,
}

/// Reads all lines that are not empty.
///
/// # Errors
///
/// A line that is no object, or whose id is none of its own.
pub(super) fn read(text: &str) -> Result<Vec<Line<'_>>> {
    let mut found = Vec::new();
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut offset = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let start = offset;
        offset += line.len();
        let number = index + 1;
        let marked = line.strip_prefix('\u{feff}').filter(|_| index == 0);
        let content = marked.unwrap_or(line).trim_start();
        let begins = start + line.len() - content.len();
        let content = content.trim_end();
        if content.is_empty() {
            continue;
        }
        let object: Value = serde_json::from_str(content).map_err(|error| {
            let at = begins + error.column().saturating_sub(1);
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            Error::syntax(format!(
                "line {number}, byte {at}: no JSON object ({why}); write one object a line"
            ))
        })?;
        if !object.is_object() {
            let what = format!("line {number}, byte {begins}: no JSON object; write one object a line");
            return Err(Error::syntax(what));
        }
        let id = id(&object).map_err(|why| Error::syntax(format!("line {number}, byte {begins}: {why}")))?;
        if let Some(earlier) = first.insert(id.clone(), number) {
            let what = format!(
                "line {number}, byte {begins}: line {earlier} has the id {id:?} too; give each case an id of its own"
            );
            return Err(Error::syntax(what));
        }
        let unknown = unknown_fields(&object).into_iter().map(str::to_owned).collect();
        let value = object.get("value").cloned().unwrap_or_default();
        found.push(Line { id, number, value, unknown, object: content });
    }
    Ok(found)
}

fn id(object: &Value) -> Result<String, String> {
    const EXAMPLE: &str = "give the case one like \"gqa-llama-3.1-8b-slope\"";
    let Some(value) = object.get("id") else { return Err(format!("no id; {EXAMPLE}")) };
    // Other spellings than the format's own still tell cases apart.
    let breaks = |c: char| c.is_whitespace() || c.is_control();
    match value.as_str() {
        Some(id) if !id.is_empty() && !id.contains(breaks) => Ok(id.to_owned()),
        _ => Err(format!("{value} is no id; {EXAMPLE}")),
    }
}
