//! What a figure is taken away as: pictures, data, tables for papers.
//!
//! Every export carries its title, what was asked, units, the day, the version and the link that opens the same view; equal
//! input gives equal bytes, since the day is part of the input. Numbers have every digit.
//!
//! `data` is the figure as rows, `csv`, `json` and `vega_lite` write those; `markdown`, `latex` and `typst` write the table
//! that stands beside the figure. With the feature `files`, `files` makes PNG, PDF and outlines from the SVG.

mod csv;
mod data;
#[cfg(feature = "files")]
mod files;
mod json;
mod latex;
mod markdown;
mod typst;
mod vega_lite;

pub use data::{Cell, Column, Data, Mark, Plot};
#[cfg(feature = "files")]
pub use files::FilesError;

use crate::figures::Table;
use crate::label;
use crate::paint::svg;
use crate::{Heading, Scene, Theme, font, titled};

/// A figure with all that an export of it says.
#[derive(Clone, Debug)]
pub struct Export {
    /// The figure, without title.
    pub scene: Scene,
    /// The finding, a sentence.
    pub title: String,
    /// What is drawn: which bytes, in which formats, by which accounting.
    pub note: String,
    /// What was asked, by name, in the order in which it is told.
    pub inputs: Vec<(String, String)>,
    /// What was assumed, a sentence each: it goes wherever the figure goes.
    pub assumptions: Vec<String>,
    /// The figure as rows.
    pub data: Data,
    /// The figure as a table for people.
    pub table: Table,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where an export comes from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Origin {
    /// `kvscope 0.1.0`.
    pub program: String,
    /// The day on which it was made, `2026-11-30`; empty where it is not to be told.
    pub day: String,
    /// The link that opens the same view, whole or from its `?` on; empty where there is none.
    pub link: String,
}

impl Origin {
    /// What of it is known, in one line.
    fn line(&self) -> String {
        let parts = [&self.program, &self.day, &self.link];
        let known: Vec<&str> =
            parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        known.join(" · ")
    }
}

/// What an export is written as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// A drawing whose text is text.
    Svg,
    /// A picture, two pixels for each CSS pixel.
    Png,
    /// A page of the drawing's size with its fonts.
    Pdf,
    /// Rows under one line of names.
    Csv,
    /// Rows with everything that was asked.
    Json,
    /// A table.
    Markdown,
    /// A table by `booktabs`, and the figure by `pgfplots` where it is of lines or points.
    Latex,
    /// A figure that holds a table.
    Typst,
    /// A specification with its data inside.
    VegaLite,
}

impl Format {
    /// Every format with the ending of its files.
    pub const ALL: [(&'static str, Self); 9] = [
        ("svg", Self::Svg),
        ("png", Self::Png),
        ("pdf", Self::Pdf),
        ("csv", Self::Csv),
        ("vl.json", Self::VegaLite),
        ("json", Self::Json),
        ("md", Self::Markdown),
        ("tex", Self::Latex),
        ("typ", Self::Typst),
    ];

    /// By the ending of a file's name; none where it ends otherwise.
    pub fn of_file(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let ends = |ending: &str| name.strip_suffix(ending).is_some_and(|rest| rest.ends_with('.'));
        Self::ALL.into_iter().find(|(ending, _)| ends(ending)).map(|(_, format)| format)
    }
}

impl Export {
    /// The figure under its title, as pictures have it.
    pub fn whole_scene(&self) -> Scene {
        let below: Vec<String> =
            [self.assumed(), self.origin.line()].into_iter().filter(|line| !line.is_empty()).collect();
        let heading =
            Heading { headline: self.title.clone(), note: self.note.clone(), footer: below.join(" · ") };
        titled(self.scene.clone(), &heading)
    }

    /// As a drawing whose text stays text; what was asked is in its `metadata`. With the feature `font-bytes` it carries
    /// the font, which viewers that strip style sheets replace by one of their own.
    pub fn svg(&self, theme: &Theme) -> String {
        svg::document(
            &self.whole_scene(),
            theme,
            "",
            &svg::Extras { metadata: &json::metadata(self), style: &font::style_sheet() },
        )
    }

    /// A table that stands for itself: it has no drawing.
    pub fn of_table(
        title: String,
        note: String,
        inputs: Vec<(String, String)>,
        table: Table,
        origin: Origin,
    ) -> Self {
        let data = Data::of_table(&table);
        Self { scene: Scene::default(), title, note, inputs, assumptions: Vec::new(), data, table, origin }
    }

    /// Whether there is a drawing beside the table.
    pub fn is_drawn(&self) -> bool {
        !self.scene.nodes.is_empty()
    }

    /// The table in cells that spreadsheets take from the clipboard: tabs between, digits without separators.
    pub fn tab_separated(&self) -> String {
        let plain = |cell: &String| {
            let cell = cell.trim_end_matches(" (set)");
            if label::is_number(cell) { cell.replace(',', "") } else { cell.replace(['\t', '\n'], " ") }
        };
        let rows = std::iter::once(&self.table.head).chain(&self.table.rows);
        rows.map(|row| row.iter().map(plain).collect::<Vec<_>>().join("\t") + "\n").collect()
    }

    /// As the format's text; none for [`Format::Png`] and [`Format::Pdf`], which are no text, and for drawings of what has
    /// none.
    pub fn text(&self, format: Format, theme: &Theme) -> Option<String> {
        Some(match format {
            Format::Svg | Format::VegaLite if !self.is_drawn() => return None,
            Format::Svg => self.svg(theme),
            Format::Csv => csv::csv(&self.data),
            Format::Json => json::json(self),
            Format::Markdown => markdown::markdown(self),
            Format::Latex => latex::latex(self),
            Format::Typst => typst::typst(self),
            Format::VegaLite => vega_lite::vega_lite(self),
            Format::Png | Format::Pdf => return None,
        })
    }

    /// `model: kimi-k2.6; context: 100,000`
    fn asked(&self) -> String {
        let each = self.inputs.iter().map(|(name, value)| format!("{name}: {value}"));
        each.collect::<Vec<_>>().join("; ")
    }

    /// `Assumed: …`; empty where nothing was.
    fn assumed(&self) -> String {
        if self.assumptions.is_empty() {
            return String::new();
        }
        format!("Assumed: {}", self.assumptions.join("; "))
    }

    /// Note, what was asked, what was assumed and where it comes from, a line each, without empty ones.
    fn lines_below(&self) -> Vec<String> {
        let lines = [self.note.clone(), self.asked(), self.assumed(), self.origin.line()];
        lines.into_iter().filter(|line| !line.is_empty()).collect()
    }
}

/// Which columns of a table hold numbers alone and stand to the right.
fn numeric_columns(table: &Table) -> Vec<bool> {
    let is_numeric = |column: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
        cells.clone().next().is_some() && cells.all(|cell| label::is_number(cell))
    };
    (0..table.head.len()).map(is_numeric).collect()
}
