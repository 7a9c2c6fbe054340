//! Plans: what the growth of the state means for capacity, prefix reuse, hand-over, offload, scheduling, cost and compression.

mod asked;
mod figure;
mod form;
mod sheet;

use kvscope_sizing::plan::{Moving, PlanKind};
use leptos::prelude::*;

use crate::agent_client;
use crate::erased::{effect, part, words};
use crate::state::{Agent, Page, Shared, Step};
use crate::ui::Choice;
use crate::views::growth::whole_names;
pub(crate) use asked::Trial;
use asked::{Answer, Refusal, answer};

/// Why there is no answer stands in its place.
type Answered = Shared<Result<Answer, Refusal>>;

const TITLES: [&str; PlanKind::ALL.len()] = {
    let mut titles = [""; PlanKind::ALL.len()];
    let mut place = 0;
    while place < titles.len() {
        titles[place] = PlanKind::ALL[place].title();
        place += 1;
    }
    titles
};

/// The room that answers "so what?".
pub(crate) fn plans_room(page: Page) -> AnyView {
    let plan = Memo::new(move |_| page.view(|view| view.plans.plan) as u64);
    let moves = RwSignal::new(false);
    let answered = Memo::new(move |before: Option<&Answered>| {
        let plans = page.view(|view| view.plans.clone());
        let moving = if moves.get() { Moving::Inputs } else { Moving::Nothing };
        answer(page, &plans, moving, before)
    });
    effect(move || page.ready.set(true));
    effect(move || {
        if let Agent::Present(_) = page.agent() {
            fetch_measured(page);
        }
    });
    let sentence = move || match &*answered.get() {
        Ok(answer) => answer.sheet.sentence.clone(),
        Err(refusal) => refusal.sentence.clone(),
    };
    effect(move || document().set_title(&format!("{} · kvscope", sentence())));
    let asked = move || match &*answered.get() {
        Ok(answer) => answer.sheet.asked.clone(),
        Err(_) => "No answer to what is asked; every option is as you left it.".to_owned(),
    };
    let doubts = move || match &*answered.get() {
        Ok(answer) => sheet::doubts(&answer.warnings),
        Err(_) => ().into_any(),
    };
    let tables = move || match &*answered.get() {
        Ok(answer) => sheet::sheet(answer, moves),
        Err(_) => ().into_any(),
    };
    view! {
        <div class="plans room">
            <section class="finding" aria-label="Finding">
                <div class="bar tabs">
                    <Choice label="Plan" options=&TITLES chosen=open_plan choose=open/>
                </div>
                <h1>{part(move || whole_names(&sentence()))}</h1>
                <p class="quiet">{words(asked)}</p>
                <p class="unseen" aria-live="polite">{words(sentence)}</p>
            </section>
            {form::form(page, plan)}
            <main id="content">
                {part(doubts)}
                {figure::figure(page, answered)}
                {part(tables)}
            </main>
        </div>
    }
    .into_any()
}

/// Asks the agent what this machine's runs measured of tiers and links.
fn fetch_measured(page: Page) {
    leptos::task::spawn_local(async move {
        match agent_client::measured().await {
            Ok(measured) => {
                if page.opened.with_untracked(|opened| opened.measured != measured) {
                    page.opened.update(|opened| opened.measured = measured);
                }
            }
            Err(sentence) => page.refuse(&sentence),
        }
    });
}

fn open_plan(page: Page) -> usize {
    page.view(|view| view.plans.plan) as usize
}

fn open(page: Page, place: usize) {
    page.change(Step::Push, |view| view.plans.plan = PlanKind::ALL[place]);
}
