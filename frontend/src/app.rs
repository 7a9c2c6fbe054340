//! The whole page: header, rooms, and what can be dropped on it.

use kvscope_protocol::{Room, ViewState};
use leptos::ev;
use leptos::prelude::*;

use crate::agent_client::{self, AgentState};
use crate::files;
use crate::state::address::link_to;
use crate::state::{Look, Page, Step, ThemeChoice};
use crate::views::growth::GrowthRoom;
use crate::views::measure::MeasureRoom;

/// The page.
#[component]
pub(crate) fn App() -> impl IntoView {
    let look = Look::follow();
    let page = Page::from_address();
    provide_context(look);
    provide_context(page);
    leptos::task::spawn_local(async move { page.agent.set(agent_client::ask().await) });
    accept_drops(page);

    view! {
        <div class="page" data-ready=move || page.ready.get().then_some("true")>
            <a class="skip" href="#content">"Skip to the figures"</a>
            <Header/>
            <Said/>
            {move || match page.room.get() {
                Room::Growth => view! { <GrowthRoom/> }.into_any(),
                Room::Measure => view! { <MeasureRoom/> }.into_any(),
            }}
            <Footer/>
        </div>
    }
}

#[component]
fn Header() -> impl IntoView {
    let page = expect_context::<Page>();
    let look = expect_context::<Look>();
    let room = move |room: Room, name: &'static str| {
        let link = move || page.view(|view| link_to(&ViewState { room, ..view.clone() }));
        let open = move |event: ev::MouseEvent| {
            if event.ctrl_key() || event.meta_key() || event.shift_key() {
                return;
            }
            event.prevent_default();
            page.change(Step::Push, |view| view.room = room);
        };
        view! {
            <a href=link on:click=open aria-current=move || (page.room.get() == room).then_some("page")>{name}</a>
        }
    };
    let agent = move || match page.agent.get() {
        AgentState::Asking => ("asking", "asking for an agent".to_owned()),
        AgentState::Absent => ("absent", "no agent".to_owned()),
        AgentState::Present { version } => ("present", format!("agent {version}")),
    };
    let choose = move |event: ev::Event| {
        let name = event_target_value(&event);
        look.choice.set(ThemeChoice::ALL.into_iter().find(|choice| choice.name() == name).unwrap_or_default());
    };
    view! {
        <header class="top">
            <span class="wordmark">"kvscope"</span>
            <nav aria-label="Rooms">
                {room(Room::Growth, "Growth")}
                {room(Room::Measure, "Measure")}
            </nav>
            <span class="agent" data-agent=move || agent().0>{move || agent().1}</span>
            <label class="theme">
                "theme "
                <select on:change=choose prop:value=move || look.choice.get().name()>
                    {ThemeChoice::ALL
                        .map(|choice| {
                            let name = choice.name();
                            view! { <option value=name selected=move || look.choice.get() == choice>{name}</option> }
                        })
                        .collect_view()}
                </select>
            </label>
        </header>
    }
}

/// What links and files had to say. Each line can be put away.
#[component]
fn Said() -> impl IntoView {
    let page = expect_context::<Page>();
    let refusal = move || {
        page.refusal.get().map(|sentence| {
            view! {
                <p class="said refusal">
                    <span role="alert">{sentence}</span>
                    <button type="button" on:click=move |_| page.refusal.set(None)>"dismiss"</button>
                </p>
            }
        })
    };
    let notices = move || {
        let notices = page.notices.get();
        (!notices.is_empty()).then(|| {
            view! {
                <div class="said" role="status">
                    {notices.into_iter().map(|notice| view! { <p>{notice}</p> }).collect_view()}
                    <button type="button" on:click=move |_| page.notices.set(Vec::new())>"dismiss"</button>
                </div>
            }
        })
    };
    view! { {refusal} {notices} }
}

#[component]
fn Footer() -> impl IntoView {
    let page = expect_context::<Page>();
    let without_agent = move || {
        (page.agent.get() == AgentState::Absent).then(|| {
            view! {
                <p data-notice="no-agent">
                    "No agent serves this page, so it cannot list or start measurements on your machine. "
                    <code>"cargo xtask serve"</code>" starts one. All that is computed works without it."
                </p>
            }
        })
    };
    view! {
        <footer class="foot">
            {without_agent}
            <p>
                "Bytes are computed in this browser from each version's config.json; nothing that you open is uploaded. "
                "Logical bytes: dense, without an engine's pages or padding. GB is 10"<sup>"9"</sup>" bytes, GiB 2"<sup>"30"</sup>"."
            </p>
        </footer>
    }
}

fn accept_drops(page: Page) {
    window_event_listener(ev::dragover, |event| event.prevent_default());
    window_event_listener(ev::drop, move |event| {
        event.prevent_default();
        let Some(list) = event.data_transfer().and_then(|data| data.files()) else { return };
        for file in (0..list.length()).filter_map(|index| list.get(index)) {
            files::open(page, &file);
        }
    });
}
