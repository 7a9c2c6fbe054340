//! Measurements: what a run measured over what was predicted before it.

mod cases;
mod figures;
mod run_list;
mod series;
mod summary;

use kvscope_protocol::run::Run;
use leptos::prelude::*;

use crate::agent_client::{self, AgentState, RunRow};
use crate::state::{Page, Shared};
use cases::CaseTable;
use figures::RunFigures;
use run_list::RunList;
use summary::Summary;

/// The room that answers "does the prediction hold on my machine?".
#[component]
pub(crate) fn MeasureRoom() -> impl IntoView {
    let page = expect_context::<Page>();
    let listed = RwSignal::new(Listed::Waiting);
    let open = RwSignal::new(Open::Nothing);
    Effect::new(move |_| page.ready.set(true));
    Effect::new(move |_| match page.agent.get() {
        AgentState::Asking => {}
        AgentState::Absent => listed.set(Listed::NoAgent),
        AgentState::Present { .. } => leptos::task::spawn_local(async move {
            let runs = agent_client::runs().await;
            let _ = listed.try_set(runs.map_or_else(Listed::Failed, Listed::Runs));
        }),
    });
    let wanted = Memo::new(move |_| {
        let dropped = page.dropped_runs.get().last().map(|run| run.run.clone());
        let newest = || listed.with(|listed| Some(listed.rows().first()?.run.clone()));
        page.view(|view| view.run.clone()).or(dropped).or_else(newest)
    });
    Effect::new(move |_| follow(page, wanted.get(), listed, open));
    Effect::new(move |_| document().set_title("Measurements · kvscope"));

    let shown = move || match open.get() {
        Open::Nothing => view! { <Nothing listed=listed/> }.into_any(),
        Open::Loading(name) => view! { <h1>"Opening run " {name}</h1> }.into_any(),
        Open::Failed(name, sentence) => view! {
            <h1>"Run " {name} " is not open"</h1>
            <p class="refused" role="alert">{sentence}</p>
        }
        .into_any(),
        Open::Run(run) => view! {
            <Summary run=run.clone()/>
            <RunFigures run=run.clone()/>
            <CaseTable run=run/>
        }
        .into_any(),
    };
    view! {
        <div class="measure room">
            <RunList listed=listed wanted=wanted/>
            <main id="content">{shown}</main>
        </div>
    }
}

/// The agent's runs, as far as they are known.
#[derive(Clone, Debug, PartialEq)]
enum Listed {
    Waiting,
    NoAgent,
    Failed(String),
    Runs(Vec<RunRow>),
}

/// The run that is shown.
#[derive(Clone, Debug)]
enum Open {
    Nothing,
    Loading(String),
    Failed(String, String),
    Run(Shared<Run>),
}

impl Listed {
    fn rows(&self) -> &[RunRow] {
        match self {
            Self::Runs(rows) => rows,
            _ => &[],
        }
    }
}

/// Opens the wanted run: a dropped one at once, another from the agent.
fn follow(page: Page, wanted: Option<String>, listed: RwSignal<Listed>, open: RwSignal<Open>) {
    let Some(name) = wanted else {
        open.set(Open::Nothing);
        return;
    };
    if let Some(run) = page.dropped_runs.get().iter().find(|run| run.run == name) {
        open.set(Open::Run(run.clone()));
        return;
    }
    match listed.get() {
        Listed::Waiting => open.set(Open::Loading(name)),
        Listed::NoAgent => {
            let what = "No agent serves this page, and the run is in no file that was opened here. Drop its file on the page.";
            open.set(Open::Failed(name, what.to_owned()));
        }
        Listed::Failed(_) | Listed::Runs(_) => {
            open.set(Open::Loading(name.clone()));
            leptos::task::spawn_local(async move {
                let opened = agent_client::run(&name).await;
                let opened = opened.map_or_else(|why| Open::Failed(name, why), |run| Open::Run(Shared::new(run)));
                let _ = open.try_set(opened);
            });
        }
    }
}

/// What to do when there is nothing to show, by why there is nothing.
#[component]
fn Nothing(listed: RwSignal<Listed>) -> impl IntoView {
    let start = || {
        view! {
            <p>
                "Measure with " <code>"kvscope bench run --backend cpu --forms gqa,mla --budget 30s"</code>
                ": it predicts each point from ceilings measured on the same machine, then measures it."
            </p>
        }
    };
    let shown = move || match listed.get() {
        Listed::Waiting => view! { <h1>"Asking the agent for its runs"</h1> }.into_any(),
        Listed::Failed(sentence) => view! {
            <h1>"The agent's runs cannot be listed"</h1>
            <p class="refused" role="alert">{sentence}</p>
        }
        .into_any(),
        Listed::Runs(_) => view! {
            <h1>"Nothing is measured yet on this machine"</h1>
            {start()}
        }
        .into_any(),
        Listed::NoAgent => view! {
            <h1>"Measurements need an agent, or a run file"</h1>
            <p>
                "This page is served without an agent: it cannot list, start or watch measurements. "
                <code>"cargo xtask serve"</code>
                " in a clone of kvscope builds the agent and opens this page with it, on this machine only."
            </p>
            <p>"A run file from another machine (" <code>".jsonl"</code> ") can be dropped anywhere on this page."</p>
        }
        .into_any(),
    };
    view! { <div class="nothing">{shown}</div> }
}
