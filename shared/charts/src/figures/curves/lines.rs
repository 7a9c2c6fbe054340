//! What a curve is drawn as: its line, thin beyond what the config allows, its dashes of reserved bytes, its markers.

use kvscope_sizing::Tokens;

use super::{Curve, Curves, ROW};
use crate::figures::marks;
use crate::palette::SeriesColour;
use crate::scene::{Dash, Group, Ink, Node, Point, Role, Stroke, Text, Weight};
use crate::text::{self, size};

/// Half the height of the mark where the allowed contexts end.
const END_MARK: f64 = 5.0;
/// Pixels from marker to marker, and by how much each kind of marker is shifted against the one before.
const MARKER_PITCH: f64 = 110.0;
const MARKER_SHIFT: f64 = 19.0;
/// Names in the note about allowed contexts before the rest is counted.
const MOST_NAMED: usize = 8;

impl Curves {
    /// The nodes of one curve, whose logical line is `path`.
    pub(super) fn line(&self, index: usize, path: &[Point]) -> Vec<Node> {
        let curve = &self.lines[index];
        let mut nodes = Vec::new();
        if !curve.reserved.is_empty() {
            let reserved = self.path(&curve.reserved);
            let stroke = Stroke { dash: Dash::Reserved, ..self.stroke(index, -0.4) };
            self.pieces(&mut nodes, curve, &reserved, stroke);
            self.markers(&mut nodes, curve.colour, &reserved, MARKER_PITCH / 2.0);
        }
        self.pieces(&mut nodes, curve, path, self.stroke(index, 0.0));
        self.markers(&mut nodes, curve.colour, path, 0.0);
        nodes
    }

    /// A line up to what the config allows, a mark there, and a thin line beyond it.
    fn pieces(&self, nodes: &mut Vec<Node>, curve: &Curve, path: &[Point], stroke: Stroke) {
        let end = curve.allowed.map_or(f64::INFINITY, |allowed| self.x.project(allowed.get() as f64) + 0.01);
        let within = path.partition_point(|point| point.x <= end);
        if within > 1 {
            nodes.push(Node::Polyline { points: path[..within].to_vec(), stroke });
        }
        let beyond = &path[within.saturating_sub(1)..];
        if within == path.len() || beyond.len() < 2 {
            return;
        }
        nodes.push(Node::Polyline {
            points: beyond.to_vec(),
            stroke: Stroke { width: (stroke.width * 0.4).max(0.7), ..stroke },
        });
        if within > 0 {
            let Point { x, y } = beyond[0];
            let (from, to) = (Point::new(x, y - END_MARK), Point::new(x, y + END_MARK));
            nodes.push(Node::Line { from, to, stroke: Stroke::solid(stroke.ink, 1.25) });
        }
    }

    fn markers(&self, nodes: &mut Vec<Node>, colour: SeriesColour, path: &[Point], shift: f64) {
        let Some(marker) = colour.marker() else { return };
        let (Some(first), Some(last)) = (path.first(), path.last()) else { return };
        let pitch = if self.lines.len() > 12 { 2.0 * MARKER_PITCH } else { MARKER_PITCH };
        let mut x = self.plot.left + 30.0 + shift + MARKER_SHIFT * colour.place() as f64;
        while x <= last.x - 12.0 {
            if x > first.x {
                let at = path[path.partition_point(|point| point.x < x).min(path.len() - 1)];
                nodes.push(marks::marker(marker, at, colour));
            }
            x += pitch;
        }
    }

    /// Under the figure: which contexts the configs allow, where a line goes on beyond.
    pub(super) fn allowed_below(&mut self, last: Tokens) {
        let mut limits: Vec<(Tokens, Vec<&str>)> = Vec::new();
        let mut unnamed = 0;
        for (count, curve) in self
            .lines
            .iter()
            .filter(|curve| !curve.refused && curve.allowed.is_some_and(|n| n < last))
            .enumerate()
        {
            let allowed = curve.allowed.unwrap_or(last);
            match limits.iter_mut().find(|(known, _)| *known == allowed) {
                _ if count >= MOST_NAMED => unnamed += 1,
                Some((_, names)) => names.push(&curve.name),
                None => limits.push((allowed, vec![&curve.name])),
            }
        }
        if limits.is_empty() {
            return;
        }
        kvscope_sizing::sort_short(&mut limits, |a, b| a.0 > b.0);
        let mut words: Vec<String> = limits
            .iter()
            .map(|(allowed, names)| format!("{} for {}", allowed.short(), names.join(", ")))
            .collect();
        if unnamed > 0 {
            words.push(format!("and for {unnamed} more"));
        }
        let note = format!("Thin lines: beyond what the config allows, {}.", words.join("; "));
        let width = self.scene.size.width;
        let mut group = Group::new("allowed", Role::Key);
        let mut bottom = self.scene.size.height + 2.0;
        for line in text::wrapped(&note, size::NOTE, Weight::Regular, width) {
            bottom += ROW - 3.0;
            group.push(Text::new(Point::new(0.0, bottom - 5.0), line, size::NOTE, Ink::Muted));
        }
        self.scene.nodes.push(group.into());
        self.scene.size.height = bottom;
    }
}
