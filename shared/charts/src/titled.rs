use crate::scene::{Group, Ink, Node, Point, Rect, Role, Scene, Size, Text, Weight};
use crate::text::{size, wrapped};

/// Space around an exported figure, in CSS pixels.
const MARGIN: f64 = 24.0;

/// What stands above and below an exported figure.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Heading {
    /// The finding, a sentence made from the data.
    pub headline: String,
    /// What is drawn: which bytes, which format, which accounting.
    pub note: String,
    /// Where it comes from, below the figure: version, link. May be empty.
    pub footer: String,
}

/// `scene` with a margin, the finding above it and its provenance below it, as exports carry them.
pub fn titled(scene: Scene, heading: &Heading) -> Scene {
    let width = scene.size.width;
    let narrow = width < 600.0;
    let (headline_size, line_height) = if narrow { (size::HEADING, 21.0) } else { (size::HEADLINE, 32.0) };
    let mut group = Group::new("heading", Role::Heading);
    let mut bottom = MARGIN;
    for line in wrapped(&heading.headline, headline_size, Weight::Bold, width) {
        bottom += line_height;
        group.push(Text::new(Point::new(MARGIN, bottom - 8.0), line, headline_size, Ink::Text).bold());
    }
    if !heading.note.is_empty() {
        for line in wrapped(&heading.note, size::BODY, Weight::Regular, width) {
            bottom += 21.0;
            group.push(Text::new(Point::new(MARGIN, bottom - 4.0), line, size::BODY, Ink::Muted));
        }
    }
    bottom += 14.0;
    let shift = Point::new(MARGIN, bottom);
    let mut height = bottom + scene.size.height;
    let mut footer = Group::new("footer", Role::Heading);
    if !heading.footer.is_empty() {
        height += 8.0;
        for line in wrapped(&heading.footer, size::NOTE, Weight::Regular, width) {
            height += 17.0;
            footer.push(Text::new(Point::new(MARGIN, height - 4.0), line, size::NOTE, Ink::Muted));
        }
    }
    let mut nodes: Vec<Node> = vec![group.into()];
    nodes.extend(scene.nodes.into_iter().map(|node| shifted(node, shift)));
    if !footer.nodes.is_empty() {
        nodes.push(footer.into());
    }
    Scene {
        size: Size::new(width + 2.0 * MARGIN, height + MARGIN),
        title: if heading.headline.is_empty() { scene.title } else { heading.headline.clone() },
        description: scene.description,
        nodes,
    }
}

fn shifted(node: Node, by: Point) -> Node {
    let moved = |point: Point| Point::new(point.x + by.x, point.y + by.y);
    match node {
        Node::Line { from, to, stroke } => Node::Line { from: moved(from), to: moved(to), stroke },
        Node::Polyline { points, stroke } => {
            Node::Polyline { points: points.into_iter().map(moved).collect(), stroke }
        }
        Node::Rect { rect, fill, texture } => Node::Rect {
            rect: Rect::new(rect.left + by.x, rect.top + by.y, rect.right + by.x, rect.bottom + by.y),
            fill,
            texture,
        },
        Node::Polygon { points, fill } => {
            Node::Polygon { points: points.into_iter().map(moved).collect(), fill }
        }
        Node::Circle { centre, radius, fill, outline } => {
            Node::Circle { centre: moved(centre), radius, fill, outline }
        }
        Node::Text(text) => Node::Text(Text { at: moved(text.at), ..text }),
        Node::Group(group) => {
            let nodes = group.nodes.into_iter().map(|node| shifted(node, by)).collect();
            Node::Group(Group { nodes, ..group })
        }
    }
}
