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
    /// Transfers in it.
    pub transfers: usize,
    /// Transfers with a measured figure.
    pub transfers_measured: usize,
    /// Damaged lines.
    pub warnings: Vec<LineWarning>,
}

record!(RunSummary {
    run,
    started,
    backend,
    ended,
    cases,
    measured,
    transfers,
    transfers_measured,
    warnings
});

impl RunSummary {
    /// Cases and transfers.
    pub fn points(&self) -> usize {
        self.cases + self.transfers
    }

    /// Those of them with a figure.
    pub fn points_measured(&self) -> usize {
        self.measured + self.transfers_measured
    }

    /// How it ended, and where it is not whole, how many of its points have a figure: `partial: 2 of 8 measured`.
    pub fn state(&self) -> String {
        let (measured, points) = (self.points_measured(), self.points());
        match self.ended {
            None => "unreadable".to_owned(),
            Some(ended) if measured < points => {
                format!("{}: {measured} of {points} measured", ended.word())
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
        let run = RunSummary {
            run: "a-1".to_owned(),
            started: None,
            backend: None,
            ended: None,
            cases: 8,
            measured: 0,
            transfers: 0,
            transfers_measured: 0,
            warnings: Vec::new(),
        };
        assert_eq!(run.state(), "unreadable");
        let ended = |ended, measured| RunSummary { ended: Some(ended), measured, ..run.clone() };
        assert_eq!(ended(Ended::Partial, 0).state(), "partial: 0 of 8 measured");
        assert_eq!(ended(Ended::Complete, 8).state(), "complete");
        let with_tiers = RunSummary { transfers: 4, transfers_measured: 3, ..ended(Ended::Partial, 8) };
        assert_eq!(with_tiers.state(), "partial: 11 of 12 measured");
    }
}
