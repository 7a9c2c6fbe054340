use kvscope_charts::Ink;
use kvscope_sizing::{CatalogueEntry, catalogue};
use leptos::ev;
use leptos::prelude::*;

use crate::erased::{nothing, on, part, truth, words};
use crate::state::{Chosen, Page, ink};

/// The chosen versions, and a search for more.
#[component]
pub(crate) fn ModelPicker() -> impl IntoView {
    let page = expect_context::<Page>();
    let rows = move || {
        let chosen = page.chosen();
        if chosen.list.is_empty() {
            return view! { <p class="hint">"No version is chosen. Add one:"</p> }.into_any();
        }
        let rows: Vec<AnyView> = chosen.list.iter().map(|chosen| row(page, chosen)).collect();
        view! { <ul class="models">{rows}</ul> }.into_any()
    };
    view! { {part(rows)} {search(page)} }.into_any()
}

fn row(page: Page, chosen: &Chosen) -> AnyView {
    let name = chosen.name.clone();
    let (shown, selects, removes) = (chosen.id.clone(), chosen.id.clone(), chosen.id.clone());
    let refusal = match &chosen.state {
        Err(sentence) => view! { <p class="refused">{sentence.clone()}</p> }.into_any(),
        Ok(_) => nothing(),
    };
    view! {
        <li>
            <span class="swatch" data-marker=chosen.colour.marker().map(kvscope_charts::palette::Marker::name) style:background=ink(Ink::Series(chosen.colour))></span>
            <button
                type="button"
                class="name"
                aria-pressed=truth(move || page.is_selected(&shown))
                title="Explain its layers"
                on:click=on(move |_| page.select(&selects))
            >
                {name.clone()}
            </button>
            <button
                type="button"
                class="remove"
                aria-label=format!("Remove {name}")
                on:click=on(move |_| page.toggle_model(&removes))
            >
                "×"
            </button>
            {refusal}
        </li>
    }
    .into_any()
}

fn search(page: Page) -> AnyView {
    let sought = RwSignal::new(None::<String>);
    let found = move || {
        let sought = sought.get().unwrap_or_default();
        catalogue().iter().filter(move |entry| is_about(entry, &sought))
    };
    let is_chosen = move |entry: &CatalogueEntry| page.view(|view| view.models.contains(&entry.id));
    // Only adds: a version that is chosen already stays, and an empty field names none.
    let add_first = move |event: ev::KeyboardEvent| {
        let is_asked = event.key() == "Enter"
            && sought
                .with_untracked(|sought| sought.as_ref().is_some_and(|sought| !sought.trim().is_empty()));
        if is_asked && let Some(first) = untrack(|| found().next().filter(|first| !is_chosen(first))) {
            page.toggle_model(&first.id);
        }
    };
    let list = move || {
        let options: Vec<AnyView> = found().map(|entry| option(page, entry)).collect();
        if options.is_empty() {
            return view! { <p class="hint">"Nothing by that name. Open its config.json below."</p> }
                .into_any();
        }
        view! { <ul class="catalogue">{options}</ul> }.into_any()
    };
    view! {
        <details class="add">
            <summary>"add a version"</summary>
            <input
                type="search"
                placeholder="name, family or vendor"
                aria-label="Search the catalogue"
                prop:value=words(move || sought.get().unwrap_or_default())
                on:input=on(move |event| sought.set(Some(event_target_value(&event))))
                on:keydown=on(add_first)
            />
            {part(list)}
        </details>
    }
    .into_any()
}

fn option(page: Page, entry: &'static CatalogueEntry) -> AnyView {
    let is_chosen = move || page.view(|view| view.models.contains(&entry.id));
    let is_chosen: Box<dyn Fn() -> bool + Send> = Box::new(is_chosen);
    // Browsers give a check box Space alone.
    let enter = move |event: ev::KeyboardEvent| {
        if event.key() == "Enter" {
            page.toggle_model(&entry.id);
        }
    };
    view! {
        <li>
            <label>
                <input
                    type="checkbox"
                    prop:checked=is_chosen
                    on:change=on(move |_| page.toggle_model(&entry.id))
                    on:keydown=on(enter)
                />
                <span>{entry.name.as_str()}</span>
                <span class="date">{entry.released.as_deref().unwrap_or_default()}</span>
            </label>
        </li>
    }
    .into_any()
}

/// Whether every word is somewhere in the entry's names.
fn is_about(entry: &CatalogueEntry, words: &str) -> bool {
    let names = [&entry.id, &entry.name, &entry.family, &entry.vendor].map(|name| name.to_ascii_lowercase());
    words.to_ascii_lowercase().split_whitespace().all(|word| names.iter().any(|name| name.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_must_be_found_somewhere() {
        let found = |words: &str| catalogue().iter().filter(|entry| is_about(entry, words)).count();
        assert_eq!(found(""), catalogue().len());
        assert_eq!(found("moonshot K2.6"), 1);
        assert_eq!(found("glm qwen"), 0);
        assert!(found("GLM") > 3);
    }
}
