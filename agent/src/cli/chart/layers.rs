use clap::Args;
use kvscope_charts::versions;
use kvscope_protocol::ViewState;
use kvscope_sizing::engine::{Engine, EngineKind};

use super::Written;
use super::shown::{Asked, told};
use crate::cli::request::hide_engines;
use crate::failure::Failure;

#[derive(Args, Debug)]
#[command(mut_args(hide_engines))]
pub(super) struct Arguments {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    written: Written,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { asked, written } = arguments;
    let format = written.format()?;
    let settings = asked.accounting.logical_settings()?;
    let at @ (n, batch) = (asked.contexts.one()?, asked.batch.count()?);
    let models = asked.models(&settings)?;
    let mut assumed = Vec::new();
    for one in &models {
        assumed.push((one.model.shown.as_str(), one.warnings(n, batch, &settings)?));
    }
    let logical = Engine::newest(EngineKind::Logical);
    let origin = written.origin(asked.link(&models, &logical, &settings, at, ViewState::default()))?;
    let versions = models.iter().map(super::shown::Shown::version).collect::<Vec<_>>();
    let question = asked.question(&versions, &logical, &settings, at, written.width());
    let export = versions::layers(&question, &assumed, origin).map_err(Failure::input)?;
    told(&assumed);
    written.write(&export, format)
}
