use kvscope_sizing::Tokens;

use super::curves::{check_domain, check_room, context_axis, identifier};
use super::{FigureError, Standing, Table, marks};
use crate::label::{self, Quantity, tick_labels};
use crate::palette::SeriesColour;
use crate::scale::{Rounding, Scale, ScaleKind};
use crate::scene::{Anchor, Group, Ink, Node, Point, Rect, Role, Scene, Size, Stroke, Text, Weight};
use crate::text::{self, size};

/// Least size of the figure.
const LEAST: Size = Size::new(240.0, 80.0);
const TOP: f64 = 8.0;
const BOTTOM: f64 = 28.0;
/// Nearest factors to 1 that the axis always shows.
const LEAST_REACH: f64 = 1.1;

/// Measured ÷ predicted over context: a strip under a latency or growth figure, with a line where both agree.
#[derive(Clone, Debug)]
pub struct Residuals {
    scene: Scene,
    plot: Rect,
    series: Vec<ResidualSeries>,
}

/// What a residual figure is made from.
#[derive(Clone, Debug)]
pub struct ResidualsInput<'a> {
    /// One entry a series of points.
    pub series: &'a [ResidualSeries],
    /// First and last context shown.
    pub domain: (Tokens, Tokens),
    /// The room offered in CSS pixels.
    pub size: Size,
    /// Left and right edge of the plot above, so that the x axes line up; none to choose here.
    pub align: Option<(f64, f64)>,
}

/// Points of one model or kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct ResidualSeries {
    /// Part of the ids in an SVG.
    pub id: String,
    /// The name shown.
    pub name: String,
    /// A short verdict beside the name, such as `median error -6 %`; may be empty.
    pub note: String,
    /// Its colour.
    pub colour: SeriesColour,
    /// The points.
    pub points: Vec<ResidualPoint>,
}

/// One measured ÷ predicted ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResidualPoint {
    /// Where it was measured.
    pub context: Tokens,
    /// Median measured ÷ predicted.
    pub ratio: f64,
    /// 5th percentile ÷ predicted.
    pub low: f64,
    /// 95th percentile ÷ predicted.
    pub high: f64,
    /// Whether it counts.
    pub standing: Standing,
}

impl Residuals {
    /// Lays the figure out.
    pub fn layout(input: &ResidualsInput) -> Result<Self, FigureError> {
        check_room(input.size, LEAST)?;
        check_domain(input.domain)?;
        let (left, right) = input.align.unwrap_or((62.0, input.size.width - 14.0));
        let plot = Rect::new(left, TOP, right, input.size.height - BOTTOM);
        let domain = (input.domain.0.get() as f64, input.domain.1.get() as f64);
        let x = Scale::new(ScaleKind::Log2, domain, (plot.left, plot.right)).expect("the domain is checked");
        let reach = reach(input);
        let y = Scale::new(ScaleKind::Log10, (1.0 / reach, reach), (plot.bottom, plot.top))
            .expect("the reach is above 1");
        let mut axes = Group::new("residual-axes", Role::Axes);
        axes.nodes.extend(context_axis(plot, &x));
        let ticks = y_ticks(&y, plot);
        for (tick, label) in ticks.iter().zip(tick_labels(&ticks, Quantity::Times)) {
            let at = y.project(*tick);
            let even = (tick - 1.0).abs() < 1e-9;
            let ink = if even { Ink::Muted } else { Ink::Grid };
            let (from, to) = (Point::new(plot.left, at), Point::new(plot.right, at));
            axes.push(Node::Line { from, to, stroke: Stroke::hairline(ink) });
            let place = Point::new(plot.left - 8.0, at + text::cap_height(size::NOTE) / 2.0);
            axes.push(Text::new(place, label, size::NOTE, Ink::Muted).anchored(Anchor::End));
        }
        let mut scene = Scene {
            size: input.size,
            title: "Measured ÷ predicted over context".to_owned(),
            description: sentence(input.series),
            nodes: vec![axes.into()],
        };
        for series in input.series {
            let mut group = Group::new(format!("residual-{}", identifier(&series.id)), Role::Measured);
            group.label.clone_from(&series.name);
            let shown = series.points.iter().filter(|point| {
                (input.domain.0..=input.domain.1).contains(&point.context)
                    && point.ratio.is_finite()
                    && point.ratio > 0.0
            });
            for point in shown {
                let outline = point.standing.outline(series.colour);
                let at = x.project(point.context.get() as f64);
                let (low, high) = (y.project(point.low), y.project(point.high));
                if low.is_finite() && high.is_finite() {
                    let (from, to) = (Point::new(at, low), Point::new(at, high));
                    group.push(Node::Line { from, to, stroke: outline });
                }
                let centre = Point::new(at, y.project(point.ratio));
                group.nodes.extend(marks::ring(centre, series.colour, point.standing));
            }
            scene.nodes.push(group.into());
        }
        scene.nodes.push(names(input, plot).into());
        Ok(Self { scene, plot, series: input.series.to_vec() })
    }

    /// The scene; it has no cursor of its own.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// The area between the axes.
    pub fn plot(&self) -> Rect {
        self.plot
    }

    /// Every ratio with all digits.
    pub fn table(&self) -> Table {
        let head = [
            "series",
            "context (tokens)",
            "measured ÷ predicted",
            "p05 ÷ predicted",
            "p95 ÷ predicted",
            "standing",
        ];
        let rows = self.series.iter().flat_map(|series| {
            series.points.iter().map(|point| {
                let numbers = [point.ratio, point.low, point.high].map(|ratio| format!("{ratio}"));
                let standing = point.standing.name().to_owned();
                [series.name.clone(), point.context.to_string()]
                    .into_iter()
                    .chain(numbers)
                    .chain([standing])
                    .collect()
            })
        });
        Table { head: head.map(str::to_owned).to_vec(), rows: rows.collect() }
    }
}

/// Names in the space right of the plot, from the top, as many as fit.
fn names(input: &ResidualsInput, plot: Rect) -> Group {
    let mut group = Group::new("residual-names", Role::Labels);
    let left = plot.right + 20.0;
    let room = input.size.width - left;
    if room < 60.0 {
        return group;
    }
    let mut baseline = plot.top + 10.0;
    for series in input.series {
        if baseline > input.size.height {
            break;
        }
        let ink = Ink::Series(series.colour);
        let name = text::fitted(&series.name, size::LABEL, Weight::Bold, room);
        group.push(Text::new(Point::new(left, baseline), name, size::LABEL, ink).bold());
        if !series.note.is_empty() {
            let note = text::fitted(&series.note, size::NOTE, Weight::Regular, room);
            group.push(Text::new(Point::new(left, baseline + 15.0), note, size::NOTE, Ink::Muted));
            baseline += 15.0;
        }
        baseline += 20.0;
    }
    group
}

/// How far from 1 the axis reaches: the farthest end of any interval, and a little more.
fn reach(input: &ResidualsInput) -> f64 {
    let shown = |point: &&ResidualPoint| (input.domain.0..=input.domain.1).contains(&point.context);
    let farthest = input
        .series
        .iter()
        .flat_map(|series| series.points.iter().filter(shown))
        .flat_map(|point| [point.ratio, point.low, point.high])
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .map(|ratio| ratio.max(1.0 / ratio))
        .fold(LEAST_REACH, f64::max);
    farthest.powf(1.12)
}

/// Round ratios with 1 always among them.
fn y_ticks(y: &Scale, plot: Rect) -> Vec<f64> {
    let at_most = super::curves::whole(plot.height() / 26.0).clamp(2, 7);
    let mut ticks = y.ticks(at_most, Rounding::Decimal);
    if !ticks.iter().any(|tick| (tick - 1.0).abs() < 1e-9) {
        ticks.push(1.0);
    }
    let line = y.project(1.0);
    ticks.retain(|tick| (tick - 1.0).abs() < 1e-9 || (y.project(*tick) - line).abs() > 11.0);
    kvscope_sizing::sort_short(&mut ticks, |a, b| a.total_cmp(b).is_gt());
    ticks
}

fn sentence(series: &[ResidualSeries]) -> String {
    let ratios: Vec<f64> =
        series.iter().flat_map(|series| series.points.iter().map(|point| point.ratio)).collect();
    let standings = series.iter().flat_map(|series| series.points.iter().map(|point| point.standing));
    let count = marks::counted_points(standings, "");
    let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if ratios.is_empty() {
        return "No measured points.".to_owned();
    }
    format!("Measured ÷ predicted at {count}: from {} to {}.", label::times(low), label::times(high))
}
