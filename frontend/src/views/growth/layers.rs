use kvscope_charts::figures::{Layer, LayerPart, LayerStrip, LayersInput, PartGrowth};
use kvscope_charts::palette::ComponentKind;
use kvscope_charts::scene::Point;
use kvscope_charts::Layers;
use kvscope_sizing::{Bytes, StateModel, Tokens};
use leptos::ev;
use leptos::prelude::*;

use crate::canvas::Figure;
use crate::state::{Chosen, Page, Shared, Step};
use crate::ui::context_steps;

/// A strip a version, a bar a layer, moved by the cursor of the growth figure.
#[component]
pub(super) fn LayerStrips() -> impl IntoView {
    let page = expect_context::<Page>();
    let width = RwSignal::new(0.0);
    let reach = Memo::new(move |_| reach(&page.chosen.get(), page.batch.get()));
    let layers = Memo::new(move |_| {
        let (chosen, context, batch) = (page.chosen.get(), page.cursor(), page.batch.get());
        let strips: Vec<LayerStrip> =
            chosen.iter().filter_map(|chosen| strip(chosen, context, batch)).collect();
        let input = LayersInput {
            strips: &strips,
            context,
            reach: reach.get(),
            units: page.view(|view| view.units),
            width: width.get(),
        };
        Layers::layout(&input).ok().map(Shared::new)
    });
    let base = Memo::new(move |_| layers.get().map(|layers| Shared::new(layers.scene().clone())));
    let sentence = move || layers.get().map(|layers| layers.scene().description.clone());
    let select = move |event: ev::MouseEvent| {
        let point = Point::new(f64::from(event.offset_x()), f64::from(event.offset_y()));
        let Some(hit) = layers.get_untracked().and_then(|layers| layers.hit(point)) else { return };
        let chosen = page.chosen.get_untracked();
        let mut drawn = chosen.iter().filter(|chosen| chosen.state.is_ok());
        if let Some(of_strip) = drawn.nth(hit.strip) {
            page.change(Step::Push, |view| view.selected = Some(of_strip.id.clone()));
        }
    };
    view! {
        <section class="layers">
            <h2>"What each layer keeps at " {move || page.cursor().to_string()} " tokens"</h2>
            <div class="figure" role="img" aria-label=sentence on:click=select>
                <Figure name="layers" width=width base=base overlay=Signal::derive(|| None)/>
            </div>
        </section>
    }
}

/// One version's layers at a context; none where it cannot be sized.
fn strip(chosen: &Chosen, context: Tokens, batch: u64) -> Option<LayerStrip> {
    let (model, state) = (chosen.model.as_ref()?, chosen.state.as_ref().ok()?);
    let classes: Vec<Layer> = (0..model.architecture.classes().len())
        .map(|class| Layer { parts: parts(state, class, context, batch) })
        .collect();
    let layers = (0..model.architecture.layer_count())
        .map(|layer| model.architecture.class_of(layer).map_or_else(Layer::default, |class| classes[class].clone()));
    Some(LayerStrip {
        id: chosen.id.clone(),
        name: chosen.name.clone(),
        colour: chosen.colour,
        layers: layers.collect(),
        slope: state.slope(Some(context)).ok(),
        fixed: state.fixed(Some(context)).ok(),
    })
}

fn parts(state: &StateModel, class: usize, context: Tokens, batch: u64) -> Vec<LayerPart> {
    let part = |component: &kvscope_sizing::StateComponent| {
        let bytes = component.bytes(context).ok()?.times(batch).ok()?;
        let growth =
            if component.growth.grows_at(Some(context)) { PartGrowth::Growing } else { PartGrowth::Still };
        Some(LayerPart { kind: colour_kind(component.kind), bytes, growth })
    };
    state.class_components(class).iter().filter_map(part).collect()
}

/// The palette's kind of a sizing kind: both have the design's names.
pub(super) fn colour_kind(kind: kvscope_sizing::ComponentKind) -> ComponentKind {
    ComponentKind::from_name(kind.name()).expect("the palette has every kind of the design")
}

/// Least and most bytes that a layer keeps from one end of the slider to the other, so that bars grow with it.
fn reach(chosen: &[Chosen], batch: u64) -> Option<(Bytes, Bytes)> {
    let at = |context: Tokens| {
        chosen.iter().filter_map(move |chosen| strip(chosen, context, batch)).flat_map(|strip| strip.layers)
    };
    let kept = |layer: Layer| Some(layer.bytes()).filter(|bytes| *bytes > Bytes::ZERO);
    let least = at(context_steps::FIRST).filter_map(kept).min()?;
    let most = at(context_steps::LAST).filter_map(kept).max()?;
    Some((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_state_has_a_colour() {
        for kind in kvscope_sizing::ComponentKind::ALL {
            assert_eq!(colour_kind(kind).name(), kind.name());
        }
    }
}
