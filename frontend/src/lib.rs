//! The explorer: a page that runs in the browser, with or without an agent behind it.
//!
//! Nothing is computed here. State and bytes come from `kvscope_sizing`, figures from `kvscope_charts`, the link from
//! `kvscope_protocol`; this crate holds the controls, the canvases and the wiring between them.

#![allow(unreachable_pub, reason = "the component macro makes its functions `pub`, whatever is written")]

mod agent_client;
mod app;
mod bench;
mod canvas;
mod erased;
mod files;
mod find;
mod own_link;
mod state;
mod ui;
mod views;

use wasm_bindgen::prelude::wasm_bindgen;

/// Puts the page into the document; the boot script calls it through `init`.
#[wasm_bindgen(start)]
pub fn start() {
    console_error_panic_hook::set_once();
    bench::install();
    leptos::mount::mount_to_body(app::App);
}
