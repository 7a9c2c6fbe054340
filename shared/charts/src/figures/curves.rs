//! What growth and latency share: curves over context with direct labels, measured rings, limits and a cursor.

use kvscope_sizing::Tokens;

use super::spread::spread;
use super::{FigureError, Provenance};
use crate::label::{self, Quantity, tick_labels};
use crate::palette::SeriesColour;
use crate::scale::{Rounding, Scale, ScaleKind};
use crate::scene::{Anchor, Group, Ink, Node, Point, Rect, Role, Scene, Size, Stroke, Text, Weight};
use crate::text::{self, size};

/// Below this width names go into a list under the axis.
const WIDE_FROM: f64 = 600.0;
/// Least size of the plot with its axes.
const LEAST: Size = Size::new(240.0, 140.0);
/// Height under the plot for tick labels and the cursor's context.
pub(super) const AXIS_HEIGHT: f64 = 44.0;
const TOP: f64 = 10.0;
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
    pub(super) quantity: Quantity,
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
}

/// A measured point with its interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub(super) colour: SeriesColour,
    pub(super) context: Tokens,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A level to compare with.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) value: f64,
    pub(super) label: String,
}

/// What the cursor reads: one entry a curve.
pub(super) struct Readings<'a> {
    pub(super) context: Tokens,
    pub(super) values: Vec<Option<(f64, String)>>,
    pub(super) emphasis: Option<usize>,
    pub(super) missing: &'a str,
}

/// Laid-out curves.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    pub(super) scene: Scene,
    plot: Rect,
    x: Scale,
    y: Scale,
    logarithmic: bool,
    contexts: Vec<Tokens>,
    lines: Vec<Curve>,
    /// Where each curve's value stands (end of its baseline); none where its label had no room.
    value_places: Vec<Option<(Point, f64)>>,
    line_width: f64,
}

/// Where a plot lies in the space offered.
struct Form {
    plot: Rect,
    wide: bool,
    name_width: f64,
    value_width: f64,
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
        let rough_height = spec.size.height - TOP - AXIS_HEIGHT;
        let y_ticks = y_at((rough_height, 0.0)).ticks(ticks_at_most(rough_height), rounding);
        let y_labels = tick_labels(&y_ticks, spec.quantity);
        let left =
            y_labels.iter().map(|label| text::width(label, size::NOTE, Weight::Regular)).fold(0.0, f64::max)
                + 10.0;
        let form = Form::of(&spec, left);
        let plot = form.plot;
        let domain = (spec.domain.0.get() as f64, spec.domain.1.get() as f64);
        let x = Scale::new(ScaleKind::Log2, domain, (plot.left, plot.right)).expect("the domain is checked");
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
            y,
            logarithmic: spec.scale != ScaleKind::Linear,
            contexts: spec.contexts.to_vec(),
            lines: spec.curves,
            value_places: Vec::new(),
            line_width,
        };
        let axes = axes(plot, &x, &y, &y_ticks, &y_labels);
        figure.scene.nodes.push(axes.into());
        let paths: Vec<Vec<Point>> = (0..figure.lines.len()).map(|index| figure.path(index)).collect();
        figure.rules(&spec.limits, &paths);
        // Later models under earlier ones: the first is what the reader asked for first.
        for (index, path) in paths.iter().enumerate().rev() {
            let curve = &figure.lines[index];
            let mut group = Group::new(format!("series-{}", identifier(&curve.id)), Role::Series);
            group.label.clone_from(&curve.name);
            if path.len() > 1 {
                group.push(Node::Polyline { points: path.clone(), stroke: figure.stroke(index, 0.0) });
            }
            figure.scene.nodes.push(group.into());
        }
        figure.rings(&spec.rings);
        if form.wide {
            figure.labels_beside(&form, &paths);
        } else {
            figure.labels_below(&form, &paths);
        }
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
        let distance = |index: usize| Some((self.place(*self.lines[index].values.get(sample)?)? - y).abs());
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
                group.push(Node::Polyline { points: self.path(index), stroke: self.stroke(index, 1.4) });
            }
            let (from, to) = (Point::new(at, self.plot.top), Point::new(at, self.plot.bottom + 5.0));
            group.push(Node::Line { from, to, stroke: Stroke::hairline(Ink::Cursor) });
            for (curve, reading) in self.lines.iter().zip(&readings.values).rev() {
                let Some(y) = reading.as_ref().and_then(|(value, _)| self.place(*value)) else {
                    continue;
                };
                if !(self.plot.top - 1.0..=self.plot.bottom + 1.0).contains(&y) {
                    continue;
                }
                group.push(Node::Circle {
                    centre: Point::new(at, y),
                    radius: 4.0,
                    fill: Ink::Series(curve.colour),
                    outline: Stroke::solid(Ink::Paper, 1.5),
                });
            }
            let label = label::context(readings.context);
            let half = text::width(&label, size::LABEL, Weight::Bold) / 2.0;
            let middle = at.clamp(half, (self.scene.size.width - half).max(half));
            let place = Point::new(middle, self.plot.bottom + AXIS_HEIGHT - 6.0);
            group.push(Text::new(place, label, size::LABEL, Ink::Text).bold().anchored(Anchor::Middle));
        }
        for (index, place) in self.value_places.iter().enumerate() {
            let Some((at, font_size)) = *place else { continue };
            let (shown, ink) = match readings.values.get(index) {
                Some(Some((_, shown))) => (shown.as_str(), Ink::Text),
                _ => (readings.missing, Ink::Muted),
            };
            let label = Text::new(at, shown, font_size, ink).anchored(Anchor::End);
            values.push(if readings.emphasis == Some(index) { label.bold() } else { label });
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

    fn path(&self, index: usize) -> Vec<Point> {
        let (low, high) = self.x.domain();
        let mut path = Vec::with_capacity(self.contexts.len());
        for (context, value) in self.contexts.iter().zip(&self.lines[index].values) {
            let context = context.get() as f64;
            if let (true, Some(y)) = ((low..=high).contains(&context), self.place(*value)) {
                path.push(Point::new(self.x.project(context), y));
            }
        }
        path
    }

    fn stroke(&self, index: usize, extra: f64) -> Stroke {
        let curve = &self.lines[index];
        Stroke {
            ink: Ink::Series(curve.colour),
            width: self.line_width + extra,
            dash: curve.provenance.dash(curve.colour),
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
            let outline = Stroke::solid(Ink::Series(ring.colour), 1.75);
            if let (Some(low), Some(high)) = (self.place(ring.low), self.place(ring.high)) {
                // Within the ring the interval cannot be seen; the ring alone is then the truth.
                if low - high > 9.0 {
                    let (from, to) = (Point::new(x, low), Point::new(x, high));
                    group.push(Node::Line { from, to, stroke: outline });
                }
            }
            group.push(Node::Circle { centre: Point::new(x, y), radius: 4.25, fill: Ink::Paper, outline });
        }
        self.scene.nodes.push(group.into());
    }

    fn rules(&mut self, limits: &[Rule], paths: &[Vec<Point>]) {
        for (index, limit) in limits.iter().enumerate() {
            let Some(y) = self.place(limit.value).filter(|y| self.plot.top <= *y && *y <= self.plot.bottom)
            else {
                continue;
            };
            let mut group = Group::new(format!("limit-{index}"), Role::Limit);
            group.label.clone_from(&limit.label);
            let (from, to) = (Point::new(self.plot.left, y), Point::new(self.plot.right, y));
            group.push(Node::Line { from, to, stroke: Stroke::hairline(Ink::Accent) });
            let room = self.plot.width() - 12.0;
            let words = text::fitted(&limit.label, size::NOTE, Weight::Regular, room);
            let label = Text::new(Point::new(0.0, 0.0), words, size::NOTE, Ink::Accent);
            group.push(Text { at: self.clearest_place(&label, y, paths), ..label });
            self.scene.nodes.push(group.into());
        }
    }

    /// Where along the rule at `y` a label crosses the fewest curves.
    fn clearest_place(&self, label: &Text, y: f64, paths: &[Vec<Point>]) -> Point {
        let width = label.width();
        let last = (self.plot.right - 6.0 - width).max(self.plot.left + 6.0);
        let first = self.plot.left + 6.0;
        let places = (0..=12).flat_map(|step| {
            let x = first + (last - first) * f64::from(step) / 12.0;
            [Point::new(x, y - 5.0), Point::new(x, y + 14.0)]
        });
        let crossed = |at: &Point| {
            let bounds = Text { at: *at, ..label.clone() }.bounds();
            let hits = |path: &&Vec<Point>| path.iter().any(|point| bounds.contains(*point));
            let outside = bounds.top < self.plot.top || bounds.bottom > self.plot.bottom;
            paths.iter().filter(hits).count() + usize::from(outside) * paths.len().max(1)
        };
        places.min_by_key(crossed).expect("there are places")
    }

    fn labels_beside(&mut self, form: &Form, paths: &[Vec<Point>]) {
        let (top, bottom) = (self.plot.top + 4.0, self.plot.bottom + 4.0);
        let drawn: Vec<usize> = (0..paths.len()).filter(|index| !paths[*index].is_empty()).collect();
        let capacity = whole((bottom - top) / LEAST_PITCH) + 1;
        let kept: Vec<usize> =
            if drawn.len() > capacity { drawn[..capacity - 1].to_vec() } else { drawn.clone() };
        let count = kept.len() + usize::from(kept.len() < drawn.len());
        let pitch = ((bottom - top) / (count.max(2) - 1) as f64).min(PITCH);
        let font_size = if pitch < 15.0 { size::NOTE } else { size::LABEL };
        let half_cap = text::cap_height(font_size) / 2.0;
        let mut wanted: Vec<f64> =
            kept.iter().map(|index| paths[*index][paths[*index].len() - 1].y + half_cap).collect();
        if count > kept.len() {
            wanted.push(bottom);
        }
        let places = spread(&wanted, pitch, top, bottom);
        let names_left = self.plot.right + LEADER;
        let values_right = names_left + form.name_width + 12.0 + form.value_width;
        self.value_places = vec![None; self.lines.len()];
        let mut group = Group::new("names", Role::Labels);
        for (&index, &baseline) in kept.iter().zip(&places) {
            let curve = &self.lines[index];
            let end = paths[index][paths[index].len() - 1];
            let ink = Ink::Series(curve.colour);
            let middle = baseline - half_cap;
            if (middle - end.y).abs() > 1.0 || end.x < self.plot.right - 1.0 {
                let points = vec![
                    Point::new(end.x + 1.0, end.y),
                    Point::new((self.plot.right + 4.0).max(end.x + 1.0), end.y),
                    Point::new(names_left - 6.0, middle),
                    Point::new(names_left - 3.0, middle),
                ];
                group.push(Node::Polyline { points, stroke: Stroke::solid(ink, 0.75) });
            }
            let name = text::fitted(&curve.name, font_size, Weight::Bold, form.name_width);
            group.push(Text::new(Point::new(names_left, baseline), name, font_size, ink).bold());
            self.value_places[index] = Some((Point::new(values_right, baseline), font_size));
        }
        if count > kept.len() {
            let more = format!("and {} more", drawn.len() - kept.len());
            let place = Point::new(names_left, places[kept.len()]);
            group.push(Text::new(place, more, font_size, Ink::Muted));
        }
        self.scene.nodes.push(group.into());
    }

    /// A list under the axis: a sample of the line, the name, the value; the highest curve first.
    fn labels_below(&mut self, form: &Form, paths: &[Vec<Point>]) {
        let mut drawn: Vec<usize> = (0..paths.len()).filter(|index| !paths[*index].is_empty()).collect();
        let end = |index: &usize| paths[*index][paths[*index].len() - 1].y;
        drawn.sort_by(|a, b| end(a).total_cmp(&end(b)));
        let width = self.scene.size.width;
        let columns = if width >= 460.0 && drawn.len() > 3 { 2 } else { 1 };
        let rows = drawn.len().div_ceil(columns);
        let gap = 20.0;
        let column_width = (width - gap * (columns - 1) as f64) / columns as f64;
        let top = self.plot.bottom + AXIS_HEIGHT + 4.0;
        self.value_places = vec![None; self.lines.len()];
        let mut group = Group::new("names", Role::Labels);
        for (place, index) in drawn.into_iter().enumerate() {
            let left = (place / rows) as f64 * (column_width + gap);
            let baseline = top + ((place % rows) as f64 + 1.0) * ROW - 6.0;
            let curve = &self.lines[index];
            let middle = baseline - text::cap_height(size::LABEL) / 2.0;
            group.push(Node::Line {
                from: Point::new(left, middle),
                to: Point::new(left + 18.0, middle),
                stroke: self.stroke(index, 0.0),
            });
            let room = column_width - 26.0 - form.value_width - 8.0;
            let name = text::fitted(&curve.name, size::LABEL, Weight::Bold, room);
            let at = Point::new(left + 26.0, baseline);
            group.push(Text::new(at, name, size::LABEL, Ink::Series(curve.colour)).bold());
            self.value_places[index] = Some((Point::new(left + column_width, baseline), size::LABEL));
        }
        self.scene.size.height = top + rows as f64 * ROW;
        self.scene.nodes.push(group.into());
    }
}

impl Form {
    fn of(spec: &Spec, left: f64) -> Self {
        let wide = spec.size.width >= WIDE_FROM;
        let value_width = text::width(spec.widest_value, size::LABEL, Weight::Bold);
        let widest = |curve: &Curve| text::width(&curve.name, size::LABEL, Weight::Bold).ceil();
        let name_width = spec.curves.iter().map(widest).fold(0.0, f64::max).min(0.34 * spec.size.width);
        let bottom = spec.size.height - AXIS_HEIGHT;
        let right = match (wide, spec.curves.is_empty()) {
            (true, false) => spec.size.width - LEADER - name_width - 12.0 - value_width,
            // Half of the last tick's label.
            _ => spec.size.width - 14.0,
        };
        Self { plot: Rect::new(left, TOP, right, bottom), wide, name_width, value_width }
    }
}

/// Grid, ticks and their labels.
fn axes(plot: Rect, x: &Scale, y: &Scale, y_ticks: &[f64], y_labels: &[String]) -> Group {
    let mut group = Group::new("axes", Role::Axes);
    for (tick, label) in y_ticks.iter().zip(y_labels) {
        let at = y.project(*tick);
        let (from, to) = (Point::new(plot.left, at), Point::new(plot.right, at));
        group.push(Node::Line { from, to, stroke: Stroke::hairline(Ink::Grid) });
        let place = Point::new(plot.left - 8.0, at + text::cap_height(size::NOTE) / 2.0);
        group.push(Text::new(place, label, size::NOTE, Ink::Muted).anchored(Anchor::End));
    }
    group.nodes.extend(context_axis(plot, x));
    group
}

/// Vertical hairlines at round contexts, labelled under the plot.
pub(super) fn context_axis(plot: Rect, x: &Scale) -> Vec<Node> {
    let mut nodes = Vec::new();
    let ticks = x.ticks(whole(plot.width() / 46.0), Rounding::Binary);
    let labels = tick_labels(&ticks, Quantity::Tokens);
    for (tick, label) in ticks.iter().zip(labels) {
        let at = x.project(*tick);
        let (from, to) = (Point::new(at, plot.top), Point::new(at, plot.bottom));
        nodes.push(Node::Line { from, to, stroke: Stroke::hairline(Ink::Grid) });
        let place = Point::new(at, plot.bottom + 19.0);
        nodes.push(Text::new(place, label, size::NOTE, Ink::Muted).anchored(Anchor::Middle).into());
    }
    nodes
}

fn check(spec: &Spec) -> Result<(), FigureError> {
    check_room(spec.size, LEAST)?;
    check_domain(spec.domain)?;
    if let Some(place) = spec.contexts.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(FigureError::Contexts(place + 1));
    }
    match spec.curves.iter().find(|curve| curve.values.len() > spec.contexts.len()) {
        Some(curve) => Err(FigureError::Values {
            name: curve.name.clone(),
            values: curve.values.len(),
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

/// The values that curves, rings and limits reach, with room above and below.
fn y_domain(spec: &Spec) -> (f64, f64) {
    let (low, high) = (spec.domain.0, spec.domain.1);
    let mut least = f64::INFINITY;
    let mut most = f64::NEG_INFINITY;
    let mut reach = |value: f64| {
        if value.is_finite() && value > 0.0 {
            least = least.min(value);
            most = most.max(value);
        }
    };
    for curve in &spec.curves {
        let shown =
            spec.contexts.iter().zip(&curve.values).filter(|(context, _)| (low..=high).contains(context));
        shown.for_each(|(_, value)| reach(*value));
    }
    for ring in spec.rings.iter().filter(|ring| (low..=high).contains(&ring.context)) {
        [ring.value, ring.low, ring.high].into_iter().for_each(&mut reach);
    }
    spec.limits.iter().for_each(|limit| reach(limit.value));
    if least > most {
        (least, most) = (1.0, 10.0);
    }
    if spec.scale == ScaleKind::Linear {
        return (0.0, most * 1.05);
    }
    // A flat curve gets a factor of two on either side, others a twentieth of their span.
    let margin = ((most / least).ln() * 0.05).max(if most / least < 1.5 { 2.0_f64.ln() } else { 0.0 }).exp();
    (least / margin, most * margin)
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
