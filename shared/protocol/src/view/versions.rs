/// The two versions that are compared, and which figure's change is shown.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VersionsView {
    /// The first version's id; absent for the usual one.
    pub(super) from: Option<String>,
    /// The second version's id; absent for the usual one.
    pub(super) to: Option<String>,
    /// Whose change is shown.
    pub moved: Moved,
}

/// A figure whose change is shown cause by cause.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Moved {
    /// What one more token adds.
    #[default]
    Slope,
    /// What does not grow.
    Fixed,
    /// What one request keeps at the context.
    Resident,
}

impl Moved {
    /// Every one, in the order of the page.
    pub const ALL: [Self; 3] = [Self::Slope, Self::Fixed, Self::Resident];

    /// The word in links.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slope => "slope",
            Self::Fixed => "fixed",
            Self::Resident => "resident",
        }
    }
}

impl VersionsView {
    /// A release that moved the slope by mixer, layers and widths at once.
    const USUAL: [&'static str; 2] = ["glm-4.5", "glm-5.1"];

    /// The ids of the two versions.
    pub fn pair(&self) -> [&str; 2] {
        [self.from.as_deref().unwrap_or(Self::USUAL[0]), self.to.as_deref().unwrap_or(Self::USUAL[1])]
    }

    /// Compares two other versions.
    pub fn set_pair(&mut self, pair: [&str; 2]) {
        let unusual = |end: usize| (pair[end] != Self::USUAL[end]).then(|| pair[end].to_owned());
        (self.from, self.to) = (unusual(0), unusual(1));
    }
}
