//! Light or dark, the pixel ratio, and whether the figures' font has come: what every canvas repaints for.

use std::time::Duration;

use kvscope_charts::scene::Ink;
use kvscope_charts::{Theme, font};
use leptos::prelude::*;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};

use crate::erased::effect;

const KEY: &str = "kvscope.theme";
const PREFERS_DARK: &str = "(prefers-color-scheme: dark)";
/// How long the first figure waits for its font.
const FONT_PATIENCE: Duration = Duration::from_millis(1500);

/// What the reader can choose; the first is as the system has it.
pub(crate) const THEMES: [&str; 3] = ["system", "light", "dark"];

/// What canvases repaint for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// One of [`THEMES`]; the first where absent.
    pub(crate) choice: RwSignal<Option<String>>,
    system_is_dark: RwSignal<bool>,
    /// Device pixels per CSS pixel.
    pub(crate) ratio: RwSignal<f64>,
    pub(crate) font_is_here: RwSignal<bool>,
}

/// A colour in both themes, for CSS that follows the theme by itself.
pub(crate) fn ink(ink: Ink) -> String {
    format!("light-dark({}, {})", Theme::light().resolve(ink).hex(), Theme::dark().resolve(ink).hex())
}

impl Look {
    /// The look of this browser, followed from now on.
    pub(crate) fn follow() -> Self {
        let stored = storage().and_then(|storage| storage.get_item(KEY).ok().flatten());
        let choice = RwSignal::new(stored.filter(|name| THEMES.contains(&name.as_str())));
        let system_is_dark = RwSignal::new(matches(PREFERS_DARK));
        listen(PREFERS_DARK, move || system_is_dark.set(matches(PREFERS_DARK)));
        effect(move || {
            let choice = choice.get().unwrap_or_else(|| THEMES[0].to_owned());
            if let Some(root) = document().document_element() {
                let _ = root.set_attribute("data-theme", &choice);
            }
            if let Some(storage) = storage() {
                // Private windows may refuse; the choice then lasts as long as the page.
                let _ = if choice == THEMES[0] {
                    storage.remove_item(KEY)
                } else {
                    storage.set_item(KEY, &choice)
                };
            }
        });
        let ratio = RwSignal::new(window().device_pixel_ratio());
        follow_ratio(ratio);
        let font_is_here = RwSignal::new(false);
        load_font(font_is_here);
        Self { choice, system_is_dark, ratio, font_is_here }
    }

    /// The inks of the moment, tracked.
    pub(crate) fn theme(&self) -> Theme {
        let is_dark = match self.choice.get().as_deref() {
            Some("light") => false,
            Some("dark") => true,
            _ => self.system_is_dark.get(),
        };
        if is_dark { Theme::dark() } else { Theme::light() }
    }
}

fn storage() -> Option<web_sys::Storage> {
    window().local_storage().ok().flatten()
}

fn matches(query: &str) -> bool {
    window().match_media(query).ok().flatten().is_some_and(|list| list.matches())
}

/// Calls `changed` whenever `query` begins or ceases to hold, for as long as the page lives.
fn listen(query: &str, changed: impl Fn() + 'static) {
    let Ok(Some(list)) = window().match_media(query) else { return };
    let closure = Closure::<dyn Fn()>::new(changed);
    list.set_onchange(Some(closure.as_ref().unchecked_ref()));
    // The list must live as long as it listens; so must the closure.
    closure.forget();
    std::mem::forget(list);
}

/// A query holds for one ratio only, so each change needs a new one.
fn follow_ratio(ratio: RwSignal<f64>) {
    let now = window().device_pixel_ratio();
    ratio.set(now);
    listen(&format!("(resolution: {now}dppx)"), move || {
        if (window().device_pixel_ratio() - ratio.get_untracked()).abs() > 1e-6 {
            follow_ratio(ratio);
        }
    });
}

/// Waits for both faces; without them, or too late, figures are painted in the fallback.
fn load_font(font_is_here: RwSignal<bool>) {
    set_timeout(move || font_is_here.set(true), FONT_PATIENCE);
    let fonts = document().fonts();
    let regular = fonts.load(&format!("12px '{}'", font::FAMILY));
    let bold = fonts.load(&format!("bold 12px '{}'", font::FAMILY));
    leptos::task::spawn_local(async move {
        let both: js_sys::Array = [regular, bold].into_iter().map(JsValue::from).collect();
        let _ = wasm_bindgen_futures::JsFuture::from(js_sys::Promise::all(&both)).await;
        font_is_here.set(true);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLES: &str = include_str!("../../../assets/site/styles.css");

    #[test]
    fn the_pages_inks_are_those_of_its_figures() {
        let inks = [
            ("paper", Ink::Paper),
            ("text", Ink::Text),
            ("muted", Ink::Muted),
            ("grid", Ink::Grid),
            ("accent", Ink::Accent),
        ];
        for (name, role) in inks {
            let rule = format!("--{name}: {};", ink(role));
            assert!(STYLES.contains(&rule), "styles.css should say {rule}");
        }
    }

    #[test]
    fn the_pages_face_is_that_of_its_figures() {
        assert!(STYLES.contains(&format!("--face: {};", font::FAMILY_STACK.replace('\'', "\""))));
    }
}
