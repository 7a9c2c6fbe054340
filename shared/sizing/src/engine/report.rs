//! Everything that an engine profile says about one query.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Engine, EngineKind, Figure, Quantity};
use crate::warning::Warning;
use crate::{Bytes, Tokens};

/// Figures, padding, log lines and warnings of one query.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// The engine.
    pub engine: Engine,
    /// The longest request, which some figures are for: the setting, else the config's limit.
    pub max_model_len: Option<Tokens>,
    /// Every figure that could be computed, in the order of [`Quantity::ALL`].
    pub figures: Vec<(Quantity, Figure)>,
    /// Figures that the engine has, with the setting that they lack.
    pub unanswered: Vec<Unanswered>,
    /// What the padding is of; `None` where it is of the pools.
    pub padding_of: Option<PaddingOf>,
    /// Where reserved bytes hold no state.
    pub padding: Vec<Padding>,
    /// The lines that the engine would print.
    pub log_lines: Vec<String>,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// A figure that lacks a setting.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Unanswered {
    /// The figure.
    pub quantity: Quantity,
    /// What it lacks.
    pub why: String,
}

/// The requests that padding is counted for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct PaddingOf {
    /// Tokens of each.
    pub context: Tokens,
    /// How many.
    pub batch: u64,
}

/// Reserved bytes that hold no state.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Padding {
    /// What is padded.
    pub what: String,
    /// How many bytes.
    pub bytes: Bytes,
    /// Why the engine does it.
    pub why: String,
}

impl EngineReport {
    /// The engine at the version whose rules answered. `None` where rules do not go by version.
    pub fn rules(&self) -> Option<String> {
        self.engine.rules()
    }

    /// The words for a figure, with the longest length that it is for.
    pub fn label(&self, quantity: Quantity) -> String {
        let words = match (quantity, self.engine.kind()) {
            (Quantity::ResidentBytes, EngineKind::Logical) => "Resident, the batch",
            _ => quantity.label(),
        };
        match (quantity, self.max_model_len) {
            (Quantity::EstimatedMaxModelLen, Some(longest)) => {
                format!("{words}, at most max_model_len {longest}")
            }
            (_, Some(longest)) => words.replace("the longest length", &longest.counted()),
            (_, None) => words.to_owned(),
        }
    }

    /// One figure, if it could be computed.
    pub fn figure(&self, quantity: Quantity) -> Option<Figure> {
        self.figures.iter().find(|(known, _)| *known == quantity).map(|(_, figure)| *figure)
    }
}

/// Quantities by name, beside `engine`, `rules`, `max_model_len`, `unanswered`, `padding_of`, `padding`,
/// `log_lines` and `warnings`.
impl Serialize for EngineReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_map(None)?;
        json.serialize_entry("engine", &self.engine)?;
        json.serialize_entry("rules", &self.rules())?;
        json.serialize_entry("max_model_len", &self.max_model_len)?;
        for (quantity, figure) in &self.figures {
            json.serialize_entry(quantity.name(), figure)?;
        }
        json.serialize_entry("unanswered", &self.unanswered)?;
        json.serialize_entry("padding_of", &self.padding_of)?;
        json.serialize_entry("padding", &self.padding)?;
        json.serialize_entry("log_lines", &self.log_lines)?;
        json.serialize_entry("warnings", &self.warnings)?;
        json.end()
    }
}
