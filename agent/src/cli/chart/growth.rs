use clap::{Args, ValueEnum};
use kvscope_charts::figures::GrowthScale;
use kvscope_charts::versions::{self, GrownOf};
use kvscope_protocol::{AxisScale, ViewState};
use kvscope_sizing::ByteKind;
use kvscope_sizing::engine::EngineKind;
use kvscope_sizing::plan::Gpus;

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
    /// Which bytes; engines reserve resident ones alone
    #[arg(long, value_enum, default_value_t = Kind::Resident, value_name = "KIND")]
    bytes: Kind,
    /// A GPU of `kvscope plan capacity`, such as h200: a level for what it leaves beside each version's weights
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// GPUs that share each request
    #[arg(long, requires = "gpu", value_name = "N")]
    count: Option<u64>,
    /// Type of all weights: f32, bf16, fp8, fp4, or checkpoint for those of the published checkpoint; as each config says where
    /// left out
    #[arg(long, requires = "gpu", value_name = "TYPE")]
    weight_dtype: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Kind {
    /// Held in memory
    Resident,
    /// Read by one decode step
    Read,
    /// Kept by a disk prefix store
    Persisted,
    /// Sent by a prefill worker to a decode worker
    Transferred,
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
    let bytes = match arguments.bytes {
        Kind::Resident => ByteKind::Resident,
        Kind::Read => ByteKind::Read,
        Kind::Persisted => ByteKind::Persisted,
        Kind::Transferred => ByteKind::Transferred,
    };
    let gpus = arguments.gpus()?;
    if bytes != ByteKind::Resident && (gpus.is_some() || engine.kind() != EngineKind::Logical) {
        let what = "engines and GPUs hold resident bytes; leave them out, or --bytes";
        return Err(Failure::input(format!("bytes: {what}")));
    }
    let view = ViewState { scale: axis, bytes, gpus, ..ViewState::default() };
    let origin = written.origin(asked.link(&models, &engine, &settings, at, view))?;
    let versions = models.iter().map(super::shown::Shown::version).collect::<Vec<_>>();
    let question = asked.question(&versions, &engine, &settings, at, written.width());
    let of = GrownOf { bytes, scale, limits: &[], gpus };
    let grown = versions::growth(&question, &of, origin).map_err(Failure::input)?;
    if let Some((place, error)) = grown.refused.first() {
        return Err(models[*place].model.failure(error));
    }
    told(&grown.assumed);
    written.write(&grown.export, format)
}

impl Arguments {
    fn gpus(&self) -> Result<Option<Gpus>, Failure> {
        let Some(gpu) = &self.gpu else { return Ok(None) };
        let weights = self.weight_dtype.as_deref().map(str::parse).transpose()?;
        Ok(Some(Gpus::new(gpu, self.count.unwrap_or(1), weights)?))
    }
}
