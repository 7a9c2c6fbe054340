use leptos::prelude::*;

use super::copy_link;
use super::export_menu::{Holds, Make, export_menu};
use crate::erased::{on, truth};
use crate::state::Page;

/// What can be done with a figure: its table, its exports, its link.
pub(crate) fn figure_bar(
    page: Page,
    stem: &'static str,
    table_is_open: RwSignal<bool>,
    make: Make,
) -> AnyView {
    view! {
        <div class="choice">
            {table_button(table_is_open)}
            {copy_link(page)}
            {export_menu(page, stem, Holds::Figure, make)}
        </div>
    }
    .into_any()
}

/// Opens and closes a figure's table.
fn table_button(table_is_open: RwSignal<bool>) -> AnyView {
    view! {
        <button
            type="button"
            aria-pressed=truth(move || table_is_open.get())
            on:click=on(move |_| table_is_open.update(|open| *open = !*open))
        >
            "table"
        </button>
    }
    .into_any()
}
