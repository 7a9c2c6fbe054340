use std::sync::Arc;

use kvscope_charts::figures::{facts_table, kept_table};
use kvscope_protocol::Moved;
use leptos::prelude::*;

use super::exports::{self, Of};
use super::{Answer, Compared, with_both};
use crate::canvas::{Drawn, DrawnMemo, Figure};
use crate::erased::{mark, nothing, part, words};
use crate::state::{Page, Step};
use crate::ui::{Choice, DataTable, Holds, export_menu, figure_bar};

/// The change of a figure, cause by cause, with its table.
pub(super) fn waterfall(page: Page, answer: Memo<Answer>) -> AnyView {
    let width = RwSignal::new(0.0);
    let table_is_open = RwSignal::new(false);
    let base: DrawnMemo = Memo::new(move |_| {
        let answer = answer.get();
        let compared = answer.as_ref().ok()?;
        let waterfall = compared.change(page).waterfall(width.get()).ok()?;
        Some(Drawn::plain(waterfall.scene().clone()))
    });
    let title = move || match &*answer.get() {
        Ok(compared) => compared.change(page).words(),
        Err(_) => "The change, cause by cause".to_owned(),
    };
    let sentence = move || base.get().map(|drawn| drawn.scene.description.clone());
    let table = move || {
        let answer = answer.get();
        let (Ok(compared), true) = (answer.as_ref(), table_is_open.get()) else { return nothing() };
        // The table needs no width of its own.
        match compared.change(page).waterfall(640.0) {
            Ok(waterfall) => {
                view! { <DataTable caption="The change, step by step" table=waterfall.table().clone()/> }
                    .into_any()
            }
            Err(why) => view! { <p class="refused">{why.to_string()}</p> }.into_any(),
        }
    };
    view! {
        <section>
            <h2>{words(title)}</h2>
            <div class="bar">
                <Choice label="What changes" options=&["slope", "fixed", "resident"] chosen=moved choose=set_moved/>
                {figure_bar(page, "change", table_is_open, Arc::new(move |origin| exports::change(page, &answer.get(), origin)))}
            </div>
            <div class="figure narrow" role="img" aria-label=mark(sentence)>
                <Figure name="waterfall" width=width base=base/>
            </div>
            {part(table)}
        </section>
    }
    .into_any()
}

fn moved(page: Page) -> usize {
    page.view(|view| view.versions.moved) as usize
}

fn set_moved(page: Page, place: usize) {
    page.change(Step::Push, |view| view.versions.moved = Moved::ALL[place]);
}

/// What each version keeps, and the facts that differ.
pub(super) fn tables(page: Page, answer: Memo<Answer>) -> AnyView {
    let menu = move |stem: &'static str, of: Of| {
        let make = Arc::new(move |origin| exports::table(page, &answer.get(), of, origin));
        export_menu(page, stem, Holds::Table, make)
    };
    let facts = with_both(answer, |compared| {
        let facts = facts_table(&compared.comparison, names(compared));
        if facts.rows.is_empty() {
            return view! { <p class="quiet">"No fact that sizing reads differs."</p> }.into_any();
        }
        view! { <div class="facts"><DataTable caption="Facts of each config" table=facts/></div> }.into_any()
    });
    let kept = with_both(answer, |compared| {
        let kept = kept_table(&compared.comparison, names(compared));
        view! { <DataTable caption="Components of one request" table=kept/> }.into_any()
    });
    let is_absent: Box<dyn Fn() -> bool + Send> = Box::new(move || answer.get().is_err());
    view! {
        <div prop:hidden=is_absent>
            <section>
                <div class="heading"><h2>"What changed in the configs"</h2>{menu("facts", Of::Facts)}</div>
                {facts}
            </section>
            <section>
                <div class="heading"><h2>"What each keeps"</h2>{menu("kept", Of::Kept)}</div>
                {kept}
            </section>
        </div>
    }
    .into_any()
}

fn names(compared: &Compared) -> [&str; 2] {
    [0, 1].map(|end: usize| compared.ends[end].name.as_str())
}
