//! Growth: curves over context, a strip a model, and what one version keeps, layer by layer.

mod breakdown;
mod chart;
mod comparison;
mod controls;
mod derivation;
mod layers;
mod published;

use kvscope_charts::headline::{HeadlineInput, headline};
use leptos::prelude::*;

use crate::state::Page;
use breakdown::Breakdown;
use chart::GrowthChart;
use comparison::Comparison;
use controls::Controls;
use layers::LayerStrips;

/// The room that answers "how much, and what makes it grow?".
#[component]
pub(crate) fn GrowthRoom() -> impl IntoView {
    let page = expect_context::<Page>();
    let finding = Memo::new(move |_| {
        let (chosen, context, batch) = (page.chosen.get(), page.context.get(), page.batch.get());
        let values: Vec<_> = chosen
            .iter()
            .filter_map(|chosen| {
                Some((chosen.name.as_str(), chosen.state.as_ref().ok()?.resident(context, batch).ok()?))
            })
            .collect();
        headline(&HeadlineInput { context, batch, units: page.view(|view| view.units), values: &values })
    });
    Effect::new(move |_| document().set_title(&format!("{} · kvscope", finding.get())));
    view! {
        <div class="growth room">
            <div class="finding">
                <h1>{move || finding.get()}</h1>
                <p class="quiet">{move || what_is_drawn(page)}</p>
            </div>
            <Controls/>
            <main id="content">
                <GrowthChart/>
                <LayerStrips/>
                <Comparison/>
                <Breakdown/>
            </main>
        </div>
    }
}

/// The quiet line: which bytes, in which formats, by which accounting.
fn what_is_drawn(page: Page) -> String {
    let requests = match page.batch.get() {
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
    format!("Resident state of {requests} · {} · logical bytes · computed from config.json", formats.join(", "))
}
