use std::fmt::Write as _;

use super::{Export, numeric_columns};

/// A figure that holds the table, with rules above, below and under the names.
pub(super) fn typst(export: &Export) -> String {
    let table = &export.table;
    let sides: Vec<&str> =
        numeric_columns(table).into_iter().map(|is| if is { "right" } else { "left" }).collect();
    let mut text = format!(
        "#figure(\n  table(\n    columns: {},\n    align: ({},),\n    stroke: none,\n    table.hline(),\n    table.header(",
        table.head.len(),
        sides.join(", ")
    );
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("[{}]", escaped(cell))).collect();
        cells.join(", ")
    };
    let _ = writeln!(text, "{}),\n    table.hline(),", row(&table.head));
    for cells in &table.rows {
        let _ = writeln!(text, "    {},", row(cells));
    }
    let below: Vec<String> = export.lines_below().iter().map(|line| escaped(line)).collect();
    let _ = writeln!(
        text,
        "    table.hline(),\n  ),\n  kind: table,\n  caption: [{} #text(size: 0.85em)[{}]],\n)",
        escaped(&export.title),
        below.join(". ")
    );
    text
}

/// What Typst would take for itself.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(
            character,
            '\\' | '#' | '*' | '_' | '`' | '$' | '<' | '>' | '@' | '[' | ']' | '~' | '/' | '=' | '-' | '+'
        ) {
            out.push('\\');
        }
        out.push(if character == '\n' { ' ' } else { character });
    }
    out
}
