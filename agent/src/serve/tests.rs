//! A table of requests and the answers that they must get, over a real socket on the loopback address.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

struct Server {
    address: SocketAddr,
    folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

fn start() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, router(store, address)).await });
    Server { address, folder, _runtime: runtime }
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
    let rows: [(&str, &str, &str, u16); 15] = [
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
        ("GET", "/api/v1/size", &own, 400),
        ("GET", "/api/v1/size?model=kimi-k2.6&engine=vllm", &own, 400),
        ("GET", "/api/v1/size?model=kimi-k2.6&tp=8", &own, 400),
        ("GET", "/api/v1/size?model=kimi-k2.6&batch=0", &own, 400),
        ("GET", "/api/v1/size?model=kimi-k2.6&batch=1K", &own, 200),
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
fn a_bad_query_is_answered_in_json_and_names_the_parameter() {
    let server = start();
    let size = |query: &str| {
        let (status, answer) =
            ask(&server, "GET", &format!("/api/v1/size?{query}"), &server.address.to_string());
        (status, body(&answer))
    };
    for (query, named) in [("model=kimi-k2.6&engine=vllm", "engine"), ("context=1K", "model")] {
        let (status, problem) = size(query);
        assert_eq!((status, &problem["code"]), (400, &serde_json::json!("bad_query")), "{problem}");
        assert!(problem["message"].as_str().unwrap().contains(named), "{problem}");
    }
    // 1,000 requests of 1,000 tokens × 61 × 576 × 2 B.
    let (_, sized) = size("model=kimi-k2.6&context=1000&batch=1K");
    assert_eq!(sized["resident_bytes"], 70_272_000_000_u64);
}

#[test]
fn the_description_names_exactly_the_routes() {
    let document = description();
    let mut described: Vec<&str> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    described.sort_unstable();
    let mut routed = api::routes().map(|(path, _)| path);
    routed.sort_unstable();
    assert_eq!(described, routed);
}

/// Every schema against a live answer, both ways: the answer is valid, and no field of it is left out of the schema.
#[test]
fn the_description_s_schemas_hold_for_the_answers() {
    let server = start();
    store_a_run(&server);
    for (path, asked, status) in [
        ("/api/v1/health", "/api/v1/health", "200"),
        ("/api/v1/models", "/api/v1/models", "200"),
        ("/api/v1/openapi.json", "/api/v1/openapi.json", "200"),
        ("/api/v1/runs", "/api/v1/runs", "200"),
        ("/api/v1/runs/{run}", "/api/v1/runs/a-1", "200"),
        ("/api/v1/runs/{run}", "/api/v1/runs/b-2", "default"),
        ("/api/v1/size", "/api/v1/size?model=deepseek-v3.2&context=1K", "200"),
        ("/api/v1/size", "/api/v1/size?model=deepseek-v3.2", "200"),
        ("/api/v1/size", "/api/v1/size?model=deepseek-v3.2&tp=8", "default"),
    ] {
        let (got, answer) = ask(&server, "GET", asked, &server.address.to_string());
        assert_eq!(got == 200, status == "200", "{asked}: {answer}");
        let schema = schema(path, status);
        let value = body(&answer);
        let faults: Vec<String> = jsonschema::validator_for(&schema)
            .unwrap()
            .iter_errors(&value)
            .map(|fault| fault.to_string())
            .collect();
        assert!(faults.is_empty(), "{asked}: {faults:?}");
        undescribed_fields(&schema, &schema, &value, asked);
    }
}

/// The schema of an answer, with the document's components beside it so that its references resolve.
fn schema(path: &str, status: &str) -> serde_json::Value {
    let document = description();
    let mut response = &document["paths"][path]["get"]["responses"][status];
    if let Some(name) = response["$ref"].as_str() {
        response = document.pointer(name.trim_start_matches('#')).unwrap();
    }
    let mut schema = response["content"]["application/json"]["schema"].clone();
    schema["components"] = document["components"].clone();
    schema
}

/// Goes down as far as the schema names properties.
fn undescribed_fields(
    root: &serde_json::Value,
    schema: &serde_json::Value,
    value: &serde_json::Value,
    place: &str,
) {
    let schema = schema["$ref"]
        .as_str()
        .map_or(schema, |name| root.pointer(name.trim_start_matches('#')).expect("a known component"));
    if let Some(first) = value.as_array().and_then(|values| values.first()) {
        undescribed_fields(root, &schema["items"], first, &format!("{place}/0"));
    }
    let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) else { return };
    for (name, field) in fields {
        let described = known.get(name).unwrap_or_else(|| panic!("{place}: {name} is not described"));
        undescribed_fields(root, described, field, &format!("{place}/{name}"));
    }
}

fn description() -> serde_json::Value {
    serde_json::from_str(api::OPENAPI).unwrap()
}

fn body(answer: &str) -> serde_json::Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn store_a_run(server: &Server) {
    use kvscope_protocol::run::{Header, Line, Machine, PlanRecord, RUN_SCHEMA};
    let header = Line::Header(Box::new(Header {
        run: "a-1".to_owned(),
        schema: RUN_SCHEMA,
        backend: "cpu".to_owned(),
        started: "2026-11-29T15:00:00Z".to_owned(),
        plan: PlanRecord {
            budget_seconds: 30.0,
            forms: vec!["gqa".to_owned()],
            seed: 1,
            fit_half: Vec::new(),
        },
        machine: Machine::default(),
        calibration: None,
    }));
    let text = serde_json::to_string(&header).unwrap() + "\n";
    Store::open(server.folder.path()).unwrap().import("a-1.jsonl", &text).unwrap();
}
