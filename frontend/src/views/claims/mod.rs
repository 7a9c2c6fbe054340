//! Claims: published figures beside the computed ones, what is wrong first.

mod filters;
mod rows;

use std::sync::{Arc, OnceLock};

use kvscope_charts::Export;
use kvscope_charts::export::Origin;
use kvscope_charts::figures::Table;
use kvscope_sizing::claims::{CheckedClaim, VerdictKind, check_claims, finding, publications};
use leptos::prelude::*;

use crate::erased::{effect, nothing, part};
use crate::state::{Page, Step};
use crate::ui::{Holds, copy_link, export_menu};
use filters::filters;

/// The room that answers "can these figures be trusted, and which published ones cannot?".
pub(crate) fn claims_room(page: Page) -> AnyView {
    effect(move || page.ready.set(true));
    effect(move || document().set_title("Claims · kvscope"));
    // A link to one claim opens on it.
    effect(move || {
        let open = untrack(|| page.view(|view| view.claims.open.clone()));
        let row = open.and_then(|id| document().get_element_by_id(&rows::row_id(&id)));
        if let Some(row) = row {
            row.scroll_into_view();
        }
    });
    // Opening a claim changes the view, but not which claims there are.
    let chosen = Memo::new(move |_| {
        let claims = page.view(|view| view.claims.clone());
        let words =
            [claims.verdict.map_or("", VerdictKind::name), claims.publication.as_deref().unwrap_or("")];
        Some(words.join("/"))
    });
    let shown = move || {
        let _ = chosen.get();
        sections(page)
    };
    view! {
        <div class="claims room">
            <section class="finding" aria-label="Finding">
                <h1>{finding(checked())}</h1>
                <p class="quiet">
                    "Computed from each model's config, with the code behind the growth curves; a row opens how. What needs plans is computed by "
                    <code>"kvscope claims"</code> " alone."
                </p>
                {broken()}
            </section>
            {filters(page)}
            <main id="content">
                <div class="bar">
                    <div class="choice">
                        {copy_link(page)}
                        {export_menu(page, "claims", Holds::Table, Arc::new(move |origin| Ok(export(page, origin))))}
                    </div>
                </div>
                {part(shown)}
            </main>
        </div>
    }
    .into_any()
}

/// Every claim, computed once.
fn checked() -> &'static [CheckedClaim] {
    static CHECKED: OnceLock<Vec<CheckedClaim>> = OnceLock::new();
    CHECKED.get_or_init(check_claims)
}

/// What the data expects and the figures no longer give.
fn broken() -> AnyView {
    let ids: Vec<&str> = checked().iter().filter(|row| !row.holds).map(|row| row.claim.id.as_str()).collect();
    if ids.is_empty() {
        return nothing();
    }
    let sentence = format!("Verdicts in the data no longer hold: {}.", ids.join(", "));
    view! { <p class="refused" role="alert">{sentence}</p> }.into_any()
}

/// The claims of one verdict that the filters leave.
fn left(page: Page, kind: VerdictKind) -> Vec<&'static CheckedClaim> {
    page.view(|view| {
        let (verdict, publication) = (view.claims.verdict, view.claims.publication.as_ref());
        let is_of = |row: &&CheckedClaim| {
            row.kind() == kind && publication.is_none_or(|id| row.claim.publication == *id)
        };
        if verdict.is_some_and(|wanted| wanted != kind) {
            return Vec::new();
        }
        checked().iter().filter(is_of).collect()
    })
}

/// What the filters leave, a claim a row.
fn export(page: Page, origin: Origin) -> Export {
    let head = ["claim", "statement", "published", "computed", "difference", "unit", "verdict", "source"];
    let row = |row: &CheckedClaim| {
        let claim = row.claim;
        vec![
            claim.id.clone(),
            claim.statement.clone(),
            claim.published_words(),
            row.computed_words(),
            row.difference_words(),
            claim.unit.name().to_owned(),
            row.verdict.clone(),
            claim.source.clone(),
        ]
    };
    let rows = VerdictKind::ALL.into_iter().flat_map(|kind| left(page, kind)).map(row).collect();
    let table = Table { head: head.map(str::to_owned).to_vec(), rows };
    let filters = page.view(|view| {
        let verdict = view.claims.verdict.map(|kind| ("verdict".to_owned(), kind.name().to_owned()));
        let source = view.claims.publication.clone().map(|id| ("source".to_owned(), id));
        verdict.into_iter().chain(source).collect()
    });
    let note = "Published figures beside those computed from each model's config".to_owned();
    Export::of_table(finding(checked()), note, filters, table, origin)
}

/// The claims that the filters leave, by verdict.
fn sections(page: Page) -> AnyView {
    let section = |kind: VerdictKind| {
        let rows = untrack(|| left(page, kind));
        (!rows.is_empty()).then(|| rows::section(page, kind, &rows))
    };
    let sections: Vec<AnyView> = VerdictKind::ALL.into_iter().filter_map(section).collect();
    if !sections.is_empty() {
        return sections.into_any();
    }
    let why = match untrack(|| page.view(|view| view.claims.publication.clone())) {
        Some(id) if !publications().iter().any(|known| known.id == id) => {
            format!("No publication with the id {id:?} is checked.")
        }
        _ => "No claim of this source has this verdict.".to_owned(),
    };
    let show_all = move |_| {
        page.change(Step::Push, |view| {
            view.claims.verdict = None;
            view.claims.publication = None;
        });
    };
    view! {
        <p class="empty">
            {why} " "
            <button type="button" class="plain" on:click=crate::erased::on(show_all)>"Show all claims"</button>
        </p>
    }
    .into_any()
}
