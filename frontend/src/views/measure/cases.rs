use std::sync::Arc;

use kvscope_charts::runs::{CASES_CAPTION, CASES_HEAD, CaseRow, case_rows, cases_export};
use kvscope_protocol::run::Run;
use leptos::prelude::*;

use crate::state::{Page, Shared};
use crate::ui::{Holds, export_menu};

/// Every case with what was predicted, what came out and why a figure is missing.
pub(super) fn case_table(page: Page, run: &Shared<Run>) -> AnyView {
    let head: Vec<AnyView> = CASES_HEAD.map(|name| view! { <th scope="col">{name}</th> }.into_any()).into();
    let cases: Vec<AnyView> = case_rows(run).into_iter().map(rows).collect();
    let run = run.clone();
    view! {
        <section class="cases">
            <div class="heading">
                <h2>"Every case"</h2>
                {export_menu(page, "cases", Holds::Table, Arc::new(move |origin| Ok(cases_export(&run, origin))))}
            </div>
            <p class="quiet" id="cases-caption">{CASES_CAPTION}</p>
            <div class="scroll" tabindex="0" role="region" aria-labelledby="cases-caption">
                <table class="data" aria-labelledby="cases-caption">
                    <thead><tr>{head}</tr></thead>
                    {cases}
                </table>
            </div>
        </section>
    }
    .into_any()
}

/// The figures of a case, and under them what has to be known of it.
fn rows(row: CaseRow) -> AnyView {
    let cells: Vec<AnyView> =
        row.cells.into_iter().map(|cell| view! { <td>{cell}</td> }.into_any()).collect();
    let words = row.remark.map(|words| {
        view! { <tr class="remark"><td colspan=CASES_HEAD.len().to_string()>{words}</td></tr> }.into_any()
    });
    view! { <tbody><tr>{cells}</tr>{words}</tbody> }.into_any()
}
