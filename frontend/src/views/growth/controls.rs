use kvscope_protocol::{MOST_REQUESTS, ViewState};
use kvscope_sizing::cost::WeightChoice;
use kvscope_sizing::hardware::gpus;
use kvscope_sizing::plan::Gpus;
use kvscope_sizing::{Bytes, IndexFormat, KvFormat, StateFormat, group_digits, parse_count};
use leptos::prelude::*;

use super::{engine, formats};
use crate::erased::words;
use crate::state::{Page, Step};
use crate::ui::{ContextControl, Fold, FormatSelect, ModelPicker, OwnConfig, TextBox};

/// Which versions, asked for how, at which context.
pub(super) fn controls(page: Page) -> AnyView {
    let models = move || match page.chosen().list.len() {
        1 => "1 chosen".to_owned(),
        count => format!("{count} chosen"),
    };
    let asked = move || {
        let formats = formats::k_and_v(page).unwrap_or_else(|| "own formats".to_owned());
        format!("batch {}, {formats}", group_digits(page.batch()))
    };
    let picker = view! { <ModelPicker/> <OwnConfig/> }.into_any();
    view! {
        <aside class="controls" aria-label="Versions and request">
            <Fold title="Models" summary=words(models) content=picker/>
            <Fold title="Request" summary=words(asked) content=request(page)/>
            <Fold title="Accounting" summary=words(move || engine::summary(page)) content=engine::controls(page)/>
            <ContextControl/>
        </aside>
    }
    .into_any()
}

fn request(page: Page) -> AnyView {
    view! {
        {batch_box(page)}
        <TextBox
            label="memory"
            name="Memory for state on one rank"
            unit=""
            value=Box::new(move || page.memory().map(Bytes::as_given).unwrap_or_default())
            exact=words(move || page.memory().map_or(String::new(), |memory| memory.get().to_string()))
            take=Box::new(move |text| take_memory(page, text))
            usual="not given"
        />
        <FormatSelect
            label="GPU"
            names=gpus().iter().map(|gpu| gpu.id.as_str()).collect()
            chosen=|page| page.view(|view| view.gpus.map(|gpus| gpus.gpu.id.as_str()))
            choose=choose_gpu
            usual="none"
        />
        <TextBox
            label="GPUs"
            name="GPUs that share each request"
            unit=""
            value=Box::new(move || page.view(|view| view.gpus.map_or(String::new(), |gpus| gpus.count.to_string())))
            take=Box::new(move |text| take_count(page, text))
            usual="no GPU chosen"
        />
        <FormatSelect
            label="weights"
            names=WeightChoice::ALL.map(WeightChoice::name).to_vec()
            chosen=|page| page.view(|view| view.gpus?.weights.map(WeightChoice::name))
            choose=|page, name| {
                page.change(Step::Push, |view| {
                    let weights = name.and_then(|name| name.parse().ok());
                    view.gpus = view.gpus.map(|gpus| Gpus { weights, ..gpus });
                });
            }
        />
        {format_controls(page)}
    }
    .into_any()
}

/// Requests of the context.
pub(crate) fn batch_box(page: Page) -> AnyView {
    view! {
        <TextBox
            label="batch"
            name="Batch in requests"
            unit=""
            value=Box::new(move || group_digits(page.batch()))
            exact=words(move || page.batch().to_string())
            take=Box::new(move |text| take_batch(page, text))
        />
    }
    .into_any()
}

/// How state is stored.
pub(crate) fn format_controls(page: Page) -> AnyView {
    let kv_formats: Vec<_> = KvFormat::all().map(|(name, _)| name).collect();
    let index_formats: Vec<_> = IndexFormat::all().map(|(name, _)| name).collect();
    let state_formats: Vec<_> =
        [StateFormat::F32, StateFormat::Bf16, StateFormat::F16].map(StateFormat::name).to_vec();
    view! {
        <FormatSelect
            label="K/V format"
            names=kv_formats
            chosen=|page| page.view(|view| view.kv_format.map(KvFormat::name))
            choose=|page, name| page.change(Step::Push, |view| view.kv_format = name.and_then(|name| name.parse().ok()))
        />
        {engine::k_and_v(page)}
        <FormatSelect
            label="index keys"
            names=index_formats
            chosen=|page| page.view(|view| view.index_format.map(IndexFormat::name))
            choose=|page, name| page.change(Step::Push, |view| view.index_format = name.and_then(|name| name.parse().ok()))
        />
        <FormatSelect
            label="recurrent state"
            names=state_formats
            chosen=|page| page.view(|view| view.state_format.map(StateFormat::name))
            choose=|page, name| page.change(Step::Push, |view| view.state_format = name.and_then(|name| name.parse().ok()))
        />
    }
    .into_any()
}

fn take_batch(page: Page, text: &str) -> Result<(), String> {
    let count = parse_count(text).map_err(|why| format!("batch: {why}"))?;
    if !(1..=MOST_REQUESTS).contains(&count) {
        return Err(format!("batch: {count} is outside 1 to {}", group_digits(MOST_REQUESTS)));
    }
    page.change(Step::Push, |view| view.batch = count);
    Ok(())
}

fn take_memory(page: Page, text: &str) -> Result<(), String> {
    let given = (!text.trim().is_empty()).then(|| ViewState::memory(text)).transpose();
    let given = given.map_err(|why| format!("memory: {why}"))?;
    page.change(Step::Push, |view| view.memory = given);
    Ok(())
}

fn choose_gpu(page: Page, id: Option<String>) {
    page.change(Step::Push, |view| {
        let (count, weights) = view.gpus.map_or((1, None), |gpus| (gpus.count, gpus.weights));
        view.gpus = id.and_then(|id| Gpus::new(&id, count, weights).ok());
    });
}

fn take_count(page: Page, text: &str) -> Result<(), String> {
    let Some(gpus) = untrack(|| page.view(|view| view.gpus)) else {
        return Err("GPUs: choose which first".to_owned());
    };
    let count = parse_count(text).map_err(|why| format!("GPUs: {why}"))?;
    let gpus =
        Gpus::new(&gpus.gpu.id, count, gpus.weights).map_err(|error| format!("GPUs: {}", error.what()))?;
    page.change(Step::Push, |view| view.gpus = Some(gpus));
    Ok(())
}
