//! Figures of a run: stored, or the file of one.

use std::path::Path;

use clap::Args;
use kvscope_charts::runs::RunFigure;
use kvscope_protocol::run::{ReadRun, read_lines};
use kvscope_protocol::{Room, ViewState};
use kvscope_sizing::UnitSystem;

use super::Written;
use crate::bench::Store;
use crate::cli::bench::LARGEST_RUN;
use crate::failure::Failure;
use crate::input::read_text;
use crate::{home, output};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// A run of `kvscope bench list`, or a run file
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    written: Written,
}

pub(super) fn run(arguments: &Arguments, of: RunFigure) -> Result<(), Failure> {
    let Arguments { run: name, written } = arguments;
    let format = written.format()?;
    let (read, link) = if Path::new(name).is_file() {
        let text = read_text(name, LARGEST_RUN, "it is no run file")?;
        let read = read_lines(&text).map_err(|warning| Failure::input(format!("{name}: {warning}")))?;
        // The page cannot open a file by its link.
        (read, String::new())
    } else {
        let store = Store::open(home::runs()?).map_err(Failure::check)?;
        let view = ViewState { room: Room::Measure, run: Some(name.clone()), ..ViewState::default() };
        (store.show(name).map_err(Failure::input)?, format!("?{}", view.to_query()))
    };
    let ReadRun { run, warnings } = read;
    for warning in &warnings {
        output::warning(&format!("{name}: {warning}"));
    }
    let export = of.export(&run, UnitSystem::Decimal, written.width(), written.origin(link)?);
    written.write(&export.map_err(|why| Failure::input(format!("{name}: {why}")))?, format)
}
