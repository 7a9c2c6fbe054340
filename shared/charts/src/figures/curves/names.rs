//! Names and the places of values: beside the line ends, or in a list under narrow figures.

use super::heads::{Heads, below_rows};
use super::{AXIS_HEIGHT, Curves, Form, LEADER, LEAST_PITCH, PITCH, ROW, whole};
use crate::figures::marks;
use crate::figures::spread::spread;
use crate::scene::{Group, Ink, Node, Point, Role, Stroke, Text, Weight};
use crate::text::{self, size};

impl Curves {
    pub(super) fn labels_beside(&mut self, form: &Form, paths: &[Vec<Point>]) {
        // Under the heads, with some air.
        let (top, bottom) = (self.plot.top + 10.0, self.plot.bottom + 4.0);
        let drawn = self.named(paths);
        let capacity = whole((bottom - top) / LEAST_PITCH) + 1;
        let kept: Vec<usize> =
            if drawn.len() > capacity { drawn[..capacity - 1].to_vec() } else { drawn.clone() };
        let count = kept.len() + usize::from(kept.len() < drawn.len());
        let pitch = ((bottom - top) / (count.max(2) - 1) as f64).min(PITCH);
        let font_size = if pitch < 15.0 { size::NOTE } else { size::LABEL };
        let half_cap = text::cap_height(font_size) / 2.0;
        let wanted_at = |index: &usize| paths[*index].last().map_or(bottom, |end| end.y + half_cap);
        let mut wanted: Vec<f64> = kept.iter().map(wanted_at).collect();
        if count > kept.len() {
            wanted.push(bottom);
        }
        let places = spread(&wanted, pitch, top, bottom);
        let names_left = self.plot.right + LEADER;
        let values_right = names_left + form.name_width + 12.0 + form.value_width;
        self.value_places = vec![None; self.lines.len()];
        let mut group = Group::new("names", Role::Labels);
        if !drawn.is_empty() {
            let (heads, nodes) = Heads::beside(form, values_right);
            self.heads = heads;
            group.nodes.extend(nodes);
        }
        for (&index, &baseline) in kept.iter().zip(&places) {
            let curve = &self.lines[index];
            let ink = Ink::Series(curve.colour);
            let middle = baseline - half_cap;
            let away = |end: &&Point| (middle - end.y).abs() > 1.0 || end.x < self.plot.right - 1.0;
            if let Some(end) = paths[index].last().filter(away) {
                let points = vec![
                    Point::new(end.x + 1.0, end.y),
                    Point::new((self.plot.right + 4.0).max(end.x + 1.0), end.y),
                    Point::new(names_left - 6.0, middle),
                    Point::new(names_left - 3.0, middle),
                ];
                group.push(Node::Polyline { points, stroke: Stroke::solid(ink, 0.75) });
            }
            if let Some(marker) = curve.colour.marker() {
                group.push(marks::marker(marker, Point::new(names_left - 10.0, middle), curve.colour));
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

    /// The curves that have a name: those with a line, and those that an engine refuses.
    fn named(&self, paths: &[Vec<Point>]) -> Vec<usize> {
        let is_named = |index: &usize| !paths[*index].is_empty() || self.lines[*index].refused;
        (0..paths.len()).filter(is_named).collect()
    }

    /// A list under the axis: a sample of the line, the name, the value; the highest curve first.
    pub(super) fn labels_below(&mut self, form: &Form, paths: &[Vec<Point>]) {
        let mut drawn = self.named(paths);
        let end = |index: &usize| paths[*index].last().map_or(f64::INFINITY, |end| end.y);
        kvscope_sizing::sort_short(&mut drawn, |a, b| end(a).total_cmp(&end(b)).is_gt());
        let width = self.scene.size.width;
        let columns = if width >= 460.0 && drawn.len() > 3 && !form.has_reserved() { 2 } else { 1 };
        let rows = drawn.len().div_ceil(columns);
        let gap = 20.0;
        let column_width = (width - gap * (columns - 1) as f64) / columns as f64;
        let head = self.plot.bottom + AXIS_HEIGHT + 4.0;
        let top = if drawn.is_empty() { head } else { head + below_rows(form) * ROW };
        self.value_places = vec![None; self.lines.len()];
        let mut group = Group::new("names", Role::Labels);
        if !drawn.is_empty() {
            let (heads, nodes) = Heads::below(form, head, width);
            self.heads = heads;
            group.nodes.extend(nodes);
        }
        for (place, index) in drawn.into_iter().enumerate() {
            let left = (place / rows) as f64 * (column_width + gap);
            let baseline = top + ((place % rows) as f64 + 1.0) * ROW - 6.0;
            let curve = &self.lines[index];
            let middle = baseline - text::cap_height(size::LABEL) / 2.0;
            if !curve.refused {
                group.push(Node::Line {
                    from: Point::new(left, middle),
                    to: Point::new(left + 18.0, middle),
                    stroke: self.stroke(index, 0.0),
                });
            }
            if let Some(marker) = curve.colour.marker() {
                group.push(marks::marker(marker, Point::new(left + 9.0, middle), curve.colour));
            }
            let room = column_width - 26.0 - form.values_width - 8.0;
            let name = text::fitted(&curve.name, size::LABEL, Weight::Bold, room);
            let at = Point::new(left + 26.0, baseline);
            group.push(Text::new(at, name, size::LABEL, Ink::Series(curve.colour)).bold());
            let right = left + column_width - form.values_width + form.value_width;
            self.value_places[index] = Some((Point::new(right, baseline), size::LABEL));
        }
        self.scene.size.height = top + rows as f64 * ROW;
        self.scene.nodes.push(group.into());
    }
}
