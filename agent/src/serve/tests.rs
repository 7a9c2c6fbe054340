//! A table of requests and the answers that they must get, over a real socket on the loopback address.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

struct Server {
    address: SocketAddr,
    _folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

fn start() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, router(store, address)).await });
    Server { address, _folder: folder, _runtime: runtime }
}

/// Status and body of one request.
fn ask(server: &Server, method: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

#[test]
fn only_loopback_names_and_reading_are_answered() {
    let server = start();
    let own = server.address.to_string();
    let local = format!("localhost:{}", server.address.port());
    let rows: [(&str, &str, &str, u16); 10] = [
        ("GET", "/api/v1/health", &own, 200),
        ("GET", "/api/v1/health", &local, 200),
        ("GET", "/api/v1/health", "evil.example", 421),
        ("GET", "/api/v1/health", "127.0.0.1", 421),
        ("GET", "/", "evil.example", 421),
        ("POST", "/api/v1/runs", &own, 405),
        ("DELETE", "/api/v1/runs/x", &own, 405),
        ("GET", "/api/v1/runs/..%2F..%2Fetc%2Fpasswd", &own, 404),
        ("GET", "/api/v1/nothing", &own, 404),
        ("GET", "/api/v1/size?model=gpt-5", &own, 400),
    ];
    for (method, path, host, status) in rows {
        let (got, answer) = ask(&server, method, path, host);
        assert_eq!(got, status, "{method} {path} for {host}: {answer}");
        assert!(answer.to_lowercase().contains("content-security-policy"), "{path}");
    }
}

/// 61 × (576 × 2 + 132) × 100,000
#[test]
fn the_api_answers_the_figures_of_the_command_line() {
    let server = start();
    let (status, answer) =
        ask(&server, "GET", "/api/v1/size?model=deepseek-v3.2&context=100K", &server.address.to_string());
    assert_eq!(status, 200);
    assert!(answer.contains("\"resident_bytes\":7832400000"), "{answer}");
}

#[test]
fn the_description_names_exactly_the_routes() {
    let document: serde_json::Value = serde_json::from_str(api::OPENAPI).unwrap();
    let mut paths: Vec<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    paths.sort_unstable();
    assert_eq!(paths, api::ROUTES);
    let server = start();
    for path in api::ROUTES {
        let (status, answer) =
            ask(&server, "GET", &path.replace("{run}", "unknown"), &server.address.to_string());
        assert!(!answer.contains("\"not_found\""), "{path}: {status}");
    }
}
