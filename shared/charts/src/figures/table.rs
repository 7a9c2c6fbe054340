/// A figure's data as rows, for the table beside it and for readers who do not see it. Cells hold every digit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Table {
    /// Column names with units.
    pub head: Vec<String>,
    /// One row a context, as many cells as columns; a cell is empty where there is no value.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// In place of what there is not.
    pub(crate) const ABSENT: &str = "–";
}
