use kvscope_sizing::plan::{LineQuantity, Lines};
use kvscope_sizing::{Tokens, group_digits};

use super::curves::{Curve, Curves, Readings, Spec};
use super::{FigureError, Provenance, Table};
use crate::label::{self, Quantity};
use crate::palette::assign_colours;
use crate::scale::ScaleKind;
use crate::scene::{Scene, Size};

/// What a plan draws over context, with its values at one context.
#[derive(Clone, Debug)]
pub struct PlanLines {
    scene: Scene,
}

impl PlanLines {
    /// Lays the figure out; `context` is where the values beside the names are read, of lengths that were asked for.
    ///
    /// # Errors
    ///
    /// Lengths that are no range, or too little room.
    pub fn layout(lines: &Lines, context: Tokens, size: Size) -> Result<Self, FigureError> {
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
        let ends = |contexts: &[Tokens]| Some((*contexts.first()?, *contexts.last()?));
        let domain = ends(&lines.contexts).unwrap_or_default();
        let mut curves = Curves::layout(Spec {
            contexts: &lines.contexts,
            domain,
            curves: curves.collect(),
            rings: Vec::new(),
            limits: Vec::new(),
            scale: ScaleKind::Log10,
            context_scale: ScaleKind::Log2,
            quantity: match lines.quantity {
                LineQuantity::Seconds => Quantity::Seconds,
                LineQuantity::Requests => Quantity::Requests,
            },
            ranks: 1,
            widest_value: "88.8 ms",
            size,
        })?;
        let place = lines.contexts.binary_search(&context).ok();
        let value =
            |values: &Vec<f64>| values.get(place?).map(|value| (*value, words(*value, lines.quantity)));
        let read = curves.overlay(&Readings {
            context,
            values: lines.lines.iter().map(|line| value(&line.values)).collect(),
            reserved: Vec::new(),
            emphasis: None,
            missing: Table::ABSENT,
        });
        curves.scene.title.clone_from(&lines.title);
        curves.scene.description = description(lines, domain);
        let (title, description) = (curves.scene.title.clone(), curves.scene.description.clone());
        Ok(Self { scene: Scene { title, description, ..curves.scene.with(read) } })
    }

    /// All of it.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// Every value, a row a length.
    pub fn table(lines: &Lines) -> Table {
        let unit = match lines.quantity {
            LineQuantity::Seconds => " (s)",
            LineQuantity::Requests => "",
        };
        let names = lines.lines.iter().map(|line| format!("{}{unit}", line.name));
        let cell = |value: Option<&f64>| match value {
            None => Table::ABSENT.to_owned(),
            Some(value) if lines.quantity == LineQuantity::Requests => format!("{value}"),
            Some(value) => format!("{value:e}"),
        };
        let row = |(place, context): (usize, &Tokens)| {
            let values = lines.lines.iter().map(|line| cell(line.values.get(place)));
            std::iter::once(context.to_string()).chain(values).collect()
        };
        Table {
            head: std::iter::once("context (tokens)".to_owned()).chain(names).collect(),
            rows: lines.contexts.iter().enumerate().map(row).collect(),
        }
    }
}

/// `Seconds of …, from 1,024 to 131,072 tokens: prefill, ethernet-100g.`
fn description(lines: &Lines, domain: (Tokens, Tokens)) -> String {
    let ends = |values: &[f64]| match (values.first(), values.last()) {
        (Some(first), Some(last)) => {
            format!(" from {} to {}", words(*first, lines.quantity), words(*last, lines.quantity))
        }
        _ => " nowhere".to_owned(),
    };
    let each = lines.lines.iter().map(|line| format!("{}{}", line.name, ends(&line.values)));
    let each: Vec<String> = each.collect();
    format!("{}, from {} to {} tokens: {}.", lines.title, domain.0, domain.1, each.join("; "))
}

fn words(value: f64, quantity: LineQuantity) -> String {
    match quantity {
        LineQuantity::Seconds => label::seconds(value),
        LineQuantity::Requests => group_digits(label::nearest_u64(value)),
    }
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::plan::Line;

    use super::*;

    fn lines(quantity: LineQuantity) -> Lines {
        Lines {
            title: "Requests".to_owned(),
            quantity,
            contexts: [1024, 2048, 4096].map(Tokens::new).to_vec(),
            lines: vec![
                Line { name: "a".to_owned(), values: vec![4000.0, 2000.0, 1000.0] },
                Line { name: "b".to_owned(), values: vec![3.0] },
            ],
        }
    }

    #[test]
    fn values_at_the_context_stand_beside_the_names() {
        let figure =
            PlanLines::layout(&lines(LineQuantity::Requests), Tokens::new(2048), Size::new(800.0, 300.0))
                .unwrap();
        let file = crate::paint::svg::svg(figure.scene(), &crate::Theme::light(), "");
        assert!(file.contains(">2,000<"), "{file}");
        assert!(figure.scene().description.ends_with("a from 4,000 to 1,000; b from 3 to 3."));
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
        one.contexts.truncate(1);
        one.lines.iter_mut().for_each(|line| line.values.truncate(1));
        assert!(PlanLines::layout(&one, Tokens::new(1024), Size::new(800.0, 300.0)).is_err());
        one.contexts.clear();
        one.lines.clear();
        assert!(PlanLines::layout(&one, Tokens::new(1024), Size::new(800.0, 300.0)).is_err());
    }
}
