use kvscope_charts::Size;
use kvscope_charts::figures::PlanLines;
use leptos::prelude::*;

use super::Answered;
use crate::canvas::{Drawn, DrawnMemo, Figure};
use crate::erased::{mark, nothing, part};
use crate::state::Page;
use crate::ui::{DataTable, copy_link, table_button, units_choice};

/// What is drawn of the answer over context, with its row of choices and its table.
pub(super) fn figure(page: Page, answer: Memo<Answered>) -> AnyView {
    let width = RwSignal::new(0.0);
    let table_is_open = RwSignal::new(false);
    let base: DrawnMemo = Memo::new(move |_| {
        let answer = answer.get();
        let lines = answer.as_ref().as_ref().ok()?.lines.as_ref()?;
        let size = Size::new(width.get(), (width.get() * 0.42).clamp(260.0, 400.0));
        let figure = PlanLines::layout(lines, page.context(), size).ok()?;
        Some(Drawn::plain(figure.scene().clone()))
    });
    let sentence = move || base.get().map(|drawn| drawn.scene.description.clone());
    let has_lines = move || answer.with(|answer| matches!(&**answer, Ok(answer) if answer.lines.is_some()));
    let title = move || {
        base.get().map_or_else(nothing, |drawn| view! { <h2>{drawn.scene.title.clone()}</h2> }.into_any())
    };
    let table = move || {
        let answer = answer.get();
        match answer.as_ref() {
            Ok(answer) if table_is_open.get() => answer.lines.as_ref().map_or_else(nothing, |lines| {
                view! { <DataTable caption="The lines, point by point" table=PlanLines::table(lines)/> }
                    .into_any()
            }),
            _ => nothing(),
        }
    };
    let toggle = move || if has_lines() { table_button(table_is_open) } else { nothing() };
    view! {
        <section class="drawn" data-lines=mark(move || has_lines().then(|| "true".to_owned()))>
            <div class="bar">
                {units_choice()}
                <div class="choice">{part(toggle)} {copy_link(page)}</div>
            </div>
            {part(title)}
            <div class="figure wide" role="img" aria-label=mark(sentence)>
                <Figure name="plan" width=width base=base/>
            </div>
            {part(table)}
        </section>
    }
    .into_any()
}
