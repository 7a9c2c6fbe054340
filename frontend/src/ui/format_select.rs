use leptos::ev;
use leptos::prelude::*;

use crate::erased::on;
use crate::state::Page;

/// What each model's own config asks for.
const OWN: &str = "model's own";

/// One of several names, a storage format's or a GPU's, or `usual` in its place.
#[component]
pub(crate) fn FormatSelect(
    label: &'static str,
    names: Vec<&'static str>,
    chosen: fn(Page) -> Option<&'static str>,
    choose: fn(Page, Option<String>),
    /// What stands for none of them.
    #[prop(default = OWN)]
    usual: &'static str,
) -> impl IntoView {
    let page = expect_context::<Page>();
    let changed = move |event: ev::Event| {
        let name = event_target_value(&event);
        choose(page, (name != usual).then_some(name));
    };
    let option = |name: &'static str| {
        let is_chosen = move || chosen(page).unwrap_or(usual) == name;
        let is_chosen: Box<dyn Fn() -> bool + Send> = Box::new(is_chosen);
        view! { <option value=name prop:selected=is_chosen>{name}</option> }.into_any()
    };
    let options: Vec<AnyView> = std::iter::once(usual).chain(names).map(option).collect();
    view! {
        <label class="sentence">
            <span>{label}</span>
            <span class="value"><select aria-label=label on:change=on(changed)>{options}</select></span>
        </label>
    }
    .into_any()
}
