use kvscope_sizing::plan::{LineAxis, LineQuantity, Lines, Sheet};
use kvscope_sizing::{Tokens, UnitSystem, catalogue, group_digits};

use super::curves::{Curve, Curves, Readings, Spec};
use super::{FigureError, Provenance, Table};
use crate::export::{Cell, Column, Data, Export, Mark, Origin, Plot};
use crate::label::{self, Quantity};
use crate::palette::assign_colours;
use crate::scale::ScaleKind;
use crate::scene::{Ink, Point, Scene, Size, Text};
use crate::text;

/// What a plan draws over context or what stands in its place, with its values at one place.
#[derive(Clone, Debug)]
pub struct PlanLines {
    scene: Scene,
}

/// What was asked of a plan.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Units of bytes.
    pub units: UnitSystem,
    /// What was asked, by name.
    pub inputs: Vec<(String, String)>,
    /// What was assumed.
    pub assumptions: Vec<String>,
}

/// Height of an exported figure for each pixel of its width.
const SHAPE: f64 = 0.42;
/// Height of each of several figures, and of the words over it.
const PANEL: f64 = 240.0;
const HEAD: f64 = 36.0;

/// A line of a version has its family's hue, as everywhere; what is no version is a family of its own.
fn family_of(name: &str) -> &str {
    let known = catalogue().iter().find(|entry| entry.name == name || entry.id == name);
    known.map_or(name, |entry| &entry.family)
}

impl PlanLines {
    /// Lays the figure out, and those of other quantities under it; the values beside the names are read where the answer lies.
    ///
    /// # Errors
    ///
    /// Places that are no range, or too little room.
    pub fn layout(lines: &Lines, units: UnitSystem, size: Size) -> Result<Self, FigureError> {
        let count = lines.below.len() + 1;
        let one = Size::new(size.width, size.height / count as f64);
        let mut scene = Self::one(lines, units, one)?;
        for (place, lines) in lines.below.iter().enumerate() {
            let below = Self::one(lines, units, Size::new(one.width, one.height - HEAD))?;
            let at = Point::new(0.0, HEAD - 8.0);
            let head = Text::new(at, below.title.clone(), text::size::LABEL, Ink::Text).bold();
            let head =
                Scene { size: Size::new(one.width, HEAD), nodes: vec![head.into()], ..Scene::default() };
            let description = format!("{} {}", scene.description, below.description);
            let suffix = format!("-{}", place + 2);
            scene = scene.above(head, &suffix).above(below, &suffix);
            scene.description = description;
        }
        Ok(Self { scene })
    }

    /// Room for the figure in so much width.
    pub fn room(lines: &Lines, width: f64) -> Size {
        let height = if lines.below.is_empty() {
            (width * SHAPE).clamp(260.0, 400.0)
        } else {
            PANEL * (lines.below.len() + 1) as f64
        };
        Size::new(width, height)
    }

    fn one(lines: &Lines, units: UnitSystem, size: Size) -> Result<Scene, FigureError> {
        let families: Vec<&str> = lines.lines.iter().map(|line| family_of(&line.name)).collect();
        let curves = lines.lines.iter().zip(assign_colours(&families)).map(|(line, colour)| Curve {
            id: line.name.clone(),
            name: line.name.clone(),
            colour,
            provenance: Provenance::Computed,
            values: line.values.clone(),
            reserved: Vec::new(),
            allowed: None,
            refused: false,
        });
        let places: Vec<Tokens> = lines.places.iter().map(|place| Tokens::new(*place)).collect();
        let ends = |places: &[Tokens]| Some((*places.first()?, *places.last()?));
        let domain = ends(&places).unwrap_or_default();
        let (across, context_scale) = match lines.across {
            LineAxis::Context => (Quantity::Tokens, ScaleKind::Log2),
            LineAxis::Shared => (Quantity::Tokens, ScaleKind::Linear),
            LineAxis::BitRate => (Quantity::BitRate, ScaleKind::Log10),
            LineAxis::Served => (Quantity::Requests, ScaleKind::Linear),
        };
        let quantity = match lines.quantity {
            LineQuantity::Seconds => Quantity::Seconds,
            LineQuantity::Requests | LineQuantity::Objects => Quantity::Requests,
            LineQuantity::Bytes | LineQuantity::HeldBytes => Quantity::Bytes(units),
            LineQuantity::Tokens => Quantity::Tokens,
            LineQuantity::Percent => Quantity::Percent,
        };
        let scale = if lines.quantity.begins_at_none() { ScaleKind::Linear } else { ScaleKind::Log10 };
        let mut curves = Curves::layout(Spec {
            contexts: &places,
            domain,
            curves: curves.collect(),
            rings: Vec::new(),
            limits: Vec::new(),
            scale,
            context_scale,
            across,
            quantity,
            ranks: 1,
            widest_value: "88.8 MiB",
            size,
        })?;
        let place = lines.places.binary_search(&lines.at).ok();
        let value = |values: &Vec<f64>| values.get(place?).map(|value| (*value, words(*value, quantity)));
        let read = curves.overlay(&Readings {
            context: Tokens::new(lines.at),
            values: lines.lines.iter().map(|line| value(&line.values)).collect(),
            reserved: Vec::new(),
            emphasis: None,
            missing: Table::ABSENT,
        });
        curves.scene.title.clone_from(&lines.title);
        curves.scene.description = description(lines, domain, (across, quantity));
        let (title, description) = (curves.scene.title.clone(), curves.scene.description.clone());
        Ok(Scene { title, description, ..curves.scene.with(read) })
    }

    /// All of it.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// The figure as it is exported, under the answer that it belongs to.
    ///
    /// # Errors
    ///
    /// As [`Self::layout`].
    pub fn export(
        lines: &Lines,
        sheet: &Sheet,
        asked: Asked,
        width: f64,
        origin: Origin,
    ) -> Result<Export, FigureError> {
        let size = match lines.below.as_slice() {
            [] => Size::new(width, width * SHAPE),
            _ => Self::room(lines, width),
        };
        Ok(Export {
            scene: Self::layout(lines, asked.units, size)?.scene,
            title: sheet.sentence.clone(),
            note: format!("{} · {} · computed", lines.title, sheet.asked),
            inputs: asked.inputs,
            assumptions: asked.assumptions,
            data: Self::data(lines),
            table: Self::table(lines),
            origin,
        })
    }

    /// Every value, a row a place.
    pub fn table(lines: &Lines) -> Table {
        let all: Vec<&Lines> = std::iter::once(lines).chain(&lines.below).collect();
        let heads = all.iter().flat_map(|lines| {
            let (_, unit) = counted(lines.quantity);
            let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
            lines.lines.iter().map(move |line| format!("{}{unit}", line.name))
        });
        let cell = |quantity: LineQuantity, value: Option<&f64>| match value {
            None => Table::ABSENT.to_owned(),
            Some(value) if quantity == LineQuantity::Seconds => format!("{value:e}"),
            Some(value) => format!("{value}"),
        };
        let row = |(place, at): (usize, &u64)| {
            let values = all.iter().flat_map(|lines| {
                lines.lines.iter().map(|line| cell(lines.quantity, line.values.get(place)))
            });
            std::iter::once(group_digits(*at)).chain(values).collect()
        };
        Table {
            head: std::iter::once(along(lines.across).1.to_owned()).chain(heads).collect(),
            rows: lines.places.iter().enumerate().map(row).collect(),
        }
    }

    /// Every value, a row a point of a line; of several figures each row says whose it is.
    pub fn data(lines: &Lines) -> Data {
        let (x, title) = along(lines.across);
        let powers = !lines.quantity.begins_at_none();
        let place = Column::new(x, title);
        if lines.below.is_empty() {
            let (y, _) = counted(lines.quantity);
            return Data {
                columns: vec![Column::new("line", "line"), place, Column::new(y, y)],
                rows: points(lines).map(Vec::from).collect(),
                plot: Plot { mark: Mark::Line, x, y, colour: "line", second: None, powers },
            };
        }
        let rows = std::iter::once(lines).chain(&lines.below).flat_map(|lines| {
            let (of, _) = counted(lines.quantity);
            points(lines).map(move |[line, place, value]| vec![Cell::Text(of.to_owned()), line, place, value])
        });
        let (second, y) = (Some("of"), "value");
        Data {
            columns: vec![Column::new("of", "of"), Column::new("line", "line"), place, Column::new(y, y)],
            rows: rows.collect(),
            plot: Plot { mark: Mark::LineInRows, x, y, colour: "line", second, powers },
        }
    }
}

/// Name, place and value of every point.
fn points(lines: &Lines) -> impl Iterator<Item = [Cell; 3]> + '_ {
    lines.lines.iter().flat_map(|line| {
        let values = lines.places.iter().zip(&line.values);
        values.map(|(place, value)| [Cell::Text(line.name.clone()), Cell::Whole(*place), Cell::Real(*value)])
    })
}

/// The name of a column of values, and their unit.
fn counted(quantity: LineQuantity) -> (&'static str, &'static str) {
    match quantity {
        LineQuantity::Seconds => ("seconds", "s"),
        LineQuantity::Requests => ("requests", ""),
        LineQuantity::Bytes => ("bytes", "B"),
        LineQuantity::Tokens => ("tokens", "tokens"),
        LineQuantity::Percent => ("percent", "%"),
        LineQuantity::HeldBytes => ("held_bytes", "B"),
        LineQuantity::Objects => ("evicted", ""),
    }
}

/// The name of the column of places, and its title.
fn along(axis: LineAxis) -> (&'static str, &'static str) {
    match axis {
        LineAxis::Context => ("context_tokens", "context (tokens)"),
        LineAxis::Shared => ("shared_tokens", "shared (tokens)"),
        LineAxis::BitRate => ("bits_per_second", "bandwidth (bit/s)"),
        LineAxis::Served => ("requests", "requests served"),
    }
}

/// `Seconds of …, from 1,024 tokens to 131,072 tokens: prefill, ethernet-100g.`
fn description(lines: &Lines, domain: (Tokens, Tokens), (across, quantity): (Quantity, Quantity)) -> String {
    let ends = |values: &[f64]| match (values.first(), values.last()) {
        (Some(first), Some(last)) => {
            format!(" from {} to {}", words(*first, quantity), words(*last, quantity))
        }
        _ => " nowhere".to_owned(),
    };
    let each = lines.lines.iter().map(|line| format!("{}{}", line.name, ends(&line.values)));
    let each: Vec<String> = each.collect();
    let place = |at: Tokens| label::place(at, across);
    format!("{}, from {} to {}: {}.", lines.title, place(domain.0), place(domain.1), each.join("; "))
}

fn words(value: f64, quantity: Quantity) -> String {
    let whole = label::nearest_u64(value);
    match quantity {
        Quantity::Seconds => label::seconds(value),
        Quantity::Bytes(units) => kvscope_sizing::Bytes::new(whole).display(units),
        Quantity::Percent => format!("{value:.1} %"),
        _ => group_digits(whole),
    }
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::plan::{Line, LineAxis};

    use super::*;

    const SIZE: Size = Size::new(800.0, 300.0);

    fn lines(quantity: LineQuantity) -> Lines {
        Lines {
            title: "Requests".to_owned(),
            quantity,
            across: LineAxis::Context,
            places: vec![1024, 2048, 4096],
            at: 2048,
            lines: vec![
                Line { name: "a".to_owned(), values: vec![4000.0, 2000.0, 1000.0] },
                Line { name: "b".to_owned(), values: vec![3.0] },
            ],
            below: Vec::new(),
        }
    }

    #[test]
    fn values_at_the_context_stand_beside_the_names() {
        let figure = PlanLines::layout(&lines(LineQuantity::Requests), UnitSystem::Decimal, SIZE).unwrap();
        let file = crate::paint::svg::svg(figure.scene(), &crate::Theme::light(), "");
        assert!(file.contains(">2,000<"), "{file}");
        assert!(figure.scene().description.ends_with("a from 4,000 to 1,000; b from 3 to 3."));
    }

    #[test]
    fn bandwidths_are_in_bits_and_counts_from_none_on() {
        let rates = Lines { across: LineAxis::BitRate, ..lines(LineQuantity::Bytes) };
        let rates = Lines { places: vec![1_000_000_000, 25_000_000_000, 100_000_000_000], ..rates };
        let rates = Lines { at: 25_000_000_000, ..rates };
        let figure = PlanLines::layout(&rates, UnitSystem::Decimal, SIZE).unwrap();
        let file = crate::paint::svg::svg(figure.scene(), &crate::Theme::light(), "");
        for words in [">at 25 Gbps<", ">100 Gbps<", ">2.00 kB<"] {
            assert!(file.contains(words), "{words}: {file}");
        }
        assert_eq!(PlanLines::table(&rates).head, ["bandwidth (bit/s)", "a (B)", "b (B)"]);
        let shared = Lines { across: LineAxis::Shared, ..lines(LineQuantity::Tokens) };
        let figure = PlanLines::layout(&shared, UnitSystem::Decimal, SIZE).unwrap();
        let file = crate::paint::svg::svg(figure.scene(), &crate::Theme::light(), "");
        assert!(file.contains(">0<"), "{file}");
        let data = PlanLines::data(&shared);
        assert_eq!((data.plot.powers, data.rows.len()), (false, 4));
        assert_eq!(data.rows[3], [Cell::Text("b".to_owned()), Cell::Whole(1024), Cell::Real(3.0)]);
    }

    #[test]
    fn figures_of_other_quantities_stand_below_and_share_the_table() {
        let held = Lines { across: LineAxis::Served, ..lines(LineQuantity::HeldBytes) };
        let found = Lines { across: LineAxis::Served, below: vec![held], ..lines(LineQuantity::Percent) };
        let room = PlanLines::room(&found, 800.0);
        let figure = PlanLines::layout(&found, UnitSystem::Decimal, room).unwrap();
        assert_eq!((figure.scene().size, room.height), (room, 480.0));
        let file = crate::paint::svg::svg(figure.scene(), &crate::Theme::light(), "");
        for words in [">2000.0 %<", ">2.00 kB<", ">2,048 requests<", "id=\"axes-2\""] {
            assert!(file.contains(words), "{words}: {file}");
        }
        let lowest = figure.scene().texts().iter().map(|text| text.at.y).fold(0.0, f64::max);
        assert!((360.0..480.0).contains(&lowest), "{lowest}");
        let table = PlanLines::table(&found);
        assert_eq!(table.head, ["requests served", "a (%)", "b (%)", "a (B)", "b (B)"]);
        assert_eq!(table.rows[1], ["2,048", "2000", "–", "2000", "–"]);
        let data = PlanLines::data(&found);
        assert_eq!((data.rows.len(), data.plot.mark), (8, Mark::LineInRows));
        assert_eq!(data.rows[4][0], Cell::Text("held_bytes".to_owned()));
    }

    #[test]
    fn a_line_that_ends_has_no_value_after_it() {
        let table = PlanLines::table(&lines(LineQuantity::Seconds));
        assert_eq!(table.head, ["context (tokens)", "a (s)", "b (s)"]);
        assert_eq!(table.rows[1], ["2,048", "2e3", "–"]);
    }

    #[test]
    fn one_length_is_no_figure() {
        let mut one = lines(LineQuantity::Seconds);
        one.places.truncate(1);
        one.lines.iter_mut().for_each(|line| line.values.truncate(1));
        assert!(PlanLines::layout(&one, UnitSystem::Decimal, SIZE).is_err());
        one.places.clear();
        one.lines.clear();
        assert!(PlanLines::layout(&one, UnitSystem::Decimal, SIZE).is_err());
    }
}
