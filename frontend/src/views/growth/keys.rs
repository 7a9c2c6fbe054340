//! The growth figure by keyboard: arrows move the cursor by tick (by step with Shift) and the selection by curve.

use leptos::ev;
use leptos::prelude::*;

use crate::state::{Page, Step};
use crate::ui::context_steps::{self, Direction};

/// Whether the key was one of the figure's.
pub(super) fn move_by_key(page: Page, event: &ev::KeyboardEvent) -> bool {
    if event.ctrl_key() || event.meta_key() || event.alt_key() {
        return false;
    }
    let now = untrack(|| page.context());
    let step = context_steps::nearest(now);
    let to = match (event.key().as_str(), event.shift_key()) {
        ("ArrowRight", false) => context_steps::next_tick(now, Direction::Up),
        ("ArrowLeft", false) => context_steps::next_tick(now, Direction::Down),
        ("ArrowRight", true) => context_steps::at(step + 1),
        ("ArrowLeft", true) => context_steps::at(step.saturating_sub(1)),
        ("Home", _) => context_steps::FIRST,
        ("End", _) => context_steps::LAST,
        ("ArrowUp", _) => return select_neighbour(page, Direction::Up),
        ("ArrowDown", _) => return select_neighbour(page, Direction::Down),
        ("Escape", _) => return true,
        _ => return false,
    };
    page.change(Step::Replace, |view| view.context = to);
    true
}

/// Selects the version whose curve is next above or below that of the selected one.
fn select_neighbour(page: Page, direction: Direction) -> bool {
    let (chosen, context) = untrack(|| (page.chosen(), page.context()));
    let all = || {
        chosen
            .sized()
            .filter_map(|(chosen, state)| Some((state.resident(context, 1).ok()?.get(), &chosen.id)))
    };
    let selected = all().find(|(_, id)| untrack(|| page.is_selected(id)));
    let next = match (selected, direction) {
        (Some(now), Direction::Up) => all().filter(|other| *other > now).min(),
        (Some(now), Direction::Down) => all().filter(|other| *other < now).max(),
        (None, _) => all().max(),
    };
    if let Some((_, id)) = next {
        page.change(Step::Replace, |view| view.selected = Some(id.clone()));
    }
    true
}
