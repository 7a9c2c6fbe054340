use std::sync::Arc;

use kvscope_protocol::ViewState;
use leptos::ev;

use crate::erased::{Handler, Words, on, words};
use crate::state::address::link_to;
use crate::state::{Page, Step};

/// What following a link does to the view.
pub(crate) type Change = Arc<dyn Fn(&mut ViewState) + Send + Sync>;

/// The address and the click of a link within the page: it keeps everything else as it is, and opens elsewhere where the
/// browser is asked to.
pub(crate) fn follow(page: Page, change: Change) -> (Words, Handler<ev::MouseEvent>) {
    let changed = Arc::clone(&change);
    let link = move || {
        page.view(|view| {
            let mut view = view.clone();
            changed(&mut view);
            link_to(&view)
        })
    };
    let open = move |event: ev::MouseEvent| {
        if event.ctrl_key() || event.meta_key() || event.shift_key() {
            return;
        }
        event.prevent_default();
        page.change(Step::Push, |view| change(view));
    };
    (words(link), on(open))
}
