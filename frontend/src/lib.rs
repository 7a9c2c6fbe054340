//! The explorer: a page that runs in the browser.

use leptos::prelude::*;
use wasm_bindgen::prelude::wasm_bindgen;

/// Puts the page into the document; the boot script calls it through `init`.
#[wasm_bindgen(start)]
pub fn start() {
    console_error_panic_hook::set_once();
    leptos::mount::mount_to_body(|| view! { <main><h1>"kvscope"</h1></main> });
}
