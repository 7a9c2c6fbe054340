use std::collections::BTreeSet;

use kvscope_sizing::{Bytes, ComponentSize, Growth, StateModel, group_digits};
use leptos::prelude::*;

use super::derivation::DerivationView;
use super::layers::colour_kind;
use super::published::Published;
use crate::state::{Model, Page, Shared, ink};
use kvscope_charts::Ink;

/// What one version keeps, component by component, each with its derivation.
#[component]
pub(super) fn Breakdown() -> impl IntoView {
    let page = expect_context::<Page>();
    move || {
        let model = page.selected.get()?;
        let chosen = page.chosen.get();
        let state = chosen.iter().find(|chosen| chosen.id == model.id)?.state.clone().ok()?;
        Some(view! { <Of model=model state=state/> })
    }
}

#[component]
fn Of(model: Shared<Model>, state: Shared<StateModel>) -> impl IntoView {
    let page = expect_context::<Page>();
    let name = model.name.clone();
    let facts = facts(&model);
    let published = model.entry.filter(|entry| !entry.published.is_empty());
    let published = published.map(|entry| view! { <Published entry=entry state=state.clone()/> });
    let rows = {
        let (model, state) = (model.clone(), state.clone());
        (0..state.parts().len()).map(move |part| row(page, &model, &state, part)).collect_view()
    };
    let warnings = move || {
        let size = state.size(&model.id, Some(page.context.get()), 1, &page.settings.get()).ok()?;
        let doubts = size.warnings;
        (!doubts.is_empty()).then(|| {
            let doubts = doubts.into_iter().map(|doubt| view! { <li>{doubt.to_string()}</li> }).collect_view();
            view! { <ul class="doubts" aria-label="Assumptions">{doubts}</ul> }
        })
    };
    view! {
        <section class="breakdown">
            <h2>{name} ", component by component"</h2>
            <p class="quiet">{facts}</p>
            {warnings}
            <div class="components">
                <p class="head" aria-hidden="true">
                    <span>"keeps"</span>
                    <span>"layers"</span>
                    <span>"format"</span>
                    <span>"grows"</span>
                    <span>"bytes"</span>
                    <span>"one more token"</span>
                </p>
                {rows}
            </div>
            {published}
        </section>
    }
}

/// Forms, layers, sizes and where the config comes from, in one line.
fn facts(model: &Model) -> String {
    let mut words: Vec<String> = Vec::new();
    let classes = model.architecture.classes();
    let mut names: Vec<(String, usize)> = Vec::new();
    for class in classes {
        let name = class.name();
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, layers)) => *layers += class.layers.len(),
            None => names.push((name, class.layers.len())),
        }
    }
    words.extend(names.into_iter().map(|(name, layers)| format!("{layers} × {name}")));
    if let Some(longest) = model.max_context() {
        words.push(format!("up to {} tokens", longest.short()));
    }
    match model.entry {
        Some(entry) => {
            words.extend(entry.released.clone());
            words.push(format!("config: {}", entry.confidence));
        }
        None => words.push("config: opened here".to_owned()),
    }
    words.join(" · ")
}

fn row(page: Page, model: &Shared<Model>, state: &Shared<StateModel>, part: usize) -> impl IntoView + use<> {
    let component = state.parts()[part].component.clone();
    let layers = state.parts()[part].layers;
    let total_layers = model.architecture.layer_count();
    let places = ranges(&layers_of(model, state, part));
    let figures = {
        let (id, state) = (model.id.clone(), state.clone());
        Memo::new(move |_| {
            let size = state.size(&id, Some(page.context.get()), page.batch.get(), &page.settings.get()).ok()?;
            Some(Shown::of(size.components.get(part)?))
        })
    };
    let bytes = move || {
        let shown = figures.get().and_then(|shown| shown.bytes)?;
        Some(shown.display(page.view(|view| view.units)))
    };
    let exact = move || figures.get().and_then(|shown| shown.bytes).map(|bytes| bytes.get().to_string());
    let slope = move || figures.get().map(|shown| shown.slope);
    let now = move || {
        let (context, batch) = (page.context.get(), page.batch.get());
        Some((context, batch, figures.get()?.bytes?))
    };
    let (kind, format, growth) = (component.kind, component.format, growth_words(&component.growth));
    let colour = ink(Ink::Component(colour_kind(kind)));
    view! {
        <details class="component" data-component=kind.name()>
            <summary>
                <span class="keeps"><span class="swatch block" style:background=colour></span>{kind.label()}</span>
                <span><span class="label">"layers "</span>{layers} " of " {total_layers}</span>
                <span><span class="label">"format "</span>{format}</span>
                <span>{growth}</span>
                <span class="number" data-figure="component_bytes" data-value=exact>{bytes}</span>
                <span class="number">{slope}</span>
            </summary>
            <DerivationView component=component layers=layers places=places now=Signal::derive(now)/>
        </details>
    }
}

/// What of a component changes with the context.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    bytes: Option<Bytes>,
    slope: String,
}

impl Shown {
    fn of(size: &ComponentSize) -> Self {
        let slope = size.slope_bytes_per_token;
        let slope = if slope.numerator() == 0 { "nothing".to_owned() } else { slope.to_string() };
        Self { bytes: size.bytes, slope }
    }
}

fn growth_words(growth: &Growth) -> String {
    match growth {
        Growth::Linear { .. } => "every token".to_owned(),
        Growth::Window { window, .. } => format!("to a window of {}", group_digits(window.get())),
        Growth::Chunk { chunk, .. } => format!("to a chunk of {}", group_digits(chunk.get())),
        Growth::Compressed { ratio, .. } => format!("every {} tokens", group_digits(ratio.get())),
        Growth::Constant { .. } => "never".to_owned(),
    }
}

/// Layers that keep a component of this shape.
fn layers_of(model: &Model, state: &StateModel, part: usize) -> Vec<usize> {
    let wanted = &state.parts()[part].component;
    let same = |component: &kvscope_sizing::StateComponent| {
        (component.kind, component.growth, component.format) == (wanted.kind, wanted.growth, wanted.format)
    };
    let classes = model.architecture.classes().iter().enumerate();
    let layers: BTreeSet<usize> = classes
        .filter(|(class, _)| state.class_components(*class).iter().any(same))
        .flat_map(|(_, class)| class.layers.iter().copied())
        .collect();
    layers.into_iter().collect()
}

/// `0–2, 7, 11` of rising numbers; where they come at one distance, `3, 7, … 59`.
fn ranges(layers: &[usize]) -> String {
    if let [first, second, .., last] = layers {
        let step = second - first;
        let even = layers.windows(2).all(|pair| pair[1] - pair[0] == step);
        if even && step > 1 {
            return format!("{first}, {second}, … {last}");
        }
    }
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &layer in layers {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == layer => *end = layer,
            _ => runs.push((layer, layer)),
        }
    }
    let words: Vec<String> =
        runs.iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}–{to}") }).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_numbers_are_said_shortly() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[0, 1, 2, 7, 11, 12]), "0–2, 7, 11–12");
        assert_eq!(ranges(&[3, 7, 11, 15]), "3, 7, … 15");
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(ranges(&[0, 1, 2, 3]), "0–3");
    }
}
