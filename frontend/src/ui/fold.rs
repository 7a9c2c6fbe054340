use leptos::prelude::*;

/// A part of the controls. On a narrow screen it folds into one line that says what is set.
#[component]
pub(crate) fn Fold(
    title: &'static str,
    /// What is set, in a few words; shown while folded.
    #[prop(into)]
    summary: Signal<String>,
    children: Children,
) -> impl IntoView {
    let open = RwSignal::new(false);
    view! {
        <section class="fold" data-open=move || open.get().then_some("true")>
            <h2>{title}</h2>
            <button
                type="button"
                class="unfold"
                aria-expanded=move || if open.get() { "true" } else { "false" }
                on:click=move |_| open.update(|open| *open = !*open)
            >
                <span>{title}</span>
                <span class="value">{move || summary.get()}</span>
            </button>
            <div class="folded">{children()}</div>
        </section>
    }
}
