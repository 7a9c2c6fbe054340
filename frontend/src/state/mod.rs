//! What the page knows, and how a change of it reaches the address.

pub(crate) mod address;
mod look;
mod models;

use std::sync::Arc;

use kvscope_protocol::run::Run;
use kvscope_protocol::{Room, ViewState};
use kvscope_sizing::{Settings, Tokens};
use leptos::prelude::*;

use crate::agent_client::AgentState;

pub(crate) use look::{Look, ThemeChoice, ink};
pub(crate) use models::{Chosen, Model};

/// A value that is compared by identity, so that memos of large values notify only when there is a new one.
#[derive(Debug)]
pub(crate) struct Shared<T: ?Sized>(Arc<T>);

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: ?Sized> std::ops::Deref for Shared<T> {
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

/// Everything that the page shows, shared by all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    view: RwSignal<ViewState>,
    /// Configs that the reader opened; they live as long as the page.
    pub(crate) own_models: RwSignal<Vec<Shared<Model>>>,
    /// The context under the pointer, while it is over a figure.
    pub(crate) hover: RwSignal<Option<Tokens>>,
    /// What the page has to say about a link, one sentence each.
    pub(crate) notices: RwSignal<Vec<String>>,
    /// Why the last thing that the reader gave was refused.
    pub(crate) refusal: RwSignal<Option<String>>,
    /// Whether an agent serves the page.
    pub(crate) agent: RwSignal<AgentState>,
    /// Runs that were dropped on the page.
    pub(crate) dropped_runs: RwSignal<Vec<Shared<Run>>>,
    /// Whether the first figure is drawn.
    pub(crate) ready: RwSignal<bool>,
    pub(crate) room: Memo<Room>,
    pub(crate) context: Memo<Tokens>,
    pub(crate) batch: Memo<u64>,
    pub(crate) settings: Memo<Settings>,
    /// The chosen versions with their state under the settings, in order.
    pub(crate) chosen: Memo<Shared<Vec<Chosen>>>,
    /// The version whose layers are explained.
    pub(crate) selected: Memo<Option<Shared<Model>>>,
}

impl Page {
    /// The page as its address asks for it.
    pub(crate) fn from_address() -> Self {
        let (view, notices) = address::read();
        let view = RwSignal::new(view);
        let own_models = RwSignal::new(Vec::new());
        let ids = Memo::new(move |_| view.with(|view| view.models.clone()));
        let settings = Memo::new(move |_| view.with(ViewState::settings));
        let found = Memo::new(move |_| Shared::new(models::find_all(&ids.get(), &own_models.get())));
        let chosen = Memo::new(move |_| Shared::new(models::size_all(&found.get(), &settings.get())));
        let selected = Memo::new(move |_| {
            let wanted = view.with(|view| view.selected.clone());
            let chosen = chosen.get();
            let of_id = chosen.iter().find(|chosen| Some(&chosen.id) == wanted.as_ref() && chosen.model.is_some());
            of_id.or(chosen.iter().find(|chosen| chosen.state.is_ok()))?.model.clone()
        });
        let page = Self {
            view,
            own_models,
            hover: RwSignal::new(None),
            notices: RwSignal::new(notices),
            refusal: RwSignal::new(None),
            agent: RwSignal::new(AgentState::Asking),
            dropped_runs: RwSignal::new(Vec::new()),
            ready: RwSignal::new(false),
            room: Memo::new(move |_| view.with(|view| view.room)),
            context: Memo::new(move |_| view.with(|view| view.context)),
            batch: Memo::new(move |_| view.with(|view| view.batch)),
            settings,
            chosen,
            selected,
        };
        address::follow(page);
        page
    }

    /// Something of the view, tracked.
    pub(crate) fn view<T>(&self, part: impl FnOnce(&ViewState) -> T) -> T {
        self.view.with(part)
    }

    /// Changes the view and, with it, the address.
    pub(crate) fn change(&self, step: Step, change: impl FnOnce(&mut ViewState)) {
        let before = self.view.get_untracked();
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return;
        }
        self.view.set(after.clone());
        address::write(&before, &after, step);
    }

    /// The cursor's context: where the pointer is, else where it was set.
    pub(crate) fn cursor(&self) -> Tokens {
        self.hover.get().unwrap_or_else(|| self.context.get())
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
