use leptos::ev;
use leptos::prelude::*;

use crate::erased::{Words, effect, mark, nothing, on, part, words};

/// A value that is edited in place: label left, value right. What cannot be used is answered with a sentence, and the
/// value stays.
#[component]
pub(crate) fn TextBox(
    /// What stands left of it.
    label: &'static str,
    /// Its name where the label alone says too little.
    name: &'static str,
    /// What stands behind the value.
    unit: &'static str,
    /// The value in words.
    value: fn(crate::state::Page) -> String,
    /// The value with all digits.
    exact: Words,
    /// Takes what was typed.
    take: fn(crate::state::Page, &str) -> Result<(), String>,
) -> impl IntoView {
    let page = expect_context::<crate::state::Page>();
    let refusal = RwSignal::new(None::<String>);
    let changed = move |event: ev::Event| match take(page, &event_target_value(&event)) {
        Ok(()) => {
            refusal.set(None);
            // Typing what is already set changes no signal, so the canonical words are put back by hand.
            event_target::<web_sys::HtmlInputElement>(&event).set_value(&untrack(|| value(page)));
        }
        Err(sentence) => refusal.set(Some(sentence)),
    };
    // A value that comes from elsewhere replaces what was typed, and the objection to it.
    effect(move || {
        let _ = value(page);
        refusal.set(None);
    });
    let select_all = |event: ev::FocusEvent| event_target::<web_sys::HtmlInputElement>(&event).select();
    let objection = move || match refusal.get() {
        Some(sentence) => view! { <p class="refused" role="alert">{sentence}</p> }.into_any(),
        None => nothing(),
    };
    view! {
        <label class="sentence">
            <span>{label}</span>
            <span class="value">
                <input
                    type="text"
                    autocomplete="off"
                    spellcheck="false"
                    aria-label=name
                    aria-invalid=mark(move || refusal.with(Option::is_some).then(|| "true".to_owned()))
                    data-value=exact
                    prop:value=words(move || value(page))
                    on:change=on(changed)
                    on:focus=on(select_all)
                />
                {unit}
            </span>
        </label>
        {part(objection)}
    }
    .into_any()
}
