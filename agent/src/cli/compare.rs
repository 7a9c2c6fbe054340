use clap::Args;
use kvscope_sizing::{Comparison, Ratio, StateModel, Stated, UnitSystem, Version, Warning, compare};
use serde::Serialize;

use super::request::{Accounting, Batch, Contexts, hide_engines, warn};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
#[command(mut_args(hide_unused))]
pub(super) struct Arguments {
    /// The first version
    #[arg(value_name = "MODEL")]
    from: String,
    /// The second version
    #[arg(value_name = "MODEL")]
    to: String,
    #[command(flatten)]
    contexts: Contexts,
    #[command(flatten)]
    batch: Batch,
    #[command(flatten)]
    accounting: Accounting,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A comparison is of one request, without an engine.
fn hide_unused(option: clap::Arg) -> clap::Arg {
    let is_batch = option.get_id() == "batch";
    if is_batch { option.hide(true) } else { hide_engines(option) }
}

/// The comparison with what was assumed of either version.
#[derive(Serialize)]
struct Report<'c> {
    #[serde(flatten)]
    comparison: &'c Comparison,
    warnings: Vec<Told>,
}

/// A warning and the version that it is about.
#[derive(Serialize)]
struct Told {
    model: String,
    #[serde(flatten)]
    warning: Warning,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.accounting.logical_settings()?;
    let n = arguments.contexts.one()?;
    if arguments.batch.count()? != 1 {
        return Err(Failure::input("batch: compare shows one request; leave batch out"));
    }
    let unknown = arguments.accounting.unknown();
    let models =
        [Model::load_checked(&arguments.from, unknown)?, Model::load_checked(&arguments.to, unknown)?];
    // Sized alone first, so that what fails is named.
    let states = [models[0].state(&settings)?, models[1].state(&settings)?];
    let comparison = compare(version(&models[0]), version(&models[1]), &settings, n)?;
    let warnings = || {
        let of = |(model, state): (&'_ Model, &'_ StateModel)| -> Vec<Told> {
            let told = |warning: &Warning| Told { model: model.shown.clone(), warning: warning.clone() };
            state.warnings().iter().map(told).collect()
        };
        models.iter().zip(&states).flat_map(of).collect::<Vec<_>>()
    };
    if arguments.json {
        return output::json(&Report { comparison: &comparison, warnings: warnings() });
    }
    let mut text = format!("{}\n\n{}", comparison.sentence, components(&comparison).render());
    if !comparison.steps.is_empty() {
        text.push('\n');
        text.push_str(&steps(&comparison)?.render());
    }
    if !comparison.facts.is_empty() {
        text.push('\n');
        text.push_str(&facts(&comparison).render());
    }
    output::figures(&text)?;
    warn(warnings().iter().map(|told| (told.model.as_str(), &told.warning)));
    Ok(())
}

fn version(model: &Model) -> Version<'_> {
    Version {
        label: &model.shown,
        name: model.entry.map_or(model.shown.as_str(), |entry| &entry.name),
        architecture: &model.architecture,
    }
}

fn components(comparison: &Comparison) -> Figures {
    let [from, to] = [comparison.from.as_str(), comparison.to.as_str()];
    let mut table = Figures::new(1, &["", from, to, "change"]);
    for change in &comparison.components {
        let name = change.kind.name();
        let layers = change.layers;
        table.row([
            format!("{name} layers"),
            layers[0].to_string(),
            layers[1].to_string(),
            difference(layers),
        ]);
        let bytes = change.bytes.map(kvscope_sizing::Bytes::get);
        table.row([format!("{name} bytes"), bytes_cell(bytes[0]), bytes_cell(bytes[1]), ratio(bytes)]);
    }
    let slope = comparison.slope_bytes_per_token;
    let slope_ratio = if slope[0].as_f64() > 0.0 {
        format!("{:.3}×", slope[1].as_f64() / slope[0].as_f64())
    } else {
        "–".to_owned()
    };
    table.row(["slope".to_owned(), slope[0].to_string(), slope[1].to_string(), slope_ratio]);
    for (name, bytes) in [
        ("fixed", comparison.fixed_bytes),
        ("resident", comparison.resident_bytes),
        ("read by a decode step", comparison.read_bytes_per_step),
    ] {
        let counts = bytes.map(kvscope_sizing::Bytes::get);
        table.row([name.to_owned(), bytes_cell(counts[0]), bytes_cell(counts[1]), ratio(counts)]);
    }
    table
}

/// The steps in their order, with the slope that each one reaches.
fn steps(comparison: &Comparison) -> Result<Figures, Failure> {
    let header = ["cause", "step", "slope B/token", "slope so far", "fixed B", "resident B"];
    let mut table = Figures::new(2, &header);
    let mut slope = Ratio::from(comparison.slope_bytes_per_token[0]);
    for step in &comparison.steps {
        slope = slope.plus(step.slope)?;
        table.row([
            step.cause.label().to_owned(),
            step.text.clone(),
            change(step.slope),
            slope.to_string().trim_start_matches('+').to_owned(),
            change(step.fixed),
            change(step.resident),
        ]);
    }
    Ok(table)
}

fn facts(comparison: &Comparison) -> Figures {
    let [from, to] = [comparison.from.as_str(), comparison.to.as_str()];
    let mut table = Figures::new(5, &["fact", from, to, "field", "cause"]);
    let stated = |side: &Option<Stated>| side.as_ref().map_or_else(|| "–".to_owned(), Stated::text);
    for fact in &comparison.facts {
        table.row([
            format!("{} {}", fact.of, fact.fact),
            stated(&fact.from),
            stated(&fact.to),
            fact.field(),
            fact.cause.label().to_owned(),
        ]);
    }
    table
}

fn change(figure: Ratio) -> String {
    if figure == Ratio::ZERO { "–".to_owned() } else { figure.to_string() }
}

fn bytes_cell(count: u64) -> String {
    let bytes = kvscope_sizing::Bytes::new(count);
    format!("{bytes} ({})", bytes.display(UnitSystem::Decimal))
}

fn difference([from, to]: [u64; 2]) -> String {
    if to >= from { format!("+{}", to - from) } else { format!("−{}", from - to) }
}

fn ratio([from, to]: [u64; 2]) -> String {
    if from == 0 { "–".to_owned() } else { format!("{:.3}×", to as f64 / from as f64) }
}
