use kvscope_charts::figures::{
    GrowthInput, GrowthScale, LatencyInput, LatencySeries, MeasuredBytes, MeasuredSeconds, Provenance,
    ResidualPoint, ResidualSeries, ResidualsInput, Series,
};
use kvscope_charts::{Growth, Latency, Residuals, Scene, Size};
use kvscope_protocol::run::{Case, Run};
use kvscope_sizing::UnitSystem;
use leptos::prelude::*;

use super::series::{contexts, domain, series};
use crate::canvas::{Drawn, DrawnMemo, Figure};
use crate::erased::mark;
use crate::state::{Page, Shared};

/// A scene and the left and right edge of its plot.
type Framed = (Scene, (f64, f64));

/// Time over context with its residuals below, then memory: measured rings over predicted lines.
pub(super) fn run_figures(page: Page, run: &Shared<Run>) -> AnyView {
    let (wide, other, third) = (RwSignal::new(0.0), RwSignal::new(0.0), RwSignal::new(0.0));
    let drawn =
        |run: &Shared<Run>, draw: fn(Page, &Run, f64) -> Option<Scene>, width: RwSignal<f64>| -> DrawnMemo {
            let run = run.clone();
            Memo::new(move |_| draw(page, &run, width.get()).map(Drawn::plain))
        };
    let time = drawn(run, |_, run, width| Some(latency(run, width)?.0), wide);
    let ratio = drawn(run, |_, run, width| residuals(run, width, latency(run, width)?.1), other);
    let memory = drawn(run, |page, run, width| memory(run, width, page.view(|view| view.units)), third);
    let said = if run.cases.iter().any(|case| resident(case).is_some()) {
        "Line: predicted bytes of the layers that were held. Ring: what the system shows as resident."
    } else {
        "Line: predicted bytes of the layers that were held. This system does not say what is resident."
    };
    view! {
        <section class="measured">
            <h2>"Time of a decode step"</h2>
            <p class="quiet">"Line: predicted before measuring. Ring: median measured, bar from the 5th to the 95th percentile."</p>
            {figure("latency", wide, time)}
            <h2>"Measured ÷ predicted"</h2>
            {figure("residuals", other, ratio)}
        </section>
        <section class="measured">
            <h2>"Memory of the state"</h2>
            <p class="quiet">{said}</p>
            {figure("memory", third, memory)}
        </section>
    }
    .into_any()
}

fn figure(name: &'static str, width: RwSignal<f64>, base: DrawnMemo) -> AnyView {
    let sentence = move || base.get().map(|drawn| drawn.scene.description.clone());
    view! {
        <div class="figure" role="img" aria-label=mark(sentence)>
            <Figure name=name width=width base=base/>
        </div>
    }
    .into_any()
}

fn size_for(width: f64) -> Size {
    Size::new(width, (width * 0.42).clamp(260.0, 440.0))
}

fn latency(run: &Run, width: f64) -> Option<Framed> {
    let contexts = contexts(run);
    let groups = series(run);
    let lines: Vec<LatencySeries> = groups
        .iter()
        .map(|group| LatencySeries {
            id: group.id.clone(),
            name: group.name.clone(),
            colour: group.colour,
            provenance: Provenance::Computed,
            seconds: group.line(&contexts, |case| case.predicted.seconds),
        })
        .collect();
    let rings = groups.iter().flat_map(|group| {
        group.cases.iter().filter_map(|case| {
            let seconds = case.measured.as_ref()?.seconds;
            Some(MeasuredSeconds {
                name: group.name.clone(),
                colour: group.colour,
                context: case.context,
                median: seconds.median,
                p05: seconds.p05,
                p95: seconds.p95,
            })
        })
    });
    let rings: Vec<MeasuredSeconds> = rings.collect();
    let input = LatencyInput {
        contexts: &contexts,
        series: &lines,
        measured: &rings,
        domain: domain(&contexts)?,
        size: size_for(width),
    };
    let latency = Latency::layout(&input).ok()?;
    let cursor = latency.cursor_at(*contexts.last()?);
    let edges = (latency.plot().left, latency.plot().right);
    Some((latency.scene().clone().with(latency.overlay(&cursor)), edges))
}

fn residuals(run: &Run, width: f64, edges: (f64, f64)) -> Option<Scene> {
    let bias = |form: &str| {
        let bias = run.verdicts.iter().find(|verdict| verdict.of == form)?.bias?;
        // (predicted − measured) / measured: negative where steps are slower than predicted.
        let word = if bias < 0.0 { "slower" } else { "faster" };
        Some(format!("{:.0} % {word}", bias.abs() * 100.0))
    };
    let point = |case: &&Case| {
        let (measured, predicted) = (case.measured.as_ref()?.seconds, case.predicted.seconds?);
        (predicted > 0.0).then(|| ResidualPoint {
            context: case.context,
            ratio: measured.median / predicted,
            low: measured.p05 / predicted,
            high: measured.p95 / predicted,
        })
    };
    let groups = series(run);
    let groups: Vec<ResidualSeries> = groups
        .iter()
        .map(|group| ResidualSeries {
            id: group.id.clone(),
            name: group.name.clone(),
            note: bias(group.form).unwrap_or_default(),
            colour: group.colour,
            points: group.cases.iter().filter_map(point).collect(),
        })
        .collect();
    let input = ResidualsInput {
        series: &groups,
        domain: domain(&contexts(run))?,
        size: Size::new(width, 170.0),
        align: Some(edges),
    };
    Some(Residuals::layout(&input).ok()?.scene().clone())
}

fn memory(run: &Run, width: f64, units: UnitSystem) -> Option<Scene> {
    let contexts = contexts(run);
    let groups = series(run);
    let lines: Vec<Series> = groups
        .iter()
        .map(|group| Series {
            id: group.id.clone(),
            name: group.name.clone(),
            colour: group.colour,
            provenance: Provenance::Computed,
            values: group.line(&contexts, |case| case.predicted.bytes),
        })
        .collect();
    let rings: Vec<MeasuredBytes> = groups
        .iter()
        .flat_map(|group| group.cases.iter().map(move |case| (group.colour, case)))
        .filter_map(|(colour, case)| {
            Some(MeasuredBytes { colour, context: case.context, bytes: resident(case)? })
        })
        .collect();
    let input = GrowthInput {
        contexts: &contexts,
        series: &lines,
        domain: domain(&contexts)?,
        scale: GrowthScale::Log,
        units,
        size: size_for(width),
        measured: &rings,
        limits: &[],
    };
    let growth = Growth::layout(&input).ok()?;
    let cursor = growth.cursor_at(*contexts.last()?);
    Some(growth.scene().clone().with(growth.overlay(&cursor)))
}

fn resident(case: &Case) -> Option<kvscope_sizing::Bytes> {
    case.measured.as_ref()?.resident_bytes
}
