use std::sync::Arc;

use kvscope_charts::Ink;
use kvscope_charts::label::one_rank;
use kvscope_protocol::{Room, ViewState};
use kvscope_sizing::engine::{EngineSize, Figure, Quantity};
use kvscope_sizing::{Bytes, Size, UnitSystem, Warning};
use leptos::prelude::*;

use super::beside::every_token;
use super::exports;
use super::published::published_note;
use crate::erased::{nothing, on, part, words};
use crate::state::{Accounting, Chosen, Page, ink};
use crate::ui::{Holds, export_menu, follow};

const HEAD: [&str; 7] = ["version", "resident", "slope", "fixed", "read a step", "layers", "config allows"];
/// Which of them are figures.
const FIGURES: std::ops::Range<usize> = 1..5;
/// Where the accounting of a row stands between them, beside an engine.
const ACCOUNTING_AT: usize = 1;
const OF_MODEL: [&str; 3] = ["resident_bytes", "slope_bytes_per_token", "fixed_bytes"];
const OF_RANK: [&str; 3] = ["rank_bytes", "rank_slope_bytes_per_token", "rank_fixed_bytes"];
const RESERVED: [&str; 3] = ["reserved_bytes", "reserved_slope_bytes_per_token", "reserved_fixed_bytes"];

/// The figures of every chosen version at the cursor, side by side.
pub(super) fn comparison(page: Page) -> AnyView {
    let head = move || {
        let mut names: Vec<&str> = HEAD.into();
        if page.chosen().engine.is_some() {
            names.insert(ACCOUNTING_AT, "accounting");
        }
        let cells = names.into_iter().map(|name| view! { <th scope="col">{name}</th> }.into_any());
        cells.collect::<Vec<AnyView>>().into_any()
    };
    let rows = move || {
        let rows: Vec<AnyView> = page.chosen().list.iter().map(|chosen| version(page, chosen)).collect();
        rows.into_any()
    };
    let by = move || match &page.chosen().engine {
        Some((engine, _)) => format!(" Reserved: by {engine}."),
        None => String::new(),
    };
    view! {
        <section class="comparison">
            <div class="heading">
                <h2>{words(move || format!("Side by side at {} tokens", page.context()))}</h2>
                {export_menu(page, "side-by-side", Holds::Table, Arc::new(move |origin| exports::comparison(page, origin)))}
            </div>
            {part(move || what_changed(page))}
            <div class="scroll" tabindex="0" role="region" aria-label="Figures of the chosen versions">
                <table class="side-by-side">
                    <thead><tr>{part(head)}</tr></thead>
                    {part(rows)}
                </table>
            </div>
            <p class="quiet">
                "Resident and read bytes are for the whole batch; slope (bytes that one more token adds) and fixed part (bytes that do not grow) for one request."
                {words(by)}
            </p>
        </section>
    }
    .into_any()
}

/// Of two versions: the way to what lies between them, cause by cause.
pub(crate) fn what_changed(page: Page) -> AnyView {
    let chosen = page.chosen();
    let [from, to] = chosen.list.as_slice() else { return nothing() };
    let text = format!("what changed from {} to {}", from.name, to.name);
    let pair = [from.id.clone(), to.id.clone()];
    let compare = move |view: &mut ViewState| {
        view.room = Room::Versions;
        view.versions.set_pair([&pair[0], &pair[1]]);
    };
    let (link, open) = follow(page, Arc::new(compare));
    view! { <p><a class="plain" href=link on:click=open>{text}</a></p> }.into_any()
}

/// The rows of a version: one an accounting, then what was assumed.
fn version(page: Page, chosen: &Chosen) -> AnyView {
    let (shown, selects) = (chosen.id.clone(), chosen.id.clone());
    let class = move || if page.is_selected(&shown) { "selected".to_owned() } else { String::new() };
    let note = chosen.model.as_ref().and_then(|model| model.entry()).map_or_else(nothing, published_note);
    let model = chosen.model.as_ref();
    let layers = model.map_or("–".to_owned(), |model| model.architecture.layer_count().to_string());
    let allowed = match model.map(|model| model.max_context()) {
        None => "–".to_owned(),
        Some(None) => "no limit named".to_owned(),
        Some(Some(allowed)) => format!("{} tokens", allowed.short()),
    };
    let size = size(page, chosen);
    let set = page.chosen();
    let in_engine = |of| set.in_engine(of, chosen, (page.context(), page.batch()), None);
    let reserved = in_engine(Accounting::Reserved);
    let doubts = doubts(page, chosen, &size, reserved.as_ref());
    let units = page.view(|view| view.units);
    let mut accounts: Vec<AnyView> = vec![match &size {
        Ok(size) => of_model(size, units),
        Err(_) => instead("not sized, see below"),
    }];
    if let Some(ranks) = set.ranks() {
        let logical = if ranks > 1 { "logical, whole model" } else { "logical" };
        accounts = vec![named(logical, accounts)];
    }
    if let Some(ranks) = set.ranks() {
        if let (Ok(_), Some(_), true) = (&size, &reserved, ranks > 1) {
            let cells = match in_engine(Accounting::Logical) {
                Some(Ok(size)) => in_accounting(OF_RANK, &size, units),
                _ => instead("no equal share"),
            };
            let name = one_rank("logical, ", ranks) + every_token(page);
            accounts.push(named(&name, vec![cells]));
        }
        let cells = match &reserved {
            Some(Ok(size)) => in_accounting(RESERVED, size, units),
            Some(Err(_)) => instead("refused, see below"),
            None => instead("not sized, see below"),
        };
        accounts.push(named(&format!("reserved{}", one_rank(", ", ranks)), vec![cells]));
    }
    let span = accounts.len().to_string();
    let mut accounts = accounts.into_iter();
    let first = accounts.next().unwrap_or_else(nothing);
    let rest: Vec<AnyView> = accounts.map(|cells| view! { <tr>{cells}</tr> }.into_any()).collect();
    view! {
        <tbody data-model=chosen.id.clone() class=words(class)>
            <tr>
                <th scope="rowgroup" rowspan=span.clone()>
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
                {first}
                <td rowspan=span.clone() data-label=HEAD[5]>{layers}</td>
                <td rowspan=span data-label=HEAD[6]>{allowed}</td>
            </tr>
            {rest}
            {doubts}
        </tbody>
    }
    .into_any()
}

/// Cells after the name of their accounting.
fn named(name: &str, cells: Vec<AnyView>) -> AnyView {
    view! { <th scope="row">{name.to_owned()}</th>{cells} }.into_any()
}

/// A word in place of figures.
fn instead(word: &'static str) -> AnyView {
    view! { <td colspan="4" class="refused">{word}</td> }.into_any()
}

fn of_model(size: &Size, units: UnitSystem) -> AnyView {
    let figures = [
        size.resident_bytes.map(Figure::Bytes),
        Some(Figure::Slope(size.slope_bytes_per_token)),
        Some(Figure::Bytes(size.fixed_bytes)),
    ];
    cells(OF_MODEL, figures, size.read_bytes_per_step.map(Figure::Bytes), units)
}

fn in_accounting(names: [&'static str; 3], size: &EngineSize, units: UnitSystem) -> AnyView {
    let figures = [Quantity::ResidentBytes, Quantity::SlopeBytesPerToken, Quantity::FixedBytesPerRequest]
        .map(|quantity| size.figure(quantity));
    cells(names, figures, None, units)
}

fn cells(
    names: [&'static str; 3],
    figures: [Option<Figure>; 3],
    read: Option<Figure>,
    units: UnitSystem,
) -> AnyView {
    let names = names.into_iter().chain(["read_bytes_per_step"]);
    let figures = figures.into_iter().chain([read]);
    let cells = names.zip(figures).zip(&HEAD[FIGURES]);
    cells.map(|((name, of), label)| figure(name, label, of, units)).collect::<Vec<_>>().into_any()
}

/// A cell whose exact value programs and pointers can read; a dash where there is none.
fn figure(name: &'static str, label: &'static str, of: Option<Figure>, units: UnitSystem) -> AnyView {
    let (shown, all) = match of {
        None => return view! { <td data-label=label>"–"</td> }.into_any(),
        Some(Figure::Bytes(Bytes::ZERO)) => ("0 B".to_owned(), String::new()),
        Some(Figure::Bytes(bytes)) => (bytes.display(units), bytes.to_string()),
        Some(Figure::Slope(slope)) => (slope.to_string(), slope.exact()),
        Some(other) => (other.to_string(), String::new()),
    };
    let exact = of.map_or(String::new(), exact);
    view! { <td data-figure=name data-label=label data-value=exact title=all>{shown}</td> }.into_any()
}

fn exact(of: Figure) -> String {
    of.whole().map_or_else(|| of.as_f64().to_string(), |whole| whole.to_string())
}

/// Under a version's figures: why there are none, what was assumed for them, and why an engine refuses it.
fn doubts(
    page: Page,
    chosen: &Chosen,
    size: &Result<Size, String>,
    reserved: Option<&Result<EngineSize, String>>,
) -> AnyView {
    let mut told: Vec<Warning> = size.as_ref().map(|size| size.warnings.clone()).unwrap_or_default();
    let of_engine = reserved.and_then(|size| Some(size.as_ref().ok()?.report.warnings.clone()));
    let own = told.len();
    // That the version is unknown stands beside its box.
    for warning in of_engine.unwrap_or_default().into_iter().filter(|warning| warning.field != "engine") {
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
