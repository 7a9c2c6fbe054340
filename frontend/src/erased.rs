//! Closures and handlers of few types.
//!
//! For each type of closure that a view or an effect holds, the compiler writes the whole machinery around it once
//! more, two kilobytes at a time. Behind these boxes all closures of one result are one type, which halves the page.

use leptos::prelude::*;

/// Text or an attribute that follows signals.
pub(crate) type Words = Box<dyn Fn() -> String + Send>;
/// An attribute that is there or not.
pub(crate) type Mark = Box<dyn Fn() -> Option<String> + Send>;
/// A part of the page that is made anew when what it reads changes.
pub(crate) type Part = Box<dyn Fn() -> AnyView + Send>;
/// What an event does.
pub(crate) type Handler<E> = Box<dyn FnMut(E)>;

pub(crate) fn words(text: impl Fn() -> String + Send + 'static) -> Words {
    Box::new(text)
}

pub(crate) fn mark(text: impl Fn() -> Option<String> + Send + 'static) -> Mark {
    Box::new(text)
}

/// `true` or `false`, as ARIA wants it.
pub(crate) fn truth(holds: impl Fn() -> bool + Send + 'static) -> Words {
    Box::new(move || if holds() { "true".to_owned() } else { "false".to_owned() })
}

pub(crate) fn part(view: impl Fn() -> AnyView + Send + 'static) -> Part {
    Box::new(view)
}

pub(crate) fn on<E: 'static>(handler: impl FnMut(E) + 'static) -> Handler<E> {
    Box::new(handler)
}

/// Runs `work` now and whenever what it reads changes.
pub(crate) fn effect(work: impl Fn() + 'static) {
    let work: Box<dyn Fn()> = Box::new(work);
    Effect::new(move |_: Option<()>| work());
}

/// Nothing, where a part may be absent.
pub(crate) fn nothing() -> AnyView {
    ().into_any()
}
