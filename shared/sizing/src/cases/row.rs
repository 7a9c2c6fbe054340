//! One line of a case file.

use serde::Deserialize;
use serde_json::Value;

use crate::settings::Settings;

/// Half of the only digit of a figure of 1: no printed figure is known less well.
const LARGEST_TOLERANCE: f64 = 0.5;

/// The fields of a line that decide its answer. Title, source and reasons are for people.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) model: Option<String>,
    pub(super) config: Option<Value>,
    pub(super) engine: String,
    #[serde(default)]
    pub(super) settings: Settings,
    pub(super) quantity: String,
    pub(super) value: Value,
    pub(super) unit: Option<String>,
    #[serde(default)]
    pub(super) rel_tol: f64,
    #[serde(default)]
    pub(super) unverified: bool,
}

impl Row {
    /// Reads a line's object; the error says what is wrong with it.
    pub(super) fn parse(object: &str) -> Result<Self, String> {
        let row: Self = serde_json::from_str(object).map_err(|error| format!("not a case: {error}"))?;
        if !(row.rel_tol.is_finite() && row.rel_tol >= 0.0) {
            return Err(format!("rel_tol {:?} is no tolerance", row.rel_tol));
        }
        if row.rel_tol > LARGEST_TOLERANCE {
            return Err(format!(
                "rel_tol {:?} lets any answer pass; it is relative to the value, and half of the last printed digit is at \
                 most {LARGEST_TOLERANCE}",
                row.rel_tol
            ));
        }
        Ok(row)
    }
}
