//! Sizes under an engine's accounting.

use std::fmt::Write as _;

use kvscope_sizing::engine::{
    Engine, EngineReport, EngineSize, Figure, Padding, Quantity, Unanswered, size_in_engine,
};
use kvscope_sizing::{Settings, UnitSystem};

use super::Arguments;
use crate::cli::request::warn_of_all;
use crate::cli::reserved::{engine_words, reserved_text};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::{self, Figures};

pub(super) fn run(arguments: &Arguments, engine: &Engine, settings: &Settings) -> Result<(), Failure> {
    let batch = arguments.batch.count()?;
    let contexts = arguments.contexts.each()?;
    let mut sizes = Vec::new();
    for name in &arguments.models {
        let model = Model::load_checked(name, arguments.accounting.unknown())?;
        for context in &contexts {
            let size = size_in_engine(&model.shown, &model.architecture, engine, *context, batch, settings);
            sizes.push(size.map_err(|error| model.failure(&error))?);
        }
    }
    if arguments.json {
        return output::json(&sizes);
    }
    if arguments.csv {
        output::figures(&exact_rows(&sizes).csv())?;
    } else {
        output::figures(&sizes.iter().map(text).collect::<Vec<_>>().join("\n"))?;
    }
    warn_of_all(sizes.iter().map(|size| (size.logical.model.as_str(), size.warnings.as_slice())));
    Ok(())
}

fn text(size: &EngineSize) -> String {
    let report = &size.report;
    let context = size.logical.context.map_or(String::new(), |n| format!(" at {}", n.counted()));
    let batch = match size.logical.batch {
        1 => String::new(),
        batch => format!(", batch {batch}"),
    };
    let mut text = format!("{} in {}{context}{batch}\n\n", size.logical.model, engine_words(report));
    let mut table = Figures::new(1, &["figure", "rounded", "exact"]);
    // Parts that the model does not have are left out here; the JSON holds them. Every model has the first three figures.
    let always = [Quantity::SlopeBytesPerToken, Quantity::FixedBytesPerRequest, Quantity::ResidentBytes];
    let is_said = |quantity: Quantity, figure: Figure| figure.as_f64() != 0.0 || always.contains(&quantity);
    for (quantity, figure) in report.figures.iter().filter(|(quantity, figure)| is_said(*quantity, *figure)) {
        let (rounded, exact) = shown(*quantity, *figure);
        table.row([label(*quantity, size), rounded, exact]);
    }
    if let Some(bytes) = size.logical.resident_bytes {
        table.row(["Logical".to_owned(), bytes.display(UnitSystem::Decimal), bytes.to_string()]);
    }
    text.push_str(&table.render());
    if let Some(beside) = &size.reservation {
        text.push('\n');
        text.push_str(&reserved_text(beside));
    }
    // The reservation has the padding of its own requests.
    let told = size.reservation.as_ref().map_or(&[][..], |beside| beside.padding.as_slice());
    let rows: Vec<&Padding> = report.padding.iter().filter(|row| !told.contains(row)).collect();
    if !rows.is_empty() && (size.reservation.is_none() || report.padding_of.is_none()) {
        text.push('\n');
        text.push_str(&padding(report, &rows));
    }
    if !report.log_lines.is_empty() {
        text.push_str("\nLines of the engine's log\n");
        for line in &report.log_lines {
            writeln!(text, "  {line}").expect("writing to a string");
        }
    }
    // Figures that lack the same setting share one line.
    let mut lacking: Vec<(&str, Vec<String>)> = Vec::new();
    for row in report.unanswered.iter().filter(|row| belongs(row, size)) {
        let name = label(row.quantity, size).trim_start().to_owned();
        match lacking.iter_mut().find(|(why, _)| *why == row.why) {
            Some((_, names)) => names.push(name),
            None => lacking.push((&row.why, vec![name])),
        }
    }
    if !lacking.is_empty() {
        text.push_str("\nNot computed\n");
    }
    for (why, names) in lacking {
        writeln!(text, "  {}: {why}", names.join("; ")).expect("writing to a string");
    }
    text
}

fn padding(report: &EngineReport, rows: &[&Padding]) -> String {
    let of = match report.padding_of {
        None => "padding of the pools".to_owned(),
        Some(of) if of.batch == 1 => format!("padding of one request of {}", of.context.counted()),
        Some(of) => format!("padding of {} requests of {}", of.batch, of.context.counted()),
    };
    let mut padding = Figures::new(1, &[of.as_str(), "rounded", "exact", "why"]).text_last();
    for row in rows {
        let rounded = row.bytes.display(UnitSystem::Decimal);
        padding.row([row.what.clone(), rounded, row.bytes.to_string(), row.why.clone()]);
    }
    padding.render()
}

/// Whether a figure that lacks a setting is missed here: not the naive one, which nobody asked for, and no stored states
/// of a model without states. The JSON lists every one.
fn belongs(row: &Unanswered, size: &EngineSize) -> bool {
    match row.quantity {
        Quantity::OverestimateFactor => size.logical.settings.naive.is_some(),
        Quantity::CheckpointBytes => {
            size.figure(Quantity::StateBytes).is_some_and(|figure| figure.as_f64() != 0.0)
        }
        _ => true,
    }
}

/// The words for a figure, with the length that it is for and the ranks that it is one of.
fn label(quantity: Quantity, size: &EngineSize) -> String {
    let words = size.report.label(quantity);
    let ranks = size.reservation.as_ref().map_or(1, |beside| beside.ranks);
    match quantity {
        Quantity::ResidentBytes if ranks > 1 => format!("{words}, one rank of {ranks}"),
        _ if words.starts_with(|c: char| c.is_lowercase()) => format!("  {words}"),
        _ => words,
    }
}

/// A figure in three significant digits where it is long, and exactly.
fn shown(quantity: Quantity, figure: Figure) -> (String, String) {
    match figure {
        Figure::Bytes(bytes) => (bytes.display(UnitSystem::Decimal), bytes.to_string()),
        Figure::Slope(slope) if slope.whole().is_none() => (slope.to_string(), slope.exact()),
        Figure::Slope(slope) => (String::new(), slope.exact()),
        Figure::Ratio(ratio) if quantity == Quantity::PaddingFraction => {
            (format!("{:.1} %", ratio * 100.0), String::new())
        }
        Figure::Ratio(ratio) => (format!("{ratio:.2}×"), String::new()),
        _ => (String::new(), figure.to_string()),
    }
}

fn exact_rows(sizes: &[EngineSize]) -> Figures {
    let mut rows =
        Figures::new(1, &["model", "engine", "context_tokens", "batch", "quantity", "value", "unit"]);
    for size in sizes {
        for (quantity, figure) in &size.report.figures {
            let value = figure.whole().map_or_else(|| figure.as_f64().to_string(), |whole| whole.to_string());
            rows.row([
                size.logical.model.clone(),
                size.report.engine.to_string(),
                size.logical.context.map_or(String::new(), |n| n.get().to_string()),
                size.logical.batch.to_string(),
                quantity.name().to_owned(),
                value,
                figure.unit().to_owned(),
            ]);
        }
    }
    rows
}
