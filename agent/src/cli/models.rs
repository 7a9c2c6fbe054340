use clap::Args;
use kvscope_sizing::{Bytes, BytesPerToken, CatalogueEntry, Settings, StateModel, UnitSystem, catalogue};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Only versions whose id, family or vendor contains this
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
}

/// One version of the catalogue with its logical figures in default formats, or why it has none.
#[derive(Debug, Serialize)]
struct Row<'c> {
    model: &'c str,
    name: &'c str,
    family: &'c str,
    vendor: &'c str,
    previous: Option<&'c str>,
    released: Option<&'c str>,
    source: &'c [String],
    confidence: &'c str,
    params_total: Option<u64>,
    params_active: Option<u64>,
    mixers: Vec<String>,
    max_context: Option<u64>,
    slope_bytes_per_token: Option<BytesPerToken>,
    fixed_bytes: Option<Bytes>,
    problem: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let filter = arguments.filter.as_deref().unwrap_or("").to_lowercase();
    let matches = |entry: &&CatalogueEntry| {
        [&entry.id, &entry.family, &entry.vendor].iter().any(|text| text.to_lowercase().contains(&filter))
    };
    let rows: Vec<Row<'_>> = catalogue().iter().filter(matches).map(row).collect();
    if rows.is_empty() {
        return Err(Failure::input(format!(
            "no version in the catalogue contains {filter:?}; see `kvscope models`"
        )));
    }
    if arguments.json {
        return output::json(&rows);
    }
    if arguments.csv {
        return output::figures(&exact_rows(&rows).csv());
    }
    let mut table =
        Figures::new(4, &["model", "family", "previous", "mixers", "max context", "slope", "fixed"]);
    for row in &rows {
        let figure = |shown: Option<String>| shown.unwrap_or_else(|| "–".to_owned());
        table.row([
            row.model.to_owned(),
            row.family.to_owned(),
            row.previous.unwrap_or("–").to_owned(),
            row.problem.clone().unwrap_or_else(|| row.mixers.join(", ")),
            figure(row.max_context.map(|n| kvscope_sizing::Tokens::new(n).short())),
            figure(row.slope_bytes_per_token.map(|slope| slope.to_string())),
            figure(row.fixed_bytes.map(|bytes| bytes.display(UnitSystem::Decimal))),
        ]);
    }
    output::figures(&table.render())
}

/// Plain numbers, with their units in the header; empty where a version has no figure.
fn exact_rows(rows: &[Row<'_>]) -> Figures {
    let header = [
        "model",
        "family",
        "vendor",
        "previous",
        "released",
        "mixers",
        "params_total",
        "params_active",
        "max_context_tokens",
        "slope_bytes_per_token",
        "fixed_bytes",
        "problem",
    ];
    let mut table = Figures::new(header.len(), &header);
    for row in rows {
        let word = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let count = |count: Option<u64>| count.map_or(String::new(), |count| count.to_string());
        table.row([
            row.model.to_owned(),
            row.family.to_owned(),
            row.vendor.to_owned(),
            word(row.previous),
            word(row.released),
            row.mixers.join(", "),
            count(row.params_total),
            count(row.params_active),
            count(row.max_context),
            row.slope_bytes_per_token.map_or(String::new(), |slope| slope.as_f64().to_string()),
            count(row.fixed_bytes.map(Bytes::get)),
            word(row.problem.as_deref()),
        ]);
    }
    table
}

fn row(entry: &'static CatalogueEntry) -> Row<'static> {
    let mut row = Row {
        model: &entry.id,
        name: &entry.name,
        family: &entry.family,
        vendor: &entry.vendor,
        previous: entry.previous.as_deref(),
        released: entry.released.as_deref(),
        source: &entry.source,
        confidence: &entry.confidence,
        params_total: entry.params_total,
        params_active: entry.params_active,
        mixers: Vec::new(),
        max_context: None,
        slope_bytes_per_token: None,
        fixed_bytes: None,
        problem: None,
    };
    if let Err(error) = fill(&mut row, entry) {
        row.problem = Some(error.to_string());
    }
    row
}

fn fill(row: &mut Row<'_>, entry: &CatalogueEntry) -> kvscope_sizing::Result<()> {
    let architecture = entry.architecture()?;
    let state = StateModel::new(&architecture, &Settings::default())?;
    row.mixers = architecture.mixer_names();
    row.max_context = architecture.max_context().map(kvscope_sizing::Fact::get);
    row.slope_bytes_per_token = Some(state.slope(None)?);
    row.fixed_bytes = Some(state.fixed(None)?);
    Ok(())
}
