use std::fmt::Write as _;

use super::{Export, numeric_columns};

/// A heading, a table whose columns line up in the source too, and what it is of.
pub(super) fn markdown(export: &Export) -> String {
    let table = &export.table;
    let numeric = numeric_columns(table);
    let all: Vec<Vec<String>> = std::iter::once(&table.head)
        .chain(&table.rows)
        .map(|row| row.iter().map(|cell| escaped(cell)).collect())
        .collect();
    let width = |column: usize| {
        all.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
            .max(4)
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let mut text = format!("### {}\n\n", escaped(&export.title));
    for (place, row) in all.iter().enumerate() {
        for ((cell, width), is_numeric) in row.iter().zip(&widths).zip(&numeric) {
            let _ = if *is_numeric {
                write!(text, "| {cell:>width$} ")
            } else {
                write!(text, "| {cell:<width$} ")
            };
        }
        text.push_str("|\n");
        if place == 0 {
            for (width, is_numeric) in widths.iter().zip(&numeric) {
                let line = "-".repeat(*width);
                let _ =
                    if *is_numeric { write!(text, "| {}: ", &line[1..]) } else { write!(text, "| {line} ") };
            }
            text.push_str("|\n");
        }
    }
    for line in export.lines_below() {
        let _ = write!(text, "\n{}\n", escaped(&line));
    }
    text
}

/// What Markdown would take for itself.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '|' | '*' | '_' | '`' | '<' | '[' | '\\') {
            out.push('\\');
        }
        out.push(if character == '\n' { ' ' } else { character });
    }
    out
}
