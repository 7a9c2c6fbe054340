//! A table of requests and the answers that they must get, over a real socket on the loopback address.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

pub(super) struct Server {
    pub(super) address: SocketAddr,
    folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

pub(super) fn start() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    // Measures nothing and goes on until it is asked to stop.
    let program = folder.path().join("program");
    std::fs::write(&program, "#!/bin/sh\ncat\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let jobs = Jobs::new(store.clone(), program).unwrap();
    runtime.spawn(async move { axum::serve(listener, router(store, jobs, address)).await });
    Server { address, folder, _runtime: runtime }
}

/// Status and body of one request.
pub(super) fn ask(server: &Server, method: &str, path: &str, host: &str) -> (u16, String) {
    send(server, method, path, host, "", "")
}

/// The same with further lines of the head and a body.
pub(super) fn send(
    server: &Server,
    method: &str,
    path: &str,
    host: &str,
    lines: &str,
    content: &str,
) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let length = content.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{lines}\r\n{content}"
    )
    .unwrap();
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
    let rows: [(&str, &str, &str, u16); 18] = [
        ("GET", "/api/v1/health", &own, 200),
        ("GET", "/api/v1/health", &local, 200),
        ("GET", "/api/v1/health", "evil.example", 421),
        ("GET", "/api/v1/health", "127.0.0.1", 421),
        ("GET", "/", "evil.example", 421),
        ("POST", "/api/v1/runs", &own, 403),
        ("DELETE", "/api/v1/runs/x", &own, 403),
        ("DELETE", "/api/v1/jobs/x", &own, 403),
        ("PATCH", "/api/v1/models", &own, 403),
        ("POST", "/", &own, 403),
        ("GET", "/api/v1/runs/..%2F..%2Fetc%2Fpasswd", &own, 404),
        ("GET", "/api/v1/nothing", &own, 404),
        ("GET", "/api/v1/size?model=gpt-5", &own, 400),
        ("GET", "/api/v1/size", &own, 400),
        ("GET", "/api/v1/size?model=kimi-k2.6&engine=ollama", &own, 400),
        ("GET", "/api/v1/size?model=kimi-k2.6&tp=8&tp=4", &own, 400),
        ("GET", "/api/v1/size?model=kimi-k2.6&batch=0", &own, 400),
        ("GET", "/api/v1/size?model=kimi-k2.6&batch=1K", &own, 200),
    ];
    for (method, path, host, status) in rows {
        let (got, answer) = ask(&server, method, path, host);
        assert_eq!(got, status, "{method} {path} for {host}: {answer}");
        assert!(answer.to_lowercase().contains("content-security-policy"), "{path}");
    }
}

const JSON: &str = "Content-Type: application/json\r\nX-Kvscope: 1\r\n";
const JOB: &str = r#"{"forms": ["gqa"], "lengths": ["4Ki"]}"#;

#[test]
fn only_this_server_s_own_page_and_programs_of_this_machine_may_change_something() {
    let server = start();
    let own = server.address.to_string();
    let port = server.address.port();
    for (lines, status) in [
        (String::new(), 202),
        (format!("Origin: http://{own}\r\nSec-Fetch-Site: same-origin\r\n"), 202),
        (format!("Origin: http://localhost:{port}\r\n"), 202),
        (format!("Origin: https://{own}\r\n"), 403),
        ("Origin: http://127.0.0.1:1\r\n".to_owned(), 403),
        ("Origin: null\r\n".to_owned(), 403),
        ("Origin: https://evil.example\r\n".to_owned(), 403),
        ("Sec-Fetch-Site: cross-site\r\n".to_owned(), 403),
        ("Sec-Fetch-Site: same-site\r\n".to_owned(), 403),
    ] {
        let (got, answer) = send(&server, "POST", "/api/v1/jobs", &own, &(JSON.to_owned() + &lines), JOB);
        assert_eq!(got, status, "{lines}: {answer}");
    }
    // What a form of another page can send: no header of its own, and no JSON.
    for lines in ["Content-Type: application/json\r\n", "Content-Type: text/plain\r\n"] {
        assert_eq!(send(&server, "POST", "/api/v1/jobs", &own, lines, JOB).0, 403);
    }
    let plain = "Content-Type: text/plain\r\nX-Kvscope: 1\r\n";
    assert_eq!(send(&server, "POST", "/api/v1/jobs", &own, plain, JOB).0, 415);
    assert_eq!(send(&server, "POST", "/api/v1/jobs", "evil.example", JSON, JOB).0, 421);
    // No other page is told that it may send the header.
    let (_, answer) = send(&server, "OPTIONS", "/api/v1/jobs", &own, "Origin: https://evil.example\r\n", "");
    assert!(!answer.to_lowercase().contains("access-control-allow"), "{answer}");
}

#[test]
fn runs_are_imported_exported_and_deleted_and_none_is_replaced() {
    let server = start();
    let own = server.address.to_string();
    let text = header_of("a-1");
    let import = || send(&server, "POST", "/api/v1/runs", &own, "X-Kvscope: 1\r\n", &text);
    let (status, answer) = import();
    assert_eq!((status, &body(&answer)["run"]), (201, &serde_json::json!("a-1")));
    let (status, answer) = import();
    assert_eq!((status, &body(&answer)["code"]), (409, &serde_json::json!("known_run")));
    let (status, answer) = ask(&server, "GET", "/api/v1/runs/a-1/file", &own);
    assert_eq!((status, answer.split_once("\r\n\r\n").unwrap().1), (200, text.as_str()));
    assert_eq!(send(&server, "POST", "/api/v1/runs", &own, JSON, "hello").0, 400);
    assert_eq!(send(&server, "DELETE", "/api/v1/runs/a-1", &own, JSON, "").0, 204);
    assert_eq!(send(&server, "DELETE", "/api/v1/runs/a-1", &own, JSON, "").0, 404);
}

/// The ids and the states of the events after event `last`.
fn events(server: &Server, job: &str, last: u64) -> Vec<(u64, String)> {
    let lines = format!("Last-Event-ID: {last}\r\n");
    let (status, answer) =
        send(server, "GET", &format!("/api/v1/jobs/{job}/events"), &server.address.to_string(), &lines, "");
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("text/event-stream"), "{answer}");
    let ids = answer.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok());
    let data = answer.lines().filter_map(|line| {
        let job: serde_json::Value = serde_json::from_str(line.strip_prefix("data: ")?).unwrap();
        Some(job["state"].as_str().unwrap().to_owned())
    });
    ids.zip(data).collect()
}

#[test]
fn a_job_is_watched_to_its_end_and_its_events_are_sent_again_from_the_last_that_was_seen() {
    let server = start();
    let own = server.address.to_string();
    let (_, answer) = send(&server, "POST", "/api/v1/jobs", &own, JSON, JOB);
    let job = body(&answer)["job"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/jobs/{job}");
    while body(&ask(&server, "GET", &path, &own).1)["state"] != "running" {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::scope(|scope| {
        let watched = scope.spawn(|| events(&server, &job, 0));
        assert_eq!(send(&server, "DELETE", &path, &own, JSON, "").0, 200);
        let states = ["queued", "running", "cancelled"].map(str::to_owned);
        let right: Vec<(u64, String)> = (1..).zip(states).collect();
        assert_eq!(watched.join().unwrap(), right);
        assert_eq!(events(&server, &job, 2), right[2..]);
        assert_eq!(events(&server, &job, 3), []);
        // A number of an agent that has ended means nothing here.
        assert_eq!(events(&server, &job, 99), right);
    });
    let (status, answer) = ask(&server, "GET", "/api/v1/jobs/x/events", &own);
    assert_eq!((status, &body(&answer)["code"]), (404, &serde_json::json!("unknown_job")));
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
    for (query, sentence) in [
        ("context=1K", "model: not given"),
        ("model=kimi-k2.6&model=glm-5.1", "model: given twice; leave one of them out"),
        ("model=kimi-k2.6&tp=8&tp=4", "tp: given twice; leave one of them out"),
        ("model=kimi-k2.6&kv_type=fp8", "kv_type: unknown setting; known: context, batch"),
        ("model=kimi-k2.6&=2", "set: \"=2\" has no name in front of the ="),
        ("model=kimi-k2.6&engine=vllm&tp=0", "tp: 0 is outside 1 to 1024"),
        ("model=kimi-k2.6&engine=ollama", "engine: unknown engine \"ollama\""),
        ("model=kimi-k2.6&engine=vllm&kv_dtype=q8_0", "kv_dtype: q8_0"),
    ] {
        let (status, problem) = size(query);
        assert_eq!((status, &problem["code"]), (400, &serde_json::json!("bad_input")), "{problem}");
        assert!(problem["message"].as_str().unwrap().starts_with(sentence), "{problem}");
    }
    for (query, sentence) in [
        ("a=a-1", "b: not given; add b=RUN, see /api/v1/runs"),
        ("", "a: not given; add a=RUN"),
        ("a=a-1&b=a-1&c=1", "\"c\": unknown parameter; give a and b alone"),
        ("a=a-1&a=a-2", "a: given twice; leave one of them out"),
    ] {
        let path = format!("/api/v1/compare?{query}");
        let (status, answer) = ask(&server, "GET", &path, &server.address.to_string());
        let problem = body(&answer);
        assert_eq!((status, &problem["code"]), (400, &serde_json::json!("bad_input")), "{problem}");
        assert!(problem["message"].as_str().unwrap().starts_with(sentence), "{problem}");
    }
    // 1,000 requests of 1,000 tokens × 61 × 576 × 2 B.
    let (_, sized) = size("model=kimi-k2.6&context=1000&batch=1K");
    assert_eq!(sized["resident_bytes"], 70_272_000_000_u64);
}

/// GLM-4.5, 92 layers of 8 heads, 2 × 128 values of 2 bytes: on one of 8 ranks one head, and 100,001 tokens in blocks of
/// 16 are 6,251 blocks. 92 × 6,251 × 16 × 1 × 256 × 2 B.
#[test]
fn the_api_answers_for_an_engine_and_its_settings() {
    let server = start();
    let path = "/api/v1/size?model=glm-4.5&context=100001&engine=vllm@0.33&tp=8&block_size=16";
    let (status, answer) = ask(&server, "GET", path, &server.address.to_string());
    let sized = body(&answer);
    assert_eq!((status, &sized["engine"]), (200, &serde_json::json!("vllm@0.33")), "{sized}");
    assert_eq!(sized["resident_bytes"], 92 * 6_251 * 16 * 256 * 2_u64);
    assert_eq!(sized["settings"], serde_json::json!({"tp": 8, "block_size": 16}));
    // The whole model, dense.
    assert_eq!(sized["logical"]["resident_bytes"], 92 * 100_001 * 8 * 256 * 2_u64);
}

#[test]
fn the_description_names_every_setting() {
    let document = description();
    let parameters = document["paths"]["/api/v1/size"]["get"]["parameters"].as_array().unwrap();
    let named: Vec<&str> = parameters.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(named[..4], ["model", "context", "batch", "engine"]);
    let settings = kvscope_sizing::Settings::NAMES.iter().copied();
    let settings: Vec<&str> = settings.filter(|name| !matches!(*name, "context" | "batch")).collect();
    assert_eq!(named[4..], settings);
}

#[test]
fn the_description_names_exactly_the_routes() {
    let document = description();
    let mut described: Vec<&str> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    described.sort_unstable();
    let mut routed: Vec<&str> = api::routes().map(|(path, _)| path).collect();
    routed.sort_unstable();
    assert_eq!(described, routed);
}

#[test]
fn the_description_names_exactly_the_methods() {
    let server = start();
    let document = description();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "delete", "put", "patch"] {
            let asked = path.replace(['{', '}'], "");
            let (status, answer) =
                send(&server, &method.to_uppercase(), &asked, &server.address.to_string(), JSON, "");
            assert_eq!(methods[method].is_null(), status == 405, "{method} {path}: {answer}");
        }
    }
}

/// Reads events of all jobs until one is of `job` and in this state.
fn until_told(stream: &mut impl std::io::BufRead, job: &str, state: &str) {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before {state}");
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let told: serde_json::Value = serde_json::from_str(data).unwrap();
        if told["job"] == job && told["state"] == state {
            return;
        }
    }
}

#[test]
fn who_watches_all_jobs_learns_at_once_of_one_that_another_started() {
    let server = start();
    let own = server.address.to_string();
    let watch = || {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "GET /api/v1/jobs HTTP/1.1\r\nHost: {own}\r\nAccept: text/event-stream\r\n\r\n")
            .unwrap();
        std::io::BufReader::new(stream)
    };
    let mut early = watch();
    let (_, answer) = send(&server, "POST", "/api/v1/jobs", &own, JSON, JOB);
    let job = body(&answer)["job"].as_str().unwrap().to_owned();
    until_told(&mut early, &job, "running");
    // Who comes later is told what there is.
    let mut late = watch();
    until_told(&mut late, &job, "running");
    assert_eq!(send(&server, "DELETE", &format!("/api/v1/jobs/{job}"), &own, JSON, "").0, 200);
    until_told(&mut early, &job, "cancelled");
    until_told(&mut late, &job, "cancelled");
}

/// Every schema against a live answer, both ways: the answer is valid, and no field of it is left out of the schema.
#[test]
fn the_description_s_schemas_hold_for_the_answers() {
    let server = start();
    store_a_run(&server);
    send(&server, "POST", "/api/v1/jobs", &server.address.to_string(), JSON, JOB);
    for (path, asked, status) in [
        ("/api/v1/health", "/api/v1/health", "200"),
        ("/api/v1/models", "/api/v1/models", "200"),
        ("/api/v1/openapi.json", "/api/v1/openapi.json", "200"),
        ("/api/v1/runs", "/api/v1/runs", "200"),
        ("/api/v1/runs/{run}", "/api/v1/runs/a-1", "200"),
        ("/api/v1/runs/{run}", "/api/v1/runs/b-2", "default"),
        ("/api/v1/compare", "/api/v1/compare?a=a-1&b=a-1", "200"),
        ("/api/v1/jobs", "/api/v1/jobs", "200"),
        ("/api/v1/jobs/{job}", "/api/v1/jobs/x", "default"),
        ("/api/v1/size", "/api/v1/size?model=deepseek-v3.2&context=1K", "200"),
        ("/api/v1/size", "/api/v1/size?model=deepseek-v3.2", "200"),
        ("/api/v1/size", "/api/v1/size?model=deepseek-v3.2&context=1K&tp=8", "200"),
        ("/api/v1/size", "/api/v1/size?model=qwen3.5-27b&context=1K&engine=sglang&tp=2", "200"),
        ("/api/v1/size", "/api/v1/size?model=qwen3.5-27b&engine=vllm&tp=2", "200"),
        ("/api/v1/size", "/api/v1/size?model=deepseek-v3.2&tp=0", "default"),
    ] {
        let (got, answer) = ask(&server, "GET", asked, &server.address.to_string());
        assert_eq!(got == 200, status == "200", "{asked}: {answer}");
        let schema = schema(path, "get", status);
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
pub(super) fn schema(path: &str, method: &str, status: &str) -> serde_json::Value {
    let document = description();
    let mut response = &document["paths"][path][method]["responses"][status];
    if let Some(name) = response["$ref"].as_str() {
        response = document.pointer(name.trim_start_matches('#')).unwrap();
    }
    let mut schema = response["content"]["application/json"]["schema"].clone();
    schema["components"] = document["components"].clone();
    schema
}

/// Goes down as far as the schema names properties.
pub(super) fn undescribed_fields(
    root: &serde_json::Value,
    schema: &serde_json::Value,
    value: &serde_json::Value,
    place: &str,
) {
    let schema = schema["$ref"]
        .as_str()
        .map_or(schema, |name| root.pointer(name.trim_start_matches('#')).expect("a known component"));
    if let Some(kinds) = schema["oneOf"].as_array() {
        let resolved = |kind: &serde_json::Value| {
            let name = kind["$ref"].as_str().expect("kinds are components");
            root.pointer(name.trim_start_matches('#')).expect("a known component").clone()
        };
        let has_all = |kind: &serde_json::Value| {
            kind["required"]
                .as_array()
                .unwrap()
                .iter()
                .all(|name| value.get(name.as_str().unwrap()).is_some())
        };
        let kind = kinds.iter().map(resolved).find(has_all).expect("one of them is the answer's");
        return undescribed_fields(root, &kind, value, place);
    }
    if let Some(first) = value.as_array().and_then(|values| values.first()) {
        undescribed_fields(root, &schema["items"], first, &format!("{place}/0"));
    }
    let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) else { return };
    for (name, field) in fields {
        let described = known.get(name).unwrap_or_else(|| panic!("{place}: {name} is not described"));
        undescribed_fields(root, described, field, &format!("{place}/{name}"));
    }
}

pub(super) fn description() -> serde_json::Value {
    serde_json::from_str(api::OPENAPI).unwrap()
}

pub(super) fn body(answer: &str) -> serde_json::Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn store_a_run(server: &Server) {
    Store::open(server.folder.path()).unwrap().import("a-1.jsonl", &header_of("a-1")).unwrap();
}

/// A run file of which only the header is there.
fn header_of(run: &str) -> String {
    use kvscope_protocol::run::{Header, Line, Machine, PlanRecord, RUN_SCHEMA};
    let header = Line::Header(Box::new(Header {
        run: run.to_owned(),
        schema: RUN_SCHEMA,
        backend: "cpu".to_owned(),
        started: "2026-11-29T15:00:00Z".to_owned(),
        version: None,
        plan: PlanRecord {
            budget_seconds: 30.0,
            forms: vec!["gqa".to_owned()],
            seed: 1,
            ..PlanRecord::default()
        },
        machine: Machine::default(),
        calibration: None,
    }));
    serde_json::to_string(&header).unwrap() + "\n"
}
