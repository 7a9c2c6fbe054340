use kvscope_protocol::MOST_REQUESTS;
use kvscope_sizing::{IndexFormat, KvFormat, StateFormat, group_digits, parse_count};
use leptos::prelude::*;

use crate::state::{Page, Step};
use crate::ui::{ContextControl, Fold, FormatSelect, ModelPicker, OwnConfig, TextBox};

/// Which versions, at which context, asked for how.
#[component]
pub(super) fn Controls() -> impl IntoView {
    let page = expect_context::<Page>();
    let models = Signal::derive(move || match page.chosen.get().len() {
        1 => "1 chosen".to_owned(),
        count => format!("{count} chosen"),
    });
    let request = Signal::derive(move || {
        let format = page.view(|view| view.kv_format).map_or("own formats", KvFormat::name);
        format!("batch {}, {format}", group_digits(page.batch.get()))
    });
    let take_batch = move |text: &str| {
        let count = parse_count(text).map_err(|why| format!("batch: {why}"))?;
        if !(1..=MOST_REQUESTS).contains(&count) {
            return Err(format!("batch: {count} is outside 1 to {}", group_digits(MOST_REQUESTS)));
        }
        page.change(Step::Push, |view| view.batch = count);
        Ok(())
    };
    let kv_formats: Vec<_> = KvFormat::all().collect();
    let index_formats: Vec<_> = IndexFormat::all().collect();
    let state_formats =
        [StateFormat::F32, StateFormat::Bf16, StateFormat::F16].map(|format| (format.name(), format)).to_vec();
    view! {
        <aside class="controls" aria-label="Versions and request">
            <ContextControl/>
            <Fold title="Models" summary=models>
                <ModelPicker/>
                <OwnConfig/>
            </Fold>
            <Fold title="Request" summary=request>
                <TextBox
                    label="batch"
                    name="Batch in requests"
                    value=Signal::derive(move || group_digits(page.batch.get()))
                    exact=page.batch
                    take=take_batch
                />
                <FormatSelect
                    label="K/V format"
                    options=kv_formats
                    chosen=Signal::derive(move || page.view(|view| view.kv_format))
                    choose=move |format| page.change(Step::Push, |view| view.kv_format = format)
                />
                <FormatSelect
                    label="index keys"
                    options=index_formats
                    chosen=Signal::derive(move || page.view(|view| view.index_format))
                    choose=move |format| page.change(Step::Push, |view| view.index_format = format)
                />
                <FormatSelect
                    label="recurrent state"
                    options=state_formats
                    chosen=Signal::derive(move || page.view(|view| view.state_format))
                    choose=move |format| page.change(Step::Push, |view| view.state_format = format)
                />
            </Fold>
        </aside>
    }
}
