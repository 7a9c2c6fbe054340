use kvscope_charts::label::seconds;
use kvscope_protocol::run::{Case, Run};
use kvscope_sizing::{Bytes, group_digits};
use leptos::prelude::*;

use crate::state::Shared;

/// Every case with what was predicted, what came out and why a figure is missing.
#[component]
pub(super) fn CaseTable(run: Shared<Run>) -> impl IntoView {
    let rows = run.cases.iter().map(row).collect_view();
    view! {
        <section class="cases">
            <h2>"Every case"</h2>
            <div class="scroll" tabindex="0" role="region" aria-label="Cases of the run">
                <table class="data">
                    <thead>
                        <tr>
                            <th scope="col">"form and model"</th>
                            <th scope="col">"context"</th>
                            <th scope="col">"batch"</th>
                            <th scope="col">"layers"</th>
                            <th scope="col">"predicted"</th>
                            <th scope="col">"measured"</th>
                            <th scope="col">"difference"</th>
                            <th scope="col">"predicted bytes"</th>
                            <th scope="col">"asked"</th>
                            <th scope="col">"resident"</th>
                            <th scope="col">"of read ceiling"</th>
                            <th scope="col">"result"</th>
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
        </section>
    }
}

fn row(case: &Case) -> impl IntoView + use<> {
    let unknown = || "unknown".to_owned();
    let bytes = |bytes: Option<Bytes>| bytes.map_or_else(unknown, |bytes| group_digits(bytes.get()));
    let percent = |share: Option<f64>| share.map_or_else(unknown, |share| format!("{:.0} %", share * 100.0));
    let measured = case.measured.as_ref();
    let spread = measured.map(|measured| {
        let all = measured.seconds;
        format!("p05 {}, p95 {}, {} samples", seconds(all.p05), seconds(all.p95), all.n)
    });
    // Positive where the step took longer than predicted.
    let difference = case
        .predicted
        .seconds
        .zip(measured)
        .filter(|(predicted, _)| *predicted > 0.0)
        .map_or_else(unknown, |(predicted, measured)| format!("{:+.0} %", (measured.seconds.median / predicted - 1.0) * 100.0));
    let words = std::iter::once(&case.status).chain(&case.warnings).map(String::as_str).collect::<Vec<_>>().join("; ");
    view! {
        <tr>
            <td>{case.form.to_uppercase()} " " {case.model.clone()}</td>
            <td>{case.context.short()}</td>
            <td>{case.batch}</td>
            <td>{case.layers_measured} " of " {case.layers_total}</td>
            <td>{case.predicted.seconds.map_or_else(unknown, seconds)}</td>
            <td title=spread>{measured.map_or_else(unknown, |measured| seconds(measured.seconds.median))}</td>
            <td>{difference}</td>
            <td>{bytes(case.predicted.bytes)}</td>
            <td>{bytes(measured.map(|measured| measured.asked_bytes))}</td>
            <td>{bytes(measured.and_then(|measured| measured.resident_bytes))}</td>
            <td>{percent(case.bandwidth_share)}</td>
            <td class="words">{words}</td>
        </tr>
    }
}
