use std::sync::Arc;

use kvscope_charts::Ink;
use kvscope_sizing::{Bytes, Growth, StateModel, group_digits, layer_ranges};
use leptos::prelude::*;

use super::beside::{beside, whole_model};
use super::derivation::derivation;
use super::published::published;
use super::{exports, formats};
use crate::erased::{mark, nothing, part, words};
use crate::state::{Model, Page, Shared, Source, ink};
use crate::ui::{Holds, export_menu};

const HEAD: [&str; 6] = ["component", "layers", "format", "growth", "resident", "slope"];

/// What one version keeps, component by component, each with its derivation.
pub(super) fn breakdown(page: Page) -> AnyView {
    let shown = move || {
        let Some(chosen) = page.selected() else { return nothing() };
        let (Some(model), Ok(state)) = (chosen.model, chosen.state) else { return nothing() };
        of(page, &model, &state)
    };
    part(shown).into_any()
}

fn of(page: Page, model: &Shared<Model>, state: &Shared<StateModel>) -> AnyView {
    let published = model.entry().map_or_else(nothing, |entry| published(page, entry, state));
    let rows: Vec<AnyView> = (0..state.parts().len()).map(|part| row(page, model, state, part)).collect();
    let head: Vec<AnyView> = HEAD.map(|name| view! { <span>{name}</span> }.into_any()).into();
    let name = model.name.clone();
    view! {
        <section class="breakdown">
            <div class="heading">
                <h2>{words(move || format!("{name}, component by component{}", whole_model(page)))}</h2>
                {export_menu(page, "components", Holds::Table, Arc::new(move |origin| exports::breakdown(page, origin)))}
            </div>
            <p class="quiet">{facts(model)}</p>
            <div class="components">
                <p class="head" aria-hidden="true">{head}</p>
                {rows}
            </div>
            {part(move || beside(page))}
            {published}
        </section>
    }
    .into_any()
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
    match model.source {
        Source::Entry(entry) => {
            words.extend(entry.released.clone());
            words.push(origin(&entry.confidence));
        }
        Source::Config => words.push("config opened here".to_owned()),
        Source::Gguf => words.push("GGUF metadata opened here".to_owned()),
    }
    words.join(" · ")
}

/// Where the config's fields come from, in place of the catalogue's own terms.
fn origin(confidence: &str) -> String {
    const KINDS: [(&str, &str); 5] = [
        ("literal", "config as published"),
        ("fixture", "config from an engine's tests"),
        ("secondary", "config from what others wrote about it"),
        ("class-default", "config with its class's defaults"),
        ("memory", "config from memory, not checked"),
    ];
    /// What no state is made of.
    const OF_WEIGHTS: [&str; 5] =
        ["widths of weights", "parameter counts", "active params", "num_attention_heads", "hidden_size"];
    let kind = KINDS.iter().find(|(term, _)| confidence.starts_with(term));
    let mut words = kind.map_or(confidence, |(_, words)| words).to_owned();
    for apart in confidence.split("; ").skip(1).flat_map(|several| several.split(", ")) {
        let Some((field, how)) = apart.split_once(": ").filter(|(field, _)| !OF_WEIGHTS.contains(field))
        else {
            continue;
        };
        words.push_str(", ");
        let how = match how {
            "family value" => format!("{field} as in its family"),
            "class-default" => format!("{field} by its class's default"),
            _ => match how.split_once(": ") {
                Some((_, why)) => why.to_owned(),
                None => format!("{field} {how}"),
            },
        };
        words.push_str(&how);
    }
    words
}

fn row(page: Page, model: &Shared<Model>, state: &Shared<StateModel>, part: usize) -> AnyView {
    let component = state.parts()[part].component.clone();
    let layers = state.parts()[part].layers;
    let places = layer_ranges(state.parts()[part].places());
    let cell = |label: &'static str, words: String| {
        view! { <span><span class="label">{label}</span>{words}</span> }.into_any()
    };
    let kept = {
        let component = component.clone();
        move || component.bytes(page.context()).ok()?.times(layers).ok()?.times(page.batch()).ok()
    };
    let (shown, exact) = (kept.clone(), kept);
    let shown =
        move || shown().map_or("unknown".to_owned(), |bytes| bytes.display(page.view(|view| view.units)));
    let slope = {
        let growth = component.growth;
        move || match growth.slope(Some(page.context())).and_then(|slope| slope.times(layers)) {
            Ok(slope) if slope.numerator() == 0 => "0 B/token".to_owned(),
            Ok(slope) => slope.to_string(),
            Err(error) => error.to_string(),
        }
    };
    let kind = component.kind;
    view! {
        <details class="component" data-component=kind.name()>
            <summary>
                <span class="keeps">
                    <span class="swatch block" style:background=ink(Ink::Component(kind))></span>
                    {kind.label()}
                </span>
                {cell("layers ", format!("{layers} of {}", model.architecture.layer_count()))}
                {cell("format ", formats::of_component(model, &component, &page.chosen().settings))}
                {cell("", growth_words(&component.growth))}
                <span
                    class="number"
                    data-figure="component_bytes"
                    data-value=mark(move || exact().map(|bytes: Bytes| bytes.get().to_string()))
                >
                    {words(shown)}
                </span>
                <span class="number">{words(slope)}</span>
            </summary>
            {derivation(page, component, layers, &places)}
        </details>
    }
    .into_any()
}

/// The growth by its word, and what bounds or thins it.
fn growth_words(growth: &Growth) -> String {
    let name = growth.name();
    match growth {
        Growth::Linear { .. } | Growth::Constant { .. } => name.to_owned(),
        Growth::Window { window: most, .. } | Growth::Chunk { chunk: most, .. } => {
            format!("{name}, {} tokens", group_digits(most.get()))
        }
        Growth::Compressed { ratio, .. } => format!("{name}, 1 of {} tokens", group_digits(ratio.get())),
    }
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::catalogue;

    use super::*;

    #[test]
    fn where_a_config_comes_from_is_said_in_words() {
        for entry in catalogue() {
            let words = origin(&entry.confidence);
            assert!(words.starts_with("config "), "{}: {words}", entry.id);
            for term in ["literal", "fixture", "secondary", "class-default", "family value", ": "] {
                assert!(!words.contains(term), "{}: {words}", entry.id);
            }
        }
        let of = "fixture; conv_kernel: family value; widths of weights: memory, checked by the total that they give";
        assert_eq!(origin(of), "config from an engine's tests, conv_kernel as in its family");
        assert_eq!(origin("literal; parameter counts: memory"), "config as published");
        assert_eq!(
            origin("class-default; index_kpool: disputed 16 vs 4"),
            "config with its class's defaults, index_kpool disputed 16 vs 4"
        );
    }
}
