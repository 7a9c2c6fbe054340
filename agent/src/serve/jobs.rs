//! `/api/v1/jobs`: runs that are asked for, watched and cancelled.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use kvscope_protocol::job::Job;

use super::Shared;
use super::api::Problem;
use crate::jobs::{self, JobError, JobRequest, Jobs};

/// A browser whose stream has ended asks again after so long.
const RETRY: Duration = Duration::from_secs(1);

impl From<JobError> for Problem {
    fn from(error: JobError) -> Self {
        let (status, code) = match error {
            JobError::Request(_) => (StatusCode::BAD_REQUEST, "bad_input"),
            JobError::Full => (StatusCode::SERVICE_UNAVAILABLE, "full"),
            JobError::Closing => (StatusCode::SERVICE_UNAVAILABLE, "closing"),
            JobError::Unknown(_) => (StatusCode::NOT_FOUND, "unknown_job"),
        };
        Self::new(status, code, error.to_string())
    }
}

/// All jobs as they are; for who asks for events, each of them now and whenever it changes.
pub(super) async fn list(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|types| types.to_str().ok()).unwrap_or_default();
    if !accepted.contains("text/event-stream") {
        return Json(shared.jobs.list()).into_response();
    }
    Sse::new(follow_all(shared.jobs.clone())).keep_alive(KeepAlive::default()).into_response()
}

fn follow_all(jobs: Jobs) -> impl Stream<Item = Result<Event, Infallible>> {
    let watching = WatchingAll { changes: jobs.changes(), jobs, sent: Vec::new() };
    stream::unfold(watching, |mut watching| async move {
        let job = watching.next().await?;
        let sent = Event::default().retry(RETRY).json_data(job).ok()?;
        Some((Ok(sent), watching))
    })
}

struct WatchingAll {
    jobs: Jobs,
    changes: tokio::sync::watch::Receiver<u64>,
    /// Every job as it was sent last.
    sent: Vec<Job>,
}

impl WatchingAll {
    /// The next job that is not as it was sent, the oldest first; none when the agent ends.
    async fn next(&mut self) -> Option<Job> {
        loop {
            self.changes.borrow_and_update();
            let jobs = self.jobs.list();
            self.sent.retain(|sent| jobs.iter().any(|job| job.job == sent.job));
            if let Some(job) = jobs.into_iter().rev().find(|job| !self.sent.contains(job)) {
                self.sent.retain(|sent| sent.job != job.job);
                self.sent.push(job.clone());
                return Some(job);
            }
            if self.jobs.is_closed() {
                return None;
            }
            self.changes.changed().await.ok()?;
        }
    }
}

pub(super) async fn start(
    State(shared): State<Arc<Shared>>,
    request: Result<Json<JobRequest>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(request) =
        request.map_err(|error| Problem::new(error.status(), "bad_input", error.body_text()))?;
    let jobs = shared.jobs.clone();
    // Reading a stored run or a config may take a while.
    let started = tokio::task::spawn_blocking(move || jobs.start(&request)).await;
    let job = started.unwrap_or(Err(JobError::Closing))?;
    Ok((StatusCode::ACCEPTED, Json(job)).into_response())
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(job): Path<String>,
) -> Result<Json<Job>, Problem> {
    Ok(Json(shared.jobs.find(&job)?))
}

pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path(job): Path<String>,
) -> Result<Json<Job>, Problem> {
    Ok(Json(shared.jobs.cancel(&job)?))
}

/// The events of a job after the one that `Last-Event-ID` names, each the whole job, until it ends.
pub(super) async fn events(
    State(shared): State<Arc<Shared>>,
    Path(job): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    shared.jobs.find(&job)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok()).unwrap_or(0);
    let stream = Sse::new(follow(shared.jobs.clone(), job, last));
    Ok(stream.keep_alive(KeepAlive::default()).into_response())
}

fn follow(jobs: Jobs, job: String, last: u64) -> impl Stream<Item = Result<Event, Infallible>> {
    let watching = Watching { changes: jobs.changes(), jobs, job, last, waiting: VecDeque::new() };
    stream::unfold(watching, |mut watching| async move {
        let event = watching.next().await?;
        let sent = Event::default().id(event.id.to_string()).retry(RETRY).data(event.job);
        Some((Ok(sent), watching))
    })
}

struct Watching {
    jobs: Jobs,
    job: String,
    last: u64,
    changes: tokio::sync::watch::Receiver<u64>,
    waiting: VecDeque<jobs::Event>,
}

impl Watching {
    /// The next event, as soon as there is one; none after the last.
    async fn next(&mut self) -> Option<jobs::Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                self.last = event.id;
                return Some(event);
            }
            self.changes.borrow_and_update();
            let (events, goes_on) = self.jobs.events_after(&self.job, self.last).ok()?;
            self.waiting.extend(events);
            if !self.waiting.is_empty() {
                continue;
            }
            if !goes_on {
                return None;
            }
            self.changes.changed().await.ok()?;
        }
    }
}
