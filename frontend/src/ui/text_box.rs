use leptos::ev;
use leptos::prelude::*;

use crate::erased::{Words, effect, mark, nothing, on, part, words};

/// Takes what was typed, or says what is wrong with it.
pub(crate) type Take = Box<dyn Fn(&str) -> Result<(), String>>;

/// A value that is edited in place: label left, value right. What cannot be used is answered with a sentence, and the
/// value stays.
#[component]
pub(crate) fn TextBox(
    /// What stands left of it.
    #[prop(into)]
    label: String,
    /// Its name where the label alone says too little.
    #[prop(into)]
    name: String,
    /// What stands behind the value.
    unit: &'static str,
    /// The value in words.
    value: Box<dyn Fn() -> String + Send + Sync>,
    /// The value with all digits.
    #[prop(optional)]
    exact: Option<Words>,
    /// Takes what was typed.
    take: Take,
    /// What holds where nothing is typed.
    #[prop(optional)]
    usual: &'static str,
) -> impl IntoView {
    let refusal = RwSignal::new(None::<String>);
    let shown = Memo::new(move |_| Some(value()));
    let words_of = move || shown.get().unwrap_or_default();
    let changed = move |event: ev::Event| match take(&event_target_value(&event)) {
        Ok(()) => {
            refusal.set(None);
            // Typing what is already set changes no signal, so the canonical words are put back by hand.
            event_target::<web_sys::HtmlInputElement>(&event).set_value(&untrack(words_of));
        }
        Err(sentence) => refusal.set(Some(sentence)),
    };
    // A value that comes from elsewhere replaces what was typed, and the objection to it.
    effect(move || {
        let _ = words_of();
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
                    placeholder=usual
                    data-value=exact
                    prop:value=words(words_of)
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
