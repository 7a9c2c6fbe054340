//! Measured points: a hollow ring with its interval.

use crate::label;
use crate::palette::{Marker, SeriesColour};
use crate::scene::{Ink, Node, Point, Stroke};

const RADIUS: f64 = 4.25;
/// Arcs and lines of one arc in a broken ring.
const ARCS: u32 = 4;
const LINES: u32 = 4;

/// Whether a measured point holds. Each has its own look.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Standing {
    /// It counts in the verdict: a whole ring.
    #[default]
    Steady,
    /// It is shown and counts in no verdict, since it is unsteady or was cut short: a thin, broken ring.
    LeftOut,
}

impl Standing {
    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::LeftOut => "left out",
        }
    }

    /// The line of rings and intervals.
    pub(super) fn outline(self, colour: SeriesColour) -> Stroke {
        let width = match self {
            Self::Steady => 1.75,
            Self::LeftOut => 1.0,
        };
        Stroke::solid(Ink::Series(colour), width)
    }
}

/// `12 measured points, 3 of them left out of the verdict`
pub(super) fn counted_points(standings: impl Iterator<Item = Standing>, which: &str) -> String {
    let standings: Vec<Standing> = standings.collect();
    let points = label::counted(standings.len() as u64, &format!("{which}point"), &format!("{which}points"));
    match standings.iter().filter(|standing| **standing == Standing::LeftOut).count() {
        0 => points,
        n => format!("{points}, {n} of them left out of the verdict"),
    }
}

/// A ring around `centre`.
pub(super) fn ring(centre: Point, colour: SeriesColour, standing: Standing) -> Vec<Node> {
    let outline = standing.outline(colour);
    match standing {
        Standing::Steady => vec![Node::Circle { centre, radius: RADIUS, fill: Ink::Paper, outline }],
        Standing::LeftOut => {
            let paper = Stroke { ink: Ink::Paper, ..outline };
            let disc = Node::Circle { centre, radius: RADIUS, fill: Ink::Paper, outline: paper };
            std::iter::once(disc).chain((0..ARCS).map(|index| arc(centre, index, outline))).collect()
        }
    }
}

/// A version's shape around `centre`.
pub(super) fn marker(marker: Marker, centre: Point, colour: SeriesColour) -> Node {
    let corners: &[(f64, f64)] = match marker {
        Marker::Triangle => &[(0.0, -5.0), (4.8, 3.6), (-4.8, 3.6)],
        Marker::Square => &[(-3.8, -3.8), (3.8, -3.8), (3.8, 3.8), (-3.8, 3.8)],
        Marker::Diamond => &[(0.0, -5.4), (4.6, 0.0), (0.0, 5.4), (-4.6, 0.0)],
        Marker::Wedge => &[(-4.8, -3.6), (4.8, -3.6), (0.0, 5.0)],
        Marker::Cross => &[
            (-1.4, -5.2),
            (1.4, -5.2),
            (1.4, -1.4),
            (5.2, -1.4),
            (5.2, 1.4),
            (1.4, 1.4),
            (1.4, 5.2),
            (-1.4, 5.2),
            (-1.4, 1.4),
            (-5.2, 1.4),
            (-5.2, -1.4),
            (-1.4, -1.4),
        ],
    };
    let points = corners.iter().map(|(x, y)| Point::new(centre.x + x, centre.y + y)).collect();
    Node::Polygon { points, fill: Ink::Series(colour) }
}

/// One arc of a broken ring; the gap after it is half as long.
fn arc(centre: Point, index: u32, stroke: Stroke) -> Node {
    let turn = std::f64::consts::TAU / f64::from(ARCS);
    let start = turn * f64::from(index);
    let points = (0..=LINES).map(|step| {
        let angle = start + turn * (2.0 / 3.0) * f64::from(step) / f64::from(LINES);
        Point::new(centre.x + RADIUS * angle.cos(), centre.y + RADIUS * angle.sin())
    });
    Node::Polyline { points: points.collect(), stroke }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_that_is_left_out_has_no_whole_ring() {
        let colour = SeriesColour::default();
        let inked = |standing| {
            let nodes = ring(Point::new(0.0, 0.0), colour, standing);
            let whole = nodes.iter().any(
                |node| matches!(node, Node::Circle { outline, .. } if outline.ink == Ink::Series(colour)),
            );
            (nodes.len(), whole)
        };
        assert_eq!(inked(Standing::Steady), (1, true));
        assert_eq!(inked(Standing::LeftOut), (5, false));
    }
}
