//! Whose reserved bytes stand beside the logical ones: an engine, its version, and the settings that change most.

use kvscope_protocol::{EngineSetting, Standing};
use kvscope_sizing::Settings;
use kvscope_sizing::engine::{Engine, EngineKind};
use leptos::ev;
use leptos::prelude::*;

use crate::erased::{nothing, on, part};
use crate::state::{Page, Step};
use crate::ui::TextBox;

/// What leaves a setting to the engine.
const DEFAULT: &str = "default";

/// The engine in a few words.
pub(crate) fn summary(page: Page) -> String {
    page.view(|view| view.engine.to_string())
}

/// The controls of the accounting.
pub(crate) fn controls(page: Page) -> AnyView {
    // The rows are made anew with the kind of the engine alone, so that typing keeps its place.
    let kind = Memo::new(move |_| page.view(|view| view.engine.kind()) as u64);
    let chosen = move || {
        let _ = kind.get();
        page_kind(page)
    };
    let choose = move |event: ev::Event| {
        let name = event_target_value(&event);
        if let Ok(engine) = name.parse::<Engine>() {
            page.change(Step::Push, |view| view.engine = engine);
        }
    };
    let option = |of: EngineKind| {
        let is_chosen: Box<dyn Fn() -> bool + Send> = Box::new(move || chosen() == of);
        view! { <option value=of.name() prop:selected=is_chosen>{of.name()}</option> }.into_any()
    };
    let options: Vec<AnyView> = EngineKind::ALL.into_iter().map(option).collect();
    let rows = move || {
        let kind = chosen();
        let mut rows = settings(page, kind, Standing::Common);
        if kind.newest().is_some() {
            rows.insert(0, version(page));
        }
        let rare = settings(page, kind, Standing::Rare);
        if !rare.is_empty() {
            rows.push(
                view! {
                    <details class="add rare">
                        <summary>"all other settings"</summary>
                        {rare}
                    </details>
                }
                .into_any(),
            );
        }
        rows.into_any()
    };
    view! {
        <label class="sentence">
            <span>"engine"</span>
            <span class="value"><select aria-label="Engine" on:change=on(choose)>{options}</select></span>
        </label>
        {part(rows)}
        {part(move || doubt(page))}
    }
    .into_any()
}

/// Untracked: who reads it tracks the memo of the kind.
fn page_kind(page: Page) -> EngineKind {
    untrack(|| page.view(|view| view.engine.kind()))
}

/// That the version is not known, and which rules are taken.
fn doubt(page: Page) -> AnyView {
    match page.view(|view| view.engine.warning()) {
        Some(warning) => view! { <p class="refused">{warning.message}</p> }.into_any(),
        None => nothing(),
    }
}

fn version(page: Page) -> AnyView {
    let asked = move || {
        let text = page.view(|view| view.engine.to_string());
        text.split_once('@').map_or(String::new(), |(_, version)| version.to_owned())
    };
    let take = move |typed: &str| {
        let name = page_kind(page).name();
        let text = if typed.trim().is_empty() { name.to_owned() } else { format!("{name}@{}", typed.trim()) };
        let engine = text.parse::<Engine>().map_err(|error| error.to_string())?;
        page.change(Step::Push, |view| view.engine = engine);
        Ok(())
    };
    view! {
        <TextBox label="version" name="Version of the engine" unit="" value=Box::new(asked) take=Box::new(take) usual="newest known"/>
    }
    .into_any()
}

/// K and V in formats of their own, where the engine has them.
pub(super) fn k_and_v(page: Page) -> AnyView {
    let kind = Memo::new(move |_| page.view(|view| view.engine.kind()) as u64);
    let rows = move || {
        let _ = kind.get();
        settings(page, page_kind(page), Standing::Format).into_any()
    };
    part(rows).into_any()
}

/// The settings of one standing that the engine has.
fn settings(page: Page, kind: EngineKind, standing: Standing) -> Vec<AnyView> {
    let usual = if standing == Standing::Format { "as K/V" } else { DEFAULT };
    let one = |setting| {
        let row = row(page, setting, usual);
        if standing != Standing::Rare {
            return row;
        }
        // A name that few know says what it is.
        view! { {row} <p class="note">{Settings::about(setting.name())}</p> }.into_any()
    };
    EngineSetting::of(kind, standing).into_iter().map(one).collect()
}

fn row(page: Page, setting: EngineSetting, usual: &'static str) -> AnyView {
    let value = move || page.view(|view| setting.value(&view.engine_own)).unwrap_or_default();
    let take = move |typed: &str| {
        let mut own = untrack(|| page.view(|view| view.engine_own.clone()));
        setting.set(&mut own, typed).map_err(|why| format!("{}: {why}", setting.label()))?;
        page.change(Step::Push, |view| view.engine_own = own);
        Ok(())
    };
    let label = setting.label();
    let words = Settings::words(setting.name());
    if words.is_empty() {
        return view! {
            <TextBox
                label=label.clone()
                name=label
                unit=""
                value=Box::new(value)
                take=Box::new(take)
                usual=usual
            />
        }
        .into_any();
    }
    let choose = move |event: ev::Event| {
        let typed = event_target_value(&event);
        // What is offered can be set.
        let _ = take(if typed == usual { "" } else { &typed });
    };
    let option = |name: &'static str| {
        let is_chosen = move || if value().is_empty() { name == usual } else { value() == name };
        let is_chosen: Box<dyn Fn() -> bool + Send> = Box::new(is_chosen);
        view! { <option value=name prop:selected=is_chosen>{name}</option> }.into_any()
    };
    let options: Vec<AnyView> = std::iter::once(usual).chain(words).map(option).collect();
    view! {
        <label class="sentence">
            <span>{label}</span>
            <span class="value"><select on:change=on(choose)>{options}</select></span>
        </label>
    }
    .into_any()
}
