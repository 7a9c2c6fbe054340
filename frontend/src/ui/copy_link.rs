use std::time::Duration;

use leptos::ev;
use leptos::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::erased::{on, words};
use crate::own_link;
use crate::state::Page;
use crate::state::address::link_to;

/// How long "copied" stays; what a link leaves out stays until the next time.
const SAID_FOR: Duration = Duration::from_secs(2);

/// A button that copies the link of the view as it is, with what the link leaves out said beside it.
pub(crate) fn copy_link(page: Page) -> AnyView {
    let said = RwSignal::new(None::<String>);
    let copy = move |_: ev::MouseEvent| {
        let (link, left_out) = untrack(|| (page.view(link_to), own_link::left_out(page)));
        let written = window().navigator().clipboard().write_text(&link);
        leptos::task::spawn_local(async move {
            let is_copied = JsFuture::from(written).await.is_ok();
            let sentence = match left_out {
                _ if !is_copied => "copy the address instead".to_owned(),
                Some(left_out) => {
                    let _ = said.try_set(Some(left_out));
                    return;
                }
                None => "copied".to_owned(),
            };
            let _ = said.try_set(Some(sentence));
            set_timeout(move || drop(said.try_set(None)), SAID_FOR);
        });
    };
    let shown = move || said.get().unwrap_or_default();
    view! {
        <button type="button" class="copies" on:click=on(copy)>"copy link"</button>
        <span class="note" role="status">{words(shown)}</span>
    }
    .into_any()
}
