use kvscope_sizing::{ByteKind, Bytes, Tokens, UnitSystem, group_digits};

use super::curves::{Curve, Curves, Readings, Ring, Rule, Spec};
use super::{FigureError, Provenance, Standing, Table};
use crate::export::{Cell, Column, Data, Mark, Plot};
use crate::label::{self, Quantity};
use crate::palette::SeriesColour;
use crate::scale::ScaleKind;
use crate::scene::{Point, Rect, Scene, Size};

/// In place of what an engine would reserve, where it refuses the model.
const REFUSED: &str = "refused";
/// In place of bytes on one rank, where ranks cannot share the model.
const NO_SHARE: &str = "no equal share";

/// State over context: a line a model, labelled at its end with the value at the cursor.
#[derive(Clone, Debug)]
pub struct Growth {
    curves: Curves,
    series: Vec<Series>,
    scale: GrowthScale,
    units: UnitSystem,
    bytes: ByteKind,
    ranks: Option<u64>,
}

/// What a growth figure is made from.
#[derive(Clone, Debug)]
pub struct GrowthInput<'a> {
    /// Where values were computed, strictly rising; see [`sample_contexts`](super::sample_contexts).
    pub contexts: &'a [Tokens],
    /// The models, the most important first: where labels have no room, the last go.
    pub series: &'a [Series],
    /// First and last context shown.
    pub domain: (Tokens, Tokens),
    /// The axes.
    pub scale: GrowthScale,
    /// Units of the y axis and the values.
    pub units: UnitSystem,
    /// Which bytes the values are.
    pub bytes: ByteKind,
    /// The room offered in CSS pixels. Below 600 across the names go into a list below, and the scene is taller by it.
    pub size: Size,
    /// Measured points, drawn as hollow rings.
    pub measured: &'a [MeasuredBytes],
    /// Levels to compare with.
    pub limits: &'a [Limit],
    /// Ranks of which all values are of one, where an engine's reserved bytes are asked; none where logical bytes alone are
    /// shown.
    pub ranks: Option<u64>,
}

/// One model's line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The catalogue's id; part of the ids in an SVG.
    pub id: String,
    /// The name shown.
    pub name: String,
    /// Its colour.
    pub colour: SeriesColour,
    /// Where its values come from.
    pub provenance: Provenance,
    /// Exact bytes at each context, in order; fewer where the model's context ends, none where ranks cannot share it.
    pub values: Vec<Bytes>,
    /// What an engine reserves at each context, in order, drawn beside the line in dashes; empty where none is asked, and
    /// where the engine refuses the model.
    pub reserved: Vec<Bytes>,
    /// The longest context that the model's config allows; lines are thin beyond it.
    pub allowed: Option<Tokens>,
}

/// A measured size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredBytes {
    /// The colour of the model that was measured.
    pub colour: SeriesColour,
    /// Where it was measured.
    pub context: Tokens,
    /// What was measured.
    pub bytes: Bytes,
}

/// A level to compare with, such as the memory left after weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The level.
    pub bytes: Bytes,
    /// What it is, written along it.
    pub label: String,
    /// The model whose level it is, by its colour; none where it is of all.
    pub colour: Option<SeriesColour>,
    /// Where models reach it, by their colours: the contexts are written at the level.
    pub crossings: Vec<(SeriesColour, Tokens)>,
}

/// The axes of a growth figure.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum GrowthScale {
    /// Bytes over tokens, equal factors at equal distances on both axes.
    #[default]
    Log,
    /// Bytes from zero over tokens, equal differences at equal distances on both axes: what grows evenly is straight.
    Linear,
    /// Times the first series at the same context, equal factors at equal distances. Measured points and limits are
    /// bytes and stay out.
    TimesFirst,
}

/// What the cursor reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Cursor {
    /// Its context.
    pub context: Tokens,
    /// Exact bytes there, one entry a series in order; none where a series has no value.
    pub values: Vec<Option<Bytes>>,
    /// What an engine reserves there, one entry a series in order; empty where no series has it.
    pub reserved: Vec<Option<Bytes>>,
    /// The series to stress, if any.
    pub emphasis: Option<usize>,
}

/// What lies under the pointer.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The nearest sample.
    pub sample: usize,
    /// Its context.
    pub context: Tokens,
    /// The series whose curve is within 24 pixels, nearest first.
    pub nearest: Option<usize>,
    /// Every series' value there, largest first; equal values in the order of the series.
    pub readings: Vec<Reading>,
}

/// One series' value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reading {
    /// Which series.
    pub series: usize,
    /// Its exact bytes.
    pub bytes: Bytes,
    /// What an engine reserves.
    pub reserved: Option<Bytes>,
}

impl Growth {
    /// Lays the figure out. An empty list of series gives empty axes.
    pub fn layout(input: &GrowthInput) -> Result<Self, FigureError> {
        let first = input.series.first();
        let relative = |sample: usize, bytes: Bytes| match (input.scale, first) {
            (GrowthScale::TimesFirst, Some(first)) => ratio(bytes, first.values.get(sample).copied()),
            _ => bytes.get() as f64,
        };
        let all = |values: &[Bytes]| {
            values.iter().enumerate().map(|(sample, bytes)| relative(sample, *bytes)).collect()
        };
        let curves = input.series.iter().map(|series| Curve {
            id: series.id.clone(),
            name: series.name.clone(),
            colour: series.colour,
            provenance: series.provenance,
            values: all(&series.values),
            reserved: all(&series.reserved),
            allowed: series.allowed,
            refused: input.ranks.is_some() && series.values.is_empty() && series.reserved.is_empty(),
        });
        let absolute = input.scale != GrowthScale::TimesFirst;
        let rings = input.measured.iter().filter(|_| absolute).map(|point| {
            let value = point.bytes.get() as f64;
            Ring {
                colour: point.colour,
                context: point.context,
                value,
                low: value,
                high: value,
                standing: Standing::Steady,
            }
        });
        let limits = input.limits.iter().filter(|_| absolute);
        let (quantity, widest_value) = match (input.scale, input.units) {
            (GrowthScale::TimesFirst, _) => (Quantity::Times, "8,888×"),
            (_, UnitSystem::Decimal) => (Quantity::Bytes(UnitSystem::Decimal), "8.88 MB"),
            (_, UnitSystem::Binary) => (Quantity::Bytes(UnitSystem::Binary), "8.88 MiB"),
        };
        let (scale, context_scale) = match input.scale {
            GrowthScale::Linear => (ScaleKind::Linear, ScaleKind::Linear),
            GrowthScale::Log | GrowthScale::TimesFirst => (ScaleKind::Log10, ScaleKind::Log2),
        };
        let curves = Curves::layout(Spec {
            contexts: input.contexts,
            domain: input.domain,
            curves: curves.collect(),
            rings: rings.collect(),
            limits: limits
                .map(|limit| Rule {
                    value: limit.bytes.get() as f64,
                    label: limit.label.clone(),
                    colour: limit.colour,
                    crossings: limit.crossings.clone(),
                })
                .collect(),
            scale,
            context_scale,
            across: Quantity::Tokens,
            quantity,
            ranks: input.ranks.unwrap_or(1),
            widest_value,
            size: input.size,
        })?;
        let mut growth = Self {
            curves,
            series: input.series.to_vec(),
            scale: input.scale,
            units: input.units,
            bytes: input.bytes,
            ranks: input.ranks,
        };
        growth.curves.scene.title = format!("{} over context", growth.what());
        growth.curves.scene.description = growth.sentence(input.domain);
        Ok(growth)
    }

    /// The base scene: all but the cursor.
    pub fn scene(&self) -> &Scene {
        &self.curves.scene
    }

    /// The area between the axes, for figures that share the x axis.
    pub fn plot(&self) -> Rect {
        self.curves.plot()
    }

    /// The cursor line, a dot a curve, the context under the axis and the values beside the names. Paint it over the base.
    pub fn overlay(&self, cursor: &Cursor) -> Scene {
        let first = cursor.values.first().copied().flatten();
        let shown = |bytes: Bytes| match self.scale {
            GrowthScale::TimesFirst => {
                let ratio = ratio(bytes, first);
                (ratio, if ratio.is_finite() { label::times(ratio) } else { "no ratio".to_owned() })
            }
            GrowthScale::Log | GrowthScale::Linear => (bytes.get() as f64, bytes.display(self.units)),
        };
        // No number, so that it is written and has no dot.
        let refused = |index: usize| self.is_refused(index).then(|| (f64::NAN, REFUSED.to_owned()));
        let reserved = |index: usize, bytes: Option<Bytes>| bytes.map(shown).or_else(|| refused(index));
        let mut overlay = self.curves.overlay(&Readings {
            context: cursor.context,
            values: cursor.values.iter().map(|bytes| bytes.map(shown)).collect(),
            reserved: cursor
                .reserved
                .iter()
                .enumerate()
                .map(|(index, bytes)| reserved(index, *bytes))
                .collect(),
            emphasis: cursor.emphasis,
            missing: "–",
        });
        overlay.description = self.reading_sentence(cursor);
        overlay
    }

    /// The cursor at `context` with exact values where it was sampled; elsewhere without values, as the figure does not
    /// guess between samples.
    pub fn cursor_at(&self, context: Tokens) -> Cursor {
        let sample = self.curves.sample_at(context);
        let read = |values: fn(&Series) -> &[Bytes]| {
            self.series.iter().map(|series| values(series).get(sample?).copied()).collect()
        };
        let has_reserved = self.series.iter().any(|series| !series.reserved.is_empty());
        let reserved = if has_reserved { read(|series| &series.reserved) } else { Vec::new() };
        Cursor { context, values: read(|series| &series.values), reserved, emphasis: None }
    }

    /// The nearest sample to a pointer inside the plot, and what every series reads there.
    pub fn hit(&self, pointer: Point) -> Option<Hit> {
        if !self.plot().contains(pointer) {
            return None;
        }
        let sample = self.curves.nearest_sample(pointer.x)?;
        let mut readings: Vec<Reading> = self
            .series
            .iter()
            .enumerate()
            .filter_map(|(series, data)| {
                let reserved = data.reserved.get(sample).copied();
                Some(Reading { series, bytes: *data.values.get(sample)?, reserved })
            })
            .collect();
        kvscope_sizing::sort_short(&mut readings, |a, b| a.bytes < b.bytes);
        let nearest = self.curves.nearest_curve(sample, pointer.y);
        Some(Hit { sample, context: self.curves.context(sample), nearest, readings })
    }

    /// The context at `x` CSS pixels, held within the axis; for dragging the cursor to contexts that were not sampled.
    pub fn context_at(&self, x: f64) -> Tokens {
        let plot = self.plot();
        let scale = self.curves.x();
        let (low, high) = scale.domain();
        Tokens::new(label::nearest_u64(scale.unproject(x.clamp(plot.left, plot.right)).clamp(low, high)))
    }

    /// Exact bytes by context: every sampled power of two, and the cursor's context.
    pub fn table(&self, cursor: Option<&Cursor>) -> Table {
        let rank = label::one_rank(", ", self.ranks.unwrap_or(1));
        let mut head = vec!["context (tokens)".to_owned()];
        for series in &self.series {
            head.push(format!("{}{rank} (bytes)", series.name));
            head.extend(self.ranks.map(|_| format!("{} reserved{rank} (bytes)", series.name)));
        }
        let powers = (0..63).map(|exponent| Tokens::new(1 << exponent));
        let mut contexts: Vec<Tokens> = powers.filter(|n| self.curves.sample_at(*n).is_some()).collect();
        if let Some(cursor) = cursor.filter(|cursor| !contexts.contains(&cursor.context)) {
            contexts.push(cursor.context);
            kvscope_sizing::sort_short(&mut contexts, |a, b| a > b);
        }
        let row = |context: Tokens| {
            let (read, place) = match cursor.filter(|cursor| cursor.context == context) {
                Some(cursor) => (cursor.clone(), format!("{context} (set)")),
                None => (self.cursor_at(context), context.to_string()),
            };
            let cell = |all: &[Option<Bytes>], index: usize, line: &[Bytes], none: &str| {
                let bytes = all.get(index).copied().flatten();
                let missing = if line.is_empty() { none } else { "" };
                bytes.map_or_else(|| missing.to_owned(), |bytes| group_digits(bytes.get()))
            };
            let mut cells = vec![place];
            for (index, series) in self.series.iter().enumerate() {
                cells.push(cell(&read.values, index, &series.values, NO_SHARE));
                cells.extend(self.ranks.map(|_| cell(&read.reserved, index, &series.reserved, REFUSED)));
            }
            cells
        };
        Table { head, rows: contexts.into_iter().map(row).collect() }
    }

    /// Exact bytes as rows: a line's points one after the other, logical before reserved.
    pub fn data(&self) -> Data {
        let mut rows = Vec::new();
        for series in &self.series {
            for (accounting, values) in [("logical", &series.values), ("reserved", &series.reserved)] {
                for (sample, bytes) in values.iter().enumerate() {
                    rows.push(vec![
                        Cell::Text(series.name.clone()),
                        Cell::Text(accounting.to_owned()),
                        Cell::Whole(self.curves.context(sample).get()),
                        Cell::Whole(bytes.get()),
                    ]);
                }
            }
        }
        let columns = vec![
            Column::new("model", "model"),
            Column::new("accounting", "accounting"),
            Column::new("context_tokens", "context (tokens)"),
            Column::new("state_bytes", "state (bytes)"),
        ];
        let plot = Plot {
            mark: Mark::Line,
            x: "context_tokens",
            y: "state_bytes",
            colour: "model",
            second: Some("accounting"),
            powers: self.scale != GrowthScale::Linear,
        };
        Data { columns, rows, plot }
    }

    /// Whether an engine was asked what it reserves for a series, and refuses it.
    fn is_refused(&self, index: usize) -> bool {
        self.ranks.is_some() && self.series.get(index).is_some_and(|series| series.reserved.is_empty())
    }

    /// What the values are.
    fn what(&self) -> &'static str {
        match self.bytes {
            ByteKind::Resident => "State",
            ByteKind::Read => "Bytes read a step",
            ByteKind::Persisted => "Persisted bytes",
            ByteKind::Transferred => "Transferred bytes",
        }
    }

    fn sentence(&self, domain: (Tokens, Tokens)) -> String {
        let count = label::counted(self.series.len() as u64, "model", "models");
        let rank = label::one_rank("on ", self.ranks.unwrap_or(1));
        let range = format!("{rank} from {} to {} tokens", domain.0, domain.1);
        let range = range.trim_start();
        let last =
            self.series.iter().filter_map(|series| Some((series.name.as_str(), *series.values.last()?)));
        let (Some(most), Some(least)) =
            (last.clone().max_by_key(|(_, bytes)| *bytes), last.min_by_key(|(_, bytes)| *bytes))
        else {
            return format!("{} of {count} {range}.", self.what());
        };
        let shown = |bytes: Bytes| bytes.display(self.units);
        if self.series.len() == 1 {
            return format!("{} of {} {range}: {} at the end.", self.what(), most.0, shown(most.1));
        }
        let verb = if self.bytes == ByteKind::Resident { "keeps" } else { "has" };
        format!(
            "{} of {count} {range}: at the end {} {verb} most, {}, and {} least, {}.",
            self.what(),
            most.0,
            shown(most.1),
            least.0,
            shown(least.1)
        )
    }

    fn reading_sentence(&self, cursor: &Cursor) -> String {
        let readings: Vec<String> = self
            .series
            .iter()
            .zip(&cursor.values)
            .enumerate()
            .filter_map(|(index, (series, bytes))| {
                let shown = (*bytes)?.display(self.units);
                let reserved = match cursor.reserved.get(index).copied().flatten() {
                    Some(reserved) => format!(", reserved {}", reserved.display(self.units)),
                    None if self.is_refused(index) => format!(", {REFUSED}"),
                    None => String::new(),
                };
                Some(format!("{} {shown}{reserved}", series.name))
            })
            .collect();
        let place = label::context(cursor.context);
        if readings.is_empty() {
            return format!("At {place} no model has a figure.");
        }
        let rank = label::one_rank(" on ", self.ranks.unwrap_or(1));
        format!("At {place}{rank}: {}.", readings.join("; "))
    }
}

/// Not a number where there is nothing to divide by, which no scale shows.
fn ratio(bytes: Bytes, first: Option<Bytes>) -> f64 {
    match first {
        Some(first) if first > Bytes::ZERO => bytes.get() as f64 / first.get() as f64,
        _ => f64::NAN,
    }
}
