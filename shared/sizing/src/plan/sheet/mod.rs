//! A plan's answer as people read it: a sentence, tables, what matters most. The command line prints it, the page lays it out.

mod capacity;
mod compress;
mod cost;
mod handover;
mod label;
mod lines;
mod offload;
mod prefix;
mod simulate;

pub use lines::{Line, LineAxis, LineQuantity, Lines};

use super::Sensitivity;
use crate::{Bytes, Tokens, UnitSystem, group_digits};

/// An answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// The answer in a sentence.
    pub sentence: String,
    /// What was asked, and how it was counted.
    pub asked: String,
    /// The figures.
    pub tables: Vec<SheetTable>,
    /// What a tenth of each input does.
    pub moved: Vec<Moved>,
    /// How the figures come about: a name and a formula with its numbers.
    pub worked: Vec<(String, String)>,
    /// Where figures come from that the tables only name.
    pub notes: Vec<String>,
}

/// Figures in rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SheetTable {
    /// What the rows are; empty where the sheet says it.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// As many cells a row as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// What stands in it, with its unit where the cells have none.
    pub head: &'static str,
    /// The field of `--json` that it shows; empty where it shows none alone.
    pub field: &'static str,
    /// Whether it holds words.
    pub is_text: bool,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// With three figures and a unit.
    pub shown: String,
    /// With every digit, as JSON has it; none where there is no figure.
    pub exact: Option<String>,
}

/// What a tenth less and more of each input does to one answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// The answer that moves.
    pub of: String,
    /// The inputs, the one that matters most first.
    pub inputs: Vec<MovedInput>,
}

/// One input and the answers beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct MovedInput {
    /// Its name.
    pub input: &'static str,
    /// The answer with a tenth less of it.
    pub less: Cell,
    /// The answer with a tenth more.
    pub more: Cell,
}

const NONE: &str = "–";

impl SheetTable {
    fn new(caption: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { caption: caption.into(), columns, rows: Vec::new() }
    }
}

impl Cell {
    fn words(shown: impl Into<String>) -> Self {
        Self { shown: shown.into(), exact: None }
    }

    fn none() -> Self {
        Self::words(NONE)
    }

    fn count(count: u64) -> Self {
        Self { shown: group_digits(count), exact: Some(count.to_string()) }
    }

    fn tokens(tokens: Tokens) -> Self {
        Self::count(tokens.get())
    }

    fn bytes(bytes: Bytes, units: UnitSystem) -> Self {
        Self { shown: bytes.display(units), exact: Some(bytes.get().to_string()) }
    }

    fn all_bytes(bytes: Bytes) -> Self {
        Self { shown: bytes.to_string(), exact: Some(bytes.get().to_string()) }
    }

    fn number(value: f64, words: fn(f64) -> String) -> Self {
        Self { shown: words(value), exact: Some(value.to_string()) }
    }

    fn some(value: Option<f64>, words: fn(f64) -> String) -> Self {
        value.map_or_else(Self::none, |value| Self::number(value, words))
    }
}

const fn text(head: &'static str, field: &'static str) -> Column {
    Column { head, field, is_text: true }
}

const fn figure(head: &'static str, field: &'static str) -> Column {
    Column { head, field, is_text: false }
}

/// Pushes what a tenth of each input does, where the answer has any input.
fn moved(all: &mut Vec<Moved>, of: impl Into<String>, rows: &[Sensitivity], words: impl Fn(f64) -> String) {
    if rows.is_empty() {
        return;
    }
    let side = |value: Option<f64>| match value {
        Some(value) => Cell { shown: words(value), exact: Some(value.to_string()) },
        None => Cell::words("no answer"),
    };
    let inputs = rows.iter().map(|row| MovedInput {
        input: row.input,
        less: side(row.with_less),
        more: side(row.with_more),
    });
    all.push(Moved { of: of.into(), inputs: inputs.collect() });
}

impl Moved {
    /// `matters most to the time: bandwidth; a tenth less gives 2.31 s, a tenth more 1.95 s`
    pub fn sentence(&self) -> String {
        let Some(first) = self.inputs.first() else { return String::new() };
        format!(
            "matters most to {}: {}; a tenth less gives {}, a tenth more {}",
            self.of, first.input, first.less.shown, first.more.shown
        )
    }
}

/// The name of a GPU, or its id where it is none that is known.
fn gpu_name(id: &str) -> String {
    crate::hardware::find_gpu(id).map_or_else(|_| id.to_owned(), |gpu| gpu.name.clone())
}

/// `1 request`, `1,234 requests`, `any number of requests`
fn requests_words(requests: Option<u64>) -> String {
    match requests {
        None => "any number of requests".to_owned(),
        Some(0) => "no request".to_owned(),
        Some(count) => crate::counted(count, "request", "requests"),
    }
}
