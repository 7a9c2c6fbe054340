//! Levels to compare with, and where their labels go.

use super::{Curves, Form, ROW, Rule};
use crate::scene::{Anchor, Group, Ink, Node, Point, Rect, Role, Stroke, Text, Weight};
use crate::text::{self, size};

/// Half the length of the stroke where a curve reaches a level.
const TICK: f64 = 5.0;

impl Rule {
    fn ink(&self) -> Ink {
        self.colour.map_or(Ink::Accent, Ink::Series)
    }
}

impl Curves {
    /// Levels across the plot; beside names their labels go along them, in narrow figures into the list.
    pub(super) fn rules(&mut self, limits: &[Rule], paths: &[Vec<Point>], form: &Form) {
        let mut taken: Vec<Rect> = Vec::new();
        for (index, limit) in limits.iter().enumerate() {
            let Some(y) = self.place(limit.value).filter(|y| self.plot.top <= *y && *y <= self.plot.bottom)
            else {
                continue;
            };
            let mut group = Group::new(format!("limit-{index}"), Role::Limit);
            group.label.clone_from(&limit.label);
            let (from, to) = (Point::new(self.plot.left, y), Point::new(self.plot.right, y));
            group.push(Node::Line { from, to, stroke: Stroke::hairline(limit.ink()) });
            self.crossings(limit, y, &mut group, &mut taken);
            if form.wide {
                let words = text::fitted(&limit.label, size::NOTE, Weight::Regular, self.plot.width() - 12.0);
                let label = Text::new(Point::new(0.0, 0.0), words, size::NOTE, limit.ink());
                let label = Text { at: self.clearest_place(&label, y, paths, &taken), ..label };
                taken.push(label.bounds());
                group.push(label);
            }
            self.scene.nodes.push(group.into());
        }
    }

    /// Where curves reach the level at `y`: a stroke each, with its context where there is room for it.
    fn crossings(&self, limit: &Rule, y: f64, group: &mut Group, taken: &mut Vec<Rect>) {
        for (colour, context) in &limit.crossings {
            let x = self.x.project(context.get() as f64);
            if !(self.plot.left..=self.plot.right).contains(&x) {
                continue;
            }
            let ink = Ink::Series(*colour);
            let (from, to) = (Point::new(x, y - TICK), Point::new(x, y + TICK));
            group.push(Node::Line { from, to, stroke: Stroke { width: 2.0, ..Stroke::hairline(ink) } });
            // Right below the level a rising curve has left; left above it one has yet to come.
            let places = [(4.0, 16.0, Anchor::Start), (-4.0, -6.0, Anchor::End), (4.0, 29.0, Anchor::Start)];
            let at = |(dx, dy, anchor): (f64, f64, Anchor)| {
                Text::new(Point::new(x + dx, y + dy), context.to_string(), size::NOTE, ink).anchored(anchor)
            };
            let is_clear = |text: &Text| {
                let bounds = text.bounds();
                let inside = bounds.left >= self.plot.left
                    && bounds.right <= self.plot.right
                    && bounds.top >= self.plot.top
                    && bounds.bottom <= self.plot.bottom;
                inside && !taken.iter().any(|other| other.overlaps(bounds))
            };
            if let Some(text) = places.map(at).into_iter().find(is_clear) {
                taken.push(text.bounds());
                group.push(text);
            }
        }
    }

    /// Where along the level at `y` a label crosses the fewest curves and no other label.
    fn clearest_place(&self, label: &Text, y: f64, paths: &[Vec<Point>], taken: &[Rect]) -> Point {
        let first = self.plot.left + 6.0;
        let last = (self.plot.right - 6.0 - label.width()).max(first);
        let places = (0..=12).flat_map(|step| {
            let x = first + (last - first) * f64::from(step) / 12.0;
            [Point::new(x, y - 5.0), Point::new(x, y + 14.0)]
        });
        let trouble = |at: &Point| {
            let bounds = Text { at: *at, ..label.clone() }.bounds();
            let outside = bounds.top < self.plot.top || bounds.bottom > self.plot.bottom;
            let crosses = |path: &&Vec<Point>| path.windows(2).any(|pair| touches(bounds, pair[0], pair[1]));
            let covered = taken.iter().filter(|other| other.overlaps(bounds)).count();
            paths.iter().filter(crosses).count() + (usize::from(outside) + covered) * (1 + paths.len())
        };
        places.min_by_key(trouble).expect("there are places")
    }

    /// The limits' labels under the list, each with a sample of its line.
    pub(super) fn limits_below(&mut self, limits: &[Rule]) {
        let shown = limits.iter().filter(|limit| {
            self.place(limit.value).is_some_and(|y| self.plot.top <= y && y <= self.plot.bottom)
        });
        let mut group = Group::new("limit-names", Role::Limit);
        let mut bottom = self.scene.size.height;
        for limit in shown {
            let lines =
                text::wrapped(&limit.label, size::NOTE, Weight::Regular, self.scene.size.width - 26.0);
            for (index, line) in lines.into_iter().enumerate() {
                bottom += ROW - 3.0;
                let baseline = bottom - 5.0;
                let middle = baseline - text::cap_height(size::NOTE) / 2.0;
                if index == 0 {
                    let (from, to) = (Point::new(0.0, middle), Point::new(18.0, middle));
                    group.push(Node::Line { from, to, stroke: Stroke::hairline(limit.ink()) });
                }
                group.push(Text::new(Point::new(26.0, baseline), line, size::NOTE, limit.ink()));
            }
        }
        if !group.nodes.is_empty() {
            self.scene.nodes.push(group.into());
            self.scene.size.height = bottom;
        }
    }
}

/// Whether the line from `from` to `to`, which runs to the right, passes through `bounds`.
fn touches(bounds: Rect, from: Point, to: Point) -> bool {
    if to.x < bounds.left || from.x > bounds.right || to.x <= from.x {
        return false;
    }
    let at = |x: f64| from.y + (to.y - from.y) * ((x - from.x) / (to.x - from.x)).clamp(0.0, 1.0);
    let (first, last) = (at(bounds.left), at(bounds.right));
    first.max(last) >= bounds.top && first.min(last) <= bounds.bottom
}
