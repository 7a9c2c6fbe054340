use kvscope_sizing::{catalogue, lineage};
use leptos::ev;
use leptos::prelude::*;

use crate::erased::{on, part, words};
use crate::state::{Page, Step, find_model};
use crate::ui::ContextControl;

/// Which two versions, and at which context.
pub(super) fn choice(page: Page) -> AnyView {
    let swap = move |_: ev::MouseEvent| {
        let [from, to] = untrack(|| page.pair());
        page.set_pair([to, from]);
    };
    view! {
        <aside class="controls filters" aria-label="Versions to compare">
            <section>
                <h2>"Versions"</h2>
                {family_select(page)}
                {version_select(page, "from", 0)}
                {version_select(page, "to", 1)}
                <button type="button" class="plain" on:click=on(swap)>"swap"</button>
            </section>
            <ContextControl/>
        </aside>
    }
    .into_any()
}

/// The family of the second version; empty for one that the reader opened.
pub(super) fn family_of(page: Page) -> String {
    let [_, to] = page.pair();
    let own = page.opened.with(|opened| opened.models.clone());
    match find_model(&to, &own) {
        Ok(model) if model.entry().is_some() => model.family.clone(),
        _ => String::new(),
    }
}

/// Every family once, in the catalogue's order.
fn families() -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for entry in catalogue() {
        if !names.contains(&entry.family.as_str()) {
            names.push(&entry.family);
        }
    }
    names
}

/// Chooses a family: its first line from end to end.
fn family_select(page: Page) -> AnyView {
    let choose = move |event: ev::Event| {
        let lines = lineage(&event_target_value(&event));
        let Some((first, _)) = lines.first() else { return };
        // The line goes on as long as each follows the one before.
        let last = lines.iter().zip(0..).take_while(|((_, depth), place)| depth == place).last();
        let last = last.map_or(first, |((entry, _), _)| entry);
        page.set_pair([first.id.clone(), last.id.clone()]);
    };
    let family = Memo::new(move |_| Some(family_of(page)));
    let option = move |name: &'static str| {
        let is_chosen: Box<dyn Fn() -> bool + Send> =
            Box::new(move || family.with(|family| family.as_deref() == Some(name)));
        let shown = if name.is_empty() { "–" } else { name };
        view! { <option value=name prop:selected=is_chosen>{shown}</option> }.into_any()
    };
    let options: Vec<AnyView> = std::iter::once("").chain(families()).map(option).collect();
    view! {
        <label class="sentence">
            <span>"family"</span>
            <span class="value"><select aria-label="Family" on:change=on(choose)>{options}</select></span>
        </label>
    }
    .into_any()
}

/// Chooses one end among all versions and what the reader opened.
fn version_select(page: Page, label: &'static str, end: usize) -> AnyView {
    let choose = move |event: ev::Event| {
        let mut pair = untrack(|| page.pair());
        pair[end] = event_target_value(&event);
        page.set_pair(pair);
    };
    let option = move |id: String, name: String| {
        let own = id.clone();
        let is_chosen: Box<dyn Fn() -> bool + Send> = Box::new(move || page.pair()[end] == own);
        view! { <option value=id prop:selected=is_chosen>{name}</option> }.into_any()
    };
    let options = move || {
        let opened = page.opened.with(|opened| opened.models.clone());
        let own = opened.iter().map(|model| (model.id.clone(), model.name.clone()));
        let known = catalogue().iter().map(|entry| (entry.id.clone(), entry.name.clone()));
        own.chain(known).map(|(id, name)| option(id, name)).collect::<Vec<AnyView>>().into_any()
    };
    let name = format!("Compare {label}");
    view! {
        <label class="sentence">
            <span>{label}</span>
            <span class="value"><select aria-label=name data-value=words(move || page.pair()[end].clone()) on:change=on(choose)>{part(options)}</select></span>
        </label>
    }
    .into_any()
}

impl Page {
    /// The two versions that are compared, by id. Tracked.
    pub(super) fn pair(&self) -> [String; 2] {
        self.view(|view| view.versions.pair().map(str::to_owned))
    }

    pub(super) fn set_pair(&self, [from, to]: [String; 2]) {
        self.change(Step::Push, |view| view.versions.set_pair([&from, &to]));
    }
}
