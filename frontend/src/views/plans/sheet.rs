use kvscope_sizing::Warning;
use kvscope_sizing::plan::{Cell, Column, Moved, MovedInput, Sheet, SheetTable};
use leptos::prelude::*;

use super::asked::Answer;
use crate::erased::{nothing, on, truth};

/// Warnings, tables, what matters most, and how the figures come about.
pub(super) fn sheet(answer: &Answer, moves: RwSignal<bool>) -> AnyView {
    let sheet = &answer.sheet;
    let tables: Vec<AnyView> = sheet.tables.iter().map(table).collect();
    let notes = sheet.notes.iter().map(|note| view! { <p class="note">{note.clone()}</p> }.into_any());
    let notes: Vec<AnyView> = notes.collect();
    view! {
        {tables}
        {notes}
        {moved(&sheet.moved, moves)}
        {worked(sheet)}
    }
    .into_any()
}

/// Assumptions and doubts, each once.
pub(super) fn doubts(warnings: &[Warning]) -> AnyView {
    let mut told: Vec<String> = Vec::new();
    for warning in warnings {
        let line = warning.to_string();
        if !told.contains(&line) {
            told.push(line);
        }
    }
    if told.is_empty() {
        return nothing();
    }
    let lines: Vec<AnyView> = told.into_iter().map(|line| view! { <li>{line}</li> }.into_any()).collect();
    view! { <ul class="doubts" aria-label="Assumptions and doubts">{lines}</ul> }.into_any()
}

fn table(table: &SheetTable) -> AnyView {
    // Sentences have no room in a column: each stands under its row.
    let (columns, sentence) = match table.columns.split_last() {
        Some((last, others)) if last.field == "why" => (others, Some(others.len())),
        _ => (&table.columns[..], None),
    };
    let head = |column: &Column| view! { <th scope="col" class=side(column)>{column.head}</th> }.into_any();
    let head: Vec<AnyView> = columns.iter().map(head).collect();
    let rows: Vec<AnyView> = table.rows.iter().map(|cells| row(columns, cells, sentence)).collect();
    let (title, more) = table.caption.split_once(": ").unwrap_or((&table.caption, ""));
    let more =
        if more.is_empty() { nothing() } else { view! { <p class="quiet">{capital(more)}</p> }.into_any() };
    let (region, label) = (title.to_owned(), title.to_owned());
    view! {
        <section data-table=title.to_owned()>
            <h2>{capital(title)}</h2>
            {more}
            <div class="scroll" tabindex="0" role="region" aria-label=region>
                <table class="data" aria-label=label>
                    <thead><tr>{head}</tr></thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
        </section>
    }
    .into_any()
}

fn row(columns: &[Column], cells: &[Cell], sentence: Option<usize>) -> AnyView {
    let cell = |(column, cell): (&Column, &Cell)| {
        let field = (!column.field.is_empty()).then_some(column.field);
        view! {
            <td class=side(column) data-figure=field data-value=cell.exact.clone() title=cell.exact.clone()>
                {cell.shown.clone()}
            </td>
        }
        .into_any()
    };
    let row: Vec<AnyView> = columns.iter().zip(cells).map(cell).collect();
    let under = sentence.and_then(|place| cells.get(place)).map_or_else(nothing, |cell| {
        let across = columns.len().to_string();
        view! { <tr class="remark"><td colspan=across>{cell.shown.clone()}</td></tr> }.into_any()
    });
    view! { <tr>{row}</tr> {under} }.into_any()
}

fn side(column: &Column) -> Option<&'static str> {
    column.is_text.then_some("words")
}

/// A title begins with a capital on the page.
fn capital(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What a tenth of each input does to each answer, the one that matters most first: behind one click, since it takes many more
/// answers.
fn moved(all: &[Moved], moves: RwSignal<bool>) -> AnyView {
    let one = |moved: &Moved| {
        let most = moved.inputs.first().map_or("", |input| input.input);
        let input = |input: &MovedInput| {
            view! {
                <tr>
                    <td class="words">{input.input}</td>
                    <td data-value=input.less.exact.clone()>{input.less.shown.clone()}</td>
                    <td data-value=input.more.exact.clone()>{input.more.shown.clone()}</td>
                </tr>
            }
            .into_any()
        };
        let inputs: Vec<AnyView> = moved.inputs.iter().map(input).collect();
        view! {
            <p>{format!("To {}: {most}", moved.of)}</p>
            <table class="data few">
                <thead><tr>
                    <th scope="col" class="words">"input"</th>
                    <th scope="col">"a tenth less"</th>
                    <th scope="col">"a tenth more"</th>
                </tr></thead>
                <tbody>{inputs}</tbody>
            </table>
        }
        .into_any()
    };
    let shown = all.iter().filter(|_| moves.get_untracked());
    let shown: Vec<AnyView> = shown.map(one).collect();
    view! {
        <section class="moved">
            <div class="bar">
                <h2>"What matters most"</h2>
                <button
                    type="button"
                    aria-pressed=truth(move || moves.get())
                    on:click=on(move |_| moves.update(|open| *open = !*open))
                >
                    "±10 % of each input"
                </button>
            </div>
            {shown}
        </section>
    }
    .into_any()
}

fn worked(sheet: &Sheet) -> AnyView {
    if sheet.worked.is_empty() {
        return nothing();
    }
    let line = |(what, formula): &(String, String)| {
        view! { <dt>{what.clone()}</dt><dd>{formula.clone()}</dd> }.into_any()
    };
    let lines: Vec<AnyView> = sheet.worked.iter().map(line).collect();
    view! {
        <section>
            <details class="add">
                <summary>"how these figures come about"</summary>
                <dl class="worked">{lines}</dl>
            </details>
        </section>
    }
    .into_any()
}
