use leptos::ev;
use leptos::html;
use leptos::prelude::*;

use crate::erased::on;
use crate::files;
use crate::state::Page;

/// Ways to open a config of one's own: a file, the clipboard; dropping on the page works anywhere.
#[component]
pub(crate) fn OwnConfig() -> impl IntoView {
    let page = expect_context::<Page>();
    let pasted = NodeRef::<html::Textarea>::new();
    let read = move |_: ev::MouseEvent| {
        if let Some(area) = pasted.get() {
            files::take(page, "pasted text", &area.value());
        }
    };
    view! {
        {open_file(page, "Open a config", "open or drop a config.json")}
        <details class="add">
            <summary>"paste one"</summary>
            <textarea rows="5" spellcheck="false" aria-label="Text of a config.json" node_ref=pasted></textarea>
            <button type="button" on:click=on(read)>"read it"</button>
        </details>
    }
    .into_any()
}

/// A link that opens the browser's file dialog.
pub(crate) fn open_file(page: Page, name: &'static str, words: &'static str) -> AnyView {
    let chosen = move |event: ev::Event| {
        let input = event_target::<web_sys::HtmlInputElement>(&event);
        if let Some(file) = input.files().and_then(|files| files.get(0)) {
            files::open(page, &file);
        }
        // The same file can be opened again after it was mended.
        input.set_value("");
    };
    view! {
        <label class="open">
            {words}
            <input type="file" aria-label=name accept=".json,.jsonl" on:change=on(chosen)/>
        </label>
    }
    .into_any()
}
