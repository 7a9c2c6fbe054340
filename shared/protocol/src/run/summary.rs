use kvscope_sizing::record;
use serde::Serialize;

use super::{Ended, LineWarning};

/// A stored run in short: a row of `bench list` and of `GET /api/v1/runs`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// The run's name.
    pub run: String,
    /// When it started, RFC 3339, UTC; `null` where the file is unreadable.
    pub started: Option<String>,
    /// `cpu` or `cuda`; `null` where the file is unreadable.
    pub backend: Option<String>,
    /// How it ended; `null` where the file is unreadable.
    pub ended: Option<Ended>,
    /// Cases in it.
    pub cases: usize,
    /// Cases with a measured figure.
    pub measured: usize,
    /// Damaged lines.
    pub warnings: Vec<LineWarning>,
}

record!(RunSummary { run, started, backend, ended, cases, measured, warnings });

impl RunSummary {
    /// How it ended, and where it is not whole, how many of its points have a figure: `partial: 2 of 8 measured`.
    pub fn state(&self) -> String {
        match self.ended {
            None => "unreadable".to_owned(),
            Some(ended) if self.measured < self.cases => {
                format!("{}: {} of {} measured", ended.word(), self.measured, self.cases)
            }
            Some(ended) => ended.word().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_not_whole_says_how_many_points_it_has() {
        let of = |ended, measured, cases| {
            let (run, warnings) = ("a-1".to_owned(), Vec::new());
            RunSummary { run, started: None, backend: None, ended, cases, measured, warnings }.state()
        };
        assert_eq!(of(Some(Ended::Partial), 0, 8), "partial: 0 of 8 measured");
        assert_eq!(of(Some(Ended::Complete), 8, 8), "complete");
        assert_eq!(of(None, 0, 0), "unreadable");
    }
}
