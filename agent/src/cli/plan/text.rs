use std::fmt::Write as _;

use kvscope_sizing::plan::{Sheet, SheetTable};

use crate::output::Figures;

/// A sheet as the command line prints it: what was asked, the answer, its tables, and what matters most to it.
pub(super) fn of(sheet: &Sheet) -> String {
    let mut text = format!("{}\n{}\n", sheet.asked, sheet.sentence);
    for table in &sheet.tables {
        let _ = write!(text, "\n{}\n{}", table.caption, rendered(table));
    }
    let moved = sheet.moved.iter().map(kvscope_sizing::plan::Moved::sentence);
    let last: Vec<String> = moved.chain(sheet.notes.iter().cloned()).collect();
    if !last.is_empty() {
        let _ = writeln!(text, "\n{}", last.join("\n"));
    }
    text
}

fn rendered(table: &SheetTable) -> String {
    let names: Vec<&str> = table.columns.iter().map(|column| column.head).collect();
    let left = table.columns.iter().take_while(|column| column.is_text).count();
    let mut figures = Figures::new(left, &names);
    if table.columns.last().is_some_and(|column| column.is_text) {
        figures = figures.text_last();
    }
    for row in &table.rows {
        figures.row(row.iter().map(|cell| cell.shown.clone()));
    }
    figures.render()
}
