//! A run that is started, watched and cancelled from here, or that another tab or program started.

use std::cell::RefCell;
use std::time::Duration;

use kvscope_protocol::job::{Job, JobState};
use kvscope_sizing::record::read_record;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use wasm_bindgen::closure::Closure;

use super::Listed;
use crate::agent_client;
use crate::erased::{effect, mark, on, part, words};
use crate::state::{Agent, Page, Shared, Step};

/// How long a page waits before it asks an agent again that did not answer.
const PATIENCE: Duration = Duration::from_secs(2);
const FORMS: &str = "job-forms";
const BUDGET: &str = "job-budget";

thread_local! {
    /// The stream of events of all jobs; one for the page.
    static STREAM: RefCell<Option<web_sys::EventSource>> = const { RefCell::new(None) };
}

/// What the page knows of the agent's jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jobs {
    page: Page,
    listed: RwSignal<Listed>,
    /// Those that wait or go on, the newest first.
    live: RwSignal<Vec<Job>>,
    /// Why something could not be done, or that the agent does not answer.
    said: RwSignal<Option<String>>,
    /// The job that was started here: its run is shown as soon as it has one.
    own: RwSignal<Option<String>>,
}

impl Jobs {
    pub(super) fn new(page: Page, listed: RwSignal<Listed>) -> Self {
        let (live, said, own) = (RwSignal::new(Vec::new()), RwSignal::new(None), RwSignal::new(None));
        let jobs = Self { page, listed, live, said, own };
        effect(move || {
            if matches!(page.agent(), Agent::Present(_)) {
                jobs.ask();
            }
        });
        // A browser has few connections to one agent, so that a tab which nobody sees holds none.
        let handle = window_event_listener_untyped("visibilitychange", move |_| {
            if document().hidden() {
                end_stream();
            } else if matches!(untrack(|| page.agent()), Agent::Present(_)) {
                jobs.ask();
            }
        });
        on_cleanup(move || {
            handle.remove();
            end_stream();
        });
        jobs
    }

    /// Asks for the runs and the jobs, and watches what becomes of them.
    fn ask(self) {
        leptos::task::spawn_local(async move {
            let runs = agent_client::runs().await;
            let jobs = agent_client::jobs().await;
            match (runs, jobs) {
                (Ok(runs), Ok(jobs)) => {
                    let _ = self.listed.try_set(Listed::Runs(runs));
                    let _ = self.said.try_set(None);
                    // A page that shows something else now watches nothing.
                    if self.live.try_set(jobs.into_iter().filter(Job::is_live).collect()).is_none() {
                        self.watch();
                    }
                }
                (Err(sentence), _) | (_, Err(sentence)) => {
                    // Where nothing is known of the runs yet, the page itself says so.
                    let is_known = self.listed.try_with_untracked(|listed| matches!(listed, Listed::Runs(_)));
                    match is_known {
                        None => return,
                        Some(true) => drop(self.said.try_set(Some(sentence))),
                        Some(false) => drop(self.listed.try_set(Listed::Failed(sentence))),
                    }
                    set_timeout(move || self.ask(), PATIENCE);
                }
            }
        });
    }

    /// Follows the events of all jobs, whoever started them; the browser asks again where the stream breaks.
    fn watch(self) {
        if document().hidden() || STREAM.with_borrow(Option::is_some) {
            return;
        }
        let Ok(stream) = web_sys::EventSource::new("api/v1/jobs") else { return };
        let told = Closure::<dyn Fn(wasm_bindgen::JsValue)>::new(move |event: wasm_bindgen::JsValue| {
            let data = js_sys::Reflect::get(&event, &"data".into()).ok().and_then(|data| data.as_string());
            if let Some(job) = data.and_then(|text| read_record::<Job>(&text).ok()) {
                self.put(job);
            }
        });
        let of_error = stream.clone();
        let broken = Closure::<dyn Fn(wasm_bindgen::JsValue)>::new(move |_| {
            let _ = self.said.try_set(Some("The agent does not answer; trying again.".to_owned()));
            // An agent that was started anew knows nothing of the jobs that there were.
            of_error.close();
            STREAM.set(None);
            set_timeout(move || self.ask(), PATIENCE);
        });
        stream.set_onmessage(Some(told.as_ref().unchecked_ref()));
        stream.set_onerror(Some(broken.as_ref().unchecked_ref()));
        told.forget();
        broken.forget();
        STREAM.set(Some(stream));
    }

    fn put(self, job: Job) {
        let before =
            self.live.try_with_untracked(|live| live.iter().find(|known| known.job == job.job).cloned());
        let Some(before) = before else { return };
        if before.is_none() {
            // One that ended before this page looked.
            if !job.is_live() {
                return;
            }
            self.live.update(|live| live.insert(0, job.clone()));
        }
        self.said.set(None);
        let is_new =
            before.as_ref().is_none_or(|before| (before.measured, &before.run) != (job.measured, &job.run));
        if let Some(run) = job.run.clone().filter(|_| is_new || !job.is_live()) {
            if self.own.get_untracked().as_ref() == Some(&job.job) {
                self.own.set(None);
                let run = run.clone();
                self.page.change(Step::Push, |view| view.run = Some(run));
            }
            self.read(run);
        }
        if job.is_live() {
            self.live.update(|live| {
                if let Some(known) = live.iter_mut().find(|known| known.job == job.job) {
                    *known = job;
                }
            });
            return;
        }
        let failure = job.message.filter(|_| job.state == JobState::Failed);
        self.live.update(|live| live.retain(|known| known.job != job.job));
        self.ask();
        if let Some(sentence) = failure {
            set_timeout(move || drop(self.said.try_set(Some(sentence))), PATIENCE / 4);
        }
    }

    /// Reads a run anew, as far as it is measured.
    fn read(self, name: String) {
        leptos::task::spawn_local(async move {
            let Ok(run) = agent_client::run(&name).await else { return };
            self.page.opened.update(|opened| {
                let run = Shared::new(run);
                match opened.runs.iter_mut().find(|known| known.run == run.run) {
                    Some(known) => *known = run,
                    None => opened.runs.insert(0, run),
                }
            });
        });
    }

    /// Asks the agent for a run.
    pub(super) fn start(self, request: serde_json::Value) {
        leptos::task::spawn_local(async move {
            match agent_client::start_job(&request).await {
                Ok(job) => {
                    let _ = self.own.try_set(Some(job.job));
                    self.ask();
                }
                Err(sentence) => drop(self.said.try_set(Some(sentence))),
            }
        });
    }

    fn cancel(self) {
        let jobs = self.live.get_untracked();
        let Some(job) = jobs.into_iter().next_back() else { return };
        leptos::task::spawn_local(async move {
            if let Err(sentence) = agent_client::cancel_job(&job.job).await {
                let _ = self.said.try_set(Some(sentence));
            }
        });
    }

    /// Something of the job that goes on.
    fn now<T>(self, of: impl FnOnce(&Job) -> T) -> Option<T> {
        self.live.with(|live| live.last().map(of))
    }

    /// The part of the page that starts a run, or shows the one that goes on.
    pub(super) fn view(self) -> AnyView {
        let start = move |_| {
            let forms: Vec<String> = value_of(FORMS).split(',').map(|form| form.trim().to_owned()).collect();
            let seconds: u64 = value_of(BUDGET).parse().unwrap_or(60);
            self.start(serde_json::json!({"forms": forms, "budget_seconds": seconds}));
        };
        let has_agent = move || matches!(self.page.agent(), Agent::Present(_));
        let said = move || match self.said.get() {
            Some(sentence) => view! { <p class="refused" role="alert">{sentence}</p> }.into_any(),
            None => crate::erased::nothing(),
        };
        let is_live = move || self.live.with(|live| !live.is_empty());
        let hidden = |holds: bool| holds.then(String::new);
        let waiting = move || match self.live.with(Vec::len) {
            0 | 1 => String::new(),
            n => format!("{} more wait", n - 1),
        };
        view! {
            <section class="job" hidden=mark(move || hidden(!has_agent()))>
                <h2>"Measure"</h2>
                <div hidden=mark(move || hidden(is_live()))>
                    <label class="sentence">
                        <span>"Forms"</span>
                        <span class="value">
                            <input type="text" id=FORMS value="gqa,mla" autocomplete="off" spellcheck="false"/>
                        </span>
                    </label>
                    <label class="sentence">
                        <span>"Budget"</span>
                        <span class="value">
                            <select id=BUDGET>
                                <option value="30">"30 s"</option>
                                <option value="60" selected="">"1 min"</option>
                                <option value="300">"5 min"</option>
                            </select>
                        </span>
                    </label>
                    <button type="button" data-action="start" on:click=on(start)>"Start a run"</button>
                </div>
                <div hidden=mark(move || hidden(!is_live()))>
                    <p class="name">{words(move || self.now(|job| job.about.clone()).unwrap_or_default())}</p>
                    <p class="note" data-job="state">{words(move || self.now(Job::sentence).unwrap_or_default())}</p>
                    <p class="note">{words(waiting)}</p>
                    <progress
                        max="1"
                        aria-label="Share of the time that has passed"
                        value=words(move || self.now(|job| job.fraction).unwrap_or_default().to_string())
                    ></progress>
                    <button type="button" data-action="cancel" on:click=on(move |_| self.cancel())>"Cancel"</button>
                </div>
                {part(said)}
            </section>
        }
        .into_any()
    }
}

fn end_stream() {
    if let Some(stream) = STREAM.take() {
        stream.close();
    }
}

/// What a field holds.
fn value_of(id: &str) -> String {
    let field = document().get_element_by_id(id);
    field.map(|field| field.unchecked_into::<web_sys::HtmlInputElement>().value()).unwrap_or_default()
}
