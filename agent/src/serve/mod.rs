//! The HTTP side: the embedded explorer and `/api/v1`, on the loopback address only.

mod api;
mod guard;
mod site;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::bench::Store;
use crate::failure::Failure;
use crate::input::reason;
use crate::output;

/// What every handler may use.
#[derive(Debug)]
struct Shared {
    store: Store,
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
    axum::serve(listener, router(store, address))
        .with_graceful_shutdown(stop_signal())
        .await
        .map_err(|error| Failure::check(format!("{address}: {error}")))
}

/// The routes of the API, which are checked against the OpenAPI document, and the explorer's files.
fn router(store: Store, address: SocketAddr) -> Router {
    let shared = Arc::new(Shared { store, hosts: guard::Hosts::of(address) });
    api::routes()
        .into_iter()
        .fold(Router::new(), |router, (path, answer)| router.route(path, answer))
        .route("/api/{*rest}", get(api::unknown))
        .fallback(site::file)
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
mod tests;
