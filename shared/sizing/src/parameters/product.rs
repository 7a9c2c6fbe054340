use std::fmt::Write as _;

use crate::cost::Part;
use crate::{Error, Result, group_digits};

/// One or several equal matrices.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    pub(super) part: Part,
    /// What it makes: `q`, `kv_a`.
    pub(super) name: &'static str,
    /// Rows and columns.
    pub(super) shape: [u64; 2],
    /// How many there are.
    pub(super) count: u64,
    /// How many a token is multiplied by.
    pub(super) active: u64,
}

impl Matrix {
    pub(super) fn new(part: Part, name: &'static str, rows: u64, columns: u64) -> Self {
        Self { part, name, shape: [rows, columns], count: 1, active: 1 }
    }

    pub(super) fn projection(name: &'static str, rows: u64, columns: u64) -> Self {
        Self::new(Part::Projections, name, rows, columns)
    }

    pub(super) fn times(self, count: u64, active: u64) -> Self {
        Self { count, active, ..self }
    }

    /// Whether it makes what is kept, so that a layer with another layer's cache lacks it.
    pub(super) fn makes_state(&self) -> bool {
        matches!(self.name, "k" | "v" | "kv_a")
    }

    fn of(&self, count: u64) -> Option<u64> {
        self.shape[0].checked_mul(self.shape[1])?.checked_mul(count)
    }

    pub(super) fn parameters(&self) -> Result<u64> {
        self.of(self.count).ok_or_else(overflow)
    }

    pub(super) fn active_parameters(&self) -> Result<u64> {
        self.of(self.active).ok_or_else(overflow)
    }

    /// `gate, up and down 256 × 7,168 × 6,144`
    pub(super) fn words(&self, text: &mut String) {
        if !text.is_empty() {
            text.push_str(" + ");
        }
        text.push_str(self.name);
        text.push(' ');
        if self.count != 1 {
            let _ = write!(text, "{} × ", group_digits(self.count));
        }
        let [rows, columns] = self.shape.map(group_digits);
        let _ = write!(text, "{rows} × {columns}");
    }
}

pub(super) fn overflow() -> Error {
    Error::overflow("parameters")
}
