//! The files of the explorer, embedded at build time with their brotli forms.

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::api::Problem;

#[cfg(feature = "embed-site")]
#[derive(rust_embed::RustEmbed)]
#[folder = "../target/site"]
struct Files;

/// Whether this binary holds the explorer.
pub(super) fn is_embedded() -> bool {
    cfg!(feature = "embed-site")
}

/// Answers with the file of the path, `/` with the page.
pub(super) async fn file(request: Request) -> Response {
    let path = match request.uri().path().trim_start_matches('/') {
        "" => "index.html",
        path => path,
    };
    let Some((bytes, encoding)) = find(path, Accepted::by(&request)) else {
        return Problem::new(StatusCode::NOT_FOUND, "not_found", format!("no file {path:?} here"))
            .into_response();
    };
    // Names of scripts and modules carry a hash of their content; the page itself must be asked for anew.
    let is_page = content_type(path).starts_with("text/html");
    let cache = if hashed(path) && !is_page { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = (
        [
            (header::CONTENT_TYPE, content_type(path)),
            (header::CACHE_CONTROL, cache),
            (header::VARY, "accept-encoding"),
        ],
        bytes,
    )
        .into_response();
    if let Some(encoding) = encoding {
        response.headers_mut().insert(header::CONTENT_ENCODING, header::HeaderValue::from_static(encoding));
    }
    response
}

/// The forms of a file that a request takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Accepted {
    Brotli,
    PlainOnly,
}

impl Accepted {
    fn by(request: &Request) -> Self {
        let accepted = request.headers().get(header::ACCEPT_ENCODING);
        let codings = accepted.and_then(|value| value.to_str().ok()).unwrap_or("");
        if codings.split(',').any(|coding| coding.trim() == "br") { Self::Brotli } else { Self::PlainOnly }
    }
}

#[cfg(feature = "embed-site")]
fn find(path: &str, accepted: Accepted) -> Option<(Vec<u8>, Option<&'static str>)> {
    if accepted == Accepted::Brotli
        && let Some(file) = Files::get(&format!("{path}.br"))
    {
        return Some((file.data.into_owned(), Some("br")));
    }
    Files::get(path).map(|file| (file.data.into_owned(), None))
}

#[cfg(not(feature = "embed-site"))]
fn find(_: &str, _: Accepted) -> Option<(Vec<u8>, Option<&'static str>)> {
    None
}

/// `name-0123456789abcdef.js`
fn hashed(path: &str) -> bool {
    let stem = path.rsplit('/').next().unwrap_or(path);
    stem.split(['-', '.', '_']).any(|part| part.len() >= 8 && part.chars().all(|c| c.is_ascii_hexdigit()))
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or("") {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "wasm" => "application/wasm",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
