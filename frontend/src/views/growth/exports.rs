//! What the growth view gives away: both figures as the command line makes them, and its tables.

use kvscope_charts::export::{Export, Origin};
use kvscope_charts::figures::{GrowthScale, Table};
use kvscope_charts::label::one_rank;
use kvscope_charts::versions::{self, Asked, GrownOf, USUAL_WIDTH, Version};
use kvscope_protocol::AxisScale;
use kvscope_sizing::engine::{Engine, EngineKind, EngineSize, Quantity};
use kvscope_sizing::{Bytes, Settings, Size, Warning, group_digits};

use super::beside::every_token;
use super::curves::Room;
use super::{finding, formats};
use crate::state::{Accounting, ChosenSet, Page};

const NOTHING: &str = "No version has a figure, so there is nothing to export.";

/// The axes of the figure.
pub(super) fn scale(page: Page) -> GrowthScale {
    match page.view(|view| view.scale) {
        AxisScale::Log => GrowthScale::Log,
        AxisScale::Linear => GrowthScale::Linear,
        AxisScale::Times => GrowthScale::TimesFirst,
    }
}

/// The growth figure.
pub(super) fn growth(page: Page, origin: Origin) -> Result<Export, String> {
    let set = page.drawn();
    let versions = versions(&set)?;
    let (engine, settings) = match &set.engine {
        Some((engine, settings)) => (engine.clone(), settings),
        None => (Engine::newest(EngineKind::Logical), &set.settings),
    };
    let limits: Vec<_> = page.memory().map(|memory| Room::of(page, memory).level()).into_iter().collect();
    let asked = asked(page, &versions, &engine, settings);
    let of = GrownOf { bytes: set.bytes, scale: scale(page), limits: &limits, gpus: set.gpus };
    let grown = versions::growth(&asked, &of, origin).map_err(|why| why.to_string())?;
    Ok(grown.export)
}

/// The strips of layers, at the context that is set.
pub(super) fn layers(page: Page, origin: Origin) -> Result<Export, String> {
    let set = page.chosen();
    let versions = versions(&set)?;
    let mut assumed: Vec<(&str, Vec<Warning>)> = Vec::new();
    for version in &versions {
        let size = version.state.size(version.label, Some(page.context()), page.batch(), &set.settings);
        assumed.push((version.label, size.map_err(|why| why.to_string())?.warnings));
    }
    let logical = Engine::newest(EngineKind::Logical);
    let asked = asked(page, &versions, &logical, &set.settings);
    versions::layers(&asked, &assumed, origin).map_err(|why| why.to_string())
}

/// The versions that could be sized.
fn versions(set: &ChosenSet) -> Result<Vec<Version<'_>>, String> {
    let mut versions = Vec::new();
    for (chosen, state) in set.sized() {
        let Some(model) = &chosen.model else { continue };
        versions.push(Version {
            id: &chosen.id,
            name: &chosen.name,
            label: model.label(),
            colour: chosen.colour,
            subject: model.subject(),
            state,
        });
    }
    if versions.is_empty() { Err(NOTHING.to_owned()) } else { Ok(versions) }
}

fn asked<'a>(
    page: Page,
    versions: &'a [Version<'a>],
    engine: &'a Engine,
    settings: &'a Settings,
) -> Asked<'a> {
    let (context, batch, units) = (page.context(), page.batch(), page.view(|view| view.units));
    Asked { versions, engine, settings, context, batch, units, width: USUAL_WIDTH }
}

/// The figures side by side, an accounting a row.
pub(super) fn comparison(page: Page, origin: Origin) -> Result<Export, String> {
    let set = page.chosen();
    let at = (page.context(), page.batch());
    let head = [
        "version",
        "accounting",
        "resident (bytes)",
        "slope (B/token)",
        "fixed (bytes)",
        "read a step (bytes)",
        "layers",
        "config allows (tokens)",
    ];
    let mut rows = Vec::new();
    let mut assumed: Vec<String> = Vec::new();
    for (chosen, state) in set.sized() {
        let Some(model) = &chosen.model else { continue };
        let mut row = |accounting: String, figures: [String; 4]| {
            let mut cells = vec![chosen.name.clone(), accounting];
            cells.extend(figures);
            cells.push(group_digits(model.architecture.layer_count() as u64));
            cells.push(model.max_context().map_or_else(String::new, |most| group_digits(most.get())));
            rows.push(cells);
        };
        let size = state.size(&chosen.id, Some(at.0), at.1, &set.settings).map_err(|why| why.to_string())?;
        let whole = if set.ranks().unwrap_or(1) > 1 { "logical, whole model" } else { "logical" };
        row(whole.to_owned(), of_model(&size));
        let mut warnings = size.warnings;
        for (accounting, word) in [(Accounting::Logical, "logical"), (Accounting::Reserved, "reserved")] {
            let ranks = set.ranks().unwrap_or(1);
            let (Some(asked), true) = (
                set.in_engine(accounting, chosen, at, None),
                ranks > 1 || accounting == Accounting::Reserved,
            ) else {
                continue;
            };
            let every = if accounting == Accounting::Logical { every_token(page) } else { "" };
            let name = format!("{word}{}{every}", one_rank(", ", ranks));
            match asked {
                Ok(size) => {
                    row(name, in_engine(&size));
                    warnings.extend(size.report.warnings);
                }
                Err(why) => assumed.push(format!("{}: {name} has no figure: {why}", model.label())),
            }
        }
        for line in warnings.iter().map(|warning| format!("{}: {warning}", model.label())) {
            if !assumed.contains(&line) {
                assumed.push(line);
            }
        }
    }
    if rows.is_empty() {
        return Err(NOTHING.to_owned());
    }
    let engine =
        set.engine.as_ref().map_or_else(String::new, |(engine, _)| format!(" · reserved: by {engine}"));
    let note = format!("Resident and read bytes of {}, slope and fixed part of one{engine}", requests(at.1));
    let table = Table { head: head.map(str::to_owned).to_vec(), rows };
    Ok(Export { assumptions: assumed, ..Export::of_table(finding(page), note, inputs(page), table, origin) })
}

/// What the selected version keeps, component by component.
pub(super) fn breakdown(page: Page, origin: Origin) -> Result<Export, String> {
    let selected = page.selected().ok_or_else(|| NOTHING.to_owned())?;
    let (Some(model), Ok(state)) = (&selected.model, &selected.state) else { return Err(NOTHING.to_owned()) };
    let settings = &page.chosen().settings;
    let at = (page.context(), page.batch());
    let head = ["component", "layers", "format", "growth", "resident (bytes)", "slope (B/token)"];
    let mut rows = Vec::new();
    for part in state.parts() {
        let component = &part.component;
        let bytes = component.bytes(at.0).and_then(|bytes| bytes.times(part.layers)?.times(at.1));
        let slope = component.growth.slope(Some(at.0)).and_then(|slope| slope.times(part.layers));
        rows.push(vec![
            component.kind.label().to_owned(),
            group_digits(part.layers),
            formats::of_component(model, component, settings),
            component.growth.name().to_owned(),
            bytes.map_or_else(|_| String::new(), digits),
            slope.map_or_else(|_| String::new(), |slope| exact_slope(&slope.exact())),
        ]);
    }
    let title = format!("{}, component by component, at {} tokens", model.name, at.0);
    let note = format!("Logical bytes of {}; the slope is of one", requests(at.1));
    let table = Table { head: head.map(str::to_owned).to_vec(), rows };
    let warnings = state.warnings().iter().map(|warning| format!("{}: {warning}", model.label())).collect();
    Ok(Export { assumptions: warnings, ..Export::of_table(title, note, inputs(page), table, origin) })
}

fn of_model(size: &Size) -> [String; 4] {
    [
        size.resident_bytes.map_or_else(String::new, digits),
        exact_slope(&size.slope_bytes_per_token.exact()),
        digits(size.fixed_bytes),
        size.read_bytes_per_step.map_or_else(String::new, digits),
    ]
}

fn in_engine(size: &EngineSize) -> [String; 4] {
    let figure = |quantity: Quantity| match size.figure(quantity) {
        Some(figure) => figure.whole().map_or_else(|| figure.as_f64().to_string(), group_digits),
        None => String::new(),
    };
    let [resident, slope, fixed] =
        [Quantity::ResidentBytes, Quantity::SlopeBytesPerToken, Quantity::FixedBytesPerRequest].map(figure);
    [resident, slope, fixed, String::new()]
}

/// What was asked of the tables, by name.
fn inputs(page: Page) -> Vec<(String, String)> {
    let set = page.chosen();
    let names: Vec<&str> =
        set.list.iter().filter_map(|chosen| Some(chosen.model.as_ref()?.label())).collect();
    let mut inputs = vec![
        ("models".to_owned(), names.join(", ")),
        ("context".to_owned(), page.context().to_string()),
        ("batch".to_owned(), group_digits(page.batch())),
    ];
    let settings = match &set.engine {
        Some((engine, settings)) => {
            inputs.push(("engine".to_owned(), engine.to_string()));
            settings
        }
        None => &set.settings,
    };
    inputs.extend(versions::set(settings));
    inputs
}

fn requests(batch: u64) -> String {
    if batch == 1 { "one request".to_owned() } else { format!("{} requests", group_digits(batch)) }
}

fn digits(bytes: Bytes) -> String {
    group_digits(bytes.get())
}

/// The number alone; its unit stands above it.
fn exact_slope(slope: &str) -> String {
    slope.trim_end_matches(" B/token").to_owned()
}
