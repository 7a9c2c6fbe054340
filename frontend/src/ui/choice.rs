use leptos::prelude::*;

/// A few options side by side, one of them pressed.
#[component]
pub(crate) fn Choice<T>(
    /// What is chosen, for those who do not see the row.
    label: &'static str,
    options: &'static [(T, &'static str)],
    #[prop(into)] chosen: Signal<T>,
    choose: impl Fn(T) + Copy + 'static,
) -> impl IntoView
where
    T: Copy + PartialEq + Send + Sync + 'static,
{
    let button = move |&(option, name): &'static (T, &'static str)| {
        view! {
            <button
                type="button"
                aria-pressed=move || if chosen.get() == option { "true" } else { "false" }
                on:click=move |_| choose(option)
            >
                {name}
            </button>
        }
    };
    view! {
        <div class="choice" role="group" aria-label=label>
            {options.iter().map(button).collect_view()}
        </div>
    }
}
