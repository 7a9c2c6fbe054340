use std::collections::HashMap;

use clap::Args;
use kvscope_sizing::{Bytes, ComponentKind, Tokens, UnitSystem, layer_ranges};
use serde::Serialize;

use super::request::{Accounting, Batch, Contexts, hide_engines, warn};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
#[command(mut_args(hide_engines))]
pub(super) struct Arguments {
    /// Catalogue id, config.json or GGUF file, folder, or - for standard input
    #[arg(value_name = "MODEL")]
    model: String,
    #[command(flatten)]
    contexts: Contexts,
    #[command(flatten)]
    batch: Batch,
    #[command(flatten)]
    accounting: Accounting,
    /// One row a layer instead of one for equal layers
    #[arg(long)]
    each: bool,
    /// Print JSON, one object a layer
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values, one row a layer and component
    #[arg(long)]
    csv: bool,
}

/// What one layer keeps for the batch.
#[derive(Debug, Serialize)]
struct LayerRow {
    layer: usize,
    mixer: String,
    borrows: Option<String>,
    /// The layer whose weights it runs with, where it is a later pass of a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    weights_of: Option<usize>,
    bytes: Bytes,
    components: Vec<ComponentRow>,
}

#[derive(Clone, Debug, Serialize)]
struct ComponentRow {
    kind: ComponentKind,
    growth: &'static str,
    format: &'static str,
    bytes: Bytes,
    grows: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    model: String,
    context: Tokens,
    batch: u64,
    engine: &'static str,
    layers: Vec<LayerRow>,
    resident_bytes: Bytes,
    warnings: Vec<kvscope_sizing::Warning>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.accounting.logical_settings()?;
    let (n, batch) = (arguments.contexts.one()?, arguments.batch.count()?);
    let model = Model::load_checked(&arguments.model, arguments.accounting.unknown())?;
    let state = model.state(&settings)?;
    let size = state.size(&model.shown, Some(n), batch, &settings).map_err(|error| model.failure(&error))?;
    let architecture = &model.architecture;
    let mut layers = Vec::with_capacity(architecture.layer_count());
    for (index, class) in architecture.layers().enumerate() {
        let components = components(&model, &state, index, n, batch)?;
        let bytes =
            Bytes::total(components.iter().map(|row| row.bytes)).map_err(|error| model.failure(&error))?;
        layers.push(LayerRow {
            layer: index,
            mixer: class.name(),
            borrows: class.borrows.clone(),
            weights_of: Some(architecture.weights_of(index)).filter(|owner| *owner != index),
            bytes,
            components,
        });
    }
    let report = Report {
        model: model.shown.clone(),
        context: n,
        batch,
        engine: "logical",
        layers,
        resident_bytes: size.resident_bytes.unwrap_or_default(),
        warnings: size.warnings,
    };
    if arguments.json {
        return output::json(&report);
    }
    let text = match (arguments.csv, arguments.each) {
        (true, _) => exact_rows(&report).csv(),
        (false, true) => each_row(&report).render(),
        (false, false) => grouped_rows(&report)?.render(),
    };
    output::figures(&text)?;
    warn(report.warnings.iter().map(|warning| (report.model.as_str(), warning)));
    Ok(())
}

fn components(
    model: &Model,
    state: &kvscope_sizing::StateModel,
    index: usize,
    n: Tokens,
    batch: u64,
) -> Result<Vec<ComponentRow>, Failure> {
    let class = model.architecture.class_of(index).expect("the index comes from the architecture");
    let rows = state.class_components(class).iter().map(|component| {
        Ok(ComponentRow {
            kind: component.kind,
            growth: component.growth.name(),
            format: component.format,
            bytes: component.bytes(n)?.times(batch)?,
            grows: component.growth.grows_at(Some(n)),
        })
    });
    rows.collect::<kvscope_sizing::Result<_>>().map_err(|error| model.failure(&error))
}

fn grouped_rows(report: &Report) -> Result<Figures, Failure> {
    let mut table = Figures::new(3, &["layers", "mixer", "keeps", "count", "each", "all"]);
    for equal in groups(&report.layers) {
        let layer = &report.layers[equal[0]];
        table.row([
            layer_ranges(&equal),
            layer.mixer.clone(),
            kept(layer),
            equal.len().to_string(),
            layer.bytes.display(UnitSystem::Decimal),
            Bytes::total(equal.iter().map(|other| report.layers[*other].bytes))?.to_string(),
        ]);
    }
    table.row([
        "all".to_owned(),
        String::new(),
        String::new(),
        report.layers.len().to_string(),
        String::new(),
        report.resident_bytes.to_string(),
    ]);
    Ok(table)
}

/// Layers that do and keep the same, by their places, in the order of the first of each.
fn groups(layers: &[LayerRow]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    for (index, layer) in layers.iter().enumerate() {
        let group = *known.entry((&layer.mixer, &layer.borrows, layer.bytes)).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(equal) => equal.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

fn each_row(report: &Report) -> Figures {
    let mut table = Figures::new(3, &["layer", "mixer", "keeps", "bytes"]);
    for layer in &report.layers {
        table.row([layer.layer.to_string(), layer.mixer.clone(), kept(layer), layer.bytes.to_string()]);
    }
    table
}

fn exact_rows(report: &Report) -> Figures {
    let mut rows = Figures::new(
        1,
        &["model", "context_tokens", "batch", "layer", "mixer", "component", "growth", "format", "bytes"],
    );
    for layer in &report.layers {
        for part in &layer.components {
            rows.row([
                report.model.clone(),
                report.context.get().to_string(),
                report.batch.to_string(),
                layer.layer.to_string(),
                layer.mixer.clone(),
                part.kind.name().to_owned(),
                part.growth.to_owned(),
                part.format.to_owned(),
                part.bytes.get().to_string(),
            ]);
        }
    }
    rows
}

fn kept(layer: &LayerRow) -> String {
    if let Some(reason) = &layer.borrows {
        return format!("nothing of its own ({reason})");
    }
    let parts: Vec<String> = layer
        .components
        .iter()
        .map(|part| {
            format!(
                "{} {}{}",
                part.kind.name(),
                part.format,
                if part.grows { "" } else { ", no longer grows" }
            )
        })
        .collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(" + ") }
}
