//! What growth and latency share: curves over context with direct labels, measured rings, limits and a cursor.

mod axes;
mod heads;
mod limits;
mod lines;
mod names;

pub(super) use axes::context_axis;

use axes::y_domain;
use kvscope_sizing::Tokens;

use super::{FigureError, Provenance, Standing, marks};
use crate::label::{self, Quantity, tick_labels};
use crate::palette::SeriesColour;
use crate::scale::{Rounding, Scale, ScaleKind};
use crate::scene::{Anchor, Group, Ink, Node, Point, Rect, Role, Scene, Size, Stroke, Text, Weight};
use crate::text::{self, size};

/// Below this width names go into a list under the axis.
const WIDE_FROM: f64 = 600.0;
/// The same with two values beside each name.
const WIDE_FROM_RESERVED: f64 = 720.0;
/// Least size of the plot with its axes.
const LEAST: Size = Size::new(240.0, 140.0);
/// Height under the plot for tick labels and the cursor's context.
pub(super) const AXIS_HEIGHT: f64 = 44.0;
const TOP: f64 = 10.0;
/// Space right of a plot without names: half of the last tick's label.
const RIGHT: f64 = 14.0;
/// Gap between the plot and the names, where leader lines run.
const LEADER: f64 = 20.0;
/// Distance between labels' baselines, and the least distance before labels are dropped.
const PITCH: f64 = 17.0;
const LEAST_PITCH: f64 = 13.5;
/// Row height of the list under narrow figures.
const ROW: f64 = 19.0;

/// What curves are drawn from.
pub(super) struct Spec<'a> {
    pub(super) contexts: &'a [Tokens],
    pub(super) domain: (Tokens, Tokens),
    pub(super) curves: Vec<Curve>,
    pub(super) rings: Vec<Ring>,
    pub(super) limits: Vec<Rule>,
    pub(super) scale: ScaleKind,
    pub(super) context_scale: ScaleKind,
    /// What the x axis counts: tokens, or what stands in their place.
    pub(super) across: Quantity,
    pub(super) quantity: Quantity,
    /// Ranks of which values are of one.
    pub(super) ranks: u64,
    /// The widest value that may stand beside a name.
    pub(super) widest_value: &'static str,
    pub(super) size: Size,
}

/// One line. `values` may end before the contexts do.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) colour: SeriesColour,
    pub(super) provenance: Provenance,
    pub(super) values: Vec<f64>,
    /// What an engine reserves, in dashes beside the line; empty where there is none.
    pub(super) reserved: Vec<f64>,
    /// Lines are thin beyond it.
    pub(super) allowed: Option<Tokens>,
    /// An engine refuses it, and it has no line: its name stands last.
    pub(super) refused: bool,
}

/// A measured point with its interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub(super) colour: SeriesColour,
    pub(super) context: Tokens,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) standing: Standing,
}

/// A level to compare with.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) value: f64,
    pub(super) label: String,
    /// The curve's whose level it is; none where it is of all.
    pub(super) colour: Option<SeriesColour>,
    pub(super) crossings: Vec<(SeriesColour, Tokens)>,
}

/// What the cursor reads: one entry a curve.
pub(super) struct Readings<'a> {
    pub(super) context: Tokens,
    pub(super) values: Vec<Option<(f64, String)>>,
    pub(super) reserved: Vec<Option<(f64, String)>>,
    pub(super) emphasis: Option<usize>,
    pub(super) missing: &'a str,
}

/// Laid-out curves.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    pub(super) scene: Scene,
    plot: Rect,
    x: Scale,
    across: Quantity,
    y: Scale,
    logarithmic: bool,
    contexts: Vec<Tokens>,
    /// Pixels of each context; none outside the axis.
    columns: Vec<Option<f64>>,
    lines: Vec<Curve>,
    /// Where each curve's value stands (end of its baseline); none where its label had no room.
    value_places: Vec<Option<(Point, f64)>>,
    heads: heads::Heads,
    line_width: f64,
}

/// Where a plot lies in the space offered.
struct Form {
    plot: Rect,
    wide: bool,
    name_width: f64,
    /// Width of one column of values.
    value_width: f64,
    /// Width of both columns, where reserved values stand beside the others.
    values_width: f64,
    ranks: u64,
}

impl Curves {
    pub(super) fn layout(spec: Spec) -> Result<Self, FigureError> {
        check(&spec)?;
        let y_domain = y_domain(&spec);
        let ticks_at_most = |height: f64| whole(height / 46.0).clamp(2, 9);
        let rounding = match spec.quantity {
            Quantity::Bytes(kvscope_sizing::UnitSystem::Binary) => Rounding::Binary,
            _ => Rounding::Decimal,
        };
        // Tick labels set the left margin and need the scale; the scale's pixels come after.
        let y_at =
            |range: (f64, f64)| Scale::new(spec.scale, y_domain, range).expect("the y domain is checked");
        let rough_height = spec.size.height - heads::top(&spec) - AXIS_HEIGHT;
        let y_ticks = y_at((rough_height, 0.0)).ticks(ticks_at_most(rough_height), rounding);
        let y_labels = tick_labels(&y_ticks, spec.quantity);
        let left =
            y_labels.iter().map(|label| text::width(label, size::NOTE, Weight::Regular)).fold(0.0, f64::max)
                + 10.0;
        let form = Form::of(&spec, left);
        let plot = form.plot;
        let domain = (spec.domain.0.get() as f64, spec.domain.1.get() as f64);
        let x =
            Scale::new(spec.context_scale, domain, (plot.left, plot.right)).expect("the domain is checked");
        let y = y_at((plot.bottom, plot.top));
        let line_width = match spec.curves.len() {
            0..=8 => 2.0,
            9..=20 => 1.6,
            _ => 1.25,
        };
        let mut figure = Self {
            scene: Scene { size: spec.size, ..Scene::default() },
            plot,
            x,
            across: spec.across,
            y,
            logarithmic: spec.scale != ScaleKind::Linear,
            contexts: spec.contexts.to_vec(),
            columns: spec
                .contexts
                .iter()
                .map(|context| {
                    (spec.domain.0..=spec.domain.1).contains(context).then(|| x.project(context.get() as f64))
                })
                .collect(),
            lines: spec.curves,
            value_places: Vec::new(),
            heads: heads::Heads::default(),
            line_width,
        };
        let axes = axes::axes(plot, (&x, spec.across), &y, &y_ticks, &y_labels);
        figure.scene.nodes.push(axes.into());
        let paths: Vec<Vec<Point>> = figure.lines.iter().map(|curve| figure.path(&curve.values)).collect();
        figure.rules(&spec.limits, &paths, &form);
        // Later models under earlier ones: the first is what the reader asked for first.
        for (index, path) in paths.iter().enumerate().rev() {
            let curve = &figure.lines[index];
            let mut group = Group::new(format!("series-{}", identifier(&curve.id)), Role::Series);
            group.label.clone_from(&curve.name);
            group.nodes.extend(figure.line(index, path));
            figure.scene.nodes.push(group.into());
        }
        figure.rings(&spec.rings);
        // A model that ranks cannot share has its name where its reserved line ends.
        let reserved = |index: usize| figure.path(&figure.lines[index].reserved);
        let paths: Vec<Vec<Point>> = paths
            .into_iter()
            .enumerate()
            .map(|(index, path)| if path.is_empty() { reserved(index) } else { path })
            .collect();
        if form.wide {
            figure.labels_beside(&form, &paths);
        } else {
            figure.labels_below(&form, &paths);
            figure.limits_below(&spec.limits);
        }
        figure.allowed_below(spec.domain.1);
        Ok(figure)
    }

    /// The plot's area between the axes.
    pub(super) fn plot(&self) -> Rect {
        self.plot
    }

    pub(super) fn x(&self) -> &Scale {
        &self.x
    }

    /// The sample whose context is nearest to `x` pixels.
    pub(super) fn nearest_sample(&self, x: f64) -> Option<usize> {
        let context = self.x.unproject(x.clamp(self.plot.left, self.plot.right));
        let after = self.contexts.partition_point(|tokens| (tokens.get() as f64) < context);
        let distance = |index: &usize| (self.x.project(self.contexts[*index].get() as f64) - x).abs();
        [after.checked_sub(1), (after < self.contexts.len()).then_some(after)]
            .into_iter()
            .flatten()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    pub(super) fn context(&self, sample: usize) -> Tokens {
        self.contexts[sample]
    }

    /// The sample at exactly `context`, if it was sampled.
    pub(super) fn sample_at(&self, context: Tokens) -> Option<usize> {
        self.contexts.binary_search(&context).ok()
    }

    /// The curve whose value at `sample` lies nearest to `y` pixels, within 24 pixels.
    pub(super) fn nearest_curve(&self, sample: usize, y: f64) -> Option<usize> {
        let distance = |index: usize| {
            let curve = &self.lines[index];
            let values = [curve.values.get(sample), curve.reserved.get(sample)];
            let places = values.into_iter().flatten().filter_map(|value| self.place(*value));
            places.map(|place| (place - y).abs()).min_by(f64::total_cmp)
        };
        (0..self.lines.len())
            .filter_map(|index| Some((index, distance(index)?)))
            .filter(|(_, distance)| *distance <= 24.0)
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(index, _)| index)
    }

    /// The cursor line, a dot a curve, the context under the axis, and the values beside the names.
    pub(super) fn overlay(&self, readings: &Readings) -> Scene {
        let mut group = Group::new("cursor", Role::Cursor);
        let mut values = Group::new("values", Role::Labels);
        let at = self.x.project(readings.context.get() as f64);
        let inside = (self.plot.left - 0.5..=self.plot.right + 0.5).contains(&at);
        if inside {
            if let Some(index) = readings.emphasis.filter(|index| *index < self.lines.len()) {
                let points = self.path(&self.lines[index].values);
                group.push(Node::Polyline { points, stroke: self.stroke(index, 1.4) });
            }
            // Among many dots, halos would hide their neighbours.
            let halo = if self.lines.len() > 20 { 0.5 } else { 1.5 };
            let (from, to) = (Point::new(at, self.plot.top), Point::new(at, self.plot.bottom + 5.0));
            group.push(Node::Line { from, to, stroke: Stroke::hairline(Ink::Cursor) });
            for (all, radius) in [(&readings.reserved, 1.5), (&readings.values, 2.0)] {
                for (curve, reading) in self.lines.iter().zip(all).rev() {
                    let Some(y) = reading.as_ref().and_then(|(value, _)| self.place(*value)) else {
                        continue;
                    };
                    if !(self.plot.top - 1.0..=self.plot.bottom + 1.0).contains(&y) {
                        continue;
                    }
                    group.push(Node::Circle {
                        centre: Point::new(at, y),
                        radius: radius * self.line_width,
                        fill: Ink::Series(curve.colour),
                        outline: Stroke::solid(Ink::Paper, halo),
                    });
                }
            }
            let label = label::place(readings.context, self.across);
            let half = text::width(&label, size::LABEL, Weight::Bold) / 2.0;
            let middle = at.clamp(half, (self.scene.size.width - half).max(half));
            let place = Point::new(middle, self.plot.bottom + AXIS_HEIGHT - 6.0);
            group.push(Text::new(place, label, size::LABEL, Ink::Text).bold().anchored(Anchor::Middle));
        }
        self.heads.name(&label::place(readings.context, self.across), &mut values);
        for (index, place) in self.value_places.iter().enumerate() {
            let Some((at, font_size)) = *place else { continue };
            for (all, right) in [(&readings.values, Some(at.x)), (&readings.reserved, self.heads.reserved)] {
                let Some(right) = right else { continue };
                let (shown, ink) = match all.get(index) {
                    Some(Some((_, shown))) => (shown.as_str(), Ink::Text),
                    _ => (readings.missing, Ink::Muted),
                };
                // In two columns of names each row has its own right edge.
                let label = Text::new(Point::new(right, at.y), shown, font_size, ink).anchored(Anchor::End);
                values.push(if readings.emphasis == Some(index) { label.bold() } else { label });
            }
        }
        Scene {
            size: self.scene.size,
            title: self.scene.title.clone(),
            description: self.scene.description.clone(),
            nodes: vec![group.into(), values.into()],
        }
    }

    /// Pixels of `value`, if the scale has it.
    fn place(&self, value: f64) -> Option<f64> {
        (value.is_finite() && (value > 0.0 || !self.logarithmic)).then(|| self.y.project(value))
    }

    fn path(&self, values: &[f64]) -> Vec<Point> {
        let places = self.columns.iter().zip(values);
        places.filter_map(|(x, value)| Some(Point::new((*x)?, self.place(*value)?))).collect()
    }

    fn stroke(&self, index: usize, extra: f64) -> Stroke {
        let curve = &self.lines[index];
        Stroke {
            ink: Ink::Series(curve.colour),
            width: self.line_width + extra,
            dash: curve.provenance.dash(),
        }
    }

    fn rings(&mut self, rings: &[Ring]) {
        if rings.is_empty() {
            return;
        }
        let mut group = Group::new("measured", Role::Measured);
        for ring in rings {
            let x = self.x.project(ring.context.get() as f64);
            let Some(y) =
                self.place(ring.value).filter(|_| self.plot.left - 0.5 <= x && x <= self.plot.right + 0.5)
            else {
                continue;
            };
            let outline = ring.standing.outline(ring.colour);
            if let (Some(low), Some(high)) = (self.place(ring.low), self.place(ring.high)) {
                // Within the ring the interval cannot be seen; the ring alone is then the truth.
                if low - high > 9.0 {
                    let (from, to) = (Point::new(x, low), Point::new(x, high));
                    group.push(Node::Line { from, to, stroke: outline });
                }
            }
            group.nodes.extend(marks::ring(Point::new(x, y), ring.colour, ring.standing));
        }
        self.scene.nodes.push(group.into());
    }
}

impl Spec<'_> {
    /// Whether reserved values stand beside the others.
    fn has_reserved(&self) -> bool {
        self.curves.iter().any(|curve| !curve.reserved.is_empty())
    }

    /// Whether names stand beside the plot.
    fn is_wide(&self) -> bool {
        self.size.width >= if self.has_reserved() { WIDE_FROM_RESERVED } else { WIDE_FROM }
    }
}

impl Form {
    fn of(spec: &Spec, left: f64) -> Self {
        let reserved = spec.has_reserved();
        let wide = spec.is_wide();
        let value_width = text::width(spec.widest_value, size::LABEL, Weight::Bold);
        let second = value_width.max(heads::RESERVED_WIDTH) + heads::GAP;
        let values_width = value_width + if reserved { second } else { 0.0 };
        let widest = |curve: &Curve| text::width(&curve.name, size::LABEL, Weight::Bold).ceil();
        let name_width = spec.curves.iter().map(widest).fold(0.0, f64::max).min(0.34 * spec.size.width);
        let bottom = spec.size.height - AXIS_HEIGHT;
        let right = match (wide, spec.curves.is_empty()) {
            (true, false) => spec.size.width - LEADER - name_width - 12.0 - values_width,
            _ => spec.size.width - RIGHT,
        };
        let plot = Rect::new(left, heads::top(spec), right, bottom);
        Self { plot, wide, name_width, value_width, values_width, ranks: spec.ranks }
    }

    /// Whether there is a second column of values.
    fn has_reserved(&self) -> bool {
        self.values_width > self.value_width
    }
}

fn check(spec: &Spec) -> Result<(), FigureError> {
    check_room(spec.size, LEAST)?;
    check_domain(spec.domain)?;
    if let Some(place) = spec.contexts.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(FigureError::Contexts(place + 1));
    }
    let most = |curve: &Curve| curve.values.len().max(curve.reserved.len());
    match spec.curves.iter().find(|curve| most(curve) > spec.contexts.len()) {
        Some(curve) => Err(FigureError::Values {
            name: curve.name.clone(),
            values: most(curve),
            contexts: spec.contexts.len(),
        }),
        None => Ok(()),
    }
}

pub(super) fn check_domain(domain: (Tokens, Tokens)) -> Result<(), FigureError> {
    if domain.0.get() == 0 || domain.0 >= domain.1 {
        return Err(FigureError::Domain(domain.0, domain.1));
    }
    Ok(())
}

pub(super) fn check_room(offered: Size, least: Size) -> Result<(), FigureError> {
    if offered.width >= least.width && offered.height >= least.height {
        return Ok(());
    }
    Err(FigureError::Size {
        width: pixels(offered.width),
        height: pixels(offered.height),
        least_width: pixels(least.width),
        least_height: pixels(least.height),
    })
}

/// `text` with anything but letters, digits, `-` and `.` as `-`.
pub(super) fn identifier(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of labels; the cast saturates"
)]
pub(super) fn whole(value: f64) -> usize {
    value.floor() as usize
}

#[allow(clippy::cast_possible_truncation, reason = "for an error message; the cast saturates")]
fn pixels(value: f64) -> i64 {
    value.round() as i64
}
