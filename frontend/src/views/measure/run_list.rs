use leptos::ev;
use leptos::prelude::*;

use super::Listed;
use crate::files;
use crate::state::{Page, Step};

/// The runs to choose from: dropped ones first, then the agent's.
#[component]
pub(super) fn RunList(listed: RwSignal<Listed>, wanted: Memo<Option<String>>) -> impl IntoView {
    let page = expect_context::<Page>();
    let rows = move || {
        let dropped = page.dropped_runs.get();
        let own = dropped.iter().rev().map(|run| (run.run.clone(), format!("opened here · {}", run.started)));
        let agents = listed.with(|listed| {
            listed.rows().iter().map(|row| (row.run.clone(), row.about.clone())).collect::<Vec<_>>()
        });
        let agents = agents.into_iter().filter(|(name, _)| !dropped.iter().any(|run| run.run == *name));
        own.chain(agents).collect::<Vec<_>>()
    };
    let row = move |(name, about): (String, String)| {
        let is_shown = {
            let name = name.clone();
            move || wanted.with(|wanted| wanted.as_ref() == Some(&name))
        };
        let choose = {
            let name = name.clone();
            move |_| page.change(Step::Push, |view| view.run = Some(name.clone()))
        };
        view! {
            <li>
                <button type="button" aria-pressed=move || if is_shown() { "true" } else { "false" } on:click=choose>
                    <span class="name">{name}</span>
                    <span class="note">{about}</span>
                </button>
            </li>
        }
    };
    let chosen = move |event: ev::Event| {
        let input = event_target::<web_sys::HtmlInputElement>(&event);
        if let Some(file) = input.files().and_then(|files| files.get(0)) {
            files::open(page, &file);
        }
        input.set_value("");
    };
    view! {
        <aside class="controls" aria-label="Runs">
            <section>
                <h2>"Runs"</h2>
                <ul class="runs">{move || rows().into_iter().map(row).collect_view()}</ul>
                <label class="open">
                    "open or drop a run file"
                    <input type="file" aria-label="Open a run" accept=".jsonl,.json" on:change=chosen/>
                </label>
            </section>
        </aside>
    }
}
