use kvscope_charts::Ink;
use kvscope_sizing::{Bytes, Size, UnitSystem, Warning};
use leptos::prelude::*;

use super::published::published_note;
use crate::erased::{nothing, on, part, words};
use crate::state::{Chosen, Page, ink};

const HEAD: [&str; 7] = ["version", "layers", "resident", "slope", "fixed", "read a step", "config allows"];
/// Where what an engine reserves stands between them.
const RESERVED_AT: usize = 3;

/// The figures of every chosen version at the cursor, side by side.
pub(super) fn comparison(page: Page) -> AnyView {
    let head = move || {
        let mut names: Vec<String> = HEAD.map(str::to_owned).into();
        if let Some((engine, _)) = &page.chosen().engine {
            names.insert(RESERVED_AT, format!("reserved by {engine}"));
        }
        let cells = names.into_iter().map(|name| view! { <th scope="col">{name}</th> }.into_any());
        cells.collect::<Vec<AnyView>>().into_any()
    };
    let rows = move || {
        let rows: Vec<AnyView> = page.chosen().list.iter().map(|chosen| row(page, chosen)).collect();
        rows.into_any()
    };
    view! {
        <section class="comparison">
            <h2>{words(move || format!("Side by side at {} tokens", page.context()))}</h2>
            <div class="scroll" tabindex="0" role="region" aria-label="Figures of the chosen versions">
                <table class="side-by-side">
                    <thead><tr>{part(head)}</tr></thead>
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
    let size = size(page, chosen);
    let reserved = page.chosen().reserved(chosen, (page.context(), page.batch()));
    let doubts = doubts(page, chosen, &size, reserved.as_ref());
    let cells = match &size {
        Ok(size) => figures(chosen, size, reserved.as_ref(), page.view(|view| view.units)),
        Err(_) => view! { <td colspan="7" class="refused">"not sized, see below"</td> }.into_any(),
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
        {doubts}
    }
    .into_any()
}

/// Under a version's figures: why there are none, what was assumed for them, and why an engine refuses it.
fn doubts(
    page: Page,
    chosen: &Chosen,
    size: &Result<Size, String>,
    reserved: Option<&Result<Bytes, String>>,
) -> AnyView {
    let mut told: Vec<Warning> = size.as_ref().map(|size| size.warnings.clone()).unwrap_or_default();
    let of_engine = page.chosen().assumptions(chosen, (page.context(), page.batch()));
    let own = told.len();
    // That the version is unknown stands beside its box.
    for warning in of_engine.into_iter().filter(|warning| warning.field != "engine") {
        if !told.contains(&warning) {
            told.push(warning);
        }
    }
    let engine = page.chosen().engine.as_ref().map(|(engine, _)| engine.to_string()).unwrap_or_default();
    let line = |(place, warning): (usize, Warning)| {
        let of = if place < own { String::new() } else { format!("{engine}: ") };
        view! { <li>{of}<b>{warning.field}</b>": "{warning.message}</li> }.into_any()
    };
    let mut lines: Vec<AnyView> = told.into_iter().enumerate().map(line).collect();
    if let Some(Err(why)) = reserved {
        let refusal = format!("{engine} reserves nothing for it: {why}");
        lines.insert(0, view! { <li class="refused" data-notice="engine-refusal">{refusal}</li> }.into_any());
    }
    if let Err(why) = size {
        lines.insert(0, view! { <li class="refused">{why.clone()}</li> }.into_any());
    }
    if lines.is_empty() {
        return nothing();
    }
    let name = format!("Assumptions of {}", chosen.name);
    view! {
        <tr class="under" data-doubts=chosen.id.clone()>
            <td colspan="8"><ul class="doubts" aria-label=name>{lines}</ul></td>
        </tr>
    }
    .into_any()
}

fn size(page: Page, chosen: &Chosen) -> Result<Size, String> {
    let state = chosen.state.as_ref().map_err(Clone::clone)?;
    let (context, batch) = (page.context(), page.batch());
    state.size(&chosen.id, Some(context), batch, &page.chosen().settings).map_err(|error| error.to_string())
}

fn figures(
    chosen: &Chosen,
    size: &Size,
    reserved: Option<&Result<Bytes, String>>,
    units: UnitSystem,
) -> AnyView {
    let bytes = |name: &'static str, bytes: Option<Bytes>| match bytes {
        Some(bytes) => figure(name, bytes.get().to_string(), &bytes.display(units), &bytes.to_string()),
        None => plain("unknown"),
    };
    let slope = size.slope_bytes_per_token;
    let exact_slope = slope.whole().map_or_else(|| slope.as_f64().to_string(), |whole| whole.to_string());
    let model = chosen.model.as_ref();
    let longest = model.and_then(|model| model.max_context());
    let mut cells: Vec<AnyView> = vec![
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
    match reserved {
        Some(Ok(reserved)) => cells.insert(RESERVED_AT - 1, bytes("reserved_bytes", Some(*reserved))),
        Some(Err(_)) => cells.insert(RESERVED_AT - 1, plain("refused")),
        None => {}
    }
    cells.into_any()
}

/// A cell whose exact value programs and pointers can read.
fn figure(name: &'static str, exact: String, shown: &str, all: &str) -> AnyView {
    view! { <td data-figure=name data-value=exact title=all.to_owned()>{shown.to_owned()}</td> }.into_any()
}

fn plain(words: &str) -> AnyView {
    view! { <td>{words.to_owned()}</td> }.into_any()
}
