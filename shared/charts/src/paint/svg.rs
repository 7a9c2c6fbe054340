//! A scene as an SVG document: byte-equal for equal input, with title, description, groups that keep their ids, and
//! text as text.

use std::fmt::Write as _;

use crate::font;
use crate::scene::{
    Anchor, Dash, Group, Node, Point, Rect, Scene, Stroke, Text, Texture, Weight, hatch_lines,
};
use crate::{Ink, Theme};

/// Draws `scene` on the theme's paper. `prefix` goes before every id, so that several drawings can share a page; it may be
/// empty.
pub fn svg(scene: &Scene, theme: &Theme, prefix: &str) -> String {
    document(scene, theme, prefix, &Extras::default())
}

/// What a drawing carries besides what it shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras<'a> {
    /// What it was made from, for programs; may be empty.
    pub(crate) metadata: &'a str,
    /// A style sheet with what it is drawn with; may be empty.
    pub(crate) style: &'a str,
}

/// The same with extras.
pub(crate) fn document(scene: &Scene, theme: &Theme, prefix: &str, extras: &Extras<'_>) -> String {
    let mut writer = Writer { out: String::with_capacity(16 * 1024), theme, prefix, depth: 1 };
    let (width, height) = (number(scene.size.width), number(scene.size.height));
    let _ = writeln!(
        writer.out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{prefix}title {prefix}description\" \
         font-family=\"{}\">",
        font::FAMILY_STACK
    );
    writer.line(&format!("<title id=\"{prefix}title\">{}</title>", escaped(&scene.title)));
    writer.line(&format!("<desc id=\"{prefix}description\">{}</desc>", escaped(&scene.description)));
    if !extras.metadata.is_empty() {
        writer.line(&format!("<metadata>{}</metadata>", escaped(extras.metadata)));
    }
    if !extras.style.is_empty() {
        writer.line(&format!("<style>{}</style>", extras.style));
    }
    let paper = theme.resolve(Ink::Paper).hex();
    writer.line(&format!("<rect width=\"{width}\" height=\"{height}\" fill=\"{paper}\"/>"));
    writer.nodes(&scene.nodes);
    writer.out.push_str("</svg>\n");
    writer.out
}

struct Writer<'a> {
    out: String,
    theme: &'a Theme,
    prefix: &'a str,
    depth: usize,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Line { from, to, stroke } => {
                    let place = format!(
                        "x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"",
                        number(from.x),
                        number(from.y),
                        number(to.x),
                        number(to.y)
                    );
                    let stroke = self.stroke(*stroke);
                    self.line(&format!("<line {place} {stroke}/>"));
                }
                Node::Polygon { points, fill } => {
                    let (place, fill) = (places(points), self.theme.resolve(*fill).hex());
                    self.line(&format!("<polygon points=\"{place}\" fill=\"{fill}\"/>"));
                }
                Node::Polyline { points, stroke } => {
                    let place = places(points);
                    let stroke = self.stroke(*stroke);
                    self.line(&format!(
                        "<polyline points=\"{place}\" fill=\"none\" {stroke} stroke-linejoin=\"round\"/>"
                    ));
                }
                Node::Rect { rect, fill, texture } => self.rect(*rect, *fill, *texture),
                Node::Circle { centre, radius, fill, outline } => {
                    let (x, y, radius) = (number(centre.x), number(centre.y), number(*radius));
                    let (fill, stroke) = (self.theme.resolve(*fill).hex(), self.stroke(*outline));
                    self.line(&format!(
                        "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{fill}\" {stroke}/>"
                    ));
                }
                Node::Text(text) => self.text(text),
                Node::Group(group) => self.group(group),
            }
        }
    }

    fn group(&mut self, group: &Group) {
        let label = if group.label.is_empty() {
            String::new()
        } else {
            format!(" aria-label=\"{}\"", escaped(&group.label))
        };
        self.line(&format!("<g id=\"{}{}\"{label}>", self.prefix, group.id));
        self.depth += 1;
        self.nodes(&group.nodes);
        self.depth -= 1;
        self.line("</g>");
    }

    fn rect(&mut self, rect: Rect, fill: Ink, texture: Texture) {
        let fill = self.theme.resolve(fill).hex();
        self.line(&format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/>",
            number(rect.left),
            number(rect.top),
            number(rect.width()),
            number(rect.height())
        ));
        if texture == Texture::Hatched {
            let mut path = String::new();
            for (low, high) in hatch_lines(rect) {
                let _ = write!(
                    path,
                    "M{} {}L{} {}",
                    number(low.x),
                    number(low.y),
                    number(high.x),
                    number(high.y)
                );
            }
            let paper = self.theme.resolve(Ink::Paper).hex();
            let width = number(super::HATCH_WIDTH);
            self.line(&format!(
                "<path d=\"{path}\" fill=\"none\" stroke=\"{paper}\" stroke-width=\"{width}\"/>"
            ));
        }
    }

    fn text(&mut self, text: &Text) {
        let anchor = match text.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = match text.weight {
            Weight::Regular => "",
            Weight::Bold => " font-weight=\"700\"",
        };
        self.line(&format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{weight}{anchor} fill=\"{}\">{}</text>",
            number(text.at.x),
            number(text.at.y),
            number(text.size),
            self.theme.resolve(text.ink).hex(),
            escaped(&text.text)
        ));
    }

    fn stroke(&self, stroke: Stroke) -> String {
        let colour = self.theme.resolve(stroke.ink).hex();
        let mut text = format!("stroke=\"{colour}\" stroke-width=\"{}\"", number(stroke.width));
        if stroke.dash != Dash::Solid {
            let lengths: Vec<String> = stroke.dash.lengths().iter().map(|length| number(*length)).collect();
            let _ = write!(text, " stroke-dasharray=\"{}\"", lengths.join(" "));
        }
        text
    }
}

fn places(points: &[Point]) -> String {
    let mut places = String::with_capacity(points.len() * 14);
    for (index, point) in points.iter().enumerate() {
        if index > 0 {
            places.push(' ');
        }
        write_number(&mut places, point.x);
        places.push(',');
        write_number(&mut places, point.y);
    }
    places
}

/// At most two decimals, no trailing zeros, no negative zero.
fn number(value: f64) -> String {
    let mut text = String::new();
    write_number(&mut text, value);
    text
}

/// Through whole hundredths: a curve has thousands of numbers, and formatting floats is slow.
fn write_number(out: &mut String, value: f64) {
    let hundredths = hundredths(value);
    if hundredths < 0 {
        out.push('-');
    }
    let magnitude = hundredths.unsigned_abs();
    let _ = write!(out, "{}", magnitude / 100);
    match magnitude % 100 {
        0 => {}
        tenths if tenths % 10 == 0 => {
            let _ = write!(out, ".{}", tenths / 10);
        }
        rest => {
            let _ = write!(out, ".{rest:02}");
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a cast from f64 saturates; drawings end long before i64")]
fn hundredths(value: f64) -> i64 {
    (value * 100.0).round() as i64
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no other control characters at all.
            control if control.is_control() && !matches!(control, '\n' | '\t') => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Role, Size};

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (1.0, "1"),
            (-0.001, "0"),
            (10.0, "10"),
            (0.125, "0.13"),
            (-2.5, "-2.5"),
            (7.05, "7.05"),
            (0.3, "0.3"),
            (100.0, "100"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn names_from_files_cannot_break_out() {
        let mut group = Group::new("series-0", Role::Series);
        group.label = "\"><script>".to_owned();
        group.push(Text::new(Point::default(), "<b>&\u{0}", 12.5, Ink::Text));
        let scene = Scene {
            size: Size::new(10.0, 10.0),
            title: "a < b".into(),
            description: String::new(),
            nodes: vec![group.into()],
        };
        let drawn = svg(&scene, &Theme::light(), "");
        assert!(!drawn.contains("<script") && !drawn.contains("<b>") && !drawn.contains('\u{0}'));
        assert!(drawn.contains("&lt;b&gt;&amp;</text>") && drawn.contains("a &lt; b</title>"));
    }
}
