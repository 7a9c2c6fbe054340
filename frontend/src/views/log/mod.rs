//! Log: what an engine's start-up log means, line by line, recomputed.

mod reading;
mod source;

use std::sync::Arc;

use kvscope_sizing::log::{LARGEST_LOG_BYTES, log_text};
use leptos::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::erased::{effect, nothing, part, words};
use crate::state::{Page, Step};
use crate::ui::{Holds, copy_link, export_menu};
use kvscope_protocol::Room;
use source::source;

/// The room that answers "what did my engine just say, and is it right?".
pub(crate) fn log_room(page: Page) -> AnyView {
    effect(move || page.ready.set(true));
    effect(move || document().set_title("Log · kvscope"));
    let said = RwSignal::new(None::<String>);
    let is_given =
        Memo::new(move |_| page.log.with(|log| log.as_deref().is_some_and(|log| !log.trim().is_empty())));
    let export = move || {
        if !is_given.get() {
            return nothing();
        }
        export_menu(page, "log", Holds::Table, Arc::new(move |origin| reading::export(page, origin)))
    };
    view! {
        <div class="log room">
            {source(page)}
            <main id="content">
                <div class="bar">
                    <div class="choice">
                        {copy_link(page)}
                        {part(export)}
                    </div>
                </div>
                {part(move || reading::reading(page, said))}
            </main>
            <p class="unseen" aria-live="polite">{words(move || said.get().unwrap_or_default())}</p>
        </div>
    }
    .into_any()
}

/// Whether a dropped file is taken for a log: by its name, or because nothing else is dropped on this room.
pub(crate) fn is_log(page: Page, file: &web_sys::File) -> bool {
    let name = file.name().to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    ends(&[".log", ".txt", ".out", ".err"])
        || (untrack(|| page.room()) == Room::Log && !ends(&[".json", ".jsonl", ".gguf"]))
}

/// Reads a file into the box.
pub(crate) fn open(page: Page, file: &web_sys::File) {
    let name = file.name();
    let size = file.size();
    if size > LARGEST_LOG_BYTES as f64 {
        let most = LARGEST_LOG_BYTES >> 20;
        let sentence = format!("{name}: larger than {most} MiB; give the lines of the start alone");
        page.refuse(&sentence);
        return;
    }
    let bytes = file.array_buffer();
    leptos::task::spawn_local(async move {
        match JsFuture::from(bytes).await {
            Ok(bytes) => take(page, log_text(&js_sys::Uint8Array::new(&bytes).to_vec())),
            Err(_) => page.refuse(&format!("{name}: the browser could not read it; is it still there?")),
        }
    });
}

/// Puts a whole log into the box and opens the room.
fn take(page: Page, text: String) {
    page.log.set(Some(text));
    page.change(Step::Push, |view| view.room = Room::Log);
}
