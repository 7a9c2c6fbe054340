//! One line of a case file.

use serde::Deserialize;
use serde_json::Value;

use crate::settings::Settings;

/// Half of the only digit of a figure of 1: no printed figure is known less well.
const LARGEST_TOLERANCE: f64 = 0.5;

/// Every field of a line, those for people too; the last two are of rows that an engine's own code answered.
const FIELDS: [&str; 18] = [
    "id",
    "title",
    "url",
    "why",
    "evidence",
    "model",
    "config",
    "engine",
    "settings",
    "quantity",
    "value",
    "unit",
    "rel_tol",
    "derivation",
    "unverified",
    "unverified_reason",
    "engine_build",
    "package",
];

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
        let row: Self = serde_json::from_str(object).map_err(|error| not_a_case(object, &error))?;
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

/// Fields of a line that no rule reads and no reader is told: most often a slip of the pen.
pub(super) fn unknown_fields(object: &Value) -> Vec<&str> {
    let names = object.as_object().into_iter().flat_map(|fields| fields.keys());
    names.map(String::as_str).filter(|name| !FIELDS.contains(name)).collect()
}

/// What is wrong with an object that is no case: the field that alone is wrong, where there is one.
fn not_a_case(object: &str, error: &serde_json::Error) -> String {
    let plain = |error: &serde_json::Error| {
        let why = error.to_string();
        why.split(" at line ").next().unwrap_or_default().to_owned()
    };
    let fields: Value = serde_json::from_str(object).unwrap_or_default();
    let settings = fields.get("settings").and_then(Value::as_object);
    for (name, value) in settings.into_iter().flatten() {
        let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
        if let Err(error) = serde_json::from_value::<Settings>(alone) {
            return format!("not a case: settings.{name}: {}", plain(&error));
        }
    }
    for name in ["engine", "quantity", "model", "unit"] {
        if let Some(value) = fields.get(name).filter(|value| !value.is_string() && !value.is_null()) {
            return format!("not a case: {name}: {value} is no text");
        }
    }
    if let Some(value) = fields.get("rel_tol").filter(|value| !value.is_number()) {
        return format!("not a case: rel_tol: {value} is no number");
    }
    format!("not a case: {}", plain(error))
}
