//! The only place that prints: figures to standard output or into a file, progress and warnings to standard error.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::failure::Failure;

/// Writes figures. A reader that stops early (`| head`) is no error; any other failure ends the command with status 1,
/// because half of a table looks like a whole one.
pub(crate) fn figures(text: &str) -> Result<(), Failure> {
    write_figures(&mut io::stdout().lock(), text)
}

fn write_figures(out: &mut impl Write, text: &str) -> Result<(), Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::check(format!("standard output: {error}; the figures are not complete")))
        }
        _ => Ok(()),
    }
}

/// Writes the whole file or nothing: under a name that nobody else has first, so that a full disk leaves no half of one.
pub(crate) fn whole_file(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    let written = File::create_new(&partial)
        .and_then(|mut new| new.write_all(bytes))
        .and_then(|()| std::fs::rename(&partial, file));
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&partial);
    })
}

/// Writes a value as indented JSON.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).expect("figures have no keys that JSON cannot hold");
    text.push('\n');
    figures(&text)
}

/// Writes one line on standard error that says what went wrong.
pub(crate) fn error(message: &dyn std::fmt::Display) {
    say(&format!("kvscope: {}\n", one_line(&message.to_string())));
}

/// Writes one line on standard error that travels with a figure.
pub(crate) fn warning(message: &str) {
    say(&format!("warning: {}\n", one_line(message)));
}

/// Whether standard error is a terminal, where a line can be overwritten.
pub(crate) fn is_terminal() -> bool {
    use io::IsTerminal;
    io::stderr().is_terminal()
}

/// Writes or overwrites one line of progress on a terminal.
pub(crate) fn progress(message: &str) {
    say(&format!("\r\x1b[K{message}"));
}

/// Ends the line of progress.
pub(crate) fn progress_done() {
    say("\r\x1b[K");
}

/// Writes one line on standard error that stays.
pub(crate) fn note(message: &str) {
    say(&format!("{}\n", one_line(message)));
}

/// Standard error may be closed or full, and there is nowhere to say so.
fn say(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn one_line(message: &str) -> String {
    let words = message.split_whitespace().collect::<Vec<_>>().join(" ");
    plain(&kvscope_sizing::cut_words(&words))
}

/// Names come from files; what would steer a terminal or break a row is shown as a replacement character.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// An aligned table: the first column to the left, figures to the right.
#[derive(Debug)]
pub(crate) struct Figures {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    left: usize,
    last_is_text: bool,
}

impl Figures {
    /// A table with these column names, the first `left` of which hold text.
    pub(crate) fn new(left: usize, header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|name| (*name).to_owned()).collect(),
            rows: Vec::new(),
            left,
            last_is_text: false,
        }
    }

    /// Makes the last column one of text, to the left.
    #[must_use]
    pub(crate) fn text_last(mut self) -> Self {
        self.last_is_text = true;
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| plain(&cell)).collect());
    }

    /// The aligned text, a line a row.
    pub(crate) fn render(&self) -> String {
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
        let mut text = String::new();
        for line in table.lines() {
            text.push_str(line.strip_prefix(' ').unwrap_or(&line).trim_end());
            text.push('\n');
        }
        text
    }

    /// The same rows as comma-separated values.
    pub(crate) fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in std::iter::once(&self.header).chain(&self.rows) {
            writer.write_record(row).expect("rows of one table have equal length");
        }
        String::from_utf8(writer.into_inner().expect("writing to memory")).expect("rows are text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn figures_that_were_not_written_fail_and_a_reader_that_left_does_not() {
        let full = write_figures(&mut Broken(io::ErrorKind::StorageFull), "1").unwrap_err();
        assert!(full.to_string().starts_with("standard output: "), "{full}");
        assert_eq!(format!("{:?}", full.exit_code()), format!("{:?}", std::process::ExitCode::from(1)));
        assert!(write_figures(&mut Broken(io::ErrorKind::BrokenPipe), "1").is_ok());
    }
}
