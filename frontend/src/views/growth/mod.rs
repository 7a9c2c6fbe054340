//! Growth: curves over context, a strip a model, and what one version keeps, layer by layer.

mod beside;
mod breakdown;
mod chart;
mod comparison;
mod controls;
mod curves;
mod derivation;
mod edit;
mod engine;
mod exports;
mod fields;
mod formats;
mod keys;
mod layers;
mod published;
mod room;
mod tooltip;

use kvscope_charts::headline::{HeadlineInput, Reserved, headline};
use kvscope_charts::versions::bytes_of;
use leptos::prelude::*;

use crate::erased::{effect, part, words};
use crate::state::{Page, Source};

pub(crate) use comparison::what_changed;
pub(crate) use controls::{batch_box, format_controls};
pub(crate) use engine::{controls as engine_controls, summary as engine_summary};
pub(crate) use formats::chosen as formats_chosen;

/// The room that answers "how much, and what makes it grow?".
#[component]
pub(crate) fn GrowthRoom() -> impl IntoView {
    let page = expect_context::<Page>();
    effect(move || document().set_title(&format!("{} · kvscope", finding(page))));
    view! {
        <div class="growth room">
            <section class="finding" aria-label="Finding">
                <h1>{part(move || whole_names(&finding(page)))}</h1>
                <p class="quiet">{words(move || what_is_drawn(page))}</p>
            </section>
            {controls::controls(page)}
            <main id="content">
                {chart::growth_chart(page)}
                {layers::layer_strips(page)}
                {comparison::comparison(page)}
                {breakdown::breakdown(page)}
                {edit::edit(page)}
            </main>
        </div>
    }
    .into_any()
}

/// The headline: made from the figures at the context that is set, an engine's where there is one.
fn finding(page: Page) -> String {
    let (chosen, at) = (page.drawn(), (page.context(), page.batch()));
    let mut values = Vec::new();
    let mut refused = Vec::new();
    let mut unknown = None;
    for version in &chosen.list {
        let name = version.name.as_str();
        let asked = match chosen.reserved(version, at) {
            Some(reserved) => reserved,
            None => chosen.logical(version, at),
        };
        match asked {
            Ok(bytes) => values.push((name, bytes)),
            Err(_) if chosen.engine.is_some() && version.model.is_some() => refused.push(name),
            Err(why) if version.model.is_some() => unknown = unknown.or(Some(format!("{name}: {why}"))),
            Err(why) => unknown = unknown.or(Some(why)),
        }
    }
    // Why a model has no figure stands in its row; here it is said where there is nothing else to say.
    if let Some(why) = unknown
        && values.is_empty()
        && refused.is_empty()
    {
        return why;
    }
    let by = chosen.engine.as_ref().map(|(engine, _)| engine.to_string());
    let ranks = chosen.ranks().unwrap_or(1);
    headline(&HeadlineInput {
        context: at.0,
        batch: at.1,
        units: page.view(|view| view.units),
        bytes: chosen.bytes,
        values: &values,
        reserved: by.as_deref().map(|by| Reserved { by, ranks, refused: &refused }),
    })
}

/// A sentence whose names and numbers, which may hold hyphens, break nowhere within.
pub(crate) fn whole_names(sentence: &str) -> AnyView {
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.trim_end().ends_with(|c: char| c.is_ascii_digit())
    };
    let mut parts: Vec<AnyView> = Vec::new();
    let mut words = sentence.split_inclusive(' ');
    while let Some(word) = words.next() {
        let unit = if is_number(word) { words.next() } else { None };
        parts.push(if unit.is_some() || word.contains('-') {
            let whole = word.to_owned() + unit.unwrap_or_default();
            view! { <span class="whole">{whole.trim_end().to_owned()}</span>" " }.into_any()
        } else {
            word.to_owned().into_any()
        });
    }
    parts.into_any()
}

/// The quiet line: which bytes, in which formats, by which accounting.
fn what_is_drawn(page: Page) -> String {
    let drawn = page.drawn();
    let accounting = match &drawn.engine {
        None => "logical bytes".to_owned(),
        Some((engine, _)) => {
            let rank = match beside::rank(page, "") {
                rank if rank.is_empty() => rank,
                rank => format!("{rank}, "),
            };
            let every = beside::every_token(page);
            format!("{rank}solid: logical bytes{every}, dashed: reserved by {engine}")
        }
    };
    let from = sources(page);
    format!("{} · {} · {accounting}{from}", bytes_of(drawn.bytes, page.batch()), formats::chosen(page))
}

/// ` · computed from config.json`, or what the versions that are shown were read from; nothing where none was read.
fn sources(page: Page) -> String {
    let chosen = page.chosen();
    let read = || chosen.list.iter().filter_map(|version| version.model.as_ref());
    let is_gguf = |source: Source| matches!(source, Source::Gguf);
    let has_gguf = read().any(|model| is_gguf(model.source));
    let has_config = read().any(|model| !is_gguf(model.source));
    match (has_config, has_gguf) {
        (false, false) => "",
        (true, false) => " · computed from config.json",
        (false, true) => " · computed from GGUF metadata",
        (true, true) => " · computed from config.json and GGUF metadata",
    }
    .to_owned()
}
