use leptos::ev;
use leptos::html;
use leptos::prelude::*;

use crate::erased::on;
use crate::files;
use crate::state::Page;

/// Ways to open a model of one's own: a file, a folder, the clipboard; dropping on the page works anywhere.
#[component]
pub(crate) fn OwnConfig() -> impl IntoView {
    let page = expect_context::<Page>();
    let pasted = NodeRef::<html::Textarea>::new();
    let read = move |_: ev::MouseEvent| {
        if let Some(area) = pasted.get() {
            files::take_pasted(page, &area.value());
        }
    };
    view! {
        {open_file(page, "Open a config", "open or drop a config.json or GGUF")}
        {picker(page, "Open a folder", "open a model's folder", Pick::Folder)}
        <details class="add">
            <summary>"paste one"</summary>
            <textarea rows="5" spellcheck="false" aria-label="Text of a config.json" node_ref=pasted></textarea>
            <button type="button" on:click=on(read)>"read it"</button>
        </details>
    }
    .into_any()
}

/// What a file dialog gives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Pick {
    Files,
    Folder,
}

/// A link that opens the browser's file dialog.
pub(crate) fn open_file(page: Page, name: &'static str, words: &'static str) -> AnyView {
    picker(page, name, words, Pick::Files)
}

fn picker(page: Page, name: &'static str, words: &'static str, pick: Pick) -> AnyView {
    let chosen = move |event: ev::Event| {
        let input = event_target::<web_sys::HtmlInputElement>(&event);
        match (input.files(), pick) {
            (Some(files), Pick::Files) => {
                page.forget_refusals();
                files::open_all(page, &files::listed(&files));
            }
            (Some(files), Pick::Folder) => files::open_folder(page, files::listed(&files)),
            (None, _) => {}
        }
        // The same file can be opened again after it was mended.
        input.set_value("");
    };
    view! {
        <label class="open">
            {words}
            <input
                type="file"
                aria-label=name
                multiple=pick == Pick::Files
                accept=(pick == Pick::Files).then_some(".json,.jsonl,.gguf")
                prop:webkitdirectory=pick == Pick::Folder
                on:change=on(chosen)
            />
        </label>
    }
    .into_any()
}
