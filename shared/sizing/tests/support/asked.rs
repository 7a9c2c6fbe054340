//! Models and settings as tests ask for them.

use kvscope_sizing::engine::{EngineReport, Query, answer, report};
use kvscope_sizing::{Architecture, Settings, find_entry};

/// Settings by their names.
pub(crate) fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

/// A model of the catalogue.
pub(crate) fn catalogued(id: &str) -> Architecture {
    find_entry(id).unwrap().architecture().unwrap()
}

/// All that an engine says of a model.
#[allow(dead_code, reason = "not every test reads a whole report")]
pub(crate) fn report_of(architecture: &Architecture, engine: &str, pairs: &[(&str, &str)]) -> EngineReport {
    let settings = settings(pairs);
    report(&Query::new(architecture, engine.parse().unwrap(), &settings).unwrap()).unwrap()
}

/// One figure of an engine.
#[allow(dead_code, reason = "not every test asks for figures by their names")]
pub(crate) fn figure(
    architecture: &Architecture,
    engine: &str,
    pairs: &[(&str, &str)],
    quantity: &str,
) -> f64 {
    let settings = settings(pairs);
    let query = Query::new(architecture, engine.parse().unwrap(), &settings).unwrap();
    answer(&query, quantity.parse().unwrap()).unwrap().as_f64()
}
