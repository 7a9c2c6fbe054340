use clap::{Args, ValueEnum};
use kvscope_charts::figures::GrowthScale;
use kvscope_charts::versions;
use kvscope_protocol::AxisScale;

use super::Written;
use super::shown::{Asked, told};
use crate::failure::Failure;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    written: Written,
    /// How the axes count
    #[arg(long, value_enum, default_value_t = Scale::Log)]
    scale: Scale,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Scale {
    /// Powers on both
    Log,
    /// Equal steps on both
    Linear,
    /// Times the first version at the same context
    Times,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { asked, written, .. } = arguments;
    let format = written.format()?;
    let (engine, settings) = asked.accounting.engine_with_settings()?;
    let at = (asked.contexts.one()?, asked.batch.count()?);
    let models = asked.models(&settings)?;
    let (scale, axis) = match arguments.scale {
        Scale::Log => (GrowthScale::Log, AxisScale::Log),
        Scale::Linear => (GrowthScale::Linear, AxisScale::Linear),
        Scale::Times => (GrowthScale::TimesFirst, AxisScale::Times),
    };
    let origin = written.origin(asked.link(&models, &engine, &settings, at, axis))?;
    let versions = models.iter().map(super::shown::Shown::version).collect::<Vec<_>>();
    let question = asked.question(&versions, &engine, &settings, at, written.width());
    let grown = versions::growth(&question, scale, &[], origin).map_err(Failure::input)?;
    if let Some((place, error)) = grown.refused.first() {
        return Err(models[*place].model.failure(error));
    }
    told(&grown.assumed);
    written.write(&grown.export, format)
}
