use kvscope_charts::figures::{WaterfallEnd, WaterfallInput, WaterfallStep, facts_table, kept_table};
use kvscope_charts::palette::assign_colours;
use kvscope_charts::{FigureError, Waterfall};
use kvscope_protocol::Moved;
use kvscope_sizing::{Bytes, Comparison, Ratio, Step as Change};
use leptos::prelude::*;

use super::{Answer, Compared, with_both};
use crate::canvas::{Drawn, DrawnMemo, Figure};
use crate::erased::{mark, nothing, on, part, truth, words};
use crate::state::{Page, Step};
use crate::ui::{Choice, DataTable, copy_link};

/// The change of a figure, cause by cause, with its table.
pub(super) fn waterfall(page: Page, answer: Memo<Answer>) -> AnyView {
    let width = RwSignal::new(0.0);
    let table_is_open = RwSignal::new(false);
    let base: DrawnMemo = Memo::new(move |_| {
        let answer = answer.get();
        let compared = answer.as_ref().ok()?;
        let waterfall = layout(compared, page.view(|view| view.versions.moved), width.get()).ok()?;
        Some(Drawn::plain(waterfall.scene().clone()))
    });
    let sentence = move || base.get().map(|drawn| drawn.scene.description.clone());
    let table = move || {
        let answer = answer.get();
        let (Ok(compared), true) = (answer.as_ref(), table_is_open.get()) else { return nothing() };
        // The table needs no width of its own.
        match layout(compared, page.view(|view| view.versions.moved), 640.0) {
            Ok(waterfall) => {
                view! { <DataTable caption="The change, step by step" table=waterfall.table().clone()/> }
                    .into_any()
            }
            Err(why) => view! { <p class="refused">{why.to_string()}</p> }.into_any(),
        }
    };
    view! {
        <section>
            <h2>{words(move || title(page))}</h2>
            <div class="bar">
                <Choice label="What changes" options=&["slope", "fixed", "resident"] chosen=moved choose=set_moved/>
                <div class="choice">
                    <button
                        type="button"
                        aria-pressed=truth(move || table_is_open.get())
                        on:click=on(move |_| table_is_open.update(|open| *open = !*open))
                    >
                        "table"
                    </button>
                    {copy_link(page)}
                </div>
            </div>
            <div class="figure narrow" role="img" aria-label=mark(sentence)>
                <Figure name="waterfall" width=width base=base/>
            </div>
            {part(table)}
        </section>
    }
    .into_any()
}

fn title(page: Page) -> String {
    let what = match page.view(|view| view.versions.moved) {
        Moved::Slope => "What one more token adds".to_owned(),
        Moved::Fixed => "What does not grow".to_owned(),
        Moved::Resident => format!("What one request keeps at {} tokens", page.context()),
    };
    format!("{what}, cause by cause")
}

fn moved(page: Page) -> usize {
    page.view(|view| view.versions.moved) as usize
}

fn set_moved(page: Page, place: usize) {
    page.change(Step::Push, |view| view.versions.moved = Moved::ALL[place]);
}

fn layout(compared: &Compared, moved: Moved, width: f64) -> Result<Waterfall, FigureError> {
    let comparison = &compared.comparison;
    let [from, to] = ends(comparison, moved);
    let colours = assign_colours(&[&compared.ends[0].family, &compared.ends[1].family]);
    let end = |place: usize, value: Ratio| WaterfallEnd {
        name: &compared.ends[place].name,
        colour: colours[place],
        value,
    };
    let change = |step: &Change| match moved {
        Moved::Slope => step.slope,
        Moved::Fixed => step.fixed,
        Moved::Resident => step.resident,
    };
    let steps: Vec<WaterfallStep<'_>> = comparison
        .steps
        .iter()
        .map(|step| WaterfallStep { text: &step.text, change: change(step) })
        .filter(|step| step.change != Ratio::ZERO)
        .collect();
    Waterfall::layout(&WaterfallInput {
        title: "Change by cause",
        unit: if moved == Moved::Slope { "B/token" } else { "B" },
        from: end(0, from),
        to: end(1, to),
        steps: &steps,
        width,
    })
}

fn ends(comparison: &Comparison, moved: Moved) -> [Ratio; 2] {
    let bytes = |both: [Bytes; 2]| both.map(Ratio::from);
    match moved {
        Moved::Slope => comparison.slope_bytes_per_token.map(Ratio::from),
        Moved::Fixed => bytes(comparison.fixed_bytes),
        Moved::Resident => bytes(comparison.resident_bytes),
    }
}

/// What each version keeps, and the facts that differ.
pub(super) fn tables(answer: Memo<Answer>) -> AnyView {
    with_both(answer, |compared| {
        let names = [0, 1].map(|end: usize| compared.ends[end].name.as_str());
        let kept = kept_table(&compared.comparison, names);
        let facts = facts_table(&compared.comparison, names);
        let changed = if facts.rows.is_empty() {
            view! { <p class="quiet">"No fact that sizing reads differs."</p> }.into_any()
        } else {
            view! { <div class="facts"><DataTable caption="Facts of each config" table=facts/></div> }
                .into_any()
        };
        view! {
            <section>
                <h2>"What changed in the configs"</h2>
                {changed}
            </section>
            <section>
                <h2>"What each keeps"</h2>
                <DataTable caption="Components of one request" table=kept/>
            </section>
        }
        .into_any()
    })
}
