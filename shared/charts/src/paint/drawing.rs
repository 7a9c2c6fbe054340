//! A scene through any `plotters` drawing backend.
//!
//! Backends take whole pixels, so coordinates, widths and font sizes are multiplied by [`SUBPIXELS`]. On a canvas: set
//! the backing store to CSS size × device pixel ratio and the context's transform to device pixel ratio ÷ `SUBPIXELS`;
//! then lines have eighth-pixel precision and text is sharp at every ratio. The background is not painted: clear the
//! canvas and let CSS give it the paper's colour.

use std::convert::Infallible;

use plotters_backend::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontFamily,
    FontStyle, FontTransform,
};

use super::HATCH_WIDTH;
use crate::font::FAMILY_STACK;
use crate::scene::{Anchor, Dash, Node, Point, Scene, Stroke, Text, Texture, Weight, hatch_lines};
use crate::text::middle_above_baseline;
use crate::{Ink, Theme};

/// Backend units per CSS pixel.
pub const SUBPIXELS: u32 = 8;

/// Paints every node of `scene`, in order. The first error of the backend ends it.
pub fn paint<B: DrawingBackend>(
    scene: &Scene,
    theme: &Theme,
    backend: &mut B,
) -> Result<(), DrawingErrorKind<B::ErrorType>> {
    Painter { theme, backend }.nodes(&scene.nodes)
}

struct Painter<'a, B> {
    theme: &'a Theme,
    backend: &'a mut B,
}

impl<B: DrawingBackend> Painter<'_, B> {
    fn nodes(&mut self, nodes: &[Node]) -> Result<(), DrawingErrorKind<B::ErrorType>> {
        for node in nodes {
            match node {
                Node::Line { from, to, stroke } => self.polyline(&[*from, *to], *stroke)?,
                Node::Polyline { points, stroke } => self.polyline(points, *stroke)?,
                Node::Rect { rect, fill, texture } => {
                    let corners = (Point::new(rect.left, rect.top), Point::new(rect.right, rect.bottom));
                    let style = Pen { colour: self.colour(*fill), width: 1 };
                    self.backend.draw_rect(scaled(corners.0), scaled(corners.1), &style, true)?;
                    if *texture == Texture::Hatched {
                        let pen = self.pen(Stroke::solid(Ink::Paper, HATCH_WIDTH));
                        for (low, high) in hatch_lines(*rect) {
                            self.backend.draw_path([scaled(low), scaled(high)], &pen)?;
                        }
                    }
                }
                Node::Circle { centre, radius, fill, outline } => {
                    let inside = Pen { colour: self.colour(*fill), width: 1 };
                    let outline = self.pen(*outline);
                    let radius = units(*radius).unsigned_abs();
                    self.backend.draw_circle(scaled(*centre), radius, &inside, true)?;
                    self.backend.draw_circle(scaled(*centre), radius, &outline, false)?;
                }
                Node::Polygon { points, fill } => {
                    let inside = Pen { colour: self.colour(*fill), width: 1 };
                    self.backend.fill_polygon(points.iter().map(|point| scaled(*point)), &inside)?;
                }
                Node::Text(text) => self.text(text)?,
                Node::Group(group) => self.nodes(&group.nodes)?,
            }
        }
        Ok(())
    }

    fn polyline(&mut self, points: &[Point], stroke: Stroke) -> Result<(), DrawingErrorKind<B::ErrorType>> {
        let pen = self.pen(stroke);
        if stroke.dash == Dash::Solid {
            return self.backend.draw_path(points.iter().map(|point| scaled(*point)), &pen);
        }
        for piece in dashes(points, stroke.dash.lengths()) {
            self.backend.draw_path(piece.iter().map(|point| scaled(*point)), &pen)?;
        }
        Ok(())
    }

    fn text(&mut self, text: &Text) -> Result<(), DrawingErrorKind<B::ErrorType>> {
        let style = TextStyle {
            colour: self.colour(text.ink),
            size: f64::from(SUBPIXELS) * text.size,
            weight: text.weight,
            anchor: text.anchor,
        };
        let middle = Point::new(text.at.x, text.at.y - middle_above_baseline(text.size));
        self.backend.draw_text(&text.text, &style, scaled(middle))
    }

    fn pen(&self, stroke: Stroke) -> Pen {
        Pen { colour: self.colour(stroke.ink), width: units(stroke.width).unsigned_abs().max(1) }
    }

    fn colour(&self, ink: Ink) -> BackendColor {
        let colour = self.theme.resolve(ink);
        BackendColor { alpha: 1.0, rgb: (colour.red, colour.green, colour.blue) }
    }
}

/// The drawn pieces of a dashed line. Each keeps the corners that it passes.
fn dashes(points: &[Point], lengths: &[f64]) -> Vec<Vec<Point>> {
    let mut pieces = Vec::new();
    let mut turn = 0;
    let mut left = lengths[0];
    let mut piece: Vec<Point> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            let (dx, dy) = (to.x - from.x, to.y - from.y);
            let length = dx.hypot(dy);
            if length <= left {
                left -= length;
                if turn % 2 == 0 {
                    piece.push(to);
                }
                break;
            }
            let share = left / length;
            from = Point::new(from.x + share * dx, from.y + share * dy);
            if turn % 2 == 0 {
                piece.push(from);
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece = vec![from];
            }
            turn += 1;
            left = lengths[turn % lengths.len()];
        }
    }
    if piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

struct Pen {
    colour: BackendColor,
    width: u32,
}

impl BackendStyle for Pen {
    fn color(&self) -> BackendColor {
        self.colour
    }

    fn stroke_width(&self) -> u32 {
        self.width
    }
}

struct TextStyle {
    colour: BackendColor,
    size: f64,
    weight: Weight,
    anchor: Anchor,
}

impl BackendTextStyle for TextStyle {
    type FontError = Infallible;

    fn color(&self) -> BackendColor {
        self.colour
    }

    fn size(&self) -> f64 {
        self.size
    }

    fn transform(&self) -> FontTransform {
        FontTransform::None
    }

    fn style(&self) -> FontStyle {
        match self.weight {
            Weight::Regular => FontStyle::Normal,
            Weight::Bold => FontStyle::Bold,
        }
    }

    fn anchor(&self) -> Pos {
        let across = match self.anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        Pos::new(across, VPos::Center)
    }

    fn family(&self) -> FontFamily<'_> {
        FontFamily::Name(FAMILY_STACK)
    }

    /// From the width table; backends that draw text themselves never ask.
    fn layout_box(&self, text: &str) -> Result<((i32, i32), (i32, i32)), Self::FontError> {
        let width = crate::text::width(text, self.size, self.weight).ceil();
        Ok(((0, 0), (units(width / f64::from(SUBPIXELS)), units(self.size / f64::from(SUBPIXELS)))))
    }

    /// Draws nothing: text needs a backend with fonts of its own, as canvas has.
    fn draw<E, DrawFunc: FnMut(i32, i32, BackendColor) -> Result<(), E>>(
        &self,
        _: &str,
        _: (i32, i32),
        _: DrawFunc,
    ) -> Result<Result<(), E>, Self::FontError> {
        Ok(Ok(()))
    }
}

fn scaled(point: Point) -> BackendCoord {
    (units(point.x), units(point.y))
}

#[allow(clippy::cast_possible_truncation, reason = "a cast from f64 saturates; screens end long before i32")]
fn units(pixels: f64) -> i32 {
    (pixels * f64::from(SUBPIXELS)).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_cover_what_the_pattern_says() {
        // 100 px with 6 drawn and 4 left out: ten pieces of 6 px, also around a corner.
        let points = [Point::new(0.0, 0.0), Point::new(53.0, 0.0), Point::new(53.0, 47.0)];
        let pieces = dashes(&points, &[6.0, 4.0]);
        let length = |piece: &Vec<Point>| -> f64 {
            piece.windows(2).map(|pair| (pair[1].x - pair[0].x).hypot(pair[1].y - pair[0].y)).sum()
        };
        assert_eq!(pieces.len(), 10);
        for piece in &pieces {
            assert!((length(piece) - 6.0).abs() < 1e-9, "{piece:?}");
        }
        assert_eq!(pieces[5].len(), 3, "the sixth piece runs from 50 to 56 px, around the corner at 53");
    }

    /// Writes down what it is asked to draw.
    #[derive(Default)]
    struct Recorder(Vec<String>);

    impl DrawingBackend for Recorder {
        type ErrorType = Infallible;

        fn get_size(&self) -> (u32, u32) {
            (800, 800)
        }

        fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
            Ok(())
        }

        fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
            Ok(())
        }

        fn draw_pixel(
            &mut self,
            _: BackendCoord,
            _: BackendColor,
        ) -> Result<(), DrawingErrorKind<Infallible>> {
            panic!("nothing is drawn pixel by pixel");
        }

        fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
            &mut self,
            path: I,
            style: &S,
        ) -> Result<(), DrawingErrorKind<Infallible>> {
            let points: Vec<BackendCoord> = path.into_iter().collect();
            self.0.push(format!("path {points:?} width {}", style.stroke_width()));
            Ok(())
        }

        fn draw_text<S: BackendTextStyle>(
            &mut self,
            text: &str,
            style: &S,
            at: BackendCoord,
        ) -> Result<(), DrawingErrorKind<Infallible>> {
            let (size, weight) = (style.size(), style.style().as_str().to_owned());
            self.0.push(format!("text {text:?} {size}px {weight} at {at:?}"));
            Ok(())
        }
    }

    #[test]
    fn a_backend_gets_eighths_of_pixels_and_text_by_its_middle() {
        let line = Node::Line {
            from: Point::new(1.0, 2.5),
            to: Point::new(1.0, 10.125),
            stroke: Stroke::solid(Ink::Text, 1.25),
        };
        let text = Text::new(Point::new(10.0, 20.0), "25.4 GB", 12.5, Ink::Text).bold();
        let scene = Scene { nodes: vec![line, text.into()], ..Scene::default() };
        let mut recorder = Recorder::default();
        paint(&scene, &Theme::light(), &mut recorder).unwrap();
        // The middle of Noto Sans' em box lies (2189 − 600) / (2 × (2189 + 600)) = 0.2849 em above the baseline:
        // 20 − 12.5 × 0.2849 = 16.44 px, 131.5 eighths.
        assert_eq!(
            recorder.0,
            ["path [(8, 20), (8, 81)] width 10", "text \"25.4 GB\" 100px bold at (80, 132)"]
        );
    }
}
