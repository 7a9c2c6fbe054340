//! What the versions view gives away: its figures as the command line makes them, and its tables.

use kvscope_charts::export::{Export, Origin};
use kvscope_charts::figures::{Table, facts_table, kept_table};
use kvscope_charts::palette::assign_colours;
use kvscope_charts::versions::{self, Asked, Change, ChangeOf, USUAL_WIDTH, Version, inputs_of_change};
use kvscope_protocol::{Moved, ViewState};
use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::{Settings, StateModel, Warning};

use super::Compared;
use crate::state::Page;

/// A table of both versions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Facts,
    Kept,
}

impl Compared {
    /// The change as the figure draws it.
    pub(super) fn change(&self, page: Page) -> Change<'_> {
        let families = [0, 1].map(|end: usize| self.ends[end].family.as_str());
        let colours = assign_colours(&families);
        Change {
            comparison: &self.comparison,
            names: [0, 1].map(|end: usize| self.ends[end].name.as_str()),
            colours: [colours[0], colours[1]],
            of: match page.view(|view| view.versions.moved) {
                Moved::Slope => ChangeOf::Slope,
                Moved::Fixed => ChangeOf::Fixed,
                Moved::Resident => ChangeOf::Resident,
            },
        }
    }

    /// Both states under the formats that are set.
    pub(super) fn states(&self, settings: &Settings) -> Result<[StateModel; 2], String> {
        let state = |end: usize| {
            StateModel::new(&self.ends[end].architecture, settings).map_err(|why| why.to_string())
        };
        Ok([state(0)?, state(1)?])
    }

    fn assumed(&self, states: &[StateModel; 2]) -> [(&str, Vec<Warning>); 2] {
        [0, 1].map(|end: usize| (self.ends[end].label(), states[end].warnings().to_vec()))
    }
}

/// The waterfall.
pub(super) fn change(
    page: Page,
    answer: &Result<Compared, String>,
    origin: Origin,
) -> Result<Export, String> {
    let compared = answer.as_ref().map_err(Clone::clone)?;
    let settings = page.view(ViewState::settings);
    let assumed = compared.assumed(&compared.states(&settings)?);
    compared.change(page).export(&settings, USUAL_WIDTH, &assumed, origin).map_err(|why| why.to_string())
}

/// The strips, layer under layer.
pub(super) fn aligned(
    page: Page,
    answer: &Result<Compared, String>,
    origin: Origin,
) -> Result<Export, String> {
    let compared = answer.as_ref().map_err(Clone::clone)?;
    let settings = page.view(ViewState::settings);
    let states = compared.states(&settings)?;
    let Change { names, colours, .. } = compared.change(page);
    let versions = [0, 1].map(|end: usize| Version {
        id: &compared.ends[end].id,
        name: names[end],
        label: compared.ends[end].label(),
        colour: colours[end],
        subject: compared.ends[end].subject(),
        state: &states[end],
    });
    let asked = Asked {
        versions: &versions,
        engine: &Engine::newest(EngineKind::Logical),
        settings: &settings,
        context: page.context(),
        batch: 1,
        units: page.view(|view| view.units),
        width: USUAL_WIDTH,
    };
    versions::layers(&asked, &compared.assumed(&states), origin).map_err(|why| why.to_string())
}

/// What differs, or what each keeps.
pub(super) fn table(
    page: Page,
    answer: &Result<Compared, String>,
    of: Of,
    origin: Origin,
) -> Result<Export, String> {
    let compared = answer.as_ref().map_err(Clone::clone)?;
    let names = [0, 1].map(|end: usize| compared.ends[end].name.as_str());
    let (note, table) = match of {
        Of::Facts => ("What changed in the configs", facts_table(&compared.comparison, names)),
        Of::Kept => ("What one request keeps of each component", kept_table(&compared.comparison, names)),
    };
    let inputs = inputs_of_change(&compared.comparison, &page.view(ViewState::settings));
    Ok(Export::of_table(compared.comparison.sentence.clone(), note.to_owned(), inputs, table, origin))
}

/// The versions of a family.
pub(super) fn family(page: Page, name: &str, rows: Vec<Vec<String>>, origin: Origin) -> Export {
    let head = ["version", "released", "slope (B/token)"].map(str::to_owned).to_vec();
    let mut inputs = vec![("family".to_owned(), name.to_owned())];
    inputs.extend(versions::set(&page.view(ViewState::settings)));
    let note = "What one more token adds past every window, logical bytes of one request".to_owned();
    Export::of_table(format!("{name}, version by version"), note, inputs, Table { head, rows }, origin)
}
