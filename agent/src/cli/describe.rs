use clap::Args;
use kvscope_sizing::describe::{SCHEMA, describe};

use super::request::{Accounting, hide_engines};
use crate::failure::Failure;
use crate::model::Model;
use crate::output;

/// What the service layer of the description answers for beside formats.
const ANSWERED: [&str; 2] = ["block_size", "checkpoint_interval"];

#[derive(Args, Debug)]
#[command(mut_args(hide_engines))]
pub(super) struct Arguments {
    /// Catalogue id, config.json or GGUF file, folder, or - for standard input
    #[arg(value_name = "MODEL", required_unless_present = "schema")]
    model: Option<String>,
    #[command(flatten)]
    accounting: Accounting,
    /// Print the document's JSON Schema instead
    #[arg(long, conflicts_with = "model")]
    schema: bool,
    /// Print JSON, which this command always does
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(name) = &arguments.model else {
        return output::figures(SCHEMA);
    };
    let settings = arguments.accounting.logical_settings_and(&ANSWERED)?;
    let model = Model::load_checked(name, arguments.accounting.unknown())?;
    let description = describe(&model.shown, &model.architecture, &settings);
    output::json(&description.map_err(|error| model.failure(&error))?)
}
