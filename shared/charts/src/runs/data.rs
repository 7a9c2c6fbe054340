//! The figures of a run as rows.

use kvscope_protocol::run::{Case, Run};

use super::figures::{resident, standing};
use super::series::{CaseSeries, Share, series};
use crate::export::{Cell, Column, Data, Mark, Plot};

const X: &str = "context_tokens";

/// Predicted seconds, then the median and both percentiles of what was measured.
pub(super) fn latency(run: &Run) -> Data {
    let share = Share::of(run);
    let value = |seconds: f64, case: &Case| Cell::Real(share.seconds(seconds, case));
    lines(run, ("seconds", "time of a decode step (s)"), |case| {
        let mut values: Vec<(&'static str, Cell)> = Vec::new();
        values.extend(case.predicted.seconds.map(|seconds| ("predicted", value(seconds, case))));
        if let Some(timing) = case.timing() {
            let all = [("median", timing.median), ("p05", timing.p05), ("p95", timing.p95)];
            values.extend(all.map(|(name, seconds)| (name, value(seconds, case))));
        }
        values
    })
}

/// Predicted bytes, then what the system showed as resident.
pub(super) fn memory(run: &Run) -> Data {
    let share = Share::of(run);
    let value = |bytes, case: &Case| Cell::Whole(share.bytes(bytes, case).get());
    lines(run, ("state_bytes", "state (bytes)"), |case| {
        let predicted = case.predicted.bytes.map(|bytes| ("predicted", value(bytes, case)));
        let resident = resident(case).map(|bytes| ("resident", value(bytes, case)));
        predicted.into_iter().chain(resident).collect()
    })
}

/// Measured ÷ predicted, with both percentiles.
pub(super) fn residuals(run: &Run) -> Data {
    let row = |group: &CaseSeries<'_>, case: &Case| {
        let (timing, predicted) = (case.timing()?, case.predicted.seconds.filter(|seconds| *seconds > 0.0)?);
        let ratio = |seconds: f64| Cell::Real(seconds / predicted);
        Some(vec![
            Cell::Text(group.name.clone()),
            Cell::Text(standing(case).name().to_owned()),
            Cell::Whole(case.context.get()),
            ratio(timing.median),
            ratio(timing.p05),
            ratio(timing.p95),
        ])
    };
    let groups = series(run);
    let rows = groups.iter().flat_map(|group| group.cases.iter().filter_map(move |case| row(group, case)));
    Data {
        columns: vec![
            Column::new("series", "series"),
            Column::new("standing", "standing"),
            Column::new(X, "context (tokens)"),
            Column::new("measured_over_predicted", "measured ÷ predicted"),
            Column::new("p05_over_predicted", "p05 ÷ predicted"),
            Column::new("p95_over_predicted", "p95 ÷ predicted"),
        ],
        rows: rows.collect(),
        plot: plot(Mark::Point, "measured_over_predicted", "standing"),
    }
}

/// A line's points one after the other, predicted and measured apart.
fn lines(
    run: &Run,
    (name, title): (&'static str, &'static str),
    values: impl Fn(&Case) -> Vec<(&'static str, Cell)>,
) -> Data {
    let mut rows = Vec::new();
    for group in series(run) {
        for case in group.cases {
            rows.extend(values(case).into_iter().map(|(kind, value)| {
                let context = Cell::Whole(case.context.get());
                vec![Cell::Text(group.name.clone()), Cell::Text(kind.to_owned()), context, value]
            }));
        }
    }
    let columns = vec![
        Column::new("series", "series"),
        Column::new("figure", "figure"),
        Column::new(X, "context (tokens)"),
        Column::new(name, title),
    ];
    Data { columns, rows, plot: plot(Mark::Line, name, "figure") }
}

fn plot(mark: Mark, y: &'static str, second: &'static str) -> Plot {
    Plot { mark, x: X, y, colour: "series", second: Some(second), powers: true }
}
