//! Growth: curves over context, a strip a model, and what one version keeps, layer by layer.

mod beside;
mod breakdown;
mod chart;
mod comparison;
mod controls;
mod curves;
mod derivation;
mod engine;
mod keys;
mod layers;
mod published;
mod room;
mod tooltip;

use kvscope_charts::headline::{HeadlineInput, Reserved, headline};
use leptos::prelude::*;

use crate::erased::{effect, words};
use crate::state::Page;

/// The room that answers "how much, and what makes it grow?".
#[component]
pub(crate) fn GrowthRoom() -> impl IntoView {
    let page = expect_context::<Page>();
    effect(move || document().set_title(&format!("{} · kvscope", finding(page))));
    view! {
        <div class="growth room">
            <div class="finding">
                <h1>{words(move || finding(page))}</h1>
                <p class="quiet">{words(move || what_is_drawn(page))}</p>
            </div>
            {controls::controls(page)}
            <main id="content">
                {chart::growth_chart(page)}
                {layers::layer_strips(page)}
                {comparison::comparison(page)}
                {breakdown::breakdown(page)}
            </main>
        </div>
    }
    .into_any()
}

/// The headline: made from the figures at the context that is set.
fn finding(page: Page) -> String {
    let (chosen, context, batch) = (page.chosen(), page.context(), page.batch());
    let mut reserved = Vec::new();
    let mut values = Vec::new();
    for (version, state) in chosen.sized() {
        if let Ok(bytes) = state.resident(context, batch) {
            values.push((version.name.as_str(), bytes));
            reserved.push(chosen.reserved(version, (context, batch)).and_then(Result::ok));
        }
    }
    if values.is_empty()
        && let Some(why) = refusal(page)
    {
        return why;
    }
    let by = chosen.engine.as_ref().map(|(engine, _)| format!("{engine}{}", beside::ranks(page)));
    headline(&HeadlineInput {
        context,
        batch,
        units: page.view(|view| view.units),
        values: &values,
        reserved: by.as_deref().map(|by| Reserved { by, values: &reserved }),
    })
}

/// Why not one of the chosen models has a figure at this context, in the words of the first.
fn refusal(page: Page) -> Option<String> {
    let (chosen, context, batch) = (page.chosen(), page.context(), page.batch());
    let beyond = chosen.sized().find_map(|(chosen, state)| {
        let error = state.resident(context, batch).err()?;
        Some(format!("{}: {error}", chosen.name))
    });
    beyond.or_else(|| chosen.refused().map(|(chosen, why)| format!("{}: {why}", chosen.name)))
}

/// The quiet line: which bytes, in which formats, by which accounting.
fn what_is_drawn(page: Page) -> String {
    let requests = match page.batch() {
        1 => "one request".to_owned(),
        count => format!("{} requests", kvscope_sizing::group_digits(count)),
    };
    let mut formats: Vec<String> = Vec::new();
    page.view(|view| {
        formats.extend(view.kv_format.map(|format| format!("K/V {format}")));
        formats.extend(view.index_format.map(|format| format!("index keys {format}")));
        formats.extend(view.state_format.map(|format| format!("state {format}")));
    });
    if formats.is_empty() {
        formats.push("each model in its own formats".to_owned());
    }
    let accounting = match &page.chosen().engine {
        None => "logical bytes".to_owned(),
        Some((engine, _)) => {
            format!("solid: logical bytes, dashed: reserved by {engine}{}", beside::ranks(page))
        }
    };
    format!(
        "Resident state of {requests} · {} · {accounting} · computed from config.json",
        formats.join(", ")
    )
}
