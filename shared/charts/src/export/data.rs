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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Column {
    /// Its name in every export: lower case with underscores, the unit at its end.
    pub name: &'static str,
    /// What it is, with its unit, for axes.
    pub title: &'static str,
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
    /// A point by itself.
    Point,
    /// A bar.
    Bar,
}

impl Data {
    /// The place of a column that [`Plot`] names.
    pub(super) fn place(&self, name: &str) -> usize {
        self.columns
            .iter()
            .position(|column| column.name == name)
            .expect("a plot names columns of its own table")
    }

    /// What the column is called on an axis.
    pub(super) fn title(&self, name: &str) -> &'static str {
        self.columns[self.place(name)].title
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
