//! The scenes of a run.

use kvscope_protocol::run::{Case, Run};
use kvscope_sizing::prediction::Grade;
use kvscope_sizing::{ByteKind, Bytes, UnitSystem};

use super::series::{Share, contexts, domain, series};
use crate::figures::{
    GrowthInput, GrowthScale, LatencyInput, LatencySeries, MeasuredBytes, MeasuredSeconds, Provenance,
    ResidualPoint, ResidualSeries, ResidualsInput, Series, Standing,
};
use crate::{Growth, Latency, Residuals, Scene, Size};

/// A scene and where its plot lies.
#[derive(Clone, Debug, PartialEq)]
pub struct RunScene {
    /// The scene.
    pub scene: Scene,
    /// Left and right edge of its plot.
    pub edges: (f64, f64),
}

/// What lines and rings of the time figure are.
pub(super) fn legend(run: &Run) -> String {
    let has = |grade: Grade| run.cases.iter().any(|case| case.predicted.grade == grade);
    let mut sentences: Vec<String> = Vec::new();
    if Share::of(run) == Share::Layer {
        sentences.push(
            "Cases held different numbers of layers, so times are divided by the layers held.".to_owned(),
        );
    }
    if has(Grade::Calibrated) {
        sentences
            .push("Line: predicted before measuring, from ceilings measured on the same machine.".to_owned());
    }
    if has(Grade::Datasheet) {
        sentences.push("Line: predicted before measuring, from the hardware's datasheet.".to_owned());
    }
    if has(Grade::Fitted) {
        sentences.push("Dotted line: fitted to measured points.".to_owned());
    }
    sentences.push("Ring: median measured, bar from the 5th to the 95th percentile.".to_owned());
    match run.cases.iter().filter(|case| case.timing().is_some() && !case.is_steady()).count() {
        0 => {}
        1 => sentences.push(
            "Thin broken ring: 1 point that is unsteady or was cut short; no verdict counts it.".to_owned(),
        ),
        n => sentences.push(format!(
            "Thin broken rings: {n} points that are unsteady or were cut short; no verdict counts them."
        )),
    }
    match run.cases.iter().filter(|case| case.measured.is_some() && case.timing().is_none()).count() {
        0 => {}
        1 => sentences.push("1 point with a wrong result has no time and is not shown.".to_owned()),
        n => sentences.push(format!("{n} points with wrong results have no time and are not shown.")),
    }
    sentences.join(" ")
}

pub(super) fn standing(case: &Case) -> Standing {
    if case.is_steady() { Standing::Steady } else { Standing::LeftOut }
}

fn size_for(width: f64) -> Size {
    Size::new(width, (width * 0.42).clamp(260.0, 440.0))
}

/// Time over context: measured rings over predicted lines.
pub fn latency(run: &Run, width: f64) -> Option<RunScene> {
    let share = Share::of(run);
    let contexts = contexts(run);
    let groups = series(run);
    let lines: Vec<LatencySeries> = groups
        .iter()
        .map(|group| LatencySeries {
            id: group.id.clone(),
            name: group.name.clone(),
            colour: group.colour,
            provenance: group.provenance(),
            seconds: group.line(&contexts, |case| Some(share.seconds(case.predicted.seconds?, case))),
        })
        .collect();
    let rings = groups.iter().flat_map(|group| {
        group.cases.iter().filter_map(|case| {
            let seconds = case.timing()?;
            Some(MeasuredSeconds {
                name: group.name.clone(),
                colour: group.colour,
                context: case.context,
                median: share.seconds(seconds.median, case),
                p05: share.seconds(seconds.p05, case),
                p95: share.seconds(seconds.p95, case),
                standing: standing(case),
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
    Some(RunScene { scene: latency.scene().clone().with(latency.overlay(&cursor)), edges })
}

/// Measured ÷ predicted, between the edges of the figure above it.
pub fn residuals(run: &Run, width: f64, edges: (f64, f64)) -> Option<Scene> {
    let bias = |form: &str| {
        let bias = run.verdicts.iter().find(|verdict| verdict.of == form)?.bias?;
        Some(format!("median error {:+.0} %", bias * 100.0))
    };
    let point = |case: &&Case| {
        let (measured, predicted) = (case.timing()?, case.predicted.seconds?);
        (predicted > 0.0).then(|| ResidualPoint {
            context: case.context,
            ratio: measured.median / predicted,
            low: measured.p05 / predicted,
            high: measured.p95 / predicted,
            standing: standing(case),
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

/// Bytes over context: what is resident over predicted lines.
pub fn memory(run: &Run, width: f64, units: UnitSystem) -> Option<Scene> {
    let share = Share::of(run);
    let contexts = contexts(run);
    let groups = series(run);
    let lines: Vec<Series> = groups
        .iter()
        .map(|group| Series {
            id: group.id.clone(),
            name: group.name.clone(),
            colour: group.colour,
            // Bytes come from the architecture, whatever the constants of the time are.
            provenance: Provenance::Computed,
            values: group.line(&contexts, |case| Some(share.bytes(case.predicted.bytes?, case))),
            ..Series::default()
        })
        .collect();
    let rings: Vec<MeasuredBytes> = groups
        .iter()
        .flat_map(|group| group.cases.iter().map(move |case| (group.colour, case)))
        .filter_map(|(colour, case)| {
            Some(MeasuredBytes { colour, context: case.context, bytes: share.bytes(resident(case)?, case) })
        })
        .collect();
    let input = GrowthInput {
        contexts: &contexts,
        series: &lines,
        domain: domain(&contexts)?,
        scale: GrowthScale::Log,
        units,
        bytes: ByteKind::Resident,
        size: size_for(width),
        measured: &rings,
        limits: &[],
        ranks: None,
    };
    let growth = Growth::layout(&input).ok()?;
    let cursor = growth.cursor_at(*contexts.last()?);
    Some(growth.scene().clone().with(growth.overlay(&cursor)))
}

/// What lines and rings of the memory figure are.
pub(super) fn memory_note(run: &Run) -> &'static str {
    if run.cases.iter().any(|case| resident(case).is_some()) {
        "Line: predicted bytes. Ring: what the system shows as resident."
    } else if run.cases.iter().any(|case| case.measured.is_some()) {
        "Line: predicted bytes. This system does not say what is resident."
    } else {
        "Line: predicted bytes. Nothing was measured, so nothing is known of what would be resident."
    }
}

/// The run in a sentence: its first verdict.
pub fn finding(run: &Run) -> String {
    let first = run.verdicts.first().map(|verdict| verdict.sentence.clone());
    first.unwrap_or_else(|| "This run has no verdict: nothing in it was measured.".to_owned())
}

pub(super) fn resident(case: &Case) -> Option<Bytes> {
    case.measured.as_ref()?.resident_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::tests::{case, measured_in, run};

    #[test]
    fn the_legend_counts_points_that_no_verdict_counts() {
        let at = |context: u64, status: &str| measured_in(case(context, 62, "calibrated"), 0.2, status);
        let steady = legend(&run(&[at(4096, "ok")]));
        assert!(!steady.contains("broken") && !steady.contains("wrong"), "{steady}");
        let doubtful = legend(&run(&[
            at(4096, "ok"),
            at(8192, "unsteady"),
            at(16_384, "partial: out of time"),
            at(32_768, "failed: wrong result"),
        ]));
        assert!(doubtful.contains("Thin broken rings: 2 points"), "{doubtful}");
        assert!(doubtful.contains("1 point with a wrong result has no time"), "{doubtful}");
    }
}
