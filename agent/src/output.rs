//! The only place that prints: figures to standard output, progress and warnings to standard error.

#![allow(clippy::print_stderr, reason = "this module is where the binary prints")]

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

/// Writes figures. A reader that stops early (`| head`) is no error.
pub fn figures(text: &str) {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        warning(&format!("standard output: {error}"));
    }
}

/// Writes a value as indented JSON.
pub fn json<T: Serialize + ?Sized>(value: &T) {
    let mut text = serde_json::to_string_pretty(value).expect("figures have no keys that JSON cannot hold");
    text.push('\n');
    figures(&text);
}

/// Writes one line on standard error that says what went wrong.
pub fn error(message: &dyn std::fmt::Display) {
    eprintln!("kvscope: {}", one_line(&message.to_string()));
}

/// Writes one line on standard error that travels with a figure.
pub fn warning(message: &str) {
    eprintln!("warning: {}", one_line(message));
}

/// Writes or overwrites one line of progress.
pub fn progress(message: &str) {
    use io::IsTerminal;
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K{message}");
        let _ = io::stderr().flush();
    }
}

/// Ends the line of progress.
pub fn progress_done() {
    use io::IsTerminal;
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An aligned table: the first column to the left, figures to the right.
#[derive(Debug)]
pub struct Figures {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    left: usize,
    last_is_text: bool,
}

impl Figures {
    /// A table with these column names, the first `left` of which hold text.
    pub fn new(left: usize, header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|name| (*name).to_owned()).collect(),
            rows: Vec::new(),
            left,
            last_is_text: false,
        }
    }

    /// Makes the last column one of text, to the left.
    #[must_use]
    pub fn text_last(mut self) -> Self {
        self.last_is_text = true;
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The aligned text, a line a row.
    pub fn render(&self) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(&self.header);
        for row in &self.rows {
            table.add_row(row);
        }
        let figures = self.left..self.header.len() - usize::from(self.last_is_text);
        for (index, column) in table.column_iter_mut().enumerate() {
            if figures.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
            .lines()
            .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(&line).trim_end()))
            .collect()
    }

    /// The same rows as comma-separated values.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in std::iter::once(&self.header).chain(&self.rows) {
            writer.write_record(row).expect("rows of one table have equal length");
        }
        String::from_utf8(writer.into_inner().expect("writing to memory")).expect("rows are text")
    }
}
