//! Versions: a family's lines, two versions aligned, and what moved the figures between them, in steps that add up exactly.

mod change;
mod choice;
mod exports;
mod family;

use std::sync::Arc;

use kvscope_sizing::{Comparison, Version, compare};
use leptos::prelude::*;

use super::strips::{Subject, strips};
use crate::canvas::{Drawn, DrawnMemo, Figure};
use crate::erased::{effect, mark, nothing, part, words};
use crate::state::{Model, Page, Shared, find_model};
use crate::ui::{Holds, export_menu};

/// Two versions and what lies between them.
#[derive(Debug)]
struct Compared {
    ends: [Shared<Model>; 2],
    comparison: Comparison,
}

/// Why the two cannot be compared stands in place of what lies between them.
type Answer = Shared<Result<Compared, String>>;

/// The room that answers "what did this release change, and what did it cost or save?".
pub(crate) fn versions_room(page: Page) -> AnyView {
    let answer = Memo::new(move |_| Shared::new(compared(page)));
    effect(move || page.ready.set(true));
    effect(move || {
        let [from, to] = page.pair();
        document().set_title(&format!("{from} → {to} · kvscope"));
    });
    let title = move || match &*answer.get() {
        Ok(compared) => view! { <h1>{compared.comparison.sentence.clone()}</h1> }.into_any(),
        Err(why) => view! { <h1>{why.clone()}</h1> }.into_any(),
    };
    view! {
        <div class="versions room">
            <section class="finding" aria-label="Finding">
                {part(title)}
                <p class="quiet">{words(move || what_is_compared(page))}</p>
            </section>
            {choice::choice(page)}
            <main id="content">
                {change::waterfall(page, answer)}
                {aligned(page, answer)}
                {change::tables(page, answer)}
                {family::family(page)}
            </main>
        </div>
    }
    .into_any()
}

fn compared(page: Page) -> Result<Compared, String> {
    let own = page.opened.with(|opened| opened.models.clone());
    let [from, to] = page.pair();
    let ends = [find_model(&from, &own)?, find_model(&to, &own)?];
    let settings = page.view(kvscope_protocol::ViewState::settings);
    let [from, to] = [&ends[0], &ends[1]].map(|model| Version {
        label: &model.id,
        name: &model.name,
        architecture: &model.architecture,
    });
    let comparison = compare(from, to, &settings, page.context()).map_err(|error| error.to_string())?;
    Ok(Compared { ends, comparison })
}

fn what_is_compared(page: Page) -> String {
    format!(
        "Logical bytes of one request · {} · computed from both configs",
        super::growth::formats_chosen(page)
    )
}

/// Both versions as strips of layers that share their pitch, first layer under first layer.
fn aligned(page: Page, answer: Memo<Answer>) -> AnyView {
    let width = RwSignal::new(0.0);
    let base: DrawnMemo = Memo::new(move |_| both_strips(page, &answer.get(), width.get()));
    let sentence = move || base.get().map(|drawn| drawn.scene.description.clone());
    let title = move || format!("Layer under layer at {} tokens", page.context());
    view! {
        <section class="layers">
            <div class="heading">
                <h2>{words(title)}</h2>
                {export_menu(page, "layers", Holds::Figure, Arc::new(move |origin| exports::aligned(page, &answer.get(), origin)))}
            </div>
            <div class="figure" role="img" aria-label=mark(sentence)>
                <Figure name="aligned" width=width base=base/>
            </div>
        </section>
    }
    .into_any()
}

fn both_strips(page: Page, answer: &Answer, width: f64) -> Option<Shared<Drawn>> {
    let compared = answer.as_ref().ok()?;
    let settings = page.view(kvscope_protocol::ViewState::settings);
    let states = compared.states(&settings).ok()?;
    let colours = compared.change(page).colours;
    let subject = |end: usize| {
        let (model, state, colour) = (&*compared.ends[end], &states[end], colours[end]);
        Subject { model, state, colour }
    };
    let subjects = [subject(0), subject(1)];
    strips(&subjects, page.context(), 1, page.view(|view| view.units), width)
}

/// A part of the page that needs both versions.
fn with_both(answer: Memo<Answer>, show: fn(&Compared) -> AnyView) -> AnyView {
    part(move || match &*answer.get() {
        Ok(compared) => show(compared),
        Err(_) => nothing(),
    })
    .into_any()
}
