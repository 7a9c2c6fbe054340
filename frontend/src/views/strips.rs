//! Strips of layers: what each layer of a version keeps, for the figure that draws them.

use kvscope_charts::Layers;
use kvscope_charts::figures::{LayerStrip, LayersInput, StripName, layer_strip, layers_reach};
use kvscope_charts::palette::SeriesColour;
use kvscope_sizing::{StateModel, Tokens, UnitSystem};

use crate::canvas::{Drawn, Layout};
use crate::state::{Model, Shared};
use crate::ui::context_steps;

/// A version to draw a strip of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'v> {
    pub(crate) model: &'v Model,
    pub(crate) state: &'v StateModel,
    pub(crate) colour: SeriesColour,
}

/// A strip a version, its bars as high as they are over the whole range of the slider.
pub(crate) fn strips(
    subjects: &[Subject<'_>],
    context: Tokens,
    batch: u64,
    units: UnitSystem,
    width: f64,
) -> Option<Shared<Drawn>> {
    let at = |context: Tokens| -> Vec<LayerStrip> {
        subjects.iter().map(|subject| strip(subject, context, batch)).collect()
    };
    let input = LayersInput {
        strips: &at(context),
        context,
        reach: layers_reach(&at(context_steps::FIRST), &at(context_steps::LAST)),
        units,
        width,
    };
    let layers = Layers::layout(&input).ok()?;
    Some(Shared::new(Drawn { scene: layers.scene().clone(), layout: Layout::Layers(layers) }))
}

/// One version's layers at a context.
fn strip(subject: &Subject<'_>, context: Tokens, batch: u64) -> LayerStrip {
    let Subject { model, state, colour } = *subject;
    let named = StripName { id: model.id.clone(), name: model.name.clone(), colour };
    layer_strip(named, &model.architecture, state, context, batch)
}
