//! Figures as files: the page's own figures as pictures, data and tables for papers.

mod diff;
mod growth;
mod layers;
mod replay;
mod runs;
mod shown;

use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use kvscope_charts::export::{Format, Origin};
use kvscope_charts::runs::RunFigure;
use kvscope_charts::{Export, Theme};

use crate::failure::Failure;
use crate::output;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(subcommand)]
    figure: Figure,
}

#[derive(Debug, Subcommand)]
enum Figure {
    /// State over context, a line a version
    Growth(growth::Arguments),
    /// What each layer keeps, a strip a version
    Layers(layers::Arguments),
    /// What changed from one version to another, cause by cause
    Diff(diff::Arguments),
    /// A request trace replayed: what is found against Belady's rule, what tiers hold, what they lose
    Replay(replay::Arguments),
    /// Time of a decode step over context, measured rings over predicted lines
    Latency(runs::Arguments),
    /// Measured over predicted, point by point
    Residuals(runs::Arguments),
}

/// Where a figure goes and how it looks.
#[derive(Args, Debug)]
struct Written {
    /// The file: its ending says what is written, one of .svg .png .pdf .csv .json .md .tex .typ .vl.json
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Text of a drawing
    #[arg(long, value_enum, default_value_t = Letters::Text, value_name = "AS")]
    text: Letters,
    /// Colours of a drawing
    #[arg(long, value_enum, default_value_t = Look::Light, value_name = "LOOK")]
    look: Look,
    /// Width of a drawing in pixels of CSS
    #[arg(long, default_value_t = 900, value_name = "PIXELS", value_parser = clap::value_parser!(u16).range(300..=4000))]
    width: u16,
    /// The day that is told, today where left out; nothing is told of an empty one, so that later exports are equal
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Letters {
    /// It stays text, with the font inside
    Text,
    /// Outlines, which look the same in every program
    Outlines,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Look {
    /// Dark on white
    Light,
    /// Light on black
    Dark,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.figure {
        Figure::Growth(arguments) => growth::run(arguments),
        Figure::Layers(arguments) => layers::run(arguments),
        Figure::Diff(arguments) => diff::run(arguments),
        Figure::Replay(arguments) => replay::run(arguments),
        Figure::Latency(arguments) => runs::run(arguments, RunFigure::Latency),
        Figure::Residuals(arguments) => runs::run(arguments, RunFigure::Residuals),
    }
}

impl Written {
    /// What the file's ending asks for. Known before anything is computed.
    fn format(&self) -> Result<Format, Failure> {
        let name = self.output.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let endings: Vec<String> = Format::ALL.iter().map(|(ending, _)| format!(".{ending}")).collect();
        let format = Format::of_file(name).ok_or_else(|| {
            Failure::input(format!(
                "output: {} ends in none of {}, which say what is written",
                self.output.display(),
                endings.join(" ")
            ))
        })?;
        if self.text == Letters::Outlines && format != Format::Svg {
            return Err(Failure::input(
                "text: outlines are for .svg; .png and .pdf need none, others have no drawing",
            ));
        }
        Ok(format)
    }

    fn width(&self) -> f64 {
        f64::from(self.width)
    }

    fn origin(&self, link: String) -> Result<Origin, Failure> {
        let today = || humantime::format_rfc3339_seconds(SystemTime::now()).to_string()[..10].to_owned();
        let day = self.day.clone().unwrap_or_else(today);
        let is_day = day.is_empty() || humantime::parse_rfc3339(&format!("{day}T00:00:00Z")).is_ok();
        if !is_day {
            return Err(Failure::input(format!("day: {day:?} is no day; write it as 2026-11-30")));
        }
        Ok(Origin { program: concat!("kvscope ", env!("CARGO_PKG_VERSION")).to_owned(), day, link })
    }

    /// Writes the whole file or nothing.
    fn write(&self, export: &Export, format: Format) -> Result<(), Failure> {
        let theme = match self.look {
            Look::Light => Theme::light(),
            Look::Dark => Theme::dark(),
        };
        let failed = |error| Failure::check(format!("{}: {error}", self.output.display()));
        let draws_glyphs = matches!(format, Format::Png | Format::Pdf) || self.text == Letters::Outlines;
        if let missing @ [_, ..] = export.missing_characters().as_slice()
            && draws_glyphs
        {
            let missing: String = missing.iter().collect();
            output::warning(&format!(
                "the font has no {missing}, which the drawing leaves out; an .svg keeps them"
            ));
        }
        let bytes = match format {
            Format::Png => export.png(&theme).map_err(failed)?,
            Format::Pdf => export.pdf(&theme).map_err(failed)?,
            Format::Svg if self.text == Letters::Outlines => {
                export.outlines(&theme).map_err(failed)?.into_bytes()
            }
            other => export.text(other, &theme).unwrap_or_default().into_bytes(),
        };
        output::whole_file(&self.output, &bytes).map_err(|error| {
            Failure::input(format!("output: {}: {}", self.output.display(), crate::input::reason(&error)))
        })
    }
}
