//! Who may talk to the server: only pages and programs that address it as this machine's loopback.
//!
//! A same-origin GET carries no Origin, so the Host header is the only defence against a foreign name that resolves to
//! 127.0.0.1 (DNS rebinding). It is compared with a fixed list, never with the Origin.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::api::Problem;

const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The values of Host that are answered.
#[derive(Debug)]
pub(super) struct Hosts {
    allowed: [String; 3],
}

impl Hosts {
    /// The loopback names with the port of `address`.
    pub(super) fn of(address: SocketAddr) -> Self {
        let port = address.port();
        Self { allowed: ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}")) }
    }

    fn has(&self, host: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
    }
}

/// Refuses foreign hosts and every method that could change something, then adds the headers of all answers.
pub(super) async fn check(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let mut response = if !host.is_some_and(|host| shared.hosts.has(host)) {
        Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_host",
            "this server answers only on 127.0.0.1 and localhost",
        )
        .into_response()
    } else if !matches!(*request.method(), Method::GET | Method::HEAD) {
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "read_only", "only GET is answered").into_response()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
