use kvscope_sizing::{ByteKind, Tokens, Warning};

use super::{Asked, Version, bytes_of, words};
use crate::export::Origin;
use crate::figures::{
    FigureError, LayerStrip, LayersInput, StripName, USUAL_CONTEXTS, layer_strip, layers_reach,
};
use crate::label::context;
use crate::{Export, Layers};

/// What each layer keeps at the context, a strip a version, as it is exported; `assumed` by the versions' labels.
///
/// # Errors
///
/// No room.
pub fn layers(
    asked: &Asked<'_>,
    assumed: &[(&str, Vec<Warning>)],
    origin: Origin,
) -> Result<Export, FigureError> {
    let strips = |n: Tokens| -> Vec<LayerStrip> {
        let strip = |version: &Version<'_>| {
            let Version { id, name, colour, .. } = *version;
            let named = StripName { id: id.to_owned(), name: name.to_owned(), colour };
            layer_strip(named, version.subject.architecture, version.state, n, asked.batch)
        };
        asked.versions.iter().map(strip).collect()
    };
    let figure = Layers::layout(&LayersInput {
        strips: &strips(asked.context),
        context: asked.context,
        reach: layers_reach(&strips(USUAL_CONTEXTS.0), &strips(USUAL_CONTEXTS.1)),
        units: asked.units,
        width: asked.width,
    })?;
    Ok(Export {
        scene: figure.scene().clone(),
        title: format!("What each layer keeps at {}", context(asked.context)),
        note: format!("{} · logical bytes · computed", bytes_of(ByteKind::Resident, asked.batch)),
        assumptions: words(assumed),
        inputs: asked.inputs(),
        data: figure.data(),
        table: figure.table(),
        origin,
    })
}
