use clap::{Args, ValueEnum};
use kvscope_charts::palette::assign_colours;
use kvscope_charts::versions::{Change, ChangeOf};
use kvscope_protocol::{Moved, Room, ViewState};
use kvscope_sizing::{Settings, Version, compare};

use super::Written;
use super::shown::told;
use crate::cli::request::{Accounting, Contexts, hide_engines};
use crate::failure::Failure;
use crate::model::Model;

#[derive(Args, Debug)]
#[command(mut_args(hide_engines))]
pub(super) struct Arguments {
    /// The first version
    #[arg(value_name = "MODEL")]
    from: String,
    /// The second version
    #[arg(value_name = "MODEL")]
    to: String,
    /// Whose change
    #[arg(long, value_enum, default_value_t = Of::Slope)]
    of: Of,
    #[command(flatten)]
    contexts: Contexts,
    #[command(flatten)]
    accounting: Accounting,
    #[command(flatten)]
    written: Written,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Of {
    /// What one more token adds
    Slope,
    /// What does not grow
    Fixed,
    /// What one request keeps at the context
    Resident,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { contexts, accounting, written, .. } = arguments;
    let format = written.format()?;
    let settings = accounting.logical_settings()?;
    let n = contexts.one()?;
    let load = |name: &String| Model::load_checked(name, accounting.unknown());
    let models = [load(&arguments.from)?, load(&arguments.to)?];
    let states = [models[0].state(&settings)?, models[1].state(&settings)?];
    let name = |model: &Model| model.entry.map_or_else(|| model.shown.clone(), |entry| entry.name.clone());
    let names = [name(&models[0]), name(&models[1])];
    let version = |place: usize| Version {
        label: &models[place].shown,
        name: &names[place],
        architecture: &models[place].architecture,
    };
    let comparison = compare(version(0), version(1), &settings, n)?;
    let family =
        |model: &Model| model.entry.map_or_else(|| model.label.clone(), |entry| entry.family.clone());
    let families = [family(&models[0]), family(&models[1])];
    let colours = assign_colours(&[&families[0], &families[1]]);
    let of = match arguments.of {
        Of::Slope => (ChangeOf::Slope, Moved::Slope),
        Of::Fixed => (ChangeOf::Fixed, Moved::Fixed),
        Of::Resident => (ChangeOf::Resident, Moved::Resident),
    };
    let assumed =
        [0, 1].map(|place: usize| (models[place].shown.as_str(), states[place].warnings().to_vec()));
    let change = Change {
        comparison: &comparison,
        names: [&names[0], &names[1]],
        colours: [colours[0], colours[1]],
        of: of.0,
    };
    let origin = written.origin(link(&models, &settings, n, of.1))?;
    let export = change.export(&settings, written.width(), &assumed, origin).map_err(Failure::input)?;
    told(&assumed);
    written.write(&export, format)
}

/// The page's link to the same view, from its `?` on; empty where a link cannot say it: files and rarer formats are not in
/// links.
fn link(models: &[Model; 2], settings: &Settings, context: kvscope_sizing::Tokens, moved: Moved) -> String {
    let mut view = ViewState {
        room: Room::Versions,
        context,
        kv_format: settings.kv_dtype,
        index_format: settings.index_dtype,
        state_format: settings.state_dtype,
        ..ViewState::default()
    };
    view.versions.moved = moved;
    view.versions.set_pair([&models[0].label, &models[1].label]);
    let is_whole = models.iter().all(|model| model.entry.is_some()) && view.settings() == *settings;
    if is_whole { format!("?{}", view.to_query()) } else { String::new() }
}
