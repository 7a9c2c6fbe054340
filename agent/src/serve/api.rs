//! The handlers of `/api/v1`. Each calls what the command line calls.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use kvscope_sizing::{Settings, Size, StateModel, Tokens, catalogue, find_entry};
use serde::{Deserialize, Serialize};

use super::Shared;
use crate::batch;
use crate::bench::BenchError;
use crate::failure::Failure;

/// The description of this API, checked in and served as it is.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// Every path of the API, as the description names them, with what answers it.
pub(super) fn routes() -> [(&'static str, MethodRouter<Arc<Shared>>); 6] {
    [
        ("/api/v1/health", get(health)),
        ("/api/v1/models", get(models)),
        ("/api/v1/openapi.json", get(openapi)),
        ("/api/v1/runs", get(runs)),
        ("/api/v1/runs/{run}", get(run)),
        ("/api/v1/size", get(size)),
    ]
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

impl From<BenchError> for Problem {
    fn from(error: BenchError) -> Self {
        let status = match error {
            BenchError::UnknownRun(_) => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(
            status,
            if status == StatusCode::NOT_FOUND { "unknown_run" } else { "store" },
            error.to_string(),
        )
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

/// The query of `/api/v1/size`: the options of `kvscope size` for one model and context. An option that only an engine
/// accounts for is refused, as every other name that is not here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SizeQuery {
    model: String,
    context: Option<String>,
    batch: Option<String>,
    kv_dtype: Option<String>,
    index_dtype: Option<String>,
    state_dtype: Option<String>,
}

pub(super) async fn size(query: Result<Query<SizeQuery>, QueryRejection>) -> Result<Json<Size>, Problem> {
    let Query(query) = query?;
    let mut settings = Settings::default();
    let named = [
        ("kv_dtype", query.kv_dtype),
        ("index_dtype", query.index_dtype),
        ("state_dtype", query.state_dtype),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            settings.set(name, &value)?;
        }
    }
    let entry = find_entry(&query.model)?;
    let context = query.context.map(|text| text.parse::<Tokens>()).transpose()?;
    let batch = query.batch.as_deref().map_or(Ok(1), batch::read)?;
    let state = StateModel::new(&entry.architecture()?, &settings)?;
    Ok(Json(state.size(&entry.id, context, batch, &settings)?))
}

pub(super) async fn runs(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    Ok(Json(shared.store.list()?).into_response())
}

pub(super) async fn run(
    State(shared): State<Arc<Shared>>,
    Path(run): Path<String>,
) -> Result<Response, Problem> {
    Ok(Json(shared.store.show(&run)?.run).into_response())
}

pub(super) async fn unknown(Path(rest): Path<String>) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", format!("no path /api/{rest}; see /api/v1/openapi.json"))
}
