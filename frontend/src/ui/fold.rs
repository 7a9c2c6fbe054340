use leptos::prelude::*;

use crate::erased::{Words, mark, on, truth};

/// A part of the controls. On a narrow screen it folds into one line that says what is set.
#[component]
pub(crate) fn Fold(
    title: &'static str,
    /// What is set, in a few words; shown while folded.
    summary: Words,
    content: AnyView,
) -> impl IntoView {
    let open = RwSignal::new(false);
    view! {
        <section class="fold" data-open=mark(move || open.get().then(|| "true".to_owned()))>
            <h2>{title}</h2>
            <button
                type="button"
                class="unfold"
                aria-expanded=truth(move || open.get())
                on:click=on(move |_| open.update(|open| *open = !*open))
            >
                <span>{title}</span>
                <span class="value">{summary}</span>
            </button>
            <div class="folded">{content}</div>
        </section>
    }
    .into_any()
}
