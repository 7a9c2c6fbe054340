//! Logical and reserved bytes of one version side by side, and what lies between them.

use kvscope_sizing::engine::{Padding, Reservation, ReservedPart, Rest};
use kvscope_sizing::{Bytes, UnitSystem};
use leptos::prelude::*;

use crate::erased::nothing;
use crate::state::Page;

/// The two accountings of the selected version; nothing where logical bytes alone are shown.
pub(super) fn beside(page: Page) -> AnyView {
    let Some(chosen) = page.selected() else { return nothing() };
    let set = page.chosen();
    let engine = set.engine.as_ref().map(|(engine, _)| engine.to_string()).unwrap_or_default();
    match set.reservation(&chosen, (page.context(), page.batch())) {
        None => nothing(),
        Some(Err(why)) => {
            view! { <p class="refused">{format!("{engine} reserves nothing for {}: {why}", chosen.name)}</p> }
                .into_any()
        }
        Some(Ok(beside)) => {
            let title = format!("{}, logical and reserved at {} tokens", chosen.name, page.context());
            let ranks = ranks(page);
            let note = format!("Reserved by {engine}{ranks}, for the whole batch.");
            view! {
                <section class="beside">
                    <h2>{title}</h2>
                    <p class="quiet">{note}</p>
                    {parts(&beside, page.view(|view| view.units))}
                    {between(&beside, page.view(|view| view.units))}
                    {once(&beside, page.view(|view| view.units))}
                </section>
            }
            .into_any()
        }
    }
}

/// ` on one of 8 ranks`
pub(super) fn ranks(page: Page) -> String {
    let chosen = page.chosen();
    let Some((_, settings)) = &chosen.engine else { return String::new() };
    match settings.tp().saturating_mul(settings.pp()) {
        1 => String::new(),
        ranks => format!(" on one of {ranks} ranks"),
    }
}

fn parts(beside: &Reservation, units: UnitSystem) -> AnyView {
    let row = |what: &str, logical: Bytes, reserved: Bytes| {
        view! {
            <tr>
                <th scope="row">{what.to_owned()}</th>
                {bytes(logical, units)}
                {bytes(reserved, units)}
            </tr>
        }
        .into_any()
    };
    let part = |part: &ReservedPart| row(part.what, part.logical, part.reserved);
    let mut rows: Vec<AnyView> = beside.parts.iter().map(part).collect();
    rows.push(row("together", beside.logical, beside.reserved));
    view! {
        <table class="side-by-side parts">
            <thead>
                <tr><th scope="col">"part"</th><th scope="col">"logical"</th><th scope="col">"reserved"</th></tr>
            </thead>
            <tbody>{rows}</tbody>
        </table>
    }
    .into_any()
}

fn between(beside: &Reservation, units: UnitSystem) -> AnyView {
    let row = |what: &str, sign: &'static str, of: Bytes, why: &str| {
        view! {
            <tr data-padding=what.to_owned()>
                <th scope="row">{what.to_owned()}</th>
                <td data-value=of.get().to_string() title=of.to_string()>{sign}{of.display(units)}</td>
                <td>{why.to_owned()}</td>
            </tr>
        }
        .into_any()
    };
    let padding = |padding: &Padding| row(&padding.what, "+ ", padding.bytes, &padding.why);
    let mut rows: Vec<AnyView> = beside.padding.iter().map(padding).collect();
    match &beside.rest {
        Rest::None => {}
        Rest::More(of, why) => rows.push(row("kept otherwise", "+ ", *of, why)),
        Rest::Less(of, why) => rows.push(row("kept otherwise", "− ", *of, why)),
    }
    if rows.is_empty() {
        return view! { <p class="quiet">"Nothing lies between them: no padding at this length."</p> }
            .into_any();
    }
    view! {
        <table class="side-by-side between">
            <thead>
                <tr><th scope="col">"between them"</th><th scope="col">"bytes"</th><th scope="col">"why"</th></tr>
            </thead>
            <tbody>{rows}</tbody>
        </table>
    }
    .into_any()
}

/// What no request holds.
fn once(beside: &Reservation, units: UnitSystem) -> AnyView {
    let Some(why) = beside.once_why else { return nothing() };
    let words = format!("Besides, once for the whole pool: {}, {why}.", beside.once.display(units));
    view! { <p class="quiet">{words}</p> }.into_any()
}

fn bytes(of: Bytes, units: UnitSystem) -> AnyView {
    let shown = if of == Bytes::ZERO { "0 B".to_owned() } else { of.display(units) };
    view! { <td data-value=of.get().to_string() title=of.to_string()>{shown}</td> }.into_any()
}
