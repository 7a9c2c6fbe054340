//! Sizes under an engine's accounting.

use std::fmt::Write as _;

use kvscope_sizing::engine::{Engine, EngineSize, Figure, size_in_engine};
use kvscope_sizing::{Settings, UnitSystem};

use super::Arguments;
use crate::cli::request::warn;
use crate::failure::Failure;
use crate::model::Model;
use crate::output::{self, Figures};

pub(super) fn run(arguments: &Arguments, engine: &Engine, settings: &Settings) -> Result<(), Failure> {
    let batch = arguments.contexts.batch()?;
    let contexts = arguments.contexts.each()?;
    let mut sizes = Vec::new();
    for name in &arguments.models {
        let model = Model::load_checked(name, arguments.accounting.unknown())?;
        for context in &contexts {
            let size = size_in_engine(&model.label, &model.architecture, engine, *context, batch, settings);
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
    let warnings = sizes
        .iter()
        .flat_map(|size| size.warnings.iter().map(|warning| (size.logical.model.as_str(), warning)));
    warn(warnings);
    Ok(())
}

fn text(size: &EngineSize) -> String {
    let context = size.logical.context.map_or(String::new(), |n| format!(" at {n} tokens"));
    let mut text = format!("{} in {}{context}\n\n", size.logical.model, size.report.engine);
    let mut table = Figures::new(1, &["quantity", "exact", "rounded"]);
    // Parts that the model does not have are left out here; the JSON holds them.
    for (quantity, figure) in size.report.figures.iter().filter(|(_, figure)| figure.whole() != Some(0)) {
        table.row([quantity.name().to_owned(), figure.to_string(), rounded(*figure)]);
    }
    if let Some(bytes) = size.logical.resident_bytes {
        table.row([
            "logical resident_bytes".to_owned(),
            bytes.to_string(),
            bytes.display(UnitSystem::Decimal),
        ]);
    }
    text.push_str(&table.render());
    if !size.report.padding.is_empty() {
        let mut padding = Figures::new(1, &["padding", "bytes", "why"]).text_last();
        for row in &size.report.padding {
            padding.row([row.what.clone(), row.bytes.to_string(), row.why.clone()]);
        }
        text.push('\n');
        text.push_str(&padding.render());
    }
    if !size.report.log_lines.is_empty() {
        text.push_str("\nlog lines\n");
        for line in &size.report.log_lines {
            writeln!(text, "  {line}").expect("writing to a string");
        }
    }
    if !size.report.unanswered.is_empty() {
        text.push_str("\nnot computed\n");
        for row in &size.report.unanswered {
            writeln!(text, "  {}: {}", row.quantity.name(), row.why).expect("writing to a string");
        }
    }
    text
}

fn rounded(figure: Figure) -> String {
    match figure {
        Figure::Bytes(bytes) => bytes.display(UnitSystem::Decimal),
        _ => String::new(),
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
