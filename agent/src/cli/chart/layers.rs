use clap::Args;
use kvscope_charts::figures::{
    LayerStrip, LayersInput, StripName, USUAL_CONTEXTS, layer_strip, layers_reach,
};
use kvscope_charts::label::context;
use kvscope_charts::{Export, Layers};
use kvscope_protocol::AxisScale;
use kvscope_sizing::Tokens;
use kvscope_sizing::engine::{Engine, EngineKind};

use super::Written;
use super::shown::{Asked, inputs, resident_state, told};
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
    let versions = asked.versions(&settings)?;
    let strips = |n: Tokens| -> Vec<LayerStrip> {
        let strip = |one: &super::shown::Shown| {
            let named = StripName { id: one.id.clone(), name: one.name.clone(), colour: one.colour };
            layer_strip(named, &one.model.architecture, &one.state, n, batch)
        };
        versions.iter().map(strip).collect()
    };
    let mut assumed = Vec::new();
    for one in &versions {
        assumed.push((one.model.shown.as_str(), one.warnings(n, batch, &settings)?));
    }
    let figure = Layers::layout(&LayersInput {
        strips: &strips(n),
        context: n,
        reach: layers_reach(&strips(USUAL_CONTEXTS.0), &strips(USUAL_CONTEXTS.1)),
        units: asked.units(),
        width: f64::from(written.width),
    })
    .map_err(Failure::input)?;
    let logical = Engine::newest(EngineKind::Logical);
    let export = Export {
        scene: figure.scene().clone(),
        title: format!("What each layer keeps at {}", context(n)),
        note: format!("{} · logical bytes · computed", resident_state(batch)),
        assumptions: told(&assumed),
        inputs: inputs(&versions, &logical, &settings, at),
        data: figure.data(),
        table: figure.table(),
        origin: written.origin(asked.link(&versions, &logical, &settings, at, AxisScale::Log))?,
    };
    written.write(&export, format)
}
