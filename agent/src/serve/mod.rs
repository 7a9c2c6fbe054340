//! The HTTP side: the embedded explorer and `/api/v1`, on the loopback address only.

mod api;
mod guard;
mod jobs;
mod plans;
mod runs;
mod site;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::middleware;
use axum::routing::any;
use kvscope_protocol::job::Job;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::bench::Store;
use crate::failure::Failure;
use crate::input::reason;
use crate::jobs::Jobs;
use crate::output;

/// What every handler may use.
#[derive(Debug)]
struct Shared {
    store: Store,
    jobs: Jobs,
    /// Whose turn it is to replay a trace, which takes seconds.
    replaying: Arc<Semaphore>,
    /// Hosts under which this server may be addressed.
    hosts: guard::Hosts,
}

/// Serves until the process is asked to stop.
pub(crate) fn run(port: u16, store: Store) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::check(format!("the server's threads did not start: {error}")))?;
    runtime.block_on(serve(port, store))
}

async fn serve(port: u16, store: Store) -> Result<(), Failure> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::input(format!("{address}: {}; choose another with --port", reason(&error)))
    })?;
    let address = listener.local_addr().map_err(|error| Failure::check(format!("{address}: {error}")))?;
    output::figures(&format!("explorer and API on http://{address}/\n"))?;
    if !site::is_embedded() {
        output::warning("this binary holds no explorer; build it with `cargo xtask serve`. The API works");
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::check(format!("this program's own file is not known: {error}")))?;
    let jobs = Jobs::new(store.clone(), program)
        .map_err(|error| Failure::check(format!("the queue's thread did not start: {error}")))?;
    let closing = jobs.clone();
    let stop = async move {
        stop_signal().await;
        // Open streams of events would keep the server from ending.
        closing.close();
    };
    let served =
        axum::serve(listener, router(store, jobs.clone(), address)).with_graceful_shutdown(stop).await;
    let patience = Instant::now() + Duration::from_secs(1);
    while jobs.list().iter().any(Job::is_live) && Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    served.map_err(|error| Failure::check(format!("{address}: {error}")))
}

/// The routes of the API, which are checked against the OpenAPI document, and the explorer's files.
fn router(store: Store, jobs: Jobs, address: SocketAddr) -> Router {
    let shared = Arc::new(Shared {
        store,
        jobs,
        replaying: Arc::new(Semaphore::new(1)),
        hosts: guard::Hosts::of(address),
    });
    api::routes()
        .fold(Router::new(), |router, (path, answer)| router.route(path, answer))
        .route("/api/{*rest}", any(api::unknown))
        .fallback(site::file)
        .method_not_allowed_fallback(api::other_method)
        .layer(middleware::from_fn_with_state(shared.clone(), guard::check))
        .with_state(shared)
}

async fn stop_signal() {
    // Without a handler the process is simply ended by the signal.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod plan_bad_input;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod tests;
