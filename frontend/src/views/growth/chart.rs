use std::sync::Arc;

use kvscope_charts::figures::{GrowthInput, Hit, contexts_around};
use kvscope_charts::scene::Point;
use kvscope_charts::{Growth, Size};
use kvscope_protocol::AxisScale;
use kvscope_sizing::{ByteKind, Tokens};
use leptos::ev;
use leptos::prelude::*;

use super::curves::{Curves, Room, cursor, curves};
use super::exports;
use super::keys::move_by_key;
use super::room::room;
use super::tooltip::tooltip;
use crate::canvas::{Drawn, DrawnMemo, Figure, Layout};
use crate::erased::{effect, mark, nothing, on, part, words};
use crate::state::{Page, Shared, Step};
use crate::ui::{Choice, DataTable, figure_bar, units_choice};

/// The growth figure with its row of choices, its tooltip and its table.
pub(super) fn growth_chart(page: Page) -> AnyView {
    let width = RwSignal::new(0.0);
    let table_is_open = RwSignal::new(false);
    // The axis changes only when the cursor leaves it, so its octaves are a memo of their own.
    let octaves = Memo::new(move |_| {
        let (low, high) = contexts_around(page.context());
        u64::from(low.get().ilog2()) * 64 + u64::from(high.get().ilog2())
    });
    let domain = move || {
        let octaves = octaves.get();
        (Tokens::new(1 << (octaves / 64)), Tokens::new(1 << (octaves % 64)))
    };
    // Values are computed once a change of what is asked; axes and units draw the same ones anew.
    let data = Memo::new(move |_| Shared::new(curves(page, domain(), width.get())));
    // Without a curve there is no figure that the page waits for.
    effect(move || {
        if !data.get().has_figures() {
            page.ready.set(true);
        }
    });
    let base: DrawnMemo = Memo::new(move |_| growth(page, &data.get(), domain(), width.get()));
    let overlay: DrawnMemo = Memo::new(move |_| {
        let emphasis = page.hover.with(|hover| hover.as_ref().and_then(|(_, hit)| hit.nearest));
        with_growth(base.get(), |growth| {
            Drawn::plain(growth.overlay(&cursor(page, growth, page.cursor(), emphasis)))
        })
    });
    let sentence = move || match base.get() {
        Some(drawn) => format!("{} Arrow keys move the cursor.", drawn.scene.description),
        None => "No curve is drawn.".to_owned(),
    };
    let why_empty = move || {
        if data.get().has_figures() {
            ""
        } else if page.chosen().list.is_empty() {
            "Choose a version to see its curve."
        } else {
            "No curve: none of the versions has a figure. Each says why below."
        }
    };
    let spoken = move || {
        let at = |growth: &Growth| growth.overlay(&cursor(page, growth, page.context(), None)).description;
        with_growth(base.get(), at).unwrap_or_else(|| why_empty().to_owned())
    };
    let hit_at =
        move |point: Point| -> Option<Hit> { with_growth(base.get_untracked(), |growth| growth.hit(point))? };

    // Pointer moves come faster than frames; only the last one before a frame counts.
    let waiting = StoredValue::new(None::<Point>);
    let pointer_moved = move |event: ev::PointerEvent| {
        let point = Point::new(f64::from(event.offset_x()), f64::from(event.offset_y()));
        if waiting.get_value().is_none() {
            request_animation_frame(move || {
                let Some(Some(point)) = waiting.try_update_value(Option::take) else { return };
                page.hover.set(hit_at(point).map(|hit| (point, hit)));
            });
        }
        waiting.set_value(Some(point));
    };
    let release = move || {
        waiting.set_value(None);
        page.hover.set(None);
    };
    on_cleanup(move || page.hover.set(None));
    let pin = move |event: ev::MouseEvent| {
        let point = Point::new(f64::from(event.offset_x()), f64::from(event.offset_y()));
        if let Some(hit) = hit_at(point) {
            page.change(Step::Push, |view| view.context = hit.context);
        }
    };
    let key = move |event: ev::KeyboardEvent| {
        if move_by_key(page, &event) {
            event.prevent_default();
            release();
        }
    };
    let tip = move || match page.hover.get() {
        Some((at, hit)) => tooltip(page, width.get(), at, &hit),
        None => nothing(),
    };
    let instead = move || match why_empty() {
        "" => nothing(),
        why => view! { <p class="empty" aria-hidden="true">{why}</p> }.into_any(),
    };
    let table = move || {
        if !table_is_open.get() {
            return nothing();
        }
        let with_set = |growth: &Growth| growth.table(Some(&cursor(page, growth, page.context(), None)));
        with_growth(base.get(), with_set).map_or_else(nothing, |table| {
            view! { <DataTable caption="State in bytes by context" table=table/> }.into_any()
        })
    };

    view! {
        <div class="bar">
            <Choice label="Which bytes" options=&["resident", "read", "persisted", "transferred"] chosen=bytes_place choose=set_bytes/>
            <Choice label="Byte axis" options=&["log", "linear", "× first"] chosen=scale_place choose=set_scale/>
            {units_choice()}
            {figure_bar(page, "growth", table_is_open, Arc::new(move |origin| exports::growth(page, origin)))}
        </div>
        <div
            class="figure"
            role="img"
            tabindex="0"
            aria-label=mark(move || Some(sentence()))
            on:pointermove=on(pointer_moved)
            on:pointerleave=on(move |_| release())
            on:click=on(pin)
            on:keydown=on(key)
        >
            <Figure name="growth" width=width base=base overlay=overlay/>
            {part(tip)}
            {part(instead)}
        </div>
        <p class="unseen" aria-live="polite">{words(spoken)}</p>
        <div aria-live="polite">{part(move || room(page, &data.get()))}</div>
        {part(table)}
    }
    .into_any()
}

fn growth(page: Page, curves: &Curves, domain: (Tokens, Tokens), width: f64) -> Option<Shared<Drawn>> {
    let units = page.view(|view| view.units);
    let mut limits: Vec<_> = curves.room.iter().map(Room::level).collect();
    limits.extend(curves.beside_weights.iter().flat_map(|left| left.levels(units)));
    let input = GrowthInput {
        contexts: &curves.contexts,
        series: &curves.lines,
        domain,
        scale: exports::scale(page),
        units,
        bytes: page.drawn().bytes,
        size: Size::new(width, (width * 0.46).clamp(300.0, 560.0)),
        measured: &[],
        limits: &limits,
        ranks: curves.ranks,
    };
    if !curves.has_figures() {
        return None;
    }
    // Without room there is no figure yet.
    let growth = Growth::layout(&input).ok()?;
    Some(Shared::new(Drawn { scene: growth.scene().clone(), layout: Layout::Growth(Box::new(growth)) }))
}

fn with_growth<T>(drawn: Option<Shared<Drawn>>, ask: impl FnOnce(&Growth) -> T) -> Option<T> {
    match &drawn?.layout {
        Layout::Growth(growth) => Some(ask(growth)),
        Layout::Layers(_) | Layout::Plain => None,
    }
}

fn scale_place(page: Page) -> usize {
    page.view(|view| view.scale) as usize
}

fn set_scale(page: Page, place: usize) {
    page.change(Step::Push, |view| view.scale = AxisScale::ALL[place]);
}

fn bytes_place(page: Page) -> usize {
    page.view(|view| view.bytes) as usize
}

fn set_bytes(page: Page, place: usize) {
    page.change(Step::Push, |view| view.bytes = ByteKind::ALL[place]);
}
