use std::sync::Arc;

use kvscope_charts::scene::Point;
use leptos::ev;
use leptos::prelude::*;

use super::beside::whole_model;
use super::exports;
use crate::canvas::{Drawn, DrawnMemo, Figure, Layout};
use crate::erased::{mark, on, words};
use crate::state::{Chosen, ChosenSet, Page, Shared};
use crate::ui::{Holds, export_menu};
use crate::views::strips::{Subject, strips};

/// A strip a version, a bar a layer, moved by the cursor of the growth figure.
pub(super) fn layer_strips(page: Page) -> AnyView {
    let width = RwSignal::new(0.0);
    let base: DrawnMemo = Memo::new(move |_| layers(page, width.get()));
    let sentence = move || base.get().map(|drawn| drawn.scene.description.clone());
    let is_empty: Box<dyn Fn() -> bool + Send> = Box::new(move || page.chosen().sized().next().is_none());
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
        <section class="layers" prop:hidden=is_empty>
            <div class="heading">
                <h2>{words(move || format!("What each layer keeps at {} tokens{}", page.cursor(), whole_model(page)))}</h2>
                {export_menu(page, "layers", Holds::Figure, Arc::new(move |origin| exports::layers(page, origin)))}
            </div>
            <div class="figure" role="img" aria-label=mark(sentence) on:click=on(select)>
                <Figure name="layers" width=width base=base/>
            </div>
        </section>
    }
    .into_any()
}

fn layers(page: Page, width: f64) -> Option<Shared<Drawn>> {
    let chosen = page.chosen();
    strips(&subjects(&chosen), page.cursor(), page.batch(), page.view(|view| view.units), width)
}

/// The versions that could be sized.
fn subjects(chosen: &ChosenSet) -> Vec<Subject<'_>> {
    let subject = |(chosen, state)| -> Option<Subject<'_>> {
        let chosen: &Chosen = chosen;
        Some(Subject { model: chosen.model.as_ref()?, state, colour: chosen.colour })
    };
    chosen.sized().filter_map(subject).collect()
}
