use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::plan::{Moved, MovedInput, Sheet, SheetTable};

use crate::output::Figures;

/// How much is printed of what a tenth of each input does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shows {
    /// The input that matters most.
    Most,
    /// Every input.
    EveryInput,
}

/// What is told of inputs that are moved.
#[derive(Args, Debug)]
pub(super) struct Moves {
    /// Print what a tenth of each input does to the answer, which JSON always has
    #[arg(long = "sensitivities")]
    every_input: bool,
}

impl Moves {
    pub(super) fn shows(&self) -> Shows {
        if self.every_input { Shows::EveryInput } else { Shows::Most }
    }
}

/// A sheet as the command line prints it: what was asked, the answer, its tables, and what matters to it.
pub(super) fn of(sheet: &Sheet, shows: Shows) -> String {
    let mut text = format!("{}\n{}\n", sheet.asked, sheet.sentence);
    for table in &sheet.tables {
        let _ = write!(text, "\n{}\n{}", table.caption, rendered(table));
    }
    let mut last = Vec::new();
    match shows {
        Shows::Most => last.extend(sheet.moved.iter().map(Moved::sentence)),
        Shows::EveryInput => {
            for moved in &sheet.moved {
                let _ = write!(text, "\nWhat matters to {}\n{}", moved.of, inputs(&moved.inputs));
            }
        }
    }
    last.extend(sheet.notes.iter().cloned());
    if !last.is_empty() {
        let _ = writeln!(text, "\n{}", last.join("\n"));
    }
    text
}

fn inputs(moved: &[MovedInput]) -> String {
    let mut figures = Figures::new(1, &["input", "a tenth less", "a tenth more"]);
    for input in moved {
        figures.row([input.input.to_owned(), input.less.shown.clone(), input.more.shown.clone()]);
    }
    figures.render()
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
