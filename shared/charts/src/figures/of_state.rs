//! A version's state as the figures take it. Every number is `sizing`'s own.

use kvscope_sizing::{Architecture, Bytes, StateModel, Tokens};

use super::{Layer, LayerPart, LayerStrip, PartGrowth};
use crate::palette::SeriesColour;

/// Contexts that figures of state reach at least: 1Ki to 1Mi.
pub const USUAL_CONTEXTS: (Tokens, Tokens) = (Tokens::new(1 << 10), Tokens::new(1 << 20));

/// [`USUAL_CONTEXTS`], further where the cursor is.
pub fn contexts_around(cursor: Tokens) -> (Tokens, Tokens) {
    let (first, last) = USUAL_CONTEXTS;
    let low = (1_u64 << cursor.get().max(1).ilog2()).min(first.get());
    // There is no power of two above the last half of 64 bits.
    let high = cursor.get().checked_next_power_of_two().unwrap_or(u64::MAX).max(last.get());
    (Tokens::new(low), Tokens::new(high))
}

/// Who a strip is of.
#[derive(Clone, Debug)]
pub struct StripName {
    /// The catalogue's id; part of the ids in an SVG.
    pub id: String,
    /// The name shown.
    pub name: String,
    /// Its colour.
    pub colour: SeriesColour,
}

/// One version's layers at a context, for a batch of requests of that length.
pub fn layer_strip(
    named: StripName,
    architecture: &Architecture,
    state: &StateModel,
    context: Tokens,
    batch: u64,
) -> LayerStrip {
    let classes: Vec<Layer> = (0..architecture.classes().len())
        .map(|class| Layer { parts: parts(state, class, context, batch) })
        .collect();
    let layers = (0..architecture.layer_count()).map(|layer| {
        architecture.class_of(layer).map_or_else(Layer::default, |class| classes[class].clone())
    });
    LayerStrip {
        id: named.id,
        name: named.name,
        colour: named.colour,
        layers: layers.collect(),
        slope: state.slope(Some(context)).ok(),
        fixed: state.fixed(Some(context)).ok(),
    }
}

fn parts(state: &StateModel, class: usize, context: Tokens, batch: u64) -> Vec<LayerPart> {
    let part = |component: &std::sync::Arc<kvscope_sizing::StateComponent>| {
        let bytes = component.bytes(context).ok()?.times(batch).ok()?;
        let growth =
            if component.growth.grows_at(Some(context)) { PartGrowth::Growing } else { PartGrowth::Still };
        Some(LayerPart { kind: component.kind, bytes, growth })
    };
    state.class_components(class).iter().filter_map(part).collect()
}

/// Least and most bytes that a layer keeps between two contexts, from the strips at the first and at the last, so that bars
/// grow with the cursor.
pub fn layers_reach(at_first: &[LayerStrip], at_last: &[LayerStrip]) -> Option<(Bytes, Bytes)> {
    fn kept(strips: &[LayerStrip]) -> impl Iterator<Item = Bytes> {
        strips.iter().flat_map(|strip| &strip.layers).map(Layer::bytes).filter(|bytes| *bytes > Bytes::ZERO)
    }
    Some((kept(at_first).min()?, kept(at_last).max()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_reaches_the_cursor() {
        let ends = |tokens| contexts_around(Tokens::new(tokens));
        assert_eq!(ends(100_000), (Tokens::new(1 << 10), Tokens::new(1 << 20)));
        assert_eq!(ends(100), (Tokens::new(64), Tokens::new(1 << 20)));
        assert_eq!(ends(3_000_000), (Tokens::new(1 << 10), Tokens::new(1 << 22)));
        assert_eq!(ends(1), (Tokens::new(1), Tokens::new(1 << 20)));
        assert_eq!(ends(u64::MAX), (Tokens::new(1 << 10), Tokens::new(u64::MAX)));
    }
}
