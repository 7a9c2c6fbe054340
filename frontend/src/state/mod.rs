//! What the page knows, and how a change of it reaches the address.
//!
//! Signals and memos are of few types on purpose: each new one costs the page several kilobytes.

pub(crate) mod address;
mod look;
mod models;

use std::sync::Arc;

use kvscope_charts::figures::Hit;
use kvscope_charts::scene::Point;
use kvscope_protocol::run::Run;
use kvscope_protocol::{Room, ViewState};
use kvscope_sizing::plan::{Measured, NamedTrace};
use kvscope_sizing::{ByteKind, Bytes, Tokens};
use leptos::prelude::*;

pub(crate) use look::{Look, THEMES, ink};
pub(crate) use models::{Accounting, Chosen, ChosenSet, Model, Source, find_model};

/// A value that is compared by identity, so that memos of large values notify only when there is a new one.
#[derive(Debug)]
pub(crate) struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> std::ops::Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// How a change enters the browser's history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// A named action: "back" undoes it.
    Push,
    /// One of many small moves: the entry follows them.
    Replace,
}

/// What the reader opened; it lives as long as the page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened {
    pub(crate) models: Vec<Shared<Model>>,
    pub(crate) runs: Vec<Shared<Run>>,
    /// Requests to replay.
    pub(crate) trace: Option<Shared<NamedTrace>>,
    /// What the agent's runs measured of tiers and links.
    pub(crate) measured: Measured,
}

/// Whether an agent serves the page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Agent {
    /// It was asked and has not answered yet.
    Asking,
    /// A static host, or an agent that has gone.
    Absent,
    /// An agent of this version.
    Present(String),
}

/// Everything that the page shows, shared by all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    view: RwSignal<ViewState>,
    pub(crate) opened: RwSignal<Opened>,
    /// Where the pointer is on the growth figure, and what it reads.
    pub(crate) hover: RwSignal<Option<(Point, Hit)>>,
    /// What the page has to say about a link, a line each.
    pub(crate) notices: RwSignal<Option<String>>,
    /// Why what the reader gave last was refused, a line each.
    pub(crate) refusal: RwSignal<Option<String>>,
    /// Absent until the agent was asked, then its version, empty where there is none.
    agent: RwSignal<Option<String>>,
    /// Whether the first figure is drawn.
    pub(crate) ready: RwSignal<bool>,
    /// The text of a start-up log, as far as it was typed.
    pub(crate) log: RwSignal<Option<String>>,
    /// The version to recompute a log for, in place of the one that it names.
    pub(crate) log_model: RwSignal<Option<String>>,
    /// Changes with the room alone.
    room: Memo<u64>,
    context: Memo<u64>,
    batch: Memo<u64>,
    /// Bytes; zero, which no view has, where none are given.
    memory: Memo<u64>,
    chosen: Memo<Shared<models::ChosenSet>>,
    /// Of the same versions, what the growth figure draws.
    drawn: Memo<Shared<models::ChosenSet>>,
    /// The id of the version whose layers are explained.
    selected: Memo<Option<String>>,
}

impl Page {
    /// The page as its address asks for it.
    pub(crate) fn from_address() -> Self {
        let (view, notices) = address::read();
        let view = RwSignal::new(view);
        let opened = RwSignal::new(Opened::default());
        let chosen = Memo::new(move |before: Option<&Shared<models::ChosenSet>>| {
            let (ids, settings) = view.with(|view| (view.models.clone(), view.settings()));
            let own = opened.with(|opened| opened.models.clone());
            let engine =
                view.with(|view| view.grown_settings().map(|settings| (view.engine.clone(), settings)));
            let set = match before {
                Some(before) if before.is_of(&ids, &settings, &own) => before.clone(),
                _ => Shared::new(models::ChosenSet::new(ids, settings, own)),
            };
            if set.engine == engine { set } else { Shared::new(set.beside(engine)) }
        });
        // It changes with these two alone, as the address has them.
        let asked = Memo::new(move |_| {
            view.with(|view| {
                Some(view.bytes.name().to_owned() + &view.gpus.map_or(String::new(), |gpus| gpus.key()))
            })
        });
        let drawn = Memo::new(move |_| {
            asked.track();
            let set = chosen.get();
            match view.with_untracked(|view| (view.bytes, view.gpus)) {
                (ByteKind::Resident, None) => set,
                (bytes, gpus) => Shared::new(set.asked_for(bytes, gpus)),
            }
        });
        let selected = Memo::new(move |_| {
            let wanted = view.with(|view| view.selected.clone());
            let chosen = chosen.get();
            let mut sized = chosen.list.iter().filter(|chosen| chosen.state.is_ok()).map(|chosen| &chosen.id);
            let first = sized.clone().next();
            sized.find(|id| Some(*id) == wanted.as_ref()).or(first).cloned()
        });
        let page = Self {
            view,
            opened,
            hover: RwSignal::new(None),
            notices: RwSignal::new(notices),
            refusal: RwSignal::new(None),
            agent: RwSignal::new(None),
            ready: RwSignal::new(false),
            log: RwSignal::new(None),
            log_model: RwSignal::new(None),
            room: Memo::new(move |_| view.with(|view| view.room as u64)),
            context: Memo::new(move |_| view.with(|view| view.context.get())),
            batch: Memo::new(move |_| view.with(|view| view.batch)),
            memory: Memo::new(move |_| view.with(|view| view.memory.map_or(0, Bytes::get))),
            chosen,
            drawn,
            selected,
        };
        address::follow(page);
        page
    }

    /// Something of the view, tracked.
    pub(crate) fn view<T>(&self, part: impl FnOnce(&ViewState) -> T) -> T {
        self.view.with(part)
    }

    /// The room that is open, tracked; it changes only with the room.
    pub(crate) fn room(&self) -> Room {
        let _ = self.room.get();
        self.view.with_untracked(|view| view.room)
    }

    /// The context that is set, tracked.
    pub(crate) fn context(&self) -> Tokens {
        Tokens::new(self.context.get())
    }

    /// Requests, tracked.
    pub(crate) fn batch(&self) -> u64 {
        self.batch.get()
    }

    /// The memory that the state is to fit, tracked.
    pub(crate) fn memory(&self) -> Option<Bytes> {
        Some(Bytes::new(self.memory.get())).filter(|memory| *memory > Bytes::ZERO)
    }

    /// The cursor's context: where the pointer is, else where it was set. Tracked.
    pub(crate) fn cursor(&self) -> Tokens {
        self.hover.with(|hover| hover.as_ref().map(|(_, hit)| hit.context)).unwrap_or_else(|| self.context())
    }

    /// The chosen versions with their state under the settings, in order. Tracked.
    pub(crate) fn chosen(&self) -> Shared<models::ChosenSet> {
        self.chosen.get()
    }

    /// The same versions, asked for the bytes that the growth figure draws. Tracked.
    pub(crate) fn drawn(&self) -> Shared<models::ChosenSet> {
        self.drawn.get()
    }

    /// The version whose layers are explained. Tracked.
    pub(crate) fn selected(&self) -> Option<Chosen> {
        let id = self.selected.get()?;
        self.chosen.get().list.iter().find(|chosen| chosen.id == id).cloned()
    }

    /// Whether the layers of `id` are explained. Tracked.
    pub(crate) fn is_selected(&self, id: &str) -> bool {
        self.selected.with(|selected| selected.as_deref() == Some(id))
    }

    /// Whether an agent serves the page. Tracked.
    pub(crate) fn agent(&self) -> Agent {
        match self.agent.get() {
            None => Agent::Asking,
            Some(version) if version.is_empty() => Agent::Absent,
            Some(version) => Agent::Present(version),
        }
    }

    /// Notes the agent's version, or that there is none.
    pub(crate) fn set_agent(&self, version: Option<String>) {
        self.agent.set(Some(version.unwrap_or_default()));
    }

    /// Changes the view and, with it, the address.
    pub(crate) fn change(&self, step: Step, change: impl FnOnce(&mut ViewState)) {
        let mut after = self.view.get_untracked();
        change(&mut after);
        self.enter(step, &after);
    }

    /// Apart from [`Self::change`], which the compiler writes once for each change.
    fn enter(&self, step: Step, after: &ViewState) {
        let before = self.view.get_untracked();
        if *after == before {
            return;
        }
        self.view.set(after.clone());
        address::write(&before, after, step);
    }

    /// Says why something that the reader gave was refused, beside what was said of other things given with it.
    pub(crate) fn refuse(&self, sentence: &str) {
        self.refusal.update(|said| {
            let said = said.get_or_insert_default();
            if !said.is_empty() {
                said.push('\n');
            }
            said.push_str(sentence);
        });
    }

    /// Forgets refusals: they were read, or something new is given.
    pub(crate) fn forget_refusals(&self) {
        self.refusal.set(None);
    }

    /// Explains the layers of a version.
    pub(crate) fn select(&self, id: &str) {
        self.change(Step::Push, |view| view.selected = Some(id.to_owned()));
    }

    /// Adds a version at the end, or takes it away.
    pub(crate) fn toggle_model(&self, id: &str) {
        self.change(Step::Push, |view| match view.models.iter().position(|known| known == id) {
            Some(place) => {
                view.models.remove(place);
                if view.selected.as_deref() == Some(id) {
                    view.selected = None;
                }
            }
            None => view.models.push(id.to_owned()),
        });
    }
}
