use std::sync::Arc;

use kvscope_charts::Ink;
use kvscope_charts::palette::{SeriesColour, assign_colours};
use kvscope_sizing::{BytesPerToken, CatalogueEntry, StateModel, lineage};
use leptos::prelude::*;

use super::choice::family_of;
use super::exports;
use crate::erased::{nothing, on, part, words};
use crate::state::{Page, ink};
use crate::ui::{Holds, export_menu};

/// The family of the second version, line by line, with the slope of each at the context; each can be either end.
pub(super) fn family(page: Page) -> AnyView {
    // Made anew with the family alone, so that choosing an end keeps the focus.
    let name = Memo::new(move |_| Some(family_of(page)));
    let rows = move || {
        let name = name.get().unwrap_or_default();
        let lines = lineage(&name);
        if lines.len() < 2 {
            return nothing();
        }
        let colours = assign_colours(&vec![name.as_str(); lines.len()]);
        let states: Vec<Option<StateModel>> = lines.iter().map(|(entry, _)| state(page, entry)).collect();
        let slope = |state: &Option<StateModel>| state.as_ref().and_then(|state| state.slope(None).ok());
        let most = states.iter().filter_map(slope).map(BytesPerToken::as_f64).fold(0.0, f64::max);
        let listed = |((entry, _), state): (&(&'static CatalogueEntry, usize), &Option<StateModel>)| {
            let slope = slope(state).map_or_else(String::new, BytesPerToken::exact);
            let slope = slope.trim_end_matches(" B/token").to_owned();
            vec![entry.name.clone(), entry.released.clone().unwrap_or_default(), slope]
        };
        let listed: Vec<Vec<String>> = lines.iter().zip(&states).map(listed).collect();
        let called = name.clone();
        let give = move |origin| Ok(exports::family(page, &called, listed.clone(), origin));
        let rows: Vec<AnyView> = lines
            .iter()
            .zip(states)
            .zip(colours)
            .map(|(((entry, depth), state), colour)| row(page, entry, *depth, state.as_ref(), most, colour))
            .collect();
        view! {
            <section class="family">
                <div class="heading">
                    <h2>{format!("{name}, version by version")}</h2>
                    {export_menu(page, "family", Holds::Table, Arc::new(give))}
                </div>
                <p class="quiet">"Each below the one that it followed; the bar is what one more token adds past every window."</p>
                <div class="scroll" tabindex="0" role="region" aria-label="Versions of the family">
                <table class="side-by-side">
                    <thead><tr>
                        <th scope="col">"version"</th><th scope="col">"released"</th><th scope="col">"slope"</th>
                        <td class="bars"></td><th scope="col">"from"</th><th scope="col">"to"</th>
                    </tr></thead>
                    <tbody>{rows}</tbody>
                </table>
                </div>
            </section>
        }
        .into_any()
    };
    part(rows).into_any()
}

/// Read by the formats that are set when the family is shown.
fn state(page: Page, entry: &CatalogueEntry) -> Option<StateModel> {
    let settings = page.view(kvscope_protocol::ViewState::settings);
    StateModel::new(&entry.architecture().ok()?, &settings).ok()
}

fn row(
    page: Page,
    entry: &'static CatalogueEntry,
    depth: usize,
    state: Option<&StateModel>,
    most: f64,
    colour: SeriesColour,
) -> AnyView {
    let slope = state.and_then(|state| state.slope(None).ok());
    let shown = slope.map_or_else(|| "–".to_owned(), |slope| slope.to_string());
    let width = slope.map_or(0.0, |slope| if most > 0.0 { slope.as_f64() / most * 100.0 } else { 0.0 });
    let exact = slope.map(BytesPerToken::exact);
    let end = |end: usize, name: &'static str| {
        let is_chosen: Box<dyn Fn() -> bool + Send> = Box::new(move || page.pair()[end] == entry.id);
        let choose = move |_: leptos::ev::Event| {
            let mut pair = untrack(|| page.pair());
            pair[end].clone_from(&entry.id);
            page.set_pair(pair);
        };
        let label = format!("{name} {}", entry.name);
        view! { <td><input type="radio" name=name aria-label=label prop:checked=is_chosen on:change=on(choose)/></td> }.into_any()
    };
    let class = move || if page.pair().contains(&entry.id) { "selected".to_owned() } else { String::new() };
    view! {
        <tr data-version=entry.id.as_str() class=words(class)>
            <th scope="row" style:padding-left=format!("{}px", depth.min(8) * 12)>
                <span class="name" style:color=ink(Ink::Series(colour))>{entry.name.as_str()}</span>
            </th>
            <td>{entry.released.as_deref().unwrap_or("–")}</td>
            <td title=exact>{shown}</td>
            <td class="bars"><span style:width=format!("{width:.2}%") style:background=ink(Ink::Series(colour))></span></td>
            {end(0, "from")}
            {end(1, "to")}
        </tr>
    }
    .into_any()
}
