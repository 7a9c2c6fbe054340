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

use crate::erased::{effect, part, words};
use crate::state::Page;

/// The room that answers "how much, and what makes it grow?".
#[component]
pub(crate) fn GrowthRoom() -> impl IntoView {
    let page = expect_context::<Page>();
    effect(move || document().set_title(&format!("{} · kvscope", finding(page))));
    view! {
        <div class="growth room">
            <div class="finding">
                <h1>{part(move || whole_names(&finding(page)))}</h1>
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
    let mut left_out = None;
    for version in &chosen.list {
        match chosen.logical(version, (context, batch)) {
            Ok(bytes) => {
                values.push((version.name.as_str(), bytes));
                reserved.push(chosen.reserved(version, (context, batch)).and_then(Result::ok));
            }
            Err(why) => left_out = left_out.or(Some(format!("{}: {why}", version.name))),
        }
    }
    let by = chosen.engine.as_ref().map(|(engine, _)| engine.to_string());
    let ranks = chosen.ranks().unwrap_or(1);
    let said = headline(&HeadlineInput {
        context,
        batch,
        units: page.view(|view| view.units),
        values: &values,
        reserved: by.as_deref().map(|by| Reserved { by, ranks, values: &reserved }),
    });
    // Why a model has no figure stands in its row too; here it is said where the headline would hide it.
    match left_out {
        Some(why) if values.is_empty() => why,
        Some(why) if ranks > 1 => format!("{said} {why}."),
        _ => said,
    }
}

/// A sentence whose names and numbers, which may hold hyphens, break nowhere within.
fn whole_names(sentence: &str) -> AnyView {
    let word = |word: &str| {
        if word.contains('-') {
            view! { <span class="whole">{word.trim_end().to_owned()}</span>" " }.into_any()
        } else {
            word.to_owned().into_any()
        }
    };
    sentence.split_inclusive(' ').map(word).collect::<Vec<AnyView>>().into_any()
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
            let rank = match beside::rank(page, "") {
                rank if rank.is_empty() => rank,
                rank => format!("{rank}, "),
            };
            format!("{rank}solid: logical bytes, dashed: reserved by {engine}")
        }
    };
    format!(
        "Resident state of {requests} · {} · {accounting} · computed from config.json",
        formats.join(", ")
    )
}
