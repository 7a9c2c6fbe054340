use std::borrow::Cow;

use kvscope_sizing::group_digits;

use crate::figures::Table;

/// A figure as rows, one for each value that it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// As many cells as columns in each row.
    pub rows: Vec<Vec<Cell>>,
    /// How a drawing program draws them.
    pub plot: Plot,
}

/// One column.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Column {
    /// Its name in every export: lower case with underscores, the unit at its end.
    pub name: Cow<'static, str>,
    /// What it is, with its unit, for axes.
    pub title: Cow<'static, str>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A word or a name.
    Text(String),
    /// An exact count.
    Whole(u64),
    /// A measured or computed number.
    Real(f64),
}

/// Which columns are drawn, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plot {
    /// What each row is drawn as.
    pub mark: Mark,
    /// The column along the x axis.
    pub x: &'static str,
    /// The column along the y axis.
    pub y: &'static str,
    /// The column whose values have a colour each.
    pub colour: &'static str,
    /// The column whose values are told apart by a second channel (dashes of lines, rows of bars), where there is one.
    pub second: Option<&'static str>,
    /// Whether both axes count in powers.
    pub powers: bool,
}

/// What a row is drawn as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mark {
    /// A point of a line.
    Line,
    /// The same, where the second channel is a drawing of its own.
    LineInRows,
    /// A point by itself.
    Point,
    /// A bar.
    Bar,
}

impl Column {
    /// A column that a figure names itself.
    pub(crate) const fn new(name: &'static str, title: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), title: Cow::Borrowed(title) }
    }

    /// `slope (B/token)` is `slope_b_token`.
    fn of_title(title: &str) -> Self {
        let letters = title.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { ' ' });
        let words: String = letters.collect();
        let name = words.split_whitespace().collect::<Vec<_>>().join("_");
        Self { name: name.into(), title: title.to_owned().into() }
    }
}

impl Data {
    /// The rows of a table for people: a cell of digits alone is a count.
    pub(super) fn of_table(table: &Table) -> Self {
        let cell = |cell: &String| match cell.replace(',', "").parse() {
            Ok(count) => Cell::Whole(count),
            Err(_) => Cell::Text(cell.clone()),
        };
        Self {
            columns: table.head.iter().map(|title| Column::of_title(title)).collect(),
            rows: table.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
            plot: Plot { mark: Mark::Bar, x: "", y: "", colour: "", second: None, powers: false },
        }
    }

    /// The rows for people: counts with their digits in groups.
    pub(crate) fn as_table(&self) -> Table {
        let cell = |cell: &Cell| match cell {
            Cell::Whole(count) => group_digits(*count),
            other => other.plain(),
        };
        Table {
            head: self.columns.iter().map(|column| column.title.to_string()).collect(),
            rows: self.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
        }
    }

    /// The place of a column that [`Plot`] names.
    pub(super) fn place(&self, name: &str) -> usize {
        self.columns
            .iter()
            .position(|column| column.name == name)
            .expect("a plot names columns of its own table")
    }

    /// What the column is called on an axis.
    pub(super) fn title(&self, name: &str) -> &str {
        &self.columns[self.place(name)].title
    }
}

impl Cell {
    /// Every digit, without separators.
    pub(super) fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Whole(count) => count.to_string(),
            Self::Real(number) => number.to_string(),
        }
    }
}
