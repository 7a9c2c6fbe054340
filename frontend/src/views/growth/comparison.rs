use kvscope_charts::Ink;
use kvscope_sizing::{Bytes, Size, UnitSystem};
use leptos::prelude::*;

use super::published::published_note;
use crate::erased::{nothing, on, part, words};
use crate::state::{Chosen, Page, ink};

const HEAD: [&str; 7] = ["version", "layers", "resident", "slope", "fixed", "read a step", "config allows"];

/// The figures of every chosen version at the cursor, side by side.
pub(super) fn comparison(page: Page) -> AnyView {
    let head: Vec<AnyView> = HEAD.map(|name| view! { <th scope="col">{name}</th> }.into_any()).into();
    let rows = move || {
        let rows: Vec<AnyView> = page.chosen().list.iter().map(|chosen| row(page, chosen)).collect();
        rows.into_any()
    };
    view! {
        <section class="comparison">
            <h2>{words(move || format!("Side by side at {} tokens", page.context()))}</h2>
            <div class="scroll" tabindex="0" role="region" aria-label="Figures of the chosen versions">
                <table class="side-by-side">
                    <thead><tr>{head}</tr></thead>
                    <tbody>{part(rows)}</tbody>
                </table>
            </div>
            <p class="quiet">"Resident and read bytes are for the whole batch; slope (bytes that one more token adds) and fixed part (bytes that do not grow) for one request."</p>
        </section>
    }
    .into_any()
}

fn row(page: Page, chosen: &Chosen) -> AnyView {
    let (shown, selects) = (chosen.id.clone(), chosen.id.clone());
    let class = move || if page.is_selected(&shown) { "selected".to_owned() } else { String::new() };
    let note = chosen.model.as_ref().and_then(|model| model.entry).map_or_else(nothing, published_note);
    let cells = match size(page, chosen) {
        Ok(size) => figures(chosen, &size, page.view(|view| view.units)),
        Err(sentence) => view! { <td colspan="6" class="refused">{sentence}</td> }.into_any(),
    };
    view! {
        <tr data-model=chosen.id.clone() class=words(class)>
            <th scope="row">
                <button
                    type="button"
                    class="name"
                    style:color=ink(Ink::Series(chosen.colour))
                    on:click=on(move |_| page.select(&selects))
                >
                    {chosen.name.clone()}
                </button>
                {note}
            </th>
            {cells}
        </tr>
    }
    .into_any()
}

fn size(page: Page, chosen: &Chosen) -> Result<Size, String> {
    let state = chosen.state.as_ref().map_err(Clone::clone)?;
    let (context, batch) = (page.context(), page.batch());
    state.size(&chosen.id, Some(context), batch, &page.chosen().settings).map_err(|error| error.to_string())
}

fn figures(chosen: &Chosen, size: &Size, units: UnitSystem) -> AnyView {
    let bytes = |name: &'static str, bytes: Option<Bytes>| match bytes {
        Some(bytes) => figure(name, bytes.get().to_string(), &bytes.display(units), &bytes.to_string()),
        None => plain("unknown"),
    };
    let slope = size.slope_bytes_per_token;
    let exact_slope = slope.whole().map_or_else(|| slope.as_f64().to_string(), |whole| whole.to_string());
    let model = chosen.model.as_ref();
    let longest = model.and_then(|model| model.max_context());
    let cells: Vec<AnyView> = vec![
        plain(&model.map_or(0, |model| model.architecture.layer_count()).to_string()),
        bytes("resident_bytes", size.resident_bytes),
        figure("slope_bytes_per_token", exact_slope, &slope.to_string(), ""),
        match size.fixed_bytes {
            Bytes::ZERO => figure("fixed_bytes", "0".to_owned(), "0 B", ""),
            fixed => bytes("fixed_bytes", Some(fixed)),
        },
        bytes("read_bytes_per_step", size.read_bytes_per_step),
        plain(&longest.map_or("no limit named".to_owned(), |longest| format!("{} tokens", longest.short()))),
    ];
    cells.into_any()
}

/// A cell whose exact value programs and pointers can read.
fn figure(name: &'static str, exact: String, shown: &str, all: &str) -> AnyView {
    view! { <td data-figure=name data-value=exact title=all.to_owned()>{shown.to_owned()}</td> }.into_any()
}

fn plain(words: &str) -> AnyView {
    view! { <td>{words.to_owned()}</td> }.into_any()
}
