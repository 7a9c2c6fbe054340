//! Plans: what the growth of the state means for capacity, prefix reuse, hand-over, offload, scheduling, cost and compression.

mod asked;
mod figure;
mod form;
mod sheet;

use kvscope_sizing::plan::PlanKind;
use leptos::prelude::*;

use crate::erased::{effect, part, words};
use crate::state::{Page, Shared, Step};
use crate::ui::Choice;
use crate::views::growth::whole_names;
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
    let answered = Memo::new(move |_| {
        let plans = page.view(|view| view.plans.clone());
        Shared::new(answer(page, &plans))
    });
    effect(move || page.ready.set(true));
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
        Ok(answer) => sheet::sheet(answer),
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
                <p class="note">
                    "Replaying a request trace over tiers takes a file and memory of its own: "
                    <code>"kvscope plan simulate"</code>" does it on the command line."
                </p>
            </main>
        </div>
    }
    .into_any()
}

fn open_plan(page: Page) -> usize {
    page.view(|view| view.plans.plan) as usize
}

fn open(page: Page, place: usize) {
    page.change(Step::Push, |view| view.plans.plan = PlanKind::ALL[place]);
}
