//! A static host of the built site: files, a strict content policy, and no agent.

use std::path::PathBuf;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;

use crate::command_line::site;

/// No inline script, nothing from elsewhere: what the agent allows too.
const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; \
                      style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:";

/// Serves the site from a folder below the root, as a project page would be, and gives that folder's address.
///
/// The server lives as long as the test's runtime.
pub async fn start() -> String {
    let folder = site();
    assert!(folder.join("index.html").is_file(), "there is no site yet; run `cargo xtask site`");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("a bound socket").port();
    let router = Router::new().fallback(file).with_state(folder);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://127.0.0.1:{port}/kvscope/")
}

async fn file(State(folder): State<PathBuf>, uri: Uri) -> Response {
    let Some(name) = uri.path().strip_prefix("/kvscope/") else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let name = if name.is_empty() { "index.html" } else { name };
    if name.split('/').any(|part| part == "..") {
        return StatusCode::NOT_FOUND.into_response();
    }
    let Ok(bytes) = std::fs::read(folder.join(name)) else { return StatusCode::NOT_FOUND.into_response() };
    let headers = [(header::CONTENT_TYPE, content_type(name)), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (headers, bytes).into_response()
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "css" => "text/css",
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript",
        "svg" => "image/svg+xml",
        "ttf" => "font/ttf",
        "wasm" => "application/wasm",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}
