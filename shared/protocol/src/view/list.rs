/// How the list of all versions is sorted and filtered.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListView {
    /// The column that it is sorted by.
    pub column: ModelColumn,
    /// Whether the largest comes first.
    pub descends: bool,
    /// Words that a version has in its names, forms or config fields; empty for all versions.
    pub filter: String,
}

/// A column of the list of all versions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ModelColumn {
    /// The version's name.
    #[default]
    Name,
    /// Its mixers.
    Form,
    /// What one more token adds.
    Slope,
    /// What does not grow.
    Fixed,
    /// Bytes at 100,000 tokens.
    At100K,
    /// Bytes at a million tokens.
    At1M,
    /// The longest context that its config allows.
    Longest,
    /// The month of its release.
    Released,
}

impl ModelColumn {
    /// Every column, left to right.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::Form,
        Self::Slope,
        Self::Fixed,
        Self::At100K,
        Self::At1M,
        Self::Longest,
        Self::Released,
    ];

    /// The word in links.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Form => "form",
            Self::Slope => "slope",
            Self::Fixed => "fixed",
            Self::At100K => "100K",
            Self::At1M => "1M",
            Self::Longest => "longest",
            Self::Released => "released",
        }
    }

    /// The words above the column.
    pub fn label(self) -> &'static str {
        match self {
            Self::Name => "version",
            Self::Longest => "config allows",
            Self::At100K => "at 100K",
            Self::At1M => "at 1M",
            _ => self.name(),
        }
    }
}
