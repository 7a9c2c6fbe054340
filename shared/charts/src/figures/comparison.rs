//! Tables of a comparison of two versions, every digit in them.

use kvscope_sizing::{Bytes, Comparison, FactChange, Stated, group_digits};

use super::Table;

/// What each version keeps, kind by kind, then altogether. The rows add up to the last one.
pub fn kept_table(comparison: &Comparison, names: [&str; 2]) -> Table {
    let [from, to] = names;
    let head = vec![
        "component".to_owned(),
        format!("{from} (layers)"),
        format!("{to} (layers)"),
        format!("{from} (bytes)"),
        format!("{to} (bytes)"),
        format!("{from} (B/token)"),
        format!("{to} (B/token)"),
    ];
    let slope = |slope: kvscope_sizing::BytesPerToken| slope.exact().trim_end_matches(" B/token").to_owned();
    let bytes = |bytes: Bytes| group_digits(bytes.get());
    let mut rows: Vec<Vec<String>> = Vec::new();
    for change in &comparison.components {
        let mut cells = vec![change.kind.label().to_owned()];
        cells.extend(change.layers.map(group_digits));
        cells.extend(change.bytes.map(bytes));
        cells.extend(change.slope_bytes_per_token.map(slope));
        rows.push(cells);
    }
    let mut cells = vec!["together".to_owned(), String::new(), String::new()];
    cells.extend(comparison.resident_bytes.map(bytes));
    cells.extend(comparison.slope_bytes_per_token.map(slope));
    rows.push(cells);
    Table { head, rows }
}

/// The facts that differ, with the config fields that state them.
pub fn facts_table(comparison: &Comparison, names: [&str; 2]) -> Table {
    let [from, to] = names.map(str::to_owned);
    let stated = |side: &Option<Stated>| side.as_ref().map_or_else(|| Table::ABSENT.to_owned(), Stated::text);
    let row = |fact: &FactChange| {
        vec![
            format!("{}: {}", fact.of, fact.fact.replace('_', " ")),
            stated(&fact.from),
            stated(&fact.to),
            fact.field(),
            fact.cause.label().to_owned(),
        ]
    };
    let head = ["fact".to_owned(), from, to, "field".to_owned(), "cause".to_owned()];
    Table { head: head.to_vec(), rows: comparison.facts.iter().map(row).collect() }
}
