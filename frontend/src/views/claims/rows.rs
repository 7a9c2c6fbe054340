use std::sync::Arc;

use kvscope_protocol::{Room, ViewState};
use kvscope_sizing::claims::{CheckedClaim, Claim, Subject, VerdictKind, Working, publications};
use kvscope_sizing::find_entry;
use leptos::prelude::*;

use crate::erased::{nothing, on, part, truth};
use crate::state::{Page, Step};
use crate::ui::follow;

const COLUMNS: usize = 4;

/// The claims of one verdict.
pub(super) fn section(page: Page, kind: VerdictKind, rows: &[&'static CheckedClaim]) -> AnyView {
    let (title, says) = words(kind);
    let stated = if kind == VerdictKind::ByHand { "by hand" } else { "published" };
    let heading = format!("verdict-{}", kind.name());
    let head: Vec<AnyView> = ["statement", stated, "computed", "difference"]
        .map(|name| view! { <th scope="col">{name}</th> }.into_any())
        .into();
    let rows: Vec<AnyView> = rows.iter().map(|row| claim(page, row)).collect();
    view! {
        <section data-verdict=kind.name()>
            <h2 id=heading.clone()>{title}</h2>
            <p class="quiet">{says}</p>
            <table class="checked" aria-labelledby=heading>
                <thead><tr>{head}</tr></thead>
                {rows}
            </table>
        </section>
    }
    .into_any()
}

fn words(kind: VerdictKind) -> (&'static str, &'static str) {
    match kind {
        VerdictKind::Differs => (
            "Another figure comes out",
            "What was printed does not follow from the config, or from the source's own figures.",
        ),
        VerdictKind::Assumed => (
            "Holds under an assumption only",
            "The printed digits come out if what stands below each statement is assumed.",
        ),
        VerdictKind::Reproduced => ("Holds as printed", "The printed digits come out of the config alone."),
        VerdictKind::ByHand => (
            "Agrees with arithmetic by hand",
            "Nobody printed these: they were worked by hand from published configs and formulas.",
        ),
        VerdictKind::NotComputed => ("Not computed here", "No verdict: what is needed is not there."),
    }
}

/// The anchor of a claim.
pub(super) fn row_id(id: &str) -> String {
    format!("claim-{id}")
}

fn claim(page: Page, row: &'static CheckedClaim) -> AnyView {
    let claim = row.claim;
    let unit = claim.unit.name();
    let is_open = move || page.view(|view| view.claims.open.as_deref() == Some(claim.id.as_str()));
    let toggle = move |_| {
        page.change(Step::Push, |view| {
            let is_open = view.claims.open.as_ref() == Some(&claim.id);
            view.claims.open = (!is_open).then(|| claim.id.clone());
        });
    };
    let working = move || if is_open() { working(row) } else { nothing() };
    let computed = row.computed_words();
    let with_unit = |figure: String| if row.computed.is_some() { format!("{figure} {unit}") } else { figure };
    view! {
        <tbody id=row_id(&claim.id) data-claim=claim.id.as_str()>
            <tr>
                <th scope="row">
                    <button type="button" class="statement" aria-expanded=truth(is_open) on:click=on(toggle)>
                        {claim.statement.as_str()}
                    </button>
                    <p class="verdict-words">{row.verdict.as_str()}</p>
                    <p class="note">{source(claim)} {growth_link(page, claim)}</p>
                </th>
                <td>{format!("{} {unit}", claim.published_words())}</td>
                <td>{with_unit(computed)}</td>
                <td>{with_unit(row.difference_words())}</td>
            </tr>
            {part(working)}
        </tbody>
    }
    .into_any()
}

/// Where the figure was printed, with the addresses that are known.
fn source(claim: &'static Claim) -> AnyView {
    let url = publications()
        .iter()
        .find(|known| known.id == claim.publication)
        .and_then(|known| known.url.as_deref());
    match (&claim.cites, url) {
        (Some((name, url)), _) => {
            let before = claim.source.strip_suffix(name.as_str()).unwrap_or(&claim.source);
            view! { {before} {outside(url, name)} }.into_any()
        }
        (None, Some(url)) => outside(url, &claim.source),
        (None, None) => claim.source.as_str().into_any(),
    }
}

fn outside(url: &'static str, words: &'static str) -> AnyView {
    view! { <a href=url rel="noreferrer">{words}</a> }.into_any()
}

/// The growth of the versions that the claim speaks of, with its context and settings.
fn growth_link(page: Page, claim: &'static Claim) -> AnyView {
    let subject = claim.subject();
    let names: Vec<&str> =
        subject.models.iter().filter_map(|id| Some(find_entry(id).ok()?.name.as_str())).collect();
    let words = match names.as_slice() {
        [] => return nothing(),
        [one] => format!("growth of {one}"),
        many => format!("growth of the {} versions", many.len()),
    };
    let (link, open) = follow(page, Arc::new(move |view| show(view, &subject)));
    view! { " · " <a href=link on:click=open>{words}</a> }.into_any()
}

fn show(view: &mut ViewState, subject: &Subject) {
    view.room = Room::Growth;
    view.models.clone_from(&subject.models);
    view.selected = None;
    view.batch = 1;
    view.context = subject.context.unwrap_or(view.context);
    let settings = subject.settings.clone().unwrap_or_default();
    view.kv_format = settings.kv_dtype;
    view.index_format = settings.index_dtype;
    view.state_format = settings.state_dtype;
}

/// How the figure comes about.
fn working(row: &CheckedClaim) -> AnyView {
    let steps = match row.working() {
        Ok(steps) => steps_list(&steps),
        Err(error) => view! { <p class="refused">{error.to_string()}</p> }.into_any(),
    };
    view! { <tr class="working"><td colspan=COLUMNS.to_string()>{steps}</td></tr> }.into_any()
}

fn steps_list(steps: &[Working]) -> AnyView {
    let steps: Vec<AnyView> = steps
        .iter()
        .map(|step| {
            let parts = if step.parts.is_empty() { nothing() } else { steps_list(&step.parts) };
            view! {
                <li>
                    <span class="what">{step.what.clone()} ": "</span>
                    <code>{step.worked.clone()}</code>
                    {parts}
                </li>
            }
            .into_any()
        })
        .collect();
    view! { <ul>{steps}</ul> }.into_any()
}
