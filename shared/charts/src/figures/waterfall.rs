use kvscope_sizing::Ratio;

use super::curves::check_room;
use super::{FigureError, Table};
use crate::export::{Cell, Column, Data, Mark, Plot};
use crate::palette::SeriesColour;
use crate::scene::{Anchor, Group, Ink, Node, Point, Rect, Role, Scene, Size, Stroke, Text, Texture, Weight};
use crate::text::{self, size};

const LEAST: Size = Size::new(240.0, 0.0);
const BAR_HEIGHT: f64 = 12.0;
const LINE_HEIGHT: f64 = 17.0;
/// From a bar to the words of the next row.
const GAP: f64 = 12.0;
/// A change of nothing but a hair still shows.
const LEAST_BAR: f64 = 1.5;

/// The change of one figure in steps that add up: a bar for where it starts, one for each step from where the last one
/// ended, and one for where it ends.
#[derive(Clone, Debug)]
pub struct Waterfall {
    scene: Scene,
    table: Table,
    data: Data,
}

/// What a waterfall is made from.
#[derive(Clone, Debug)]
pub struct WaterfallInput<'a> {
    /// What changes, for the title: `Change of slope`.
    pub title: &'a str,
    /// Behind every value: `B/token`.
    pub unit: &'a str,
    /// Where it starts.
    pub from: WaterfallEnd<'a>,
    /// Where it ends.
    pub to: WaterfallEnd<'a>,
    /// The steps between, in order.
    pub steps: &'a [WaterfallStep<'a>],
    /// The width offered in CSS pixels. The scene is as tall as its rows need.
    pub width: f64,
}

/// One end of a waterfall.
#[derive(Clone, Copy, Debug)]
pub struct WaterfallEnd<'a> {
    /// Whose value it is.
    pub name: &'a str,
    /// Its colour.
    pub colour: SeriesColour,
    /// The value.
    pub value: Ratio,
}

/// One step of a waterfall.
#[derive(Clone, Copy, Debug)]
pub struct WaterfallStep<'a> {
    /// What changed, in a few words.
    pub text: &'a str,
    /// By how much.
    pub change: Ratio,
}

/// A bar with its words.
struct Row {
    words: String,
    value: String,
    ink: Ink,
    weight: Weight,
    /// Where the bar starts and ends, in the unit.
    from: Ratio,
    to: Ratio,
}

impl Waterfall {
    /// Lays the figure out.
    ///
    /// # Errors
    ///
    /// No room, or steps that do not lead from one end to the other exactly.
    pub fn layout(input: &WaterfallInput) -> Result<Self, FigureError> {
        check_room(Size::new(input.width, 0.0), LEAST)?;
        let rows = rows(input)?;
        let most =
            rows.iter().map(|row| row.from.as_f64().max(row.to.as_f64())).fold(f64::MIN_POSITIVE, f64::max);
        let place = |value: Ratio| input.width * (value.as_f64() / most).clamp(0.0, 1.0);
        let mut nodes = Vec::new();
        let (mut top, mut bar_before) = (2.0, None);
        for (index, row) in rows.iter().enumerate() {
            let mut group = Group::new(format!("step-{index}"), Role::Series);
            group.label = format!("{}: {}", row.words, row.value);
            let room = input.width - text::width(&row.value, size::LABEL, Weight::Bold) - 16.0;
            for (line, words) in
                text::wrapped(&row.words, size::LABEL, row.weight, room).into_iter().enumerate()
            {
                top += LINE_HEIGHT;
                let at = Point::new(0.0, top - 4.0);
                // A single word that is wider than the room must not run into the value.
                let words =
                    if line == 0 { text::fitted(&words, size::LABEL, row.weight, room) } else { words };
                let ink = if row.weight == Weight::Bold { row.ink } else { Ink::Text };
                group.push(Text { weight: row.weight, ..Text::new(at, words, size::LABEL, ink) });
                if line == 0 {
                    let at = Point::new(input.width, top - 4.0);
                    let value =
                        Text::new(at, row.value.clone(), size::LABEL, Ink::Text).anchored(Anchor::End);
                    group.push(if row.weight == Weight::Bold { value.bold() } else { value });
                }
            }
            let (low, high) = if row.from < row.to { (row.from, row.to) } else { (row.to, row.from) };
            let left = place(low).min(input.width - LEAST_BAR);
            let rect = Rect::new(left, top, place(high).max(left + LEAST_BAR), top + BAR_HEIGHT);
            // From where the last bar ended down to this one; the last row is at its end what the steps reached.
            if let Some(bottom) = bar_before {
                let met = if index + 1 == rows.len() { row.to } else { row.from };
                let x = (place(met).min(input.width - 0.5)).max(0.5);
                let (from, to) = (Point::new(x, bottom), Point::new(x, top));
                nodes.push(Node::Line { from, to, stroke: Stroke::hairline(Ink::Grid) });
            }
            group.push(Node::Rect { rect, fill: row.ink, texture: Texture::Plain });
            nodes.push(group.into());
            top += BAR_HEIGHT;
            bar_before = Some(top);
            top += GAP;
        }
        let scene = Scene {
            size: Size::new(input.width, top),
            title: input.title.to_owned(),
            description: sentence(input),
            nodes,
        };
        Ok(Self { scene, table: table(input)?, data: data(input)? })
    }

    /// The scene.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// Every step as rows: its change, and what it reaches. A version's own row has its value as both.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Every step with all digits, and what it reaches.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

fn data(input: &WaterfallInput) -> Result<Data, FigureError> {
    let row = |of: &'static str, words: &str, change: Ratio, reached: Ratio| {
        let (of, words) = (Cell::Text(of.to_owned()), Cell::Text(words.to_owned()));
        vec![of, words, Cell::Real(change.as_f64()), Cell::Real(reached.as_f64())]
    };
    let mut reached = input.from.value;
    let mut rows = vec![row("version", input.from.name, reached, reached)];
    for step in input.steps {
        reached = reached.plus(step.change).map_err(|_| FigureError::Sum)?;
        rows.push(row("step", step.text, step.change, reached));
    }
    rows.push(row("version", input.to.name, input.to.value, input.to.value));
    let names = if input.unit == "B" {
        [("change_bytes", "change (bytes)"), ("reached_bytes", "reached (bytes)")]
    } else {
        [
            ("change_bytes_per_token", "change (bytes per token)"),
            ("reached_bytes_per_token", "reached (bytes per token)"),
        ]
    };
    let columns = [("of", "of"), ("step", "step"), names[0], names[1]];
    let plot = Plot { mark: Mark::Bar, x: "step", y: names[0].0, colour: "of", second: None, powers: false };
    Ok(Data { columns: columns.map(|(name, title)| Column::new(name, title)).to_vec(), rows, plot })
}

fn rows(input: &WaterfallInput) -> Result<Vec<Row>, FigureError> {
    let end = |end: &WaterfallEnd, from: Ratio| Row {
        words: end.name.to_owned(),
        value: format!("{} {}", unsigned(end.value), input.unit),
        ink: Ink::Series(end.colour),
        weight: Weight::Bold,
        from,
        to: end.value,
    };
    let mut rows = vec![end(&input.from, Ratio::ZERO)];
    let mut reached = input.from.value;
    for step in input.steps {
        let from = reached;
        reached = from.plus(step.change).map_err(|_| FigureError::Sum)?;
        rows.push(Row {
            words: step.text.to_owned(),
            value: step.change.to_string(),
            ink: if step.change < Ratio::ZERO { Ink::Muted } else { Ink::Accent },
            weight: Weight::Regular,
            from,
            to: reached,
        });
    }
    if reached != input.to.value {
        return Err(FigureError::Sum);
    }
    rows.push(Row { from: Ratio::ZERO, ..end(&input.to, Ratio::ZERO) });
    Ok(rows)
}

fn unsigned(value: Ratio) -> String {
    value.to_string().trim_start_matches('+').to_owned()
}

fn table(input: &WaterfallInput) -> Result<Table, FigureError> {
    let exact = |value: Ratio| value.exact().trim_start_matches('+').to_owned();
    let head = ["step".to_owned(), format!("change ({})", input.unit), format!("reached ({})", input.unit)];
    let mut reached = input.from.value;
    let mut rows = vec![vec![input.from.name.to_owned(), String::new(), exact(reached)]];
    for step in input.steps {
        reached = reached.plus(step.change).map_err(|_| FigureError::Sum)?;
        rows.push(vec![step.text.to_owned(), step.change.exact(), exact(reached)]);
    }
    rows.push(vec![input.to.name.to_owned(), String::new(), exact(input.to.value)]);
    Ok(Table { head: head.to_vec(), rows })
}

fn sentence(input: &WaterfallInput) -> String {
    let steps: Vec<String> =
        input.steps.iter().map(|step| format!("{} {}", step.text, step.change)).collect();
    let between = if steps.is_empty() { "no step moves it".to_owned() } else { steps.join(", ") };
    format!(
        "From {} at {} {unit} to {} at {} {unit}: {between}.",
        input.from.name,
        unsigned(input.from.value),
        input.to.name,
        unsigned(input.to.value),
        unit = input.unit,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(name: &str, value: u64) -> WaterfallEnd<'_> {
        WaterfallEnd { name, colour: SeriesColour::default(), value: Ratio::whole(value) }
    }

    fn step(text: &str, change: i128) -> WaterfallStep<'_> {
        WaterfallStep { text, change: Ratio::new(change, 1).unwrap() }
    }

    /// The bars of a scene: the widest of each row.
    fn bars(waterfall: &Waterfall) -> Vec<Rect> {
        let groups = waterfall.scene().nodes.iter().filter_map(|node| match node {
            Node::Group(group) => Some(group),
            _ => None,
        });
        groups
            .flat_map(|group| &group.nodes)
            .filter_map(|node| if let Node::Rect { rect, .. } = node { Some(*rect) } else { None })
            .collect()
    }

    #[test]
    fn every_bar_starts_where_the_last_one_ended() {
        let steps = [step("92 → 78 layers", -60), step("wider heads", 20)];
        let input = WaterfallInput {
            title: "Change of slope",
            unit: "B/token",
            from: end("A", 100),
            to: end("B", 60),
            steps: &steps,
            width: 500.0,
        };
        let waterfall = Waterfall::layout(&input).unwrap();
        let ends: Vec<(f64, f64)> = bars(&waterfall).iter().map(|bar| (bar.left, bar.right)).collect();
        // 5 pixels a byte: 100, down 60, up 20, and 60 at the end.
        assert_eq!(ends, [(0.0, 500.0), (200.0, 500.0), (200.0, 300.0), (0.0, 300.0)]);
        let reached: Vec<&str> = waterfall.table().rows.iter().map(|row| row[2].as_str()).collect();
        assert_eq!(reached, ["100", "40", "60", "60"]);
    }

    #[test]
    fn steps_that_do_not_add_up_are_no_figure() {
        let steps = [step("one", -50)];
        let input = WaterfallInput {
            title: "Change",
            unit: "B",
            from: end("A", 100),
            to: end("B", 60),
            steps: &steps,
            width: 500.0,
        };
        assert_eq!(Waterfall::layout(&input).unwrap_err(), FigureError::Sum);
    }
}
