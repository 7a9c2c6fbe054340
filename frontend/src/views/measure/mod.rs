//! Measurements: what a run measured over what was predicted before it.

mod cases;
mod figures;
mod jobs;
mod run_list;
mod summary;
mod transfers;

use leptos::prelude::*;

use crate::agent_client::{self, RunRow};
use crate::erased::{effect, part};
use crate::state::{Agent, Page, Shared};
use crate::ui::copy_link;
use jobs::Jobs;
use run_list::run_list;

/// The agent's runs, as far as they are known.
#[derive(Clone, Debug)]
enum Listed {
    Waiting,
    NoAgent,
    Failed(String),
    Runs(Vec<RunRow>),
}

/// The room that answers "does the prediction hold on my machine?".
#[component]
pub(crate) fn MeasureRoom() -> impl IntoView {
    let page = expect_context::<Page>();
    let listed = RwSignal::new(Listed::Waiting);
    let failure = RwSignal::new(None::<String>);
    effect(move || page.ready.set(true));
    effect(move || document().set_title("Measurements · kvscope"));
    effect(move || match page.agent() {
        Agent::Absent => listed.set(Listed::NoAgent),
        Agent::Asking | Agent::Present(_) => {}
    });
    let jobs = Jobs::new(page, listed);
    let wanted = Memo::new(move |_| {
        let newest = || listed.with(|listed| Some(listed.rows().first()?.run.clone()));
        let last_opened = || page.opened.with(|opened| Some(opened.runs.last()?.run.clone()));
        page.view(|view| view.run.clone()).or_else(last_opened).or_else(newest)
    });
    effect(move || fetch_missing(page, wanted.get(), listed, failure));
    let shown = move || {
        let Some(name) = wanted.get() else { return nothing_yet(&listed.get()) };
        if let Some(run) = page.opened.with(|opened| opened.runs.iter().find(|run| run.run == name).cloned())
        {
            let mut parts = vec![summary::summary(&jobs, &run)];
            if !run.cases.is_empty() {
                parts.extend([figures::run_figures(page, &run), cases::case_table(page, &run)]);
            }
            parts.push(transfers::transfer_tables(page, &run));
            return parts.into_any();
        }
        match failure.get() {
            None => view! { <h1>{format!("Opening run {name}")}</h1> }.into_any(),
            Some(sentence) => view! {
                <h1>{format!("Run {name} is not open")}</h1>
                <p class="refused" role="alert">{sentence}</p>
            }
            .into_any(),
        }
    };
    view! {
        <div class="measure room">
            {run_list(page, &jobs, listed, wanted)}
            <main id="content">
                <div class="bar"><div class="choice">{copy_link(page)}</div></div>
                {part(shown)}
            </main>
        </div>
    }
    .into_any()
}

impl Listed {
    fn rows(&self) -> &[RunRow] {
        match self {
            Self::Runs(rows) => rows,
            Self::Waiting | Self::NoAgent | Self::Failed(_) => &[],
        }
    }
}

/// Asks the agent for the wanted run, unless it was opened already.
fn fetch_missing(
    page: Page,
    wanted: Option<String>,
    listed: RwSignal<Listed>,
    failure: RwSignal<Option<String>>,
) {
    failure.set(None);
    let Some(name) = wanted else { return };
    if page.opened.with(|opened| opened.runs.iter().any(|run| run.run == name)) {
        return;
    }
    match listed.get() {
        Listed::Waiting => {}
        Listed::NoAgent => failure.set(Some(
            "No agent serves this page, and no file with this run was opened here. Drop its file on the page.".to_owned(),
        )),
        Listed::Failed(_) | Listed::Runs(_) => leptos::task::spawn_local(async move {
            match agent_client::run(&name).await {
                Ok(run) => page.opened.update(|opened| opened.runs.insert(0, Shared::new(run))),
                Err(sentence) => drop(failure.try_set(Some(sentence))),
            }
        }),
    }
}

/// What to do when there is nothing to show, by why there is nothing.
fn nothing_yet(listed: &Listed) -> AnyView {
    match listed {
        Listed::Waiting => view! { <h1>"Asking the agent for its runs"</h1> }.into_any(),
        Listed::Failed(sentence) => view! {
            <h1>"The agent's runs cannot be listed"</h1>
            <p class="refused" role="alert">{sentence.clone()}</p>
        }
        .into_any(),
        Listed::Runs(_) => view! {
            <div class="nothing">
                <h1>"Nothing is measured yet on this machine"</h1>
                <p>
                    "Start a run here, or by " <code>"kvscope bench run --forms gqa,mla --budget 30s"</code>
                    ": it predicts each point from ceilings measured on the same machine, then measures it."
                </p>
            </div>
        }
        .into_any(),
        Listed::NoAgent => view! {
            <div class="nothing">
                <h1>"Measurements need an agent, or a run file"</h1>
                <p>
                    "This page is served without an agent: it cannot list, start or watch measurements. "
                    <code>"cargo xtask serve"</code>
                    " in a clone of kvscope builds the agent and opens this page with it, on this machine only."
                </p>
                <p>"A run file from another machine ("<code>".jsonl"</code>") can be dropped anywhere on this page."</p>
            </div>
        }
        .into_any(),
    }
}
