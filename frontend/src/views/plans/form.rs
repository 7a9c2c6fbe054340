use kvscope_protocol::PlansView;
use kvscope_sizing::hardware::{gpus, links};
use kvscope_sizing::plan::{Field, FieldKind, Moving, PlanKind};
use leptos::ev;
use leptos::prelude::*;

use super::asked::answer;
use crate::erased::{on, part, words};
use crate::state::{Page, Step};
use crate::ui::{ContextControl, Fold, ModelPicker, OwnConfig, TextBox, open_file};
use crate::views::growth::{batch_box, engine_controls, engine_summary, format_controls, formats_chosen};

/// Which model, asked what, at which context.
pub(super) fn form(page: Page, plan: Memo<u64>) -> AnyView {
    let name = move || page.selected().map_or_else(|| "none".to_owned(), |chosen| chosen.name);
    let picker = view! { <ModelPicker/> <OwnConfig/> }.into_any();
    let summary = move || {
        let _ = plan.get();
        page.view(|view| {
            let first = view.plans.plan.fields().iter().take(2).map(|field| match view.plans.value(field) {
                "" => format!("{} {}", field.label, field.absent),
                value => value.to_owned(),
            });
            first.collect::<Vec<_>>().join(", ")
        })
    };
    let formats = format_controls(page);
    let of_plan = move || {
        let kind = PlanKind::ALL[usize::try_from(plan.get()).unwrap_or(0)];
        rows(page, kind)
    };
    let accounting = move || {
        match PlanKind::ALL[usize::try_from(plan.get()).unwrap_or(0)] {
        PlanKind::Capacity | PlanKind::Prefix => view! {
            <Fold title="Accounting" summary=words(move || engine_summary(page)) content=engine_controls(page)/>
        }
        .into_any(),
        _ => ().into_any(),
    }
    };
    let context = move || match PlanKind::ALL[usize::try_from(plan.get()).unwrap_or(0)] {
        PlanKind::Prefix | PlanKind::Simulate => ().into_any(),
        PlanKind::Cost => view! { <ContextControl/> {batch_box(page)} }.into_any(),
        _ => view! { <ContextControl/> }.into_any(),
    };
    view! {
        <aside class="controls" aria-label="What is planned">
            <Fold title="Question" summary=words(summary) content=part(of_plan).into_any()/>
            <div class="lengths">{part(context)}</div>
            <Fold title="Models" summary=words(name) content=picker/>
            {part(accounting)}
            <Fold
                title="Formats"
                summary=words(move || formats_chosen(page))
                content=formats
            />
        </aside>
    }
    .into_any()
}

/// The options of a plan; those that few need are folded away.
fn rows(page: Page, plan: PlanKind) -> AnyView {
    let (rare, common): (Vec<&Field>, Vec<&Field>) = plan.fields().iter().partition(|field| field.is_rare);
    let mut common: Vec<AnyView> = common.into_iter().map(|field| row(page, field)).collect();
    if plan == PlanKind::Simulate {
        common.push(part(move || trace(page)).into_any());
    }
    let rare: Vec<AnyView> = rare.into_iter().map(|field| row(page, field)).collect();
    if rare.is_empty() {
        return common.into_any();
    }
    view! {
        {common}
        <details class="add">
            <summary>"more options"</summary>
            {rare}
        </details>
    }
    .into_any()
}

/// The trace that is replayed in place of made requests, or how to give one.
fn trace(page: Page) -> AnyView {
    let opened = page.opened.with(|opened| opened.trace.as_ref().map(|named| named.label.clone()));
    match opened {
        Some(label) => view! {
            <p class="note">
                {format!("Replays {label}. ")}
                <button
                    type="button"
                    on:click=on(move |_| page.opened.update(|opened| opened.trace = None))
                >
                    "made requests"
                </button>
            </p>
        }
        .into_any(),
        None => open_file(page, "Open a trace", "open or drop a trace in JSON lines"),
    }
}

fn row(page: Page, field: &'static Field) -> AnyView {
    match field.kind {
        FieldKind::Gpu => {
            let known = gpus().iter().map(|gpu| (gpu.id.as_str(), gpu.name.as_str())).collect();
            select(page, field, known)
        }
        FieldKind::Link => {
            let known = links().iter().map(|link| (link.id.as_str(), link.name.as_str()));
            select(page, field, std::iter::once(("", field.absent)).chain(known).collect())
        }
        FieldKind::Words(known) => {
            let known = known.iter().map(|word| (*word, *word));
            select(page, field, std::iter::once(("", field.absent)).chain(known).collect())
        }
        FieldKind::Text | FieldKind::Setting => view! {
            <TextBox
                label=field.label
                name=field.label
                unit=""
                value=Box::new(move || value(page, field))
                take=Box::new(move |typed| take(page, field, typed))
                usual=field.absent
            />
        }
        .into_any(),
    }
}

fn value(page: Page, field: &'static Field) -> String {
    page.view(|view| view.plans.value(field).to_owned())
}

/// What was typed, unless the plan refuses it: then the reader has the sentence, and the answer stays.
fn take(page: Page, field: &'static Field, typed: &str) -> Result<(), String> {
    untrack(|| {
        let mut plans: PlansView = page.view(|view| view.plans.clone());
        plans.set(field, typed);
        match &*answer(page, &plans, Moving::Nothing, None) {
            Err(refusal) if refusal.place.as_deref() == Some(field.name) => Err(refusal.sentence.clone()),
            _ => Ok(()),
        }
    })?;
    page.change(Step::Push, |view| view.plans.set(field, typed));
    Ok(())
}

fn select(page: Page, field: &'static Field, known: Vec<(&'static str, &'static str)>) -> AnyView {
    let choose = move |event: ev::Event| {
        let chosen = event_target_value(&event);
        page.change(Step::Push, |view| view.plans.set(field, &chosen));
    };
    let option = |(id, name): (&'static str, &'static str)| {
        let is_chosen: Box<dyn Fn() -> bool + Send> =
            Box::new(move || page.view(|view| view.plans.value(field) == id));
        view! { <option value=id prop:selected=is_chosen>{name}</option> }.into_any()
    };
    let options: Vec<AnyView> = known.into_iter().map(option).collect();
    view! {
        <label class="sentence">
            <span>{field.label}</span>
            <span class="value"><select aria-label=field.label on:change=on(choose)>{options}</select></span>
        </label>
    }
    .into_any()
}
