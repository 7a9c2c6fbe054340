use clap::Args;
use kvscope_sizing::Tokens;
use kvscope_sizing::describe::{SCHEMA, describe};
use kvscope_sizing::hardware::find_gpu;
use kvscope_sizing::plan::{Moving, label};

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
    /// GPU for which the service layer says what a scheduler should use instead of the prompt's length: h200
    #[arg(long, value_name = "GPU", conflicts_with = "schema")]
    hardware: Option<String>,
    /// GPUs that share a request
    #[arg(long, default_value_t = 1, requires = "hardware", value_name = "N")]
    count: u64,
    /// Lengths to label: 8Ki,128Ki,1M
    #[arg(long, value_delimiter = ',', requires = "hardware", value_name = "TOKENS")]
    context: Vec<String>,
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
    let failed = |error| model.failure(&error);
    let mut description = describe(&model.shown, &model.architecture, &settings).map_err(failed)?;
    if let Some(id) = &arguments.hardware {
        let mut contexts = arguments
            .context
            .iter()
            .map(|text| text.parse())
            .collect::<kvscope_sizing::Result<Vec<Tokens>>>()?;
        if contexts.is_empty() {
            contexts.push(Tokens::new(100_000));
        }
        let hardware = Some((find_gpu(id)?, arguments.count));
        let plan =
            label(&model.subject(), &settings, &contexts, hardware, Moving::Nothing).map_err(failed)?;
        description.service.labels = Some(plan.labels);
    }
    output::json(&description)
}
