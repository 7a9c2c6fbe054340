//! The whole page: header, rooms, and what can be dropped on it.

use std::sync::Arc;

use kvscope_protocol::Room;
use leptos::prelude::*;
use leptos::{ev, html};
use wasm_bindgen::JsCast;

use crate::agent_client;
use crate::erased::{effect, mark, nothing, on, part, words};
use crate::files;
use crate::find::{Door, find};
use crate::own_link;
use crate::state::{Agent, Look, Page, THEMES};
use crate::ui::follow;
use crate::views::claims::claims_room;
use crate::views::growth::GrowthRoom;
use crate::views::log::{self, log_room};
use crate::views::measure::MeasureRoom;
use crate::views::models::models_room;
use crate::views::plans::plans_room;
use crate::views::versions::versions_room;

const DOORS: &[Door] = &[
    (Room::Growth, "Growth", "curves over context, layers, components, memory, engine"),
    (Room::Versions, "Versions", "what changed between two, compare, family"),
    (Room::Models, "Models", "table of all versions, sort, slope, fixed"),
    (Room::Plans, "Plans", "capacity, prefix reuse, hand-over, offload, compression, labels, cost"),
    (Room::Claims, "Claims", "published figures, verdicts"),
    (Room::Log, "Log", "start-up log of an engine"),
    (Room::Measure, "Measure", "runs, bench, latency, residuals"),
];

/// The page.
#[component]
pub(crate) fn App() -> impl IntoView {
    let look = Look::follow();
    let page = Page::from_address();
    provide_context(look);
    provide_context(page);
    leptos::task::spawn_local(async move { page.set_agent(agent_client::version().await) });
    accept_drops(page);
    own_link::open(page);

    let room = move || match page.room() {
        Room::Growth => view! { <GrowthRoom/> }.into_any(),
        Room::Versions => versions_room(page),
        Room::Plans => plans_room(page),
        Room::Models => models_room(page),
        Room::Claims => claims_room(page),
        Room::Log => log_room(page),
        Room::Measure => view! { <MeasureRoom/> }.into_any(),
    };
    view! {
        <div class="page" data-ready=mark(move || page.ready.get().then(|| "true".to_owned()))>
            <a class="skip" href="#content">"Skip to the figures"</a>
            {header(page, look)}
            {part(move || refusal(page))}
            {part(move || notices(page))}
            {part(room)}
            {footer(page)}
        </div>
    }
    .into_any()
}

fn header(page: Page, look: Look) -> AnyView {
    let agent = move || match page.agent() {
        Agent::Asking => "asking for an agent".to_owned(),
        Agent::Absent => "no agent".to_owned(),
        Agent::Present(version) => format!("agent {version}"),
    };
    let is_there = move || matches!(page.agent(), Agent::Present(_)).then(|| "present".to_owned());
    let choose = move |event: ev::Event| look.choice.set(Some(event_target_value(&event)));
    let theme = |name: &'static str| {
        let is_chosen = move || look.choice.get().as_deref().unwrap_or(THEMES[0]) == name;
        let is_chosen: Box<dyn Fn() -> bool + Send> = Box::new(is_chosen);
        view! { <option value=name prop:selected=is_chosen>{name}</option> }.into_any()
    };
    let themes: Vec<AnyView> = THEMES.into_iter().map(theme).collect();
    let doors: Vec<AnyView> = DOORS.iter().map(|(room, name, _)| door(page, *room, name)).collect();
    let rooms = NodeRef::<html::Nav>::new();
    effect(move || {
        let open = DOORS.iter().position(|(room, ..)| *room == page.room());
        if let (Some(rooms), Some(open)) = (rooms.get(), open) {
            // Widths are there once the page is laid out.
            request_animation_frame(move || bring_into_view(&rooms, open));
        }
    });
    view! {
        <header class="top">
            <span class="wordmark">"kvscope"</span>
            <nav aria-label="Rooms" node_ref=rooms>{doors}</nav>
            {find(page, DOORS)}
            <span class="agent" data-agent=mark(is_there)>{words(agent)}</span>
            <label class="theme">"theme " <select on:change=on(choose)>{themes}</select></label>
        </header>
    }
    .into_any()
}

/// Scrolls the rooms of a narrow screen, of which not all are in sight, to the one at `place`.
fn bring_into_view(rooms: &web_sys::HtmlElement, place: usize) {
    let Ok(Some(door)) = rooms.query_selector(&format!(":nth-child({})", place + 1)) else { return };
    if let Some(door) = door.dyn_ref::<web_sys::HtmlElement>() {
        let before = door.offset_left() - rooms.offset_left();
        rooms.set_scroll_left(before - (rooms.client_width() - door.offset_width()) / 2);
    }
}

/// A link to a room that keeps everything else as it is.
fn door(page: Page, room: Room, name: &'static str) -> AnyView {
    let (link, open) = follow(page, Arc::new(move |view| view.room = room));
    let is_current = move || (page.room() == room).then(|| "page".to_owned());
    view! { <a href=link on:click=open aria-current=mark(is_current)>{name}</a> }.into_any()
}

/// Why what the reader gave last was refused: a line for each of several files.
fn refusal(page: Page) -> AnyView {
    let Some(sentences) = page.refusal.get() else { return nothing() };
    let line = |sentence: &str| view! { <span class="line">{sentence.to_owned()}</span> }.into_any();
    let lines: Vec<AnyView> = sentences.lines().map(line).collect();
    view! {
        <p class="said refusal">
            <span role="alert">{lines}</span>
            <button type="button" on:click=on(move |_| page.forget_refusals())>"dismiss"</button>
        </p>
    }
    .into_any()
}

/// What of the link could not be followed.
fn notices(page: Page) -> AnyView {
    let Some(lines) = page.notices.get() else { return nothing() };
    let lines: Vec<AnyView> =
        lines.lines().map(|line| view! { <p>{line.to_owned()}</p> }.into_any()).collect();
    view! {
        <div class="said" role="status">
            {lines}
            <button type="button" on:click=on(move |_| page.notices.set(None))>"dismiss"</button>
        </div>
    }
    .into_any()
}

fn footer(page: Page) -> AnyView {
    let without_agent = move || match page.agent() {
        Agent::Absent => view! {
            <p data-notice="no-agent">
                "No agent serves this page, so it cannot list or start measurements on your machine. "
                <code>"cargo xtask serve"</code>" starts one. All that is computed works without it."
            </p>
        }
        .into_any(),
        Agent::Asking | Agent::Present(_) => nothing(),
    };
    view! {
        <footer class="foot">
            {part(without_agent)}
            <p>
                "Bytes are computed in this browser from each version's config; nothing that you open is uploaded. "
                "Logical bytes: dense, without an engine's pages or padding. GB is 10"<sup>"9"</sup>" bytes, GiB 2"<sup>"30"</sup>"."
            </p>
        </footer>
    }
    .into_any()
}

fn accept_drops(page: Page) {
    window_event_listener(ev::dragover, |event| event.prevent_default());
    window_event_listener(ev::drop, move |event| {
        event.prevent_default();
        let Some(list) = event.data_transfer().and_then(|data| data.files()) else { return };
        page.forget_refusals();
        let (logs, others): (Vec<_>, Vec<_>) =
            files::listed(&list).into_iter().partition(|file| log::is_log(page, file));
        for file in &logs {
            log::open(page, file);
        }
        files::open_all(page, &others);
    });
}
