//! Models: every version of the catalogue in one table that sorts, filters and chooses.

mod rows;

use std::sync::Arc;

use kvscope_charts::Export;
use kvscope_charts::versions::set;
use kvscope_protocol::{ListView, ModelColumn, Room, ViewState};
use kvscope_sizing::UnitSystem;
use leptos::ev;
use leptos::prelude::*;

use super::growth::what_changed;
use crate::erased::{effect, mark, on, part, words};
use crate::state::{Page, Shared, Step};
use crate::ui::{Holds, copy_link, export_menu, follow};
use rows::{Row, about, rows, sorted, table};

pub(crate) use rows::{fields, forms};

const NOTE: &str = "Logical bytes of one request, each model in its own formats unless others are set. Growth draws the ticked versions.";

/// The room that answers "which versions are there, and which keeps least?".
pub(crate) fn models_room(page: Page) -> AnyView {
    effect(move || page.ready.set(true));
    effect(move || document().set_title("Models · kvscope"));
    // The formats that are set, so that sorting and filtering size no version anew.
    let formats = Memo::new(move |_| Some(format!("{:?}", set(&page.view(ViewState::settings)))));
    let all = Memo::new(move |_| {
        let _ = formats.get();
        Shared::new(rows(&untrack(|| page.view(ViewState::settings))))
    });
    // What is sorted and filtered by, so that ticking a version makes no row anew.
    let asked = Memo::new(move |_| {
        let ListView { column, descends, filter } = page.view(|view| view.list.clone());
        Some(format!("{} {descends} {:?} {filter}", column.name(), page.view(|view| view.units)))
    });
    let body = move || {
        let _ = asked.get();
        let all = all.get();
        let units = untrack(|| page.view(|view| view.units));
        let shown: Vec<AnyView> =
            untrack(|| shown(page, &all)).into_iter().map(|row| line(page, row, units)).collect();
        if shown.is_empty() { none(page) } else { shown.into_any() }
    };
    let title = move || {
        let _ = asked.get();
        let all = all.get();
        untrack(|| about(&shown(page, &all), all.len()))
    };
    let give = move |origin| {
        let all = all.get();
        let shown = shown(page, &all);
        let inputs = set(&page.view(ViewState::settings));
        Ok(Export::of_table(about(&shown, all.len()), NOTE.to_owned(), inputs, table(&shown), origin))
    };
    let head: Vec<AnyView> = ModelColumn::ALL.into_iter().map(|column| heading(page, column)).collect();
    view! {
        <div class="models-list room">
            <section class="finding" aria-label="Finding">
                <h1 aria-live="polite">{words(title)}</h1>
                <p class="quiet">{NOTE}</p>
            </section>
            <main id="content">
                <div class="bar">
                    {filter(page)}
                    {compare_link(page)}
                    {part(move || what_changed(page))}
                    <div class="choice">{copy_link(page)} {export_menu(page, "versions", Holds::Table, Arc::new(give))}</div>
                </div>
                <div class="scroll" tabindex="0" role="region" aria-label="All versions">
                    <table class="side-by-side versions-table">
                        <thead><tr><th scope="col"><span class="unseen">"drawn in Growth"</span></th>{head}</tr></thead>
                        <tbody>{part(body)}</tbody>
                    </table>
                </div>
            </main>
        </div>
    }
    .into_any()
}

fn shown(page: Page, all: &[Row]) -> Vec<&Row> {
    page.view(|view| sorted(all, &view.list))
}

fn filter(page: Page) -> AnyView {
    let typed = move |event: ev::Event| {
        let text = event_target_value(&event);
        page.change(Step::Replace, |view| view.list.filter = text);
    };
    view! {
        <input
            type="search"
            class="filter"
            placeholder="name, form or config field"
            aria-label="Filter versions"
            prop:value=words(move || page.view(|view| view.list.filter.clone()))
            on:input=on(typed)
        />
    }
    .into_any()
}

/// To the curves of what is ticked.
fn compare_link(page: Page) -> AnyView {
    let (link, open) = follow(page, Arc::new(|view| view.room = Room::Growth));
    let text = move || match page.view(|view| view.models.len()) {
        0 => "tick versions to draw them".to_owned(),
        1 => "draw the ticked one".to_owned(),
        count => format!("draw the {count} ticked"),
    };
    view! { <p><a class="plain" href=link on:click=open>{words(text)}</a></p> }.into_any()
}

/// In place of rows, where the filter leaves none.
fn none(page: Page) -> AnyView {
    let show_all = move |_: ev::MouseEvent| page.change(Step::Push, |view| view.list.filter.clear());
    view! {
        <tr><td colspan="9" class="none">
            "No version has all of these words in its name, form or fields. "
            <button type="button" class="plain" on:click=on(show_all)>"Show all versions"</button>
        </td></tr>
    }
    .into_any()
}

/// A column's name, which sorts by it; once more turns the order.
fn heading(page: Page, column: ModelColumn) -> AnyView {
    let order = move || {
        page.view(|view| {
            let order = if view.list.descends { "descending" } else { "ascending" };
            (view.list.column == column).then(|| order.to_owned())
        })
    };
    let sort = move |_: ev::MouseEvent| {
        page.change(Step::Push, |view| {
            let again = view.list.column == column;
            view.list.descends = again && !view.list.descends;
            view.list.column = column;
        });
    };
    view! {
        <th scope="col" aria-sort=mark(order)>
            <button type="button" data-sort=column.name() on:click=on(sort)>{column.label()}</button>
        </th>
    }
    .into_any()
}

fn line(page: Page, row: &Row, units: UnitSystem) -> AnyView {
    let entry = row.entry;
    let is_chosen: Box<dyn Fn() -> bool + Send> =
        Box::new(move || page.view(|view| view.models.contains(&entry.id)));
    let label = format!("Draw {}", entry.name);
    let figures = row.cells(units);
    let cell = |(column, (shown, exact)): (ModelColumn, (String, String))| {
        view! { <td data-figure=column.name() data-value=exact>{shown}</td> }.into_any()
    };
    let cells: Vec<AnyView> = ModelColumn::ALL.into_iter().skip(1).zip(figures).map(cell).collect();
    view! {
        <tr data-row=entry.id.as_str()>
            <td><input type="checkbox" aria-label=label prop:checked=is_chosen on:change=on(move |_| page.toggle_model(&entry.id))/></td>
            <th scope="row">{entry.name.as_str()}</th>
            {cells}
        </tr>
    }
    .into_any()
}
