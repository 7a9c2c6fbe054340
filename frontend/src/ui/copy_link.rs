use leptos::ev;
use leptos::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::erased::{on, words};
use crate::state::Page;
use crate::state::address::link_to;

/// A button that copies the link of the view as it is.
pub(crate) fn copy_link(page: Page) -> AnyView {
    let said = RwSignal::new(None::<String>);
    let copy = move |_: ev::MouseEvent| {
        let link = untrack(|| page.view(link_to));
        let written = window().navigator().clipboard().write_text(&link);
        leptos::task::spawn_local(async move {
            let outcome = JsFuture::from(written).await;
            let words = if outcome.is_ok() { "copied" } else { "copy the address instead" };
            let _ = said.try_set(Some(words.to_owned()));
            set_timeout(move || drop(said.try_set(None)), std::time::Duration::from_secs(2));
        });
    };
    let shown = move || said.get().unwrap_or_else(|| "copy link".to_owned());
    view! { <button type="button" on:click=on(copy)>{words(shown)}</button> }.into_any()
}
