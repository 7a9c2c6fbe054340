use kvscope_sizing::catalogue;
use leptos::ev;
use leptos::prelude::*;

use super::take;
use crate::erased::{on, part, words};
use crate::state::Page;
use crate::ui::open_file;

/// One start an engine, so that the room can be tried without a log.
pub(super) const EXAMPLES: [(&str, &str); 3] = [
    ("vLLM", include_str!("../../../../assets/examples/vllm.log")),
    ("SGLang", include_str!("../../../../assets/examples/sglang.log")),
    ("llama.cpp", include_str!("../../../../assets/examples/llama.cpp.log")),
];

/// The box, ways to fill it, and the model to recompute for.
pub(super) fn source(page: Page) -> AnyView {
    let typed = move |event: ev::Event| page.log.set(Some(event_target_value(&event)));
    let clear = move |_| page.log.set(None);
    view! {
        <aside class="controls source" aria-label="Log and model">
            <section>
                <h2 id="log-text">"Start-up log"</h2>
                <textarea
                    rows="12"
                    wrap="off"
                    spellcheck="false"
                    autocomplete="off"
                    aria-labelledby="log-text"
                    aria-describedby="log-stays"
                    placeholder="Paste the lines that vLLM, SGLang or llama.cpp printed at start"
                    prop:value=words(move || page.log.get().unwrap_or_default())
                    on:input=on(typed)
                ></textarea>
                <p class="note" id="log-stays">"Read in this browser. The text is sent nowhere, and no link holds it."</p>
                {open_log(page)}
                <p class="examples">"or try an example, composed from published lines: " {examples(page)}</p>
                <button type="button" class="plain" on:click=on(clear)>"clear"</button>
            </section>
            <section>
                <h2>"Recompute for"</h2>
                {model(page)}
                {open_file(page, "Open the model's config", "open or drop its config.json")}
            </section>
        </aside>
    }
    .into_any()
}

fn open_log(page: Page) -> AnyView {
    let chosen = move |event: ev::Event| {
        let input = event_target::<web_sys::HtmlInputElement>(&event);
        if let Some(file) = input.files().and_then(|files| files.get(0)) {
            page.forget_refusals();
            super::open(page, &file);
        }
        // The same file can be opened again after it has grown.
        input.set_value("");
    };
    view! {
        <label class="open">
            "open or drop a log file"
            <input type="file" aria-label="Open a log" on:change=on(chosen)/>
        </label>
    }
    .into_any()
}

pub(super) fn examples(page: Page) -> AnyView {
    let button = |(engine, text): (&'static str, &'static str)| {
        view! {
            <button type="button" class="plain" data-example=engine on:click=on(move |_| show(page, text))>
                {engine}
            </button>
            " "
        }
        .into_any()
    };
    EXAMPLES.into_iter().map(button).collect::<Vec<_>>().into_any()
}

fn show(page: Page, example: &str) {
    page.forget_refusals();
    take(page, example.to_owned());
}

/// The version that the figures are recomputed for: the log's own, one that was opened here, or one of the catalogue.
fn model(page: Page) -> AnyView {
    let choose = move |event: ev::Event| {
        let id = event_target_value(&event);
        page.log_model.set((!id.is_empty()).then_some(id));
    };
    let option = move |id: String, name: String| {
        let own = id.clone();
        let is_chosen = move || page.log_model.with(|chosen| chosen.as_deref().unwrap_or_default() == own);
        let is_chosen: Box<dyn Fn() -> bool + Send> = Box::new(is_chosen);
        view! { <option value=id prop:selected=is_chosen>{name}</option> }.into_any()
    };
    let options = move || {
        let opened = page.opened.with(|opened| opened.models.clone());
        let own = opened.iter().map(|model| (model.id.clone(), model.name.clone()));
        let known = catalogue().iter().map(|entry| (entry.id.clone(), entry.name.clone()));
        let first = std::iter::once((String::new(), "the log's model".to_owned()));
        let options: Vec<AnyView> =
            first.chain(own).chain(known).map(|(id, name)| option(id, name)).collect();
        options.into_any()
    };
    view! {
        <label class="sentence">
            <span>"model"</span>
            <span class="value"><select aria-label="Model to recompute for" on:change=on(choose)>{part(options)}</select></span>
        </label>
    }
    .into_any()
}
