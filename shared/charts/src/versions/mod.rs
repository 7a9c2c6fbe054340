//! Figures of versions with all that an export says of them: the command line and the page take them from here, so that both
//! give the same bytes.

mod change;
mod growth;
mod layers;
mod levels;

pub use change::{Change, ChangeOf, inputs as inputs_of_change};
pub use growth::{Grown, GrownOf, growth};
pub use layers::layers;
pub use levels::level;

use kvscope_sizing::engine::Engine;
use kvscope_sizing::plan::Subject;
use kvscope_sizing::{ByteKind, Settings, StateModel, Tokens, UnitSystem, Warning, group_digits};

use crate::palette::SeriesColour;

/// Width of a figure as a file in CSS pixels, where none is asked for.
pub const USUAL_WIDTH: f64 = 900.0;

/// A version that a figure shows.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a> {
    /// Part of the ids in an SVG.
    pub id: &'a str,
    /// What it is called in figures.
    pub name: &'a str,
    /// What it is called among what was asked and assumed: a catalogue id or a path.
    pub label: &'a str,
    /// Its colour.
    pub colour: SeriesColour,
    /// Its layers, and what its weights are counted from.
    pub subject: Subject<'a>,
    /// What they keep.
    pub state: &'a StateModel,
}

/// What is asked of all versions.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// In the order of their colours.
    pub versions: &'a [Version<'a>],
    /// Whose reserved bytes stand beside the logical ones; the logical one for nobody's.
    pub engine: &'a Engine,
    /// Formats, ranks and pools.
    pub settings: &'a Settings,
    /// The cursor's context.
    pub context: Tokens,
    /// Requests of that context.
    pub batch: u64,
    /// Units of figures.
    pub units: UnitSystem,
    /// Width of the drawing in CSS pixels.
    pub width: f64,
}

impl Asked<'_> {
    /// What was asked, by name: all that changes a figure.
    fn inputs(&self) -> Vec<(String, String)> {
        let names: Vec<&str> = self.versions.iter().map(|version| version.label).collect();
        let mut inputs = vec![
            ("models".to_owned(), names.join(", ")),
            ("context".to_owned(), self.context.to_string()),
            ("batch".to_owned(), group_digits(self.batch)),
            ("engine".to_owned(), self.engine.to_string()),
        ];
        inputs.extend(set(self.settings));
        inputs
    }
}

/// `Resident state of one request`
pub fn bytes_of(bytes: ByteKind, batch: u64) -> String {
    let what = match bytes {
        ByteKind::Resident => "Resident state of",
        ByteKind::Read => "Bytes that a step reads of",
        ByteKind::Persisted => "Persisted bytes of",
        ByteKind::Transferred => "Transferred bytes of",
    };
    match batch {
        1 => format!("{what} one request"),
        count => format!("{what} {} requests", group_digits(count)),
    }
}

/// Every setting that is set, by its name.
pub fn set(settings: &Settings) -> Vec<(String, String)> {
    Settings::NAMES.iter().filter_map(|name| Some(((*name).to_owned(), settings.value(name)?))).collect()
}

/// What was assumed of each version, in words for the file.
fn words(assumed: &[(&str, Vec<Warning>)]) -> Vec<String> {
    let of = |(label, warnings): &(&str, Vec<Warning>)| -> Vec<String> {
        warnings.iter().map(|warning| format!("{label}: {warning}")).collect()
    };
    assumed.iter().flat_map(of).collect()
}
