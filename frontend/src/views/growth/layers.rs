use kvscope_charts::Layers;
use kvscope_charts::figures::{LayerStrip, LayersInput, StripName, layer_strip, layers_reach};
use kvscope_charts::scene::Point;
use kvscope_sizing::Tokens;
use leptos::ev;
use leptos::prelude::*;

use super::beside::whole_model;
use crate::canvas::{Drawn, DrawnMemo, Figure, Layout};
use crate::erased::{mark, on, words};
use crate::state::{Chosen, Page, Shared};
use crate::ui::context_steps;

/// A strip a version, a bar a layer, moved by the cursor of the growth figure.
pub(super) fn layer_strips(page: Page) -> AnyView {
    let width = RwSignal::new(0.0);
    let base: DrawnMemo = Memo::new(move |_| layers(page, width.get()));
    let sentence = move || base.get().map(|drawn| drawn.scene.description.clone());
    let select = move |event: ev::MouseEvent| {
        let point = Point::new(f64::from(event.offset_x()), f64::from(event.offset_y()));
        let Some(drawn) = base.get_untracked() else { return };
        let Layout::Layers(layers) = &drawn.layout else { return };
        let Some(hit) = layers.hit(point) else { return };
        let chosen = untrack(|| page.chosen());
        if let Some((of_strip, _)) = chosen.sized().nth(hit.strip) {
            page.select(&of_strip.id);
        }
    };
    view! {
        <section class="layers">
            <h2>{words(move || format!("What each layer keeps at {} tokens{}", page.cursor(), whole_model(page)))}</h2>
            <div class="figure" role="img" aria-label=mark(sentence) on:click=on(select)>
                <Figure name="layers" width=width base=base/>
            </div>
        </section>
    }
    .into_any()
}

fn layers(page: Page, width: f64) -> Option<Shared<Drawn>> {
    let (chosen, context, batch) = (page.chosen(), page.cursor(), page.batch());
    let strips = |context: Tokens| -> Vec<LayerStrip> {
        chosen.list.iter().filter_map(|chosen| strip(chosen, context, batch)).collect()
    };
    let input = LayersInput {
        strips: &strips(context),
        context,
        reach: layers_reach(&strips(context_steps::FIRST), &strips(context_steps::LAST)),
        units: page.view(|view| view.units),
        width,
    };
    let layers = Layers::layout(&input).ok()?;
    Some(Shared::new(Drawn { scene: layers.scene().clone(), layout: Layout::Layers(layers) }))
}

/// One version's layers at a context; none where it cannot be sized.
fn strip(chosen: &Chosen, context: Tokens, batch: u64) -> Option<LayerStrip> {
    let (model, state) = (chosen.model.as_ref()?, chosen.state.as_ref().ok()?);
    let named = StripName { id: chosen.id.clone(), name: chosen.name.clone(), colour: chosen.colour };
    Some(layer_strip(named, &model.architecture, state, context, batch))
}
