//! Logical and reserved bytes of one version side by side, and what lies between them.

use kvscope_charts::label::one_rank;
use kvscope_sizing::engine::{
    Engine, EngineSize, Figure, Padding, Quantity, Reservation, ReservedPart, Rest, has_setting,
};
use kvscope_sizing::{Bytes, Settings, UnitSystem};
use leptos::prelude::*;

use crate::erased::nothing;
use crate::state::{Accounting, Page};

/// Figures of the engine's pools.
const POOLS: [Quantity; 9] = [
    Quantity::NumBlocks,
    Quantity::MaxConcurrency,
    Quantity::MaxRunningRequests,
    Quantity::LoggedKvTokens,
    Quantity::EstimatedMaxModelLen,
    Quantity::PoolBytesPerToken,
    Quantity::PoolBytes,
    Quantity::CheckpointBytes,
    Quantity::OverestimateFactor,
];

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
            let units = page.view(|view| view.units);
            let title = format!("{}, logical and reserved at {} tokens", chosen.name, page.context());
            let note = format!("Reserved by {engine}{}, for the whole batch.", rank(page, ", "));
            // A pool that is set goes before the memory that one would be made in.
            let takes_memory = |(engine, settings): &(Engine, Settings)| {
                has_setting(engine.kind(), "available_kv_bytes") && settings.available_kv_bytes.is_none()
            };
            let memory = page.memory().filter(|_| set.engine.as_ref().is_some_and(takes_memory));
            let size = set.in_engine(Accounting::Reserved, &chosen, (page.context(), page.batch()), memory);
            let told = size.and_then(Result::ok).map_or_else(nothing, |size| told(&engine, &size, memory));
            view! {
                <section class="beside">
                    <h2>{title}</h2>
                    <p class="quiet">{note}</p>
                    {parts(&beside, units)}
                    {between(&beside, units)}
                    {decoding(&beside, units)}
                    {once(&beside, units)}
                    {told}
                </section>
            }
            .into_any()
        }
    }
}

/// `lead` and `one rank of 8`; nothing where figures are of the whole model.
pub(super) fn rank(page: Page, lead: &str) -> String {
    one_rank(lead, page.drawn().ranks().unwrap_or(1))
}

/// What says that logical bytes are not divided by ranks that hold other tokens.
pub(super) fn every_token(page: Page) -> &'static str {
    match &page.drawn().engine {
        Some((_, settings)) if settings.dcp() > 1 => ", every token",
        _ => "",
    }
}

/// That figures are of all ranks, where others beside them are of one.
pub(super) fn whole_model(page: Page) -> &'static str {
    if page.chosen().ranks().unwrap_or(1) > 1 { ", whole model" } else { "" }
}

/// Both accountings part by part; each opens how its reserved bytes come about.
fn parts(beside: &Reservation, units: UnitSystem) -> AnyView {
    let row = |what: &str, logical: Bytes, reserved: Bytes, worked: &Option<String>| {
        let number = |of: Bytes| {
            view! { <span class="number" data-value=of.get().to_string()>{shown(of, units)}</span> }
                .into_any()
        };
        // The arithmetic first, then what its numbers are.
        let worked = match worked.as_deref().map(|worked| worked.split_once("; ").unwrap_or((worked, ""))) {
            Some((sum, "")) => format!("reserved as {sum} = {reserved}"),
            Some((sum, numbers)) => format!("reserved as {sum} = {reserved}; {numbers}"),
            None => format!("reserved {reserved}, which is no one product"),
        };
        view! {
            <details class="component">
                <summary><span class="keeps">{what.to_owned()}</span>{number(logical)}{number(reserved)}</summary>
                <div class="derivation">
                    <p><code>{format!("logical {logical}")}</code></p>
                    <p><code>{worked}</code></p>
                </div>
            </details>
        }
        .into_any()
    };
    let part = |part: &ReservedPart| row(part.what, part.logical, part.reserved, &part.worked);
    let mut rows: Vec<AnyView> = beside.parts.iter().map(part).collect();
    rows.push(row("together", beside.logical, beside.reserved, &beside.worked));
    let logical = if beside.ranks > 1 { "logical, whole model" } else { "logical" };
    let reserved = format!("reserved{}", one_rank(", ", beside.ranks));
    view! {
        <div class="components parts">
            <p class="head" aria-hidden="true"><span>"part"</span><span>{logical}</span><span>{reserved}</span></p>
            {rows}
        </div>
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
    let signed = |what: &str, difference: &Rest| match difference {
        Rest::None => None,
        Rest::More(of, why) => Some(row(what, "+ ", *of, why)),
        Rest::Less(of, why) => Some(row(what, "− ", *of, why)),
    };
    let mut rows: Vec<AnyView> = signed(beside.division_words(), &beside.division).into_iter().collect();
    rows.extend(beside.padding.iter().map(padding));
    rows.extend(signed("kept otherwise", &beside.rest));
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

/// What the batch holds once it is admitted.
fn decoding(beside: &Reservation, units: UnitSystem) -> AnyView {
    let Some(held) = beside.decoding else { return nothing() };
    let words = format!("Held while the batch decodes: {}.", held.display(units));
    view! { <p class="quiet" data-value=held.get().to_string()>{words}</p> }.into_any()
}

/// What no request holds.
fn once(beside: &Reservation, units: UnitSystem) -> AnyView {
    let Some(why) = beside.once_why else { return nothing() };
    let words = format!("Besides, once for the whole pool: {}, {why}.", beside.once.display(units));
    view! { <p class="quiet">{words}</p> }.into_any()
}

/// What the engine has of its pools and prints about them, for the memory that is given.
fn told(engine: &str, size: &EngineSize, memory: Option<Bytes>) -> AnyView {
    let report = &size.report;
    let figure = |of: &(Quantity, Figure)| {
        let (quantity, figure) = *of;
        if !POOLS.contains(&quantity) {
            return None;
        }
        let label = report.label(quantity);
        let shown = match figure {
            Figure::Ratio(ratio) => format!("{ratio:.2}"),
            figure => figure.to_string(),
        };
        let exact = figure.whole().map_or_else(|| figure.as_f64().to_string(), |whole| whole.to_string());
        Some(
            view! { <p data-quantity=quantity.name() data-value=exact>{format!("{label}: {shown}")}</p> }
                .into_any(),
        )
    };
    let figures: Vec<AnyView> = report.figures.iter().filter_map(figure).collect();
    let lines = report.log_lines.iter().map(|line| view! { <p><code>{line.clone()}</code></p> }.into_any());
    let lines: Vec<AnyView> = lines.collect();
    if figures.is_empty() && lines.is_empty() {
        return nothing();
    }
    let given = memory.map_or(String::new(), |memory| format!(" in {}", memory.as_given()));
    view! {
        <section class="told">
            <p class="quiet">{format!("What {engine} has and prints{given}:")}</p>
            {figures}
            {lines}
        </section>
    }
    .into_any()
}

fn shown(of: Bytes, units: UnitSystem) -> String {
    if of == Bytes::ZERO { "0 B".to_owned() } else { of.display(units) }
}
