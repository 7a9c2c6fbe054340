use kvscope_sizing::Tokens;
use leptos::ev;
use leptos::prelude::*;

use super::{TextBox, context_steps};
use crate::erased::{on, words};
use crate::state::{Page, Step};

/// The context: a box for any length, a slider for sixteen steps an octave.
#[component]
pub(crate) fn ContextControl() -> impl IntoView {
    let page = expect_context::<Page>();
    let slide = move |event: ev::Event| {
        if let Ok(step) = event_target_value(&event).parse() {
            page.change(Step::Replace, |view| view.context = context_steps::at(step));
        }
    };
    view! {
        <div class="context">
            <TextBox
                label="Context"
                name="Context in tokens"
                unit="tokens"
                value=Box::new(move || page.context().to_string())
                exact=words(move || page.context().get().to_string())
                take=Box::new(move |text| take(page, text))
            />
            <input
                type="range"
                aria-label="Context"
                min="0"
                max=context_steps::STEPS.to_string()
                step="1"
                aria-valuetext=words(move || format!("{} tokens", page.context()))
                prop:value=words(move || context_steps::nearest(page.context()).to_string())
                on:input=on(slide)
            />
            <p class="ends" aria-hidden="true"><span>"1Ki"</span><span>"32Ki"</span><span>"1Mi"</span></p>
        </div>
    }
    .into_any()
}

fn take(page: Page, text: &str) -> Result<(), String> {
    let context: Tokens = text.parse().map_err(|error: kvscope_sizing::Error| error.to_string())?;
    page.change(Step::Push, |view| view.context = context);
    Ok(())
}
