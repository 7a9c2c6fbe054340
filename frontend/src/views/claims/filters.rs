use kvscope_sizing::claims::{CheckedClaim, VerdictKind, publications};
use leptos::prelude::*;

use super::checked;
use crate::erased::{on, truth};
use crate::state::{Page, Step};

/// Which verdicts and which sources are shown, each with how many claims it has.
pub(super) fn filters(page: Page) -> AnyView {
    let every = std::iter::once(None);
    let verdicts: Vec<AnyView> = every
        .chain(VerdictKind::ALL.map(Some))
        .map(|kind| {
            let count = count(|row| kind.is_none_or(|kind| row.kind() == kind));
            let name = kind.map_or("all", in_short);
            let is_on = move || page.view(|view| view.claims.verdict == kind);
            filter(
                name,
                count,
                truth(is_on),
                page,
                Box::new(move |page| {
                    page.change(Step::Push, |view| view.claims.verdict = kind);
                }),
            )
        })
        .collect();
    let sources: Vec<AnyView> = std::iter::once(None)
        .chain(publications().iter().map(Some))
        .map(|publication| {
            let id = publication.map(|publication| publication.id.as_str());
            let count = count(|row| id.is_none_or(|id| row.claim.publication == id));
            let name = publication.map_or("all", |publication| &publication.short);
            let is_on = move || page.view(|view| view.claims.publication.as_deref() == id);
            filter(
                name,
                count,
                truth(is_on),
                page,
                Box::new(move |page| {
                    page.change(Step::Push, |view| view.claims.publication = id.map(str::to_owned));
                }),
            )
        })
        .collect();
    view! {
        <aside class="controls filters" aria-label="Filters">
            <section role="group" aria-labelledby="by-verdict">
                <h2 id="by-verdict">"Verdict"</h2>
                {verdicts}
            </section>
            <section role="group" aria-labelledby="by-source">
                <h2 id="by-source">"Source"</h2>
                {sources}
            </section>
        </aside>
    }
    .into_any()
}

fn count(counts: impl Fn(&CheckedClaim) -> bool) -> usize {
    checked().iter().filter(|row| counts(row)).count()
}

fn filter(
    name: &'static str,
    count: usize,
    is_on: crate::erased::Words,
    page: Page,
    choose: Box<dyn Fn(Page)>,
) -> AnyView {
    view! {
        <button type="button" aria-pressed=is_on on:click=on(move |_| choose(page))>
            <span class="name">{name}</span>
            " "
            <span class="count">{count}</span>
        </button>
    }
    .into_any()
}

/// A verdict in the words of the filter.
fn in_short(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Differs => "differs",
        VerdictKind::Assumed => "under an assumption",
        VerdictKind::Reproduced => "as printed",
        VerdictKind::ByHand => "by hand",
        VerdictKind::NotComputed => "not computed here",
    }
}
