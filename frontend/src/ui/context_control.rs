use kvscope_sizing::{Tokens, group_digits};
use leptos::prelude::*;

use super::{TextBox, context_steps};
use crate::state::{Page, Step};

/// The context: a box for any length, a slider for sixteen steps an octave.
#[component]
pub(crate) fn ContextControl() -> impl IntoView {
    let page = expect_context::<Page>();
    let take = move |text: &str| {
        let context: Tokens = text.parse().map_err(|error: kvscope_sizing::Error| error.to_string())?;
        page.change(Step::Push, |view| view.context = context);
        Ok(())
    };
    let slide = move |event: leptos::ev::Event| {
        if let Ok(step) = event_target_value(&event).parse() {
            page.change(Step::Replace, |view| view.context = context_steps::at(step));
        }
    };
    let words = move || page.context.get().to_string();
    view! {
        <div class="context">
            <TextBox
                label="Context"
                name="Context in tokens"
                unit="tokens"
                value=Signal::derive(words)
                exact=Signal::derive(move || page.context.get().get())
                take=take
            />
            <input
                type="range"
                aria-label="Context"
                min="0"
                max=context_steps::STEPS.to_string()
                step="1"
                aria-valuetext=move || format!("{} tokens", group_digits(page.context.get().get()))
                prop:value=move || context_steps::nearest(page.context.get()).to_string()
                on:input=slide
            />
            <p class="ends" aria-hidden="true"><span>"1Ki"</span><span>"32Ki"</span><span>"1Mi"</span></p>
        </div>
    }
}
