//! The address follows the view and, on "back" and "forward", the view the address.

use std::cell::RefCell;
use std::time::Duration;

use kvscope_protocol::ViewState;
use leptos::ev;
use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;
use wasm_bindgen::JsValue;

use super::{Model, Page, Step};

/// Before the reader's own configs.
const OWN_MARK: &str = "#own=";

/// How long small moves may go on before the address follows.
const SETTLE: Duration = Duration::from_millis(200);

thread_local! {
    /// The view that the address will show when moves have settled.
    static PENDING: RefCell<Option<(TimeoutHandle, String)>> = const { RefCell::new(None) };
    /// The reader's own configs as links carry them; empty where none is open.
    static OWN: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The view that the address asks for, and what it could not say.
pub(super) fn read() -> (ViewState, Option<String>) {
    let location = window().location();
    if let Some(own) = location.hash().unwrap_or_default().strip_prefix(OWN_MARK) {
        set_own(own);
    }
    let query = location.search().unwrap_or_default();
    let (view, notices) = ViewState::from_query(&query);
    let mut lines: Vec<String> = notices.iter().map(ToString::to_string).collect();
    lines.extend(
        view.models.iter().filter_map(|id| super::models::stray(id)).map(|why| format!("The link: {why}.")),
    );
    (view, (!lines.is_empty()).then(|| lines.join("\n")))
}

/// Follows the browser's history for as long as the page lives.
pub(super) fn follow(page: Page) {
    window_event_listener(ev::popstate, move |_| {
        drop_pending();
        let (view, notices) = read();
        page.view.set(view);
        page.notices.set(notices);
    });
}

/// Puts a changed view into the address.
pub(super) fn write(before: &ViewState, after: &ViewState, step: Step) {
    let query = after.to_query();
    match step {
        Step::Push => {
            // The entry that is left must hold the moves made since it was entered.
            if drop_pending() {
                enter(&before.to_query(), Step::Replace);
            }
            enter(&query, Step::Push);
        }
        Step::Replace => {
            drop_pending();
            let settled = move || {
                let pending = PENDING.with(RefCell::take);
                if let Some((_, query)) = pending {
                    enter(&query, Step::Replace);
                }
            };
            if let Ok(handle) = set_timeout_with_handle(settled, SETTLE) {
                PENDING.with(|pending| *pending.borrow_mut() = Some((handle, query)));
            }
        }
    }
}

/// The whole address of a view, for links and for copying.
pub(crate) fn link_to(view: &ViewState) -> String {
    let location = window().location();
    let origin = location.origin().unwrap_or_default();
    format!("{origin}{}", address(&view.to_query()))
}

/// Puts the view as it is into the entry of the browser's history that is open.
pub(crate) fn replace(view: &ViewState) {
    drop_pending();
    enter(&view.to_query(), Step::Replace);
}

/// The reader's own configs as links carry them.
pub(crate) fn own() -> String {
    OWN.with_borrow(String::clone)
}

pub(crate) fn set_own(own: &str) {
    OWN.with_borrow_mut(|known| own.clone_into(known));
}

/// Path, query and, where the query speaks of the reader's own configs, those.
fn address(query: &str) -> String {
    let mut address = window().location().pathname().unwrap_or_default();
    if !query.is_empty() {
        address.push('?');
        address.push_str(query);
    }
    let own = own();
    if !own.is_empty() && query.contains(Model::OWN) {
        address.push_str(OWN_MARK);
        address.push_str(&own);
    }
    address
}

fn drop_pending() -> bool {
    let pending = PENDING.with(RefCell::take);
    if let Some((handle, _)) = &pending {
        handle.clear();
    }
    pending.is_some()
}

fn enter(query: &str, step: Step) {
    let address = address(query);
    let Ok(history) = window().history() else { return };
    // A browser that refuses (too many changes a second) keeps an older address; the view is not touched.
    let _ = match step {
        Step::Push => history.push_state_with_url(&JsValue::NULL, "", Some(&address)),
        Step::Replace => history.replace_state_with_url(&JsValue::NULL, "", Some(&address)),
    };
}
