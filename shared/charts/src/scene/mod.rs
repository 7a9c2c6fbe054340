//! The display list: what a figure's layout makes and every painter paints. Plain data in f64 CSS pixels, colours as
//! roles ([`Ink`]) that a [`Theme`](crate::Theme) resolves.

mod geometry;
mod hatch;

pub use geometry::{Point, Rect, Size};
pub use hatch::hatch_lines;

use kvscope_sizing::ComponentKind;

use crate::palette::SeriesColour;

/// A laid-out figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// The space it takes. A layout may need more height than it was offered (lists below narrow figures).
    pub size: Size,
    /// What the figure is, short; the accessible name of an export.
    pub title: String,
    /// One sentence made from the data, for those who do not see the figure.
    pub description: String,
    /// What to paint, in order, later over earlier.
    pub nodes: Vec<Node>,
}

/// One thing to paint.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A straight line.
    Line {
        /// Start.
        from: Point,
        /// End.
        to: Point,
        /// How it is drawn.
        stroke: Stroke,
    },
    /// A line through points, in order.
    Polyline {
        /// At least two points.
        points: Vec<Point>,
        /// How it is drawn.
        stroke: Stroke,
    },
    /// A filled rectangle.
    Rect {
        /// Where.
        rect: Rect,
        /// Its colour.
        fill: Ink,
        /// What lies over the colour.
        texture: Texture,
    },
    /// A circle.
    Circle {
        /// Its centre.
        centre: Point,
        /// Its radius in CSS pixels, to the middle of the outline.
        radius: f64,
        /// The colour inside.
        fill: Ink,
        /// The outline.
        outline: Stroke,
    },
    /// A filled shape.
    Polygon {
        /// Its corners, in order.
        points: Vec<Point>,
        /// Its colour.
        fill: Ink,
    },
    /// One line of text.
    Text(Text),
    /// Nodes that belong together.
    Group(Group),
}

/// One line of text, placed by its baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Where the baseline starts, has its middle or ends, by `anchor`.
    pub at: Point,
    /// What it says.
    pub text: String,
    /// Font size in CSS pixels, one of [`text::size`](crate::text::size).
    pub size: f64,
    /// Regular or bold.
    pub weight: Weight,
    /// Which part of the text lies at `at`.
    pub anchor: Anchor,
    /// Its colour.
    pub ink: Ink,
}

/// Nodes that belong together, with a name that exports keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Unique within the scene: letters, digits, `-`.
    pub id: String,
    /// What it holds.
    pub role: Role,
    /// What it shows, in words; empty where the role says all.
    pub label: String,
    /// Its nodes, in order.
    pub nodes: Vec<Node>,
}

/// What a group holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// Headline and notes of an export.
    Heading,
    /// Grid, ticks, axis labels.
    Axes,
    /// One curve or one model's marks.
    Series,
    /// Names and values beside curves.
    Labels,
    /// A limit to compare with.
    Limit,
    /// Measured points.
    Measured,
    /// The cursor and what it reads.
    Cursor,
    /// One model's layers.
    Strip,
    /// The key to colours and textures.
    Key,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stroke {
    /// Its colour.
    pub ink: Ink,
    /// Width in CSS pixels.
    pub width: f64,
    /// Its gaps.
    pub dash: Dash,
}

/// The gaps of a line, by where its values come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dash {
    /// Computed from the architecture.
    Solid,
    /// Reserved by an engine.
    Reserved,
    /// Fitted to measurements, and limits drawn across.
    Fitted,
}

/// What lies over a filled rectangle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Texture {
    /// Nothing.
    Plain,
    /// Diagonal lines in the paper's colour.
    Hatched,
}

/// Font weight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Weight {
    /// 400.
    Regular,
    /// 700.
    Bold,
}

/// Which part of a text lies at its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Anchor {
    /// The start of the baseline.
    Start,
    /// The middle of the baseline.
    Middle,
    /// The end of the baseline.
    End,
}

/// A colour by what it is for. A theme gives it its value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ink {
    /// The background.
    Paper,
    /// Text and values.
    Text,
    /// Quiet text: ticks, notes.
    Muted,
    /// Hairlines.
    Grid,
    /// The cursor.
    Cursor,
    /// The one accent, for limits.
    Accent,
    /// A model, by family and version.
    Series(SeriesColour),
    /// A state component.
    Component(ComponentKind),
}

impl Dash {
    /// Lengths in CSS pixels: drawn, left out, drawn, …; empty for a solid line.
    pub const fn lengths(self) -> &'static [f64] {
        match self {
            Self::Solid => &[],
            Self::Reserved => &[6.0, 4.0],
            Self::Fitted => &[1.5, 3.5],
        }
    }
}

impl Stroke {
    /// A solid line.
    pub const fn solid(ink: Ink, width: f64) -> Self {
        Self { ink, width, dash: Dash::Solid }
    }

    /// A line one CSS pixel wide.
    pub const fn hairline(ink: Ink) -> Self {
        Self::solid(ink, 1.0)
    }
}

impl Text {
    /// Regular text that starts at `at`.
    pub fn new(at: Point, text: impl Into<String>, size: f64, ink: Ink) -> Self {
        Self { at, text: text.into(), size, weight: Weight::Regular, anchor: Anchor::Start, ink }
    }

    /// The same in bold.
    #[must_use]
    pub fn bold(self) -> Self {
        Self { weight: Weight::Bold, ..self }
    }

    /// The same with another part at its place.
    #[must_use]
    pub fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    /// Width in CSS pixels.
    pub fn width(&self) -> f64 {
        crate::text::width(&self.text, self.size, self.weight)
    }

    /// The space its capitals and descenders take.
    pub fn bounds(&self) -> Rect {
        let width = self.width();
        let left = match self.anchor {
            Anchor::Start => self.at.x,
            Anchor::Middle => self.at.x - width / 2.0,
            Anchor::End => self.at.x - width,
        };
        let top = self.at.y - crate::text::cap_height(self.size);
        Rect::new(left, top, left + width, self.at.y + 0.22 * self.size)
    }
}

impl From<Text> for Node {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}

impl From<Group> for Node {
    fn from(group: Group) -> Self {
        Self::Group(group)
    }
}

impl Group {
    /// An empty group.
    pub fn new(id: impl Into<String>, role: Role) -> Self {
        Self { id: id.into(), role, label: String::new(), nodes: Vec::new() }
    }

    /// Adds a node at the end.
    pub fn push(&mut self, node: impl Into<Node>) {
        self.nodes.push(node.into());
    }
}

impl Node {
    /// The same further down, with `suffix` behind the names of its groups.
    #[must_use]
    fn moved_down(self, by: f64, suffix: &str) -> Self {
        let moved = |at: Point| Point::new(at.x, at.y + by);
        match self {
            Self::Line { from, to, stroke } => Self::Line { from: moved(from), to: moved(to), stroke },
            Self::Polyline { points, stroke } => {
                Self::Polyline { points: points.into_iter().map(moved).collect(), stroke }
            }
            Self::Rect { rect, fill, texture } => {
                let rect = Rect::new(rect.left, rect.top + by, rect.right, rect.bottom + by);
                Self::Rect { rect, fill, texture }
            }
            Self::Circle { centre, radius, fill, outline } => {
                Self::Circle { centre: moved(centre), radius, fill, outline }
            }
            Self::Polygon { points, fill } => {
                Self::Polygon { points: points.into_iter().map(moved).collect(), fill }
            }
            Self::Text(text) => Self::Text(Text { at: moved(text.at), ..text }),
            Self::Group(group) => {
                let nodes = group.nodes.into_iter().map(|node| node.moved_down(by, suffix)).collect();
                Self::Group(Group { id: group.id + suffix, nodes, ..group })
            }
        }
    }
}

impl Scene {
    /// `self` with another scene under it; title and description stay.
    #[must_use]
    pub(crate) fn above(mut self, below: Self, suffix: &str) -> Self {
        let by = self.size.height;
        self.nodes.extend(below.nodes.into_iter().map(|node| node.moved_down(by, suffix)));
        self.size = Size::new(self.size.width.max(below.size.width), by + below.size.height);
        self
    }

    /// Every text in painting order, also inside groups.
    pub fn texts(&self) -> Vec<&Text> {
        fn collect<'a>(nodes: &'a [Node], texts: &mut Vec<&'a Text>) {
            for node in nodes {
                match node {
                    Node::Text(text) => texts.push(text),
                    Node::Group(group) => collect(&group.nodes, texts),
                    _ => {}
                }
            }
        }
        let mut texts = Vec::new();
        collect(&self.nodes, &mut texts);
        texts
    }

    /// `self` with `overlay` painted over it; size, title and description stay.
    #[must_use]
    pub fn with(mut self, overlay: Self) -> Self {
        self.nodes.extend(overlay.nodes);
        self
    }
}
