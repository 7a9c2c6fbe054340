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
