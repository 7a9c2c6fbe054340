//! `/api/v1/plan/…`: what `kvscope plan … --json` prints, read and answered by the same functions.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

use super::Shared;
use super::api::Problem;
use crate::cli::{AroundPlan, answer_plan};
use crate::input::Files;

/// A trace that is sent is no larger than this; a million requests of the usual shape are about 200 MB.
const LARGEST_TRACE: usize = 256 << 20;
/// Made requests of one replay, which takes seconds.
const MOST_MADE_REQUESTS: u64 = 1_000_000;
/// The plan that takes seconds: one goes on at a time, and a page of another site, which cannot post here, cannot ask for it.
const SLOW: &str = "simulate";

/// A path for each plan.
pub(super) fn routes() -> impl Iterator<Item = (&'static str, MethodRouter<Arc<Shared>>)> {
    const PATHS: [(&str, &str); 9] = [
        ("/api/v1/plan/capacity", "capacity"),
        ("/api/v1/plan/compress", "compress"),
        ("/api/v1/plan/cost", "cost"),
        ("/api/v1/plan/handover", "handover"),
        ("/api/v1/plan/hardware", "hardware"),
        ("/api/v1/plan/label", "label"),
        ("/api/v1/plan/offload", "offload"),
        ("/api/v1/plan/prefix", "prefix"),
        ("/api/v1/plan/simulate", SLOW),
    ];
    PATHS.into_iter().map(|(path, name)| (path, methods(name)))
}

fn methods(name: &'static str) -> MethodRouter<Arc<Shared>> {
    let asked = move |State(shared): State<Arc<Shared>>, query: Asked| async move {
        answer(shared, name, query, Bytes::new()).await
    };
    let sent = move |State(shared): State<Arc<Shared>>, query: Asked, body: Sent| async move {
        let body = body.map_err(|error| Problem::new(error.status(), "bad_input", error.body_text()))?;
        answer(shared, name, query, body).await
    };
    match name {
        SLOW => post(sent).layer(DefaultBodyLimit::max(LARGEST_TRACE)),
        "hardware" => get(asked),
        _ => get(asked).post(sent),
    }
}

type Asked = Result<Query<Vec<(String, String)>>, QueryRejection>;
type Sent = Result<Bytes, BytesRejection>;

async fn answer(
    shared: Arc<Shared>,
    name: &'static str,
    query: Asked,
    body: Bytes,
) -> Result<Response, Problem> {
    let Query(pairs) = query?;
    let turn = if name == SLOW { shared.replaying.clone().acquire_owned().await.ok() } else { None };
    let answered = tokio::task::spawn_blocking(move || {
        let around = AroundPlan {
            files: Files::OfRequest(&body),
            runs: Some(shared.store.clone()),
            most_made_requests: MOST_MADE_REQUESTS,
        };
        let answered = answer_plan(name, &pairs, &around);
        drop(turn);
        answered
    });
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the plan was not finished");
    let json = answered.await.map_err(failed)??;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}
