use leptos::ev;
use leptos::prelude::*;

/// A value that is edited in place: label left, value right. What cannot be used is answered with a sentence, and the
/// value stays.
#[component]
pub(crate) fn TextBox(
    /// What stands left of it.
    label: &'static str,
    /// Its name where the label alone says too little.
    name: &'static str,
    /// What stands behind the value.
    #[prop(optional)]
    unit: &'static str,
    /// The value in words.
    #[prop(into)]
    value: Signal<String>,
    /// The value with all digits.
    #[prop(into)]
    exact: Signal<u64>,
    /// Takes what was typed.
    take: impl Fn(&str) -> Result<(), String> + Copy + 'static,
) -> impl IntoView {
    let refusal = RwSignal::new(None::<String>);
    let changed = move |event: ev::Event| {
        match take(&event_target_value(&event)) {
            Ok(()) => {
                refusal.set(None);
                // Typing what is already set changes no signal, so the canonical words are put back by hand.
                event_target::<web_sys::HtmlInputElement>(&event).set_value(&value.get_untracked());
            }
            Err(sentence) => refusal.set(Some(sentence)),
        }
    };
    // A value that comes from elsewhere replaces what was typed, and the objection to it.
    Effect::new(move |_| {
        value.track();
        refusal.set(None);
    });
    let select_all = |event: ev::FocusEvent| event_target::<web_sys::HtmlInputElement>(&event).select();
    view! {
        <label class="sentence">
            <span>{label}</span>
            <span class="value">
                <input
                    type="text"
                    inputmode="text"
                    autocomplete="off"
                    spellcheck="false"
                    aria-label=name
                    aria-invalid=move || refusal.with(Option::is_some).then_some("true")
                    data-value=move || exact.get().to_string()
                    prop:value=move || value.get()
                    on:change=changed
                    on:focus=select_all
                />
                {unit}
            </span>
        </label>
        {move || refusal.get().map(|sentence| view! { <p class="refused" role="alert">{sentence}</p> })}
    }
}
