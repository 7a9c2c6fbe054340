use leptos::prelude::*;

use crate::erased::{on, truth};

/// A few options side by side, one of them pressed.
#[component]
pub(crate) fn Choice(
    /// What is chosen, for those who do not see the row.
    label: &'static str,
    options: &'static [&'static str],
    /// The place of the pressed one.
    chosen: fn(crate::state::Page) -> usize,
    choose: fn(crate::state::Page, usize),
) -> impl IntoView {
    let page = expect_context::<crate::state::Page>();
    let button = |(place, name): (usize, &&'static str)| {
        view! {
            <button type="button" data-option=*name aria-pressed=truth(move || chosen(page) == place) on:click=on(move |_| choose(page, place))>
                {*name}
            </button>
        }
        .into_any()
    };
    let buttons: Vec<AnyView> = options.iter().enumerate().map(button).collect();
    view! { <div class="choice" role="group" aria-label=label>{buttons}</div> }.into_any()
}
