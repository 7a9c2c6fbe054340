//! The handlers of `/api/v1`. Each calls what the command line calls.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Path, Query};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use kvscope_sizing::engine::{Engine, EngineKind, EngineSize, size_in_engine};
use kvscope_sizing::plan::Subject;
use kvscope_sizing::{Size, StateModel, Tokens, catalogue, find_entry};
use serde::Serialize;

use super::{Shared, jobs, plans, runs};
use crate::batch;
use crate::failure::Failure;
use crate::given;

/// The description of this API, checked in and served as it is.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// Every path of the API, as the description names them, with what answers it.
pub(super) fn routes() -> impl Iterator<Item = (&'static str, MethodRouter<Arc<Shared>>)> {
    let own = [
        ("/api/v1/compare", get(runs::compare)),
        ("/api/v1/health", get(health)),
        ("/api/v1/jobs", get(jobs::list).post(jobs::start)),
        ("/api/v1/jobs/{job}", get(jobs::show).delete(jobs::cancel)),
        ("/api/v1/jobs/{job}/events", get(jobs::events)),
        ("/api/v1/models", get(models)),
        ("/api/v1/openapi.json", get(openapi)),
        (
            "/api/v1/runs",
            get(runs::list).post(runs::import).layer(DefaultBodyLimit::max(runs::LARGEST_IMPORT)),
        ),
        ("/api/v1/runs/{run}", get(runs::show).delete(runs::delete)),
        ("/api/v1/runs/{run}/file", get(runs::export)),
        ("/api/v1/size", get(size)),
    ];
    own.into_iter().chain(plans::routes())
}

/// An error as every path answers it.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// A stable word for programs.
    code: &'static str,
    /// One sentence for people.
    message: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}

impl From<kvscope_sizing::Error> for Problem {
    fn from(error: kvscope_sizing::Error) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_input", error.to_string())
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_input", failure.to_string())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_query", rejection.body_text())
    }
}

/// What the page asks first, to know that an agent is there and which.
#[derive(Debug, Serialize)]
pub(super) struct Health {
    name: &'static str,
    version: &'static str,
    api: u32,
}

pub(super) async fn health() -> Json<Health> {
    Json(Health { name: "kvscope", version: env!("CARGO_PKG_VERSION"), api: 1 })
}

pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI)
}

#[derive(Debug, Serialize)]
pub(super) struct ModelRow {
    model: &'static str,
    name: &'static str,
    family: &'static str,
    vendor: &'static str,
    previous: Option<&'static str>,
    released: Option<&'static str>,
    confidence: &'static str,
}

pub(super) async fn models() -> Json<Vec<ModelRow>> {
    let row = |entry: &'static kvscope_sizing::CatalogueEntry| ModelRow {
        model: &entry.id,
        name: &entry.name,
        family: &entry.family,
        vendor: &entry.vendor,
        previous: entry.previous.as_deref(),
        released: entry.released.as_deref(),
        confidence: &entry.confidence,
    };
    Json(catalogue().iter().map(row).collect())
}

/// What `/api/v1/size` answers: an object of `kvscope size --json`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Logical(Box<Size>),
    InEngine(Box<EngineSize>),
}

/// The options of `kvscope size` for one model and context: `model`, `context`, `batch`, `engine`, and every setting by its
/// name.
pub(super) async fn size(
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<Answer>, Problem> {
    let Query(pairs) = query?;
    let mut options: [(&str, Option<&str>); 4] =
        ["model", "context", "batch", "engine"].map(|name| (name, None));
    let mut settings = Vec::new();
    for (name, value) in &pairs {
        match options.iter_mut().find(|(known, _)| known == name) {
            Some((_, Some(_))) => return Err(given::twice(name).into()),
            Some((_, option)) => *option = Some(value),
            None => settings.push((name.as_str(), value.as_str())),
        }
    }
    let [model, context, batch, engine] = options.map(|(_, value)| value);
    let settings = given::settings(settings)?;
    let model = model.ok_or_else(|| Failure::input("model: not given; add model=ID, see /api/v1/models"))?;
    let entry = find_entry(model)?;
    let context = context.map(str::parse::<Tokens>).transpose()?;
    let batch = batch.map_or(Ok(1), batch::read)?;
    let engine = engine.map_or(Ok(Engine::newest(EngineKind::Logical)), str::parse)?;
    let architecture = entry.architecture()?;
    if engine.is_dense(&settings) {
        let state = StateModel::new(&architecture, &settings)?;
        let size = state.size(&entry.id, context, batch, &settings)?;
        return Ok(Json(Answer::Logical(Box::new(size.with_work(&Subject::of(entry, &architecture))))));
    }
    let size = size_in_engine(&entry.id, &architecture, &engine, context, batch, &settings)?;
    Ok(Json(Answer::InEngine(Box::new(size))))
}

pub(super) async fn unknown(Path(rest): Path<String>) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", format!("no path /api/{rest}; see /api/v1/openapi.json"))
}

pub(super) async fn other_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "other_method",
        "this path does not take that method; see /api/v1/openapi.json",
    )
}
