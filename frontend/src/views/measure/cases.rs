use kvscope_charts::figures::Table;
use kvscope_charts::label::seconds;
use kvscope_protocol::run::{Case, Run};
use kvscope_sizing::{Bytes, group_digits};
use leptos::prelude::*;

use crate::ui::DataTable;

const HEAD: [&str; 12] = [
    "form and model",
    "context",
    "batch",
    "layers",
    "predicted",
    "measured",
    "difference",
    "predicted bytes",
    "asked",
    "resident",
    "of read ceiling",
    "result",
];

/// Every case with what was predicted, what came out and why a figure is missing.
pub(super) fn case_table(run: &Run) -> AnyView {
    let rows = run.cases.iter().map(row).collect();
    let table = Table { head: HEAD.map(str::to_owned).into(), rows };
    view! {
        <section class="cases">
            <h2>"Every case"</h2>
            <DataTable caption="Time is of one decode step over the layers that were held" table=table/>
        </section>
    }
    .into_any()
}

fn row(case: &Case) -> Vec<String> {
    let unknown = || "unknown".to_owned();
    let bytes = |bytes: Option<Bytes>| bytes.map_or_else(unknown, |bytes| group_digits(bytes.get()));
    let percent = |share: Option<f64>| share.map_or_else(unknown, |share| format!("{:.0} %", share * 100.0));
    let measured = case.measured.as_ref();
    // Positive where the step took longer than predicted.
    let difference = case
        .predicted
        .seconds
        .zip(measured)
        .filter(|(predicted, _)| *predicted > 0.0)
        .map_or_else(unknown, |(predicted, measured)| {
            format!("{:+.0} %", (measured.seconds.median / predicted - 1.0) * 100.0)
        });
    let words = std::iter::once(&case.status)
        .chain(&case.warnings)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("; ");
    vec![
        format!("{} {}", case.form.to_ascii_uppercase(), case.model),
        case.context.short(),
        case.batch.to_string(),
        format!("{} of {}", case.layers_measured, case.layers_total),
        case.predicted.seconds.map_or_else(unknown, seconds),
        measured.map_or_else(unknown, |measured| seconds(measured.seconds.median)),
        difference,
        bytes(case.predicted.bytes),
        bytes(measured.map(|measured| measured.asked_bytes)),
        bytes(measured.and_then(|measured| measured.resident_bytes)),
        percent(case.bandwidth_share),
        words,
    ]
}
