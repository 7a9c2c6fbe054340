use std::sync::Arc;

use kvscope_charts::export::{Export, Origin};
use kvscope_charts::figures::{PlanAsked, PlanLines};
use kvscope_charts::versions::{USUAL_WIDTH, set};
use kvscope_sizing::plan::PlanKind;
use leptos::prelude::*;

use super::Answered;
use super::asked::has_context;
use crate::canvas::{Drawn, DrawnMemo, Figure};
use crate::erased::{mark, nothing, part};
use crate::state::Page;
use crate::ui::{DataTable, copy_link, figure_bar, units_choice};

/// What is drawn of the answer over context, with its row of choices and its table.
pub(super) fn figure(page: Page, answer: Memo<Answered>) -> AnyView {
    let width = RwSignal::new(0.0);
    let table_is_open = RwSignal::new(false);
    let base: DrawnMemo = Memo::new(move |_| {
        let answer = answer.get();
        let lines = answer.as_ref().as_ref().ok()?.lines.as_ref()?;
        let size = PlanLines::room(lines, width.get());
        let figure = PlanLines::layout(lines, page.view(|view| view.units), size).ok()?;
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
    let ways = move || {
        if !has_lines() {
            return copy_link(page);
        }
        figure_bar(page, "plan", table_is_open, Arc::new(move |origin| export(page, &answer.get(), origin)))
    };
    view! {
        <section class="drawn" data-lines=mark(move || has_lines().then(|| "true".to_owned()))>
            <div class="bar">
                {units_choice()}
                {part(ways)}
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

/// The figure with all that was asked.
fn export(page: Page, answered: &Answered, origin: Origin) -> Result<Export, String> {
    let answer = answered.as_ref().map_err(|refusal| refusal.sentence.clone())?;
    let lines = answer.lines.as_ref().ok_or_else(|| "This answer has no figure.".to_owned())?;
    let names: Vec<String> = match page.view(|view| view.plans.plan) {
        PlanKind::Label => page.chosen().list.iter().map(|chosen| chosen.name.clone()).collect(),
        _ => page.selected().into_iter().map(|chosen| chosen.name).collect(),
    };
    let asked = page.view(|view| {
        let mut inputs = vec![
            ("plan".to_owned(), view.plans.plan.name().to_owned()),
            ("models".to_owned(), names.join(", ")),
        ];
        if has_context(view.plans.plan) {
            inputs.push(("context".to_owned(), view.context.to_string()));
        }
        let given = view.plans.asked();
        inputs.extend(given.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())));
        inputs.extend(set(&view.settings()));
        let assumptions = answer.warnings.iter().map(ToString::to_string).collect();
        PlanAsked { units: view.units, inputs, assumptions }
    });
    PlanLines::export(lines, &answer.sheet, asked, USUAL_WIDTH, origin).map_err(|why| why.to_string())
}
