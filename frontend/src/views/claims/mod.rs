//! Claims: published figures beside the computed ones, what is wrong first.

mod filters;
mod rows;

use std::sync::OnceLock;

use kvscope_sizing::claims::{CheckedClaim, VerdictKind, check_claims, finding, publications};
use leptos::prelude::*;

use crate::erased::{effect, nothing, part};
use crate::state::{Page, Step};
use crate::ui::copy_link;
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
            <div class="finding">
                <h1>{finding(checked())}</h1>
                <p class="quiet">
                    "Computed from each model's config, with the code behind the growth curves; a row opens how. What needs plans is computed by "
                    <code>"kvscope claims"</code> " alone."
                </p>
                {broken()}
            </div>
            {filters(page)}
            <main id="content">
                <div class="bar"><div class="choice">{copy_link(page)}</div></div>
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

/// The claims that the filters leave, by verdict.
fn sections(page: Page) -> AnyView {
    let (verdict, publication) =
        untrack(|| page.view(|view| (view.claims.verdict, view.claims.publication.clone())));
    let is_shown = |row: &&CheckedClaim| publication.as_ref().is_none_or(|id| row.claim.publication == *id);
    let section = |kind: VerdictKind| {
        let rows: Vec<&'static CheckedClaim> =
            checked().iter().filter(|row| row.kind() == kind).filter(is_shown).collect();
        (!rows.is_empty()).then(|| rows::section(page, kind, &rows))
    };
    let kinds = VerdictKind::ALL.into_iter().filter(|kind| verdict.is_none_or(|wanted| wanted == *kind));
    let sections: Vec<AnyView> = kinds.filter_map(section).collect();
    if !sections.is_empty() {
        return sections.into_any();
    }
    let why = match &publication {
        Some(id) if !publications().iter().any(|known| known.id == *id) => {
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
