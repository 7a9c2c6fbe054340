//! Find: versions, forms, config fields and views by their names, from anywhere on the page.

mod index;

use kvscope_protocol::Room;
use leptos::ev;
use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::JsCast;

use crate::erased::{mark, nothing, on, part, truth, words};
use crate::state::{Page, Step};
use index::{Aim, Found, found};

/// A part of the page, with words that it is looked for by.
pub(crate) type Door = (Room, &'static str, &'static str);

/// Inputs that take no text, so that `/` means the search there too.
const WITHOUT_TEXT: [&str; 4] = ["range", "checkbox", "radio", "file"];

/// The button that opens the search, and the search. The browser gives the focus back to where it was.
pub(crate) fn find(page: Page, doors: &'static [Door]) -> AnyView {
    let dialog = NodeRef::<html::Dialog>::new();
    // What is typed while the search is open.
    let sought = RwSignal::new(None::<String>);
    let place = RwSignal::new(0_u64);
    let show = move || {
        if let Some(dialog) = dialog.get_untracked()
            && !dialog.open()
        {
            place.set(0);
            sought.set(Some(String::new()));
            let _ = dialog.show_modal();
        }
    };
    let close = move || {
        if let Some(dialog) = dialog.get_untracked() {
            dialog.close();
        }
    };
    window_event_listener(ev::keydown, move |event| {
        if asks_for_search(&event) {
            event.prevent_default();
            show();
        }
    });
    let all = move || sought.with(|sought| sought.as_ref().map(|sought| found(sought, doors)));
    let typed = move |event: ev::Event| {
        place.set(0);
        sought.set(Some(event_target_value(&event)));
    };
    let key = move |event: ev::KeyboardEvent| {
        let Some(Found { shown, .. }) = untrack(all) else { return };
        let now = place.get_untracked();
        match event.key().as_str() {
            "ArrowDown" => place.set((now + 1).min(shown.len().saturating_sub(1) as u64)),
            "ArrowUp" => place.set(now.saturating_sub(1)),
            "Enter" => {
                if let Some(item) = usize::try_from(now).ok().and_then(|at| shown.get(at)) {
                    go(page, &item.aim);
                    close();
                }
            }
            _ => return,
        }
        event.prevent_default();
        if let Some(option) = document().get_element_by_id(&option_id(place.get_untracked())) {
            option.scroll_into_view_with_bool(false);
        }
    };
    let list = move || {
        let Some(Found { shown, more }) = all() else { return nothing() };
        if shown.is_empty() {
            return view! { <p class="hint">"Nothing has all of these words. A config of your own can be opened in Growth."</p> }
                .into_any();
        }
        let option = |(at, item): (u64, &'static index::Item)| {
            let open = move |_: ev::MouseEvent| {
                go(page, &item.aim);
                close();
            };
            view! {
                <li role="option" id=option_id(at) aria-selected=truth(move || place.get() == at) on:click=on(open)>
                    <span>{item.name.as_str()}<span class="note">{item.about}</span></span>
                    <span class="note">{item.kind}</span>
                </li>
            }
            .into_any()
        };
        let options: Vec<AnyView> = (0..).zip(shown).map(option).collect();
        let more = match more {
            0 => nothing(),
            more => view! { <p class="hint">{format!("and {more} more; another word narrows them")}</p> }
                .into_any(),
        };
        view! { <ul role="listbox" id="found" aria-label="Found">{options}</ul> {more} }.into_any()
    };
    let active = move || {
        let is_there = all().is_some_and(|found| !found.shown.is_empty());
        is_there.then(|| option_id(place.get()))
    };
    let spoken = move || match all() {
        None => String::new(),
        Some(Found { shown, more }) => format!("{} found", shown.len() + more),
    };
    // A click on the dialog itself, not on what is in it, is one outside of it.
    let outside = move |event: ev::MouseEvent| {
        let is_dialog =
            |target: web_sys::EventTarget| target.dyn_into::<web_sys::HtmlDialogElement>().is_ok();
        if event.target().is_some_and(is_dialog) {
            close();
        }
    };
    view! {
        <button type="button" class="find" aria-keyshortcuts="/ Control+K" on:click=on(move |_| show())>
            <span>"Find a model, field or view"</span><kbd aria-hidden="true">"/"</kbd>
        </button>
        <dialog
            node_ref=dialog
            class="search"
            aria-label="Find"
            on:close=on(move |_: ev::Event| sought.set(None))
            on:click=on(outside)
        >
            <input
                type="search"
                autofocus=true
                autocomplete="off"
                spellcheck="false"
                role="combobox"
                aria-expanded="true"
                aria-controls="found"
                aria-label="Find a model, form, field or view"
                aria-activedescendant=mark(active)
                placeholder="model, form, config field or view"
                prop:value=words(move || sought.get().unwrap_or_default())
                on:input=on(typed)
                on:keydown=on(key)
            />
            {part(list)}
            <p class="unseen" aria-live="polite">{words(spoken)}</p>
        </dialog>
    }
    .into_any()
}

fn option_id(place: u64) -> String {
    format!("found-{place}")
}

/// `/` outside of what is typed in, Ctrl-K or ⌘K anywhere.
fn asks_for_search(event: &ev::KeyboardEvent) -> bool {
    let with_control = event.ctrl_key() || event.meta_key();
    if event.key() == "k" {
        return with_control;
    }
    event.key() == "/" && !with_control && !event.alt_key() && !takes_text(event)
}

fn takes_text(event: &ev::KeyboardEvent) -> bool {
    let Some(element) = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok()) else {
        return false;
    };
    match element.tag_name().as_str() {
        "TEXTAREA" | "SELECT" => true,
        "INPUT" => element.get_attribute("type").is_none_or(|kind| !WITHOUT_TEXT.contains(&kind.as_str())),
        _ => false,
    }
}

/// Shows what was found: a view as it was left, a version among the drawn ones, or the versions that have a form or a field.
fn go(page: Page, aim: &Aim) {
    page.change(Step::Push, |view| match aim {
        Aim::View(room) => view.room = *room,
        Aim::Version(id) => {
            view.room = Room::Growth;
            if !view.models.iter().any(|known| known == id) {
                view.models.push((*id).to_owned());
            }
            view.selected = Some((*id).to_owned());
        }
        Aim::Listed(words) => {
            view.room = Room::Models;
            view.list.filter.clone_from(words);
        }
    });
}
