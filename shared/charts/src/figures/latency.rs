use kvscope_sizing::Tokens;

use super::curves::{Curve, Curves, Readings, Ring, Spec};
use super::marks::counted_points;
use super::{FigureError, Provenance, Standing, Table};
use crate::label::{self, Quantity};
use crate::palette::SeriesColour;
use crate::scale::ScaleKind;
use crate::scene::{Point, Rect, Scene, Size};

/// Seconds of a decode step over context: predicted lines, measured rings with their interval from the 5th to the 95th
/// percentile.
#[derive(Clone, Debug)]
pub struct Latency {
    curves: Curves,
    series: Vec<LatencySeries>,
    measured: Vec<MeasuredSeconds>,
}

/// What a latency figure is made from.
#[derive(Clone, Debug)]
pub struct LatencyInput<'a> {
    /// Where seconds were predicted, strictly rising.
    pub contexts: &'a [Tokens],
    /// Predicted lines, the most important first.
    pub series: &'a [LatencySeries],
    /// Measured points.
    pub measured: &'a [MeasuredSeconds],
    /// First and last context shown.
    pub domain: (Tokens, Tokens),
    /// The room offered in CSS pixels; see [`GrowthInput::size`](super::GrowthInput::size).
    pub size: Size,
}

/// One predicted line.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencySeries {
    /// Part of the ids in an SVG.
    pub id: String,
    /// The name shown.
    pub name: String,
    /// Its colour.
    pub colour: SeriesColour,
    /// Predicted is computed; a line fitted to the points is fitted.
    pub provenance: Provenance,
    /// Seconds at each context, in order; fewer where the line ends.
    pub seconds: Vec<f64>,
}

/// One measured point.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredSeconds {
    /// The name of what was measured, for the table.
    pub name: String,
    /// Its colour.
    pub colour: SeriesColour,
    /// Where it was measured.
    pub context: Tokens,
    /// Median of the samples, in seconds.
    pub median: f64,
    /// 5th percentile, in seconds.
    pub p05: f64,
    /// 95th percentile, in seconds.
    pub p95: f64,
    /// Whether it counts.
    pub standing: Standing,
}

/// What the cursor reads.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyCursor {
    /// Its context.
    pub context: Tokens,
    /// Predicted seconds there, one entry a series in order.
    pub seconds: Vec<Option<f64>>,
}

impl Latency {
    /// Lays the figure out.
    pub fn layout(input: &LatencyInput) -> Result<Self, FigureError> {
        let curves = input.series.iter().map(|series| Curve {
            id: series.id.clone(),
            name: series.name.clone(),
            colour: series.colour,
            provenance: series.provenance,
            values: series.seconds.clone(),
            reserved: Vec::new(),
            allowed: None,
            refused: false,
        });
        let rings = input.measured.iter().map(|point| Ring {
            colour: point.colour,
            context: point.context,
            value: point.median,
            low: point.p05,
            high: point.p95,
            standing: point.standing,
        });
        let mut curves = Curves::layout(Spec {
            contexts: input.contexts,
            domain: input.domain,
            curves: curves.collect(),
            rings: rings.collect(),
            limits: Vec::new(),
            scale: ScaleKind::Log10,
            context_scale: ScaleKind::Log2,
            across: Quantity::Tokens,
            quantity: Quantity::Seconds,
            ranks: 1,
            widest_value: "88.8 ms",
            size: input.size,
        })?;
        "Time of a decode step over context".clone_into(&mut curves.scene.title);
        curves.scene.description = format!(
            "Predicted seconds of {} from {} to {} tokens, with {}.",
            label::counted(input.series.len() as u64, "line", "lines"),
            input.domain.0,
            input.domain.1,
            counted_points(input.measured.iter().map(|point| point.standing), "measured ")
        );
        Ok(Self { curves, series: input.series.to_vec(), measured: input.measured.to_vec() })
    }

    /// The base scene: all but the cursor.
    pub fn scene(&self) -> &Scene {
        &self.curves.scene
    }

    /// The area between the axes, for figures that share the x axis.
    pub fn plot(&self) -> Rect {
        self.curves.plot()
    }

    /// The cursor line, dots and predicted values. Paint it over the base.
    pub fn overlay(&self, cursor: &LatencyCursor) -> Scene {
        let shown = |seconds: f64| (seconds, label::seconds(seconds));
        self.curves.overlay(&Readings {
            context: cursor.context,
            values: cursor.seconds.iter().map(|seconds| seconds.map(shown)).collect(),
            reserved: Vec::new(),
            emphasis: None,
            missing: "–",
        })
    }

    /// The cursor at the sample nearest to a pointer inside the plot.
    pub fn hit(&self, pointer: Point) -> Option<LatencyCursor> {
        if !self.plot().contains(pointer) {
            return None;
        }
        let sample = self.curves.nearest_sample(pointer.x)?;
        let seconds = self.series.iter().map(|series| series.seconds.get(sample).copied()).collect();
        Some(LatencyCursor { context: self.curves.context(sample), seconds })
    }

    /// The cursor at `context` where it was sampled; elsewhere without values.
    pub fn cursor_at(&self, context: Tokens) -> LatencyCursor {
        let sample = self.curves.sample_at(context);
        let value = |series: &LatencySeries| series.seconds.get(sample?).copied();
        LatencyCursor { context, seconds: self.series.iter().map(value).collect() }
    }

    /// Every measured point with all digits.
    pub fn table(&self) -> Table {
        let head = ["series", "context (tokens)", "median (s)", "p05 (s)", "p95 (s)", "standing"];
        let row = |point: &MeasuredSeconds| {
            let numbers = [point.median, point.p05, point.p95].map(|seconds| format!("{seconds:e}"));
            let standing = point.standing.name().to_owned();
            [point.name.clone(), point.context.to_string()]
                .into_iter()
                .chain(numbers)
                .chain([standing])
                .collect()
        };
        Table { head: head.map(str::to_owned).to_vec(), rows: self.measured.iter().map(row).collect() }
    }
}
