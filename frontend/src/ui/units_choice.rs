use kvscope_sizing::UnitSystem;
use leptos::prelude::*;

use super::Choice;
use crate::state::{Page, Step};

/// Decimal or binary bytes.
pub(crate) fn units_choice() -> AnyView {
    view! { <Choice label="Units" options=&["GB", "GiB"] chosen=units_place choose=set_units/> }.into_any()
}

fn units_place(page: Page) -> usize {
    usize::from(page.view(|view| view.units == UnitSystem::Binary))
}

fn set_units(page: Page, place: usize) {
    page.change(Step::Push, |view| {
        view.units = if place == 1 { UnitSystem::Binary } else { UnitSystem::Decimal }
    });
}
