use leptos::prelude::*;

use super::Listed;
use super::jobs::Jobs;
use crate::erased::{on, part, truth};
use crate::state::{Page, Step};
use crate::ui::open_file;

/// The runs to choose from: the agent's, and those that were opened here.
pub(super) fn run_list(
    page: Page,
    jobs: &Jobs,
    listed: RwSignal<Listed>,
    wanted: Memo<Option<String>>,
) -> AnyView {
    let rows = move || {
        let mut rows: Vec<(String, String)> = listed
            .with(|listed| listed.rows().iter().map(|row| (row.run.clone(), row.about.clone())).collect());
        page.opened.with(|opened| {
            for run in &opened.runs {
                if !rows.iter().any(|(name, _)| *name == run.run) {
                    rows.insert(0, (run.run.clone(), format!("opened here · {}", run.started)));
                }
            }
        });
        let rows: Vec<AnyView> =
            rows.into_iter().map(|(name, about)| row(page, wanted, name, about)).collect();
        view! { <ul class="runs">{rows}</ul> }.into_any()
    };
    view! {
        <aside class="controls" aria-label="Runs">
            {jobs.view()}
            <section>
                <h2>"Runs"</h2>
                {part(rows)}
                {open_file(page, "Open a run", "open or drop a run file")}
            </section>
        </aside>
    }
    .into_any()
}

fn row(page: Page, wanted: Memo<Option<String>>, name: String, about: String) -> AnyView {
    let (shown, chosen) = (name.clone(), name.clone());
    let is_shown = move || wanted.with(|wanted| wanted.as_ref() == Some(&shown));
    let choose = move |_| page.change(Step::Push, |view| view.run = Some(chosen.clone()));
    view! {
        <li>
            <button type="button" aria-pressed=truth(is_shown) on:click=on(choose)>
                <span class="name">{name}</span>
                <span class="note">{about}</span>
            </button>
        </li>
    }
    .into_any()
}
