use kvscope_charts::Ink;
use kvscope_sizing::{CatalogueEntry, catalogue};
use leptos::prelude::*;

use crate::state::{Chosen, Page, Step, ink};

/// The chosen versions, and a search for more.
#[component]
pub(crate) fn ModelPicker() -> impl IntoView {
    let page = expect_context::<Page>();
    view! {
        <ul class="models">
            <For each=move || page.chosen.get().to_vec() key=row_key let:chosen>
                <Row chosen=chosen/>
            </For>
        </ul>
        {move || page.chosen.get().is_empty().then(|| view! { <p class="hint">"No version is chosen. Add one:"</p> })}
        <Search/>
    }
}

/// A row is made anew when anything that it shows changes.
fn row_key(chosen: &Chosen) -> (String, kvscope_charts::palette::SeriesColour, Option<String>) {
    (chosen.id.clone(), chosen.colour, chosen.state.as_ref().err().cloned())
}

#[component]
fn Row(chosen: Chosen) -> impl IntoView {
    let page = expect_context::<Page>();
    let (id, other_id, name) = (chosen.id.clone(), chosen.id.clone(), chosen.name.clone());
    let colour = ink(Ink::Series(chosen.colour));
    let is_selected = {
        let id = chosen.id.clone();
        move || page.selected.get().is_some_and(|model| model.id == id)
    };
    let refusal = chosen.state.err();
    view! {
        <li>
            <span class="swatch" style:background=colour></span>
            <button
                type="button"
                class="name"
                aria-pressed=move || if is_selected() { "true" } else { "false" }
                title="Explain its layers"
                on:click=move |_| page.change(Step::Push, |view| view.selected = Some(id.clone()))
            >
                {name.clone()}
            </button>
            <button
                type="button"
                class="remove"
                aria-label=format!("Remove {name}")
                on:click=move |_| page.toggle_model(&other_id)
            >
                "×"
            </button>
            {refusal.map(|sentence| view! { <p class="refused">{sentence}</p> })}
        </li>
    }
}

#[component]
fn Search() -> impl IntoView {
    let page = expect_context::<Page>();
    let words = RwSignal::new(String::new());
    let found = Memo::new(move |_| {
        let words = words.get();
        catalogue().iter().filter(|entry| is_about(entry, &words)).map(|entry| entry.id.as_str()).collect::<Vec<_>>()
    });
    let add_first = move |event: leptos::ev::KeyboardEvent| {
        if event.key() == "Enter"
            && let Some(first) = found.with_untracked(|found| found.first().copied())
        {
            page.toggle_model(first);
        }
    };
    let option = move |id: &'static str| {
        let entry = catalogue().iter().find(|entry| entry.id == id)?;
        Some(view! {
            <li>
                <label>
                    <input
                        type="checkbox"
                        prop:checked=move || page.view(|view| view.models.iter().any(|known| known == id))
                        on:change=move |_| page.toggle_model(id)
                    />
                    <span>{entry.name.as_str()}</span>
                    <span class="date">{entry.released.as_deref()}</span>
                </label>
            </li>
        })
    };
    view! {
        <details class="add">
            <summary>"add a version"</summary>
            <input
                type="search"
                placeholder="name, family or vendor"
                aria-label="Search the catalogue"
                prop:value=move || words.get()
                on:input=move |event| words.set(event_target_value(&event))
                on:keydown=add_first
            />
            <ul class="catalogue">{move || found.get().into_iter().map(option).collect_view()}</ul>
            {move || {
                found
                    .with(Vec::is_empty)
                    .then(|| view! { <p class="hint">"Nothing by that name. Open its config.json below."</p> })
            }}
        </details>
    }
}

/// Whether every word is somewhere in the entry's names.
fn is_about(entry: &CatalogueEntry, words: &str) -> bool {
    let names = [&entry.id, &entry.name, &entry.family, &entry.vendor].map(|name| name.to_lowercase());
    words.to_lowercase().split_whitespace().all(|word| names.iter().any(|name| name.contains(word)))
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
