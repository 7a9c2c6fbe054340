mod engine;

use kvscope_sizing::{Size, UnitSystem};

pub(super) use super::request::Request as Arguments;
use super::request::warn_of_all;
use crate::failure::Failure;
use crate::model::Model;
use crate::output::{self, Figures};

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.accounting.settings()?;
    let engine = arguments.accounting.engine()?;
    // Ranks and pools are an engine's business, also where its accounting is dense.
    if !engine.is_dense(&settings) {
        return engine::run(arguments, &engine, &settings);
    }
    let batch = arguments.batch.count()?;
    let contexts = arguments.contexts.each()?;
    let mut sizes = Vec::new();
    for name in &arguments.models {
        let model = Model::load_checked(name, arguments.accounting.unknown())?;
        let state = model.state(&settings)?;
        for context in &contexts {
            let size = state.size(&model.shown, *context, batch, &settings);
            let size = size.map_err(|error| model.failure(&error))?;
            // The table has no operations, so what they lack is no matter there.
            sizes.push(if arguments.json { size.with_work(&model.subject()) } else { size });
        }
    }
    if arguments.json {
        output::json(&sizes)?;
    } else if arguments.csv {
        output::figures(&exact_rows(&sizes).csv())?;
    } else {
        output::figures(&table(&sizes))?;
    }
    if !arguments.json {
        warn_of_all(sizes.iter().map(|size| (size.model.as_str(), size.warnings.as_slice())));
    }
    Ok(())
}

/// Totals, then components where there is one model and context.
fn table(sizes: &[Size]) -> String {
    let header = [
        "model",
        "context",
        "resident",
        "bytes",
        "slope",
        "fixed",
        "read a step",
        "persisted",
        "transferred",
    ];
    let mut totals = Figures::new(1, &header);
    for size in sizes {
        totals.row([
            size.model.clone(),
            size.context.map_or("–".to_owned(), |n| n.to_string()),
            shown(size.resident_bytes),
            size.resident_bytes.map_or("–".to_owned(), |bytes| bytes.to_string()),
            size.slope_bytes_per_token.to_string(),
            size.fixed_bytes.display(UnitSystem::Decimal),
            shown(size.read_bytes_per_step),
            shown(size.persisted_bytes),
            shown(size.transfer_bytes),
        ]);
    }
    let mut text = totals.render();
    if let [size] = sizes {
        let header = ["component", "growth", "format", "layers", "bytes", "slope", "fixed"];
        let mut parts = Figures::new(3, &header);
        for part in &size.components {
            parts.row([
                part.kind.name().to_owned(),
                part.growth.to_owned(),
                part.format.to_owned(),
                part.layers.to_string(),
                part.bytes.map_or("–".to_owned(), |bytes| bytes.to_string()),
                part.slope_bytes_per_token.to_string(),
                part.fixed_bytes.display(UnitSystem::Decimal),
            ]);
        }
        text.push('\n');
        text.push_str(&parts.render());
    }
    text
}

fn exact_rows(sizes: &[Size]) -> Figures {
    let header = [
        "model",
        "context_tokens",
        "batch",
        "component",
        "growth",
        "format",
        "layers",
        "bytes",
        "slope_bytes_per_token",
        "fixed_bytes",
        "read_bytes_per_step",
        "persisted_bytes",
        "transfer_bytes",
    ];
    let mut rows = Figures::new(1, &header);
    for size in sizes {
        let context = size.context.map_or(String::new(), |n| n.get().to_string());
        let count = |bytes: Option<kvscope_sizing::Bytes>| {
            bytes.map_or(String::new(), |bytes| bytes.get().to_string())
        };
        for part in &size.components {
            rows.row([
                size.model.clone(),
                context.clone(),
                size.batch.to_string(),
                part.kind.name().to_owned(),
                part.growth.to_owned(),
                part.format.to_owned(),
                part.layers.to_string(),
                count(part.bytes),
                part.slope_bytes_per_token.as_f64().to_string(),
                part.fixed_bytes.get().to_string(),
                count(part.read_bytes_per_step),
                count(part.persisted_bytes),
                count(part.transfer_bytes),
            ]);
        }
    }
    rows
}

fn shown(bytes: Option<kvscope_sizing::Bytes>) -> String {
    bytes.map_or("–".to_owned(), |bytes| bytes.display(UnitSystem::Decimal))
}
