//! `/api/v1/runs`: stored runs, listed, shown, compared, exported, imported and deleted as on the command line.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{QueryRejection, StringRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use kvscope_protocol::run::{Comparison, RunSummary, compare_runs};
use serde::Serialize;

use super::Shared;
use super::api::Problem;
use crate::bench::BenchError;
use crate::failure::Failure;
use crate::given;

/// A run file that is imported is no larger than this.
pub(super) const LARGEST_IMPORT: usize = 64 << 20;

impl From<BenchError> for Problem {
    fn from(error: BenchError) -> Self {
        let (status, code) = match error {
            BenchError::UnknownRun(_) => (StatusCode::NOT_FOUND, "unknown_run"),
            BenchError::KnownRun(_) => (StatusCode::CONFLICT, "known_run"),
            BenchError::Running(_) => (StatusCode::CONFLICT, "running"),
            BenchError::NotARun { .. } => (StatusCode::BAD_REQUEST, "not_a_run"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "store"),
        };
        Self::new(status, code, error.to_string())
    }
}

pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Result<Json<Vec<RunSummary>>, Problem> {
    Ok(Json(shared.store.list()?))
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(run): Path<String>,
) -> Result<Response, Problem> {
    Ok(Json(shared.store.show(&run)?.run).into_response())
}

pub(super) async fn export(
    State(shared): State<Arc<Shared>>,
    Path(run): Path<String>,
) -> Result<Response, Problem> {
    let text = shared.store.text(&run)?;
    // A run that is known has a name of letters, digits and hyphens.
    let name = format!("attachment; filename=\"{run}.jsonl\"");
    let headers =
        [(header::CONTENT_TYPE, "application/x-ndjson".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, text).into_response())
}

/// The name that a run was imported under.
#[derive(Debug, Serialize)]
struct Imported {
    run: String,
}

pub(super) async fn import(
    State(shared): State<Arc<Shared>>,
    text: Result<String, StringRejection>,
) -> Result<Response, Problem> {
    let text = text.map_err(|error| Problem::new(error.status(), "bad_input", error.body_text()))?;
    let run = shared.store.import("the body", &text)?;
    Ok((StatusCode::CREATED, Json(Imported { run })).into_response())
}

pub(super) async fn delete(
    State(shared): State<Arc<Shared>>,
    Path(run): Path<String>,
) -> Result<StatusCode, Problem> {
    shared.store.delete(&run)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn compare(
    State(shared): State<Arc<Shared>>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<Comparison>, Problem> {
    let Query(pairs) = query?;
    let [a, b] = given::options(["a", "b"], &pairs)?;
    let missing = |name| Failure::input(format!("{name}: not given; add {name}=RUN, see /api/v1/runs"));
    let (a, b) = (a.ok_or_else(|| missing("a"))?, b.ok_or_else(|| missing("b"))?);
    Ok(Json(compare_runs(&shared.store.show(a)?.run, &shared.store.show(b)?.run)))
}
