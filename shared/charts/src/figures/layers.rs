use kvscope_sizing::{Bytes, BytesPerToken, ComponentKind, Tokens, UnitSystem, group_digits};

use super::curves::{check_room, identifier};
use super::{FigureError, Table};
use crate::export::{Cell, Column, Data, Mark, Plot};
use crate::label;
use crate::palette::SeriesColour;
use crate::scene::{Anchor, Group, Ink, Node, Point, Rect, Role, Scene, Size, Stroke, Text, Texture, Weight};
use crate::text::{self, size};

/// Below this width names stand above their strips.
const WIDE_FROM: f64 = 600.0;
const LEAST: Size = Size::new(240.0, 0.0);
/// Height of the tallest bar.
const BAR_HEIGHT: f64 = 38.0;
/// Height of the smallest bar, so that every layer shows.
const LEAST_BAR: f64 = 5.0;
/// Least height of one part of a stacked bar.
const LEAST_PART: f64 = 2.5;
/// Widest distance from bar to bar.
const WIDEST_PITCH: f64 = 14.0;

/// One strip a model: a bar a layer in model order, its colour what the layer keeps, its height how much at the cursor.
#[derive(Clone, Debug)]
pub struct Layers {
    scene: Scene,
    strips: Vec<LayerStrip>,
    places: Vec<StripPlace>,
}

/// What a layers figure is made from.
#[derive(Clone, Debug)]
pub struct LayersInput<'a> {
    /// The models, top to bottom.
    pub strips: &'a [LayerStrip],
    /// The cursor's context.
    pub context: Tokens,
    /// Least and most bytes a layer keeps over the range of the cursor, so that bars grow with the cursor; none to fit
    /// the bars to what is there now.
    pub reach: Option<(Bytes, Bytes)>,
    /// Units of the figures.
    pub units: UnitSystem,
    /// The width offered in CSS pixels. The scene is as tall as its strips need.
    pub width: f64,
}

/// One model's layers.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerStrip {
    /// The catalogue's id; part of the ids in an SVG.
    pub id: String,
    /// The name shown.
    pub name: String,
    /// Its colour.
    pub colour: SeriesColour,
    /// Every layer in model order; a layer that keeps nothing has no parts.
    pub layers: Vec<Layer>,
    /// What one more token adds at the cursor; none where unknown.
    pub slope: Option<BytesPerToken>,
    /// What does not grow at the cursor; none where unknown.
    pub fixed: Option<Bytes>,
}

/// One layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// What it keeps, bottom to top.
    pub parts: Vec<LayerPart>,
}

/// One thing that a layer keeps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LayerPart {
    /// What it is.
    pub kind: ComponentKind,
    /// How much at the cursor.
    pub bytes: Bytes,
    /// Whether one more token adds to it.
    pub growth: PartGrowth,
}

/// Whether a part still grows at the cursor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PartGrowth {
    /// It grows: plain.
    Growing,
    /// It is full or constant: hatched.
    Still,
}

impl PartGrowth {
    const fn word(self) -> &'static str {
        match self {
            Self::Growing => "yes",
            Self::Still => "no",
        }
    }
}

/// What lies under the pointer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LayersHit {
    /// Which strip.
    pub strip: usize,
    /// Which layer of it.
    pub layer: usize,
}

/// Where a strip's bars are.
#[derive(Clone, Copy, Debug)]
struct StripPlace {
    left: f64,
    pitch: f64,
    top: f64,
    bottom: f64,
}

/// Columns and rows common to all strips.
struct Form {
    wide: bool,
    bars_left: f64,
    pitch: f64,
    row_height: f64,
    /// From a row's top to the bars' baseline.
    bars_bottom: f64,
}

impl Layers {
    /// Lays the figure out. An empty list of strips gives an empty scene.
    pub fn layout(input: &LayersInput) -> Result<Self, FigureError> {
        check_room(Size::new(input.width, 0.0), LEAST)?;
        let form = Form::of(input);
        let now = reach(input.strips);
        // Beyond the range of the cursor bars still are what the key says of their height.
        let reach = input.reach.map_or(now, |(least, most)| (least.min(now.0), most.max(now.1)));
        let mut nodes = Vec::new();
        let mut top = 0.0;
        if !input.strips.is_empty() {
            let (key, height) = key(input, reach);
            nodes.push(key.into());
            top = height;
        }
        let mut places = Vec::new();
        for strip in input.strips {
            let place = StripPlace {
                left: form.bars_left,
                pitch: form.pitch,
                top: top + form.bars_bottom - BAR_HEIGHT,
                bottom: top + form.bars_bottom,
            };
            nodes.push(draw(strip, input, &form, place, top, reach).into());
            places.push(place);
            top += form.row_height;
        }
        let scene = Scene {
            size: Size::new(input.width, top + 2.0),
            title: format!("What each layer keeps at {}", label::context(input.context)),
            description: sentence(input),
            nodes,
        };
        Ok(Self { scene, strips: input.strips.to_vec(), places })
    }

    /// The scene.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// The layer under the pointer, with the gap right of its bar.
    pub fn hit(&self, pointer: Point) -> Option<LayersHit> {
        let strip = self.places.iter().position(|place| (place.top..=place.bottom).contains(&pointer.y))?;
        let place = self.places[strip];
        if pointer.x < place.left {
            return None;
        }
        let layer = super::curves::whole((pointer.x - place.left) / place.pitch);
        (layer < self.strips[strip].layers.len()).then_some(LayersHit { strip, layer })
    }

    /// Exact bytes of every part of every layer, as rows. Layers count from 0, as in configs and engines.
    pub fn data(&self) -> Data {
        let mut rows = Vec::new();
        for strip in &self.strips {
            for (index, layer) in strip.layers.iter().enumerate() {
                rows.extend(layer.parts.iter().map(|part| {
                    vec![
                        Cell::Text(strip.name.clone()),
                        Cell::Whole(index as u64),
                        Cell::Text(part.kind.name().to_owned()),
                        Cell::Whole(part.bytes.get()),
                        Cell::Text(part.growth.word().to_owned()),
                    ]
                }));
            }
        }
        let columns = vec![
            Column::new("model", "model"),
            Column::new("layer", "layer"),
            Column::new("component", "component"),
            Column::new("state_bytes", "state (bytes)"),
            Column::new("grows", "grows"),
        ];
        let plot = Plot {
            mark: Mark::Bar,
            x: "layer",
            y: "state_bytes",
            colour: "component",
            second: Some("model"),
            powers: false,
        };
        Data { columns, rows, plot }
    }

    /// Exact bytes of every part of every layer.
    pub fn table(&self) -> Table {
        let head = ["model", "layer", "keeps", "bytes", "grows"];
        let mut rows = Vec::new();
        for strip in &self.strips {
            for (index, layer) in strip.layers.iter().enumerate() {
                for part in &layer.parts {
                    rows.push(vec![
                        strip.name.clone(),
                        index.to_string(),
                        part.kind.name().to_owned(),
                        group_digits(part.bytes.get()),
                        part.growth.word().to_owned(),
                    ]);
                }
            }
        }
        Table { head: head.map(str::to_owned).to_vec(), rows }
    }
}

impl Layer {
    /// All that the layer keeps.
    pub fn bytes(&self) -> Bytes {
        total(self.parts.iter().map(|part| part.bytes))
    }
}

impl LayerStrip {
    fn slope_text(&self) -> String {
        self.slope.map_or("slope unknown".to_owned(), |slope| slope.to_string())
    }

    fn fixed_text(&self, units: UnitSystem) -> String {
        match self.fixed {
            None => "fixed part unknown".to_owned(),
            Some(Bytes::ZERO) => "no fixed part".to_owned(),
            Some(fixed) => format!("+ {} fixed", fixed.display(units)),
        }
    }
}

impl Form {
    fn of(input: &LayersInput) -> Self {
        let wide = input.width >= WIDE_FROM;
        let layers = input.strips.iter().map(|strip| strip.layers.len()).max().unwrap_or(1).max(1);
        let bold = |words: &str| text::width(words, size::LABEL, Weight::Bold);
        let quiet = |words: &str| text::width(words, size::NOTE, Weight::Regular);
        let names = input.strips.iter().map(|strip| bold(&strip.name)).fold(80.0, f64::max);
        let values = input
            .strips
            .iter()
            .map(|strip| bold(&strip.slope_text()).max(quiet(&strip.fixed_text(input.units))))
            .fold(70.0, f64::max);
        let (bars_left, bars_right) = if wide {
            (names.min(0.3 * input.width).ceil() + 20.0, input.width - values.ceil() - 20.0)
        } else {
            (0.0, input.width)
        };
        let pitch = ((bars_right - bars_left) / layers as f64).min(WIDEST_PITCH);
        let (row_height, bars_bottom) = if wide {
            (BAR_HEIGHT + 24.0, BAR_HEIGHT + 12.0)
        } else {
            (BAR_HEIGHT + 62.0, BAR_HEIGHT + 50.0)
        };
        Self { wide, bars_left, pitch, row_height, bars_bottom }
    }
}

/// One strip: a hairline, the name, the bars, the slope and the fixed part.
fn draw(
    strip: &LayerStrip,
    input: &LayersInput,
    form: &Form,
    place: StripPlace,
    top: f64,
    reach: (Bytes, Bytes),
) -> Group {
    let mut group = Group::new(format!("strip-{}", identifier(&strip.id)), Role::Strip);
    group.label = format!("{}: {}, {}", strip.name, strip.slope_text(), strip.fixed_text(input.units));
    let (from, to) = (Point::new(0.0, top + 0.5), Point::new(input.width, top + 0.5));
    group.push(Node::Line { from, to, stroke: Stroke::hairline(Ink::Grid) });
    let count = label::counted(strip.layers.len() as u64, "layer", "layers");
    let ink = Ink::Series(strip.colour);
    if form.wide {
        let first = place.bottom - 18.0;
        let room = form.bars_left - 20.0;
        let name = text::fitted(&strip.name, size::LABEL, Weight::Bold, room);
        group.push(Text::new(Point::new(0.0, first), name, size::LABEL, ink).bold());
        group.push(Text::new(Point::new(0.0, first + 17.0), count, size::NOTE, Ink::Muted));
        let right = Point::new(input.width, first);
        group.push(Text::new(right, strip.slope_text(), size::LABEL, Ink::Text).bold().anchored(Anchor::End));
        let right = Point::new(input.width, first + 17.0);
        group.push(
            Text::new(right, strip.fixed_text(input.units), size::NOTE, Ink::Muted).anchored(Anchor::End),
        );
    } else {
        let baseline = top + 20.0;
        let slope = strip.slope_text();
        let room = input.width - text::width(&slope, size::LABEL, Weight::Regular) - 12.0;
        let name = text::fitted(&strip.name, size::LABEL, Weight::Bold, room);
        group.push(Text::new(Point::new(0.0, baseline), name, size::LABEL, ink).bold());
        let right = Point::new(input.width, baseline);
        group.push(Text::new(right, slope, size::LABEL, Ink::Text).anchored(Anchor::End));
        let below = baseline + 16.0;
        group.push(Text::new(Point::new(0.0, below), count, size::NOTE, Ink::Muted));
        let fixed = strip.fixed_text(input.units);
        let right = Point::new(input.width, below);
        group.push(Text::new(right, fixed, size::NOTE, Ink::Muted).anchored(Anchor::End));
    }
    let gap = (place.pitch * 0.16).min(1.5);
    for (index, layer) in strip.layers.iter().enumerate() {
        let left = place.left + index as f64 * place.pitch;
        bar(&mut group, layer, (left, left + place.pitch - gap), place.bottom, reach);
    }
    group
}

/// A bar: its height the layer's bytes on the shared log scale, shared out to its parts by their bytes.
fn bar(group: &mut Group, layer: &Layer, (left, right): (f64, f64), bottom: f64, reach: (Bytes, Bytes)) {
    let total = layer.bytes();
    if total == Bytes::ZERO {
        // Nothing kept is a fact too: a hairline in the bar's place.
        let (from, to) = (Point::new(left, bottom - 0.5), Point::new(right, bottom - 0.5));
        group.push(Node::Line { from, to, stroke: Stroke::hairline(Ink::Grid) });
        return;
    }
    let height = bar_height(total, reach);
    let kept = layer.parts.iter().filter(|part| part.bytes > Bytes::ZERO);
    let count = kept.clone().count();
    let spare = height - LEAST_PART * count as f64;
    let mut low = bottom;
    for part in kept {
        let share = part.bytes.get() as f64 / total.get() as f64;
        let high = low - if spare > 0.0 { LEAST_PART + spare * share } else { height * share };
        let texture = match part.growth {
            PartGrowth::Growing => Texture::Plain,
            PartGrowth::Still => Texture::Hatched,
        };
        let rect = Rect::new(left, high, right, low);
        group.push(Node::Rect { rect, fill: Ink::Component(part.kind), texture });
        low = high;
    }
}

fn bar_height(bytes: Bytes, (least, most): (Bytes, Bytes)) -> f64 {
    let (least, most) = (least.get().max(1) as f64, most.get().max(1) as f64);
    if most <= least {
        return BAR_HEIGHT;
    }
    let share = ((bytes.get() as f64 / least).ln() / (most / least).ln()).clamp(0.0, 1.0);
    LEAST_BAR + (BAR_HEIGHT - LEAST_BAR) * share
}

/// Least and most bytes that any layer keeps now.
fn reach(strips: &[LayerStrip]) -> (Bytes, Bytes) {
    let totals =
        strips.iter().flat_map(|strip| strip.layers.iter().map(Layer::bytes)).filter(|b| *b > Bytes::ZERO);
    let least = totals.clone().min().unwrap_or(Bytes::new(1));
    (least, totals.max().unwrap_or(least))
}

/// The key: a swatch and a name for every kind there is, and what height and hatching say. Returns its height.
fn key(input: &LayersInput, (least, most): (Bytes, Bytes)) -> (Group, f64) {
    let mut group = Group::new("key", Role::Key);
    let parts = || input.strips.iter().flat_map(|strip| strip.layers.iter().flat_map(|layer| &layer.parts));
    let kinds = ComponentKind::ALL.into_iter().filter(|kind| parts().any(|part| part.kind == *kind));
    let (mut x, mut baseline) = (0.0, 14.0);
    let mut place = |width: f64| {
        if x > 0.0 && x + width > input.width {
            (x, baseline) = (0.0, baseline + 19.0);
        }
        let at = Point::new(x, baseline);
        x += width + 18.0;
        at
    };
    let swatch = |at: Point| Rect::new(at.x, at.y - 9.0, at.x + 10.0, at.y + 1.0);
    let words = |text: &str| 15.0 + text::width(text, size::NOTE, Weight::Regular);
    for kind in kinds {
        let at = place(words(kind.label()));
        group.push(Node::Rect { rect: swatch(at), fill: Ink::Component(kind), texture: Texture::Plain });
        group.push(Text::new(Point::new(at.x + 15.0, at.y), kind.label(), size::NOTE, Ink::Muted));
    }
    if parts().any(|part| part.growth == PartGrowth::Still) {
        let title = "hatched: no longer grows";
        let at = place(words(title));
        group.push(Node::Rect { rect: swatch(at), fill: Ink::Muted, texture: Texture::Hatched });
        group.push(Text::new(Point::new(at.x + 15.0, at.y), title, size::NOTE, Ink::Muted));
    }
    let mut notes = if most > least {
        let (least, most) = (least.display(input.units), most.display(input.units));
        let tallest = if input.reach.is_some() { "tallest over all contexts" } else { "tallest" };
        vec![format!("shortest bar: {least} a layer"), format!("{tallest}: {most}, log between")]
    } else {
        vec![format!("every bar: {} a layer", most.display(input.units))]
    };
    let has_several = |layer: &Layer| layer.parts.iter().filter(|part| part.bytes > Bytes::ZERO).count() > 1;
    if input.strips.iter().flat_map(|strip| &strip.layers).any(has_several) {
        notes.push("parts share a bar by their bytes".to_owned());
    }
    for note in notes {
        let at = place(text::width(&note, size::NOTE, Weight::Regular));
        group.push(Text::new(at, note, size::NOTE, Ink::Muted));
    }
    (group, baseline + 12.0)
}

/// A sum for drawing. Sizing refuses what 64 bits do not hold before it gets here.
fn total(bytes: impl Iterator<Item = Bytes>) -> Bytes {
    bytes.fold(Bytes::ZERO, |sum, bytes| Bytes::new(sum.get().saturating_add(bytes.get())))
}

fn sentence(input: &LayersInput) -> String {
    let strips: Vec<String> = input
        .strips
        .iter()
        .map(|strip| {
            let count = label::counted(strip.layers.len() as u64, "layer", "layers");
            let total = total(strip.layers.iter().map(Layer::bytes));
            format!("{} keeps {} in {count}", strip.name, total.display(input.units))
        })
        .collect();
    format!("At {}: {}.", label::context(input.context), strips.join(", "))
}
