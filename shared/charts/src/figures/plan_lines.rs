use kvscope_sizing::plan::{LineAxis, LineQuantity, Lines, Sheet};
use kvscope_sizing::{Tokens, UnitSystem, group_digits};

use super::curves::{Curve, Curves, Readings, Spec};
use super::{FigureError, Provenance, Table};
use crate::export::{Cell, Column, Data, Export, Mark, Origin, Plot};
use crate::label::{self, Quantity};
use crate::palette::assign_colours;
use crate::scale::ScaleKind;
use crate::scene::{Scene, Size};
use crate::versions::USUAL_WIDTH;

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

impl PlanLines {
    /// Lays the figure out; the values beside the names are read where the answer lies.
    ///
    /// # Errors
    ///
    /// Places that are no range, or too little room.
    pub fn layout(lines: &Lines, units: UnitSystem, size: Size) -> Result<Self, FigureError> {
        let names: Vec<&str> = lines.lines.iter().map(|line| line.name.as_str()).collect();
        let curves = lines.lines.iter().zip(assign_colours(&names)).map(|(line, colour)| Curve {
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
        };
        let (quantity, scale) = match lines.quantity {
            LineQuantity::Seconds => (Quantity::Seconds, ScaleKind::Log10),
            LineQuantity::Requests => (Quantity::Requests, ScaleKind::Log10),
            LineQuantity::Bytes => (Quantity::Bytes(units), ScaleKind::Log10),
            LineQuantity::Tokens => (Quantity::Tokens, ScaleKind::Linear),
        };
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
        Ok(Self { scene: Scene { title, description, ..curves.scene.with(read) } })
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
    pub fn export(lines: &Lines, sheet: &Sheet, asked: Asked, origin: Origin) -> Result<Export, FigureError> {
        let size = Size::new(USUAL_WIDTH, USUAL_WIDTH * SHAPE);
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
        let (_, unit) = counted(lines.quantity);
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        let names = lines.lines.iter().map(|line| format!("{}{unit}", line.name));
        let cell = |value: Option<&f64>| match value {
            None => Table::ABSENT.to_owned(),
            Some(value) if lines.quantity == LineQuantity::Seconds => format!("{value:e}"),
            Some(value) => format!("{value}"),
        };
        let row = |(place, at): (usize, &u64)| {
            let values = lines.lines.iter().map(|line| cell(line.values.get(place)));
            std::iter::once(group_digits(*at)).chain(values).collect()
        };
        Table {
            head: std::iter::once(along(lines.across).1.to_owned()).chain(names).collect(),
            rows: lines.places.iter().enumerate().map(row).collect(),
        }
    }

    /// Every value, a row a point of a line.
    pub fn data(lines: &Lines) -> Data {
        let (y, _) = counted(lines.quantity);
        let (x, title) = along(lines.across);
        let mut rows = Vec::new();
        for line in &lines.lines {
            for (place, value) in lines.places.iter().zip(&line.values) {
                rows.push(vec![Cell::Text(line.name.clone()), Cell::Whole(*place), Cell::Real(*value)]);
            }
        }
        Data {
            columns: vec![Column::new("line", "line"), Column::new(x, title), Column::new(y, y)],
            rows,
            plot: Plot {
                mark: Mark::Line,
                x,
                y,
                colour: "line",
                second: None,
                powers: lines.quantity != LineQuantity::Tokens,
            },
        }
    }
}

/// The name of a column of values, and their unit.
fn counted(quantity: LineQuantity) -> (&'static str, &'static str) {
    match quantity {
        LineQuantity::Seconds => ("seconds", "s"),
        LineQuantity::Requests => ("requests", ""),
        LineQuantity::Bytes => ("bytes", "B"),
        LineQuantity::Tokens => ("tokens", "tokens"),
    }
}

/// The name of the column of places, and its title.
fn along(axis: LineAxis) -> (&'static str, &'static str) {
    match axis {
        LineAxis::Context => ("context_tokens", "context (tokens)"),
        LineAxis::Shared => ("shared_tokens", "shared (tokens)"),
        LineAxis::BitRate => ("bits_per_second", "bandwidth (bit/s)"),
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
