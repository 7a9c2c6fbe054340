//! Figures of plans for claims. The page, which has the plans, leaves the recipes of these figures to the command line and
//! says so: they would weigh as much again.

use serde_json::{Map, Value};

use crate::{Ratio, Result};

/// A figure and how it came about.
pub(crate) struct PublishedFigure {
    pub(crate) value: Ratio,
    /// What it is, in words.
    pub(crate) what: String,
    /// Its computation with numbers.
    pub(crate) worked: String,
}

/// What a claim about a plan needs where no plan is computed.
pub(super) const MISSING: Option<&str> =
    if cfg!(target_arch = "wasm32") { Some("a plan, which the command line computes") } else { None };

/// Computes what a recipe asks for.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn figure(recipe: &Map<String, Value>) -> Result<PublishedFigure> {
    crate::plan::published_figure(recipe)
}

#[cfg(target_arch = "wasm32")]
pub(super) fn figure(_: &Map<String, Value>) -> Result<PublishedFigure> {
    Err(crate::Error::setting("plan", MISSING.unwrap_or_default()))
}
