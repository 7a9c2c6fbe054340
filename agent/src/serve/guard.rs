//! Who may talk to the server: only pages and programs that address it as this machine's loopback.
//!
//! A same-origin GET carries no Origin, so the Host header is the only defence against a foreign name that resolves to
//! 127.0.0.1 (DNS rebinding). It is compared with a fixed list, never with the Origin.
//!
//! What changes something must besides carry the header [`CHANGES`]. A page of another site cannot send it: a browser asks
//! the server first whether a foreign page may, and this server never says yes. Where the browser says whose page asks, by
//! Origin or Sec-Fetch-Site, that must be this server's own.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::api::Problem;

const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The header that a request which changes something must carry.
pub(super) const CHANGES: &str = "x-kvscope";

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

    fn has_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.has(host))
    }

    /// Why a request that changes something is refused.
    fn refuse(&self, headers: &HeaderMap) -> Option<Problem> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
        let is_foreign = text("origin").is_some_and(|origin| !self.has_origin(origin))
            || text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
        if is_foreign {
            return Some(Problem::new(
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "only this server's own page may change something here",
            ));
        }
        headers.get(CHANGES).is_none().then(|| {
            Problem::new(
                StatusCode::FORBIDDEN,
                "no_header",
                "what changes something needs the header X-Kvscope with any value, which pages of other sites cannot send",
            )
        })
    }
}

/// Refuses foreign hosts, and changes that a foreign page may have asked for, then adds the headers of all answers.
pub(super) async fn check(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let refusal = if !host.is_some_and(|host| shared.hosts.has(host)) {
        Some(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_host",
            "this server answers only on 127.0.0.1 and localhost",
        ))
    } else if matches!(*request.method(), Method::GET | Method::HEAD) {
        None
    } else {
        shared.hosts.refuse(request.headers())
    };
    let mut response = match refusal {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
