//! Grid, ticks, and the values that the y axis spans.

use super::{RIGHT, Spec, whole};
use crate::label::{Quantity, tick_labels};
use crate::scale::{Rounding, Scale, ScaleKind};
use crate::scene::{Anchor, Group, Ink, Node, Point, Rect, Role, Stroke, Text, Weight};
use crate::text::{self, size};

/// Grid, ticks and their labels.
pub(super) fn axes(
    plot: Rect,
    (x, across): (&Scale, Quantity),
    y: &Scale,
    y_ticks: &[f64],
    y_labels: &[String],
) -> Group {
    let mut group = Group::new("axes", Role::Axes);
    for (tick, label) in y_ticks.iter().zip(y_labels) {
        let at = y.project(*tick);
        let (from, to) = (Point::new(plot.left, at), Point::new(plot.right, at));
        group.push(Node::Line { from, to, stroke: Stroke::hairline(Ink::Grid) });
        let place = Point::new(plot.left - 8.0, at + text::cap_height(size::NOTE) / 2.0);
        group.push(Text::new(place, label, size::NOTE, Ink::Muted).anchored(Anchor::End));
    }
    group.nodes.extend(across_axis(plot, x, across));
    group
}

/// Vertical hairlines at round contexts, labelled under the plot.
pub(crate) fn context_axis(plot: Rect, x: &Scale) -> Vec<Node> {
    across_axis(plot, x, Quantity::Tokens)
}

fn across_axis(plot: Rect, x: &Scale, across: Quantity) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (tick, label) in across_ticks(plot, x, across) {
        let at = x.project(tick);
        let (from, to) = (Point::new(at, plot.top), Point::new(at, plot.bottom));
        nodes.push(Node::Line { from, to, stroke: Stroke::hairline(Ink::Grid) });
        nodes.push(label.into());
    }
    nodes
}

/// As many round places as have room for their labels.
fn across_ticks(plot: Rect, x: &Scale, across: Quantity) -> Vec<(f64, Text)> {
    let clear = |ticks: &[(f64, Text)]| {
        ticks.windows(2).all(|pair| pair[1].1.bounds().left - pair[0].1.bounds().right >= 10.0)
    };
    // Powers of two are known by heart; even steps are read one by one.
    let room = if x.kind() == ScaleKind::Linear { 80.0 } else { 40.0 };
    let mut at_most = whole(plot.width() / room).max(2);
    loop {
        let rounding = if across == Quantity::Tokens { Rounding::Binary } else { Rounding::Decimal };
        let values = x.ticks(at_most, rounding);
        let labels = tick_labels(&values, across);
        let mut ticks: Vec<(f64, Text)> = values
            .into_iter()
            .zip(labels)
            .map(|(tick, label)| (tick, context_label(plot, x.project(tick), label)))
            .collect();
        if clear(&ticks) {
            return ticks;
        }
        if at_most == 2 {
            ticks.drain(1..ticks.len() - 1);
            return ticks;
        }
        at_most -= 1;
    }
}

/// A label under its hairline, moved in where it would leave a narrow figure.
fn context_label(plot: Rect, at: f64, label: String) -> Text {
    let half = text::width(&label, size::NOTE, Weight::Regular) / 2.0;
    let middle = at.min(plot.right + RIGHT - half).max(half);
    Text::new(Point::new(middle, plot.bottom + 19.0), label, size::NOTE, Ink::Muted).anchored(Anchor::Middle)
}

/// The values that curves, rings and limits reach, with room above and below.
pub(super) fn y_domain(spec: &Spec) -> (f64, f64) {
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
        let reserved =
            spec.contexts.iter().zip(&curve.reserved).filter(|(context, _)| (low..=high).contains(context));
        reserved.for_each(|(_, value)| reach(*value));
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
