//! The plans over HTTP: the figures of the command line, and what a request may not ask.

use serde_json::{Value, json};

use super::api;
use super::tests::{Server, ask, body, description, schema, send, start, undescribed_fields};
use crate::cli::plan_options;

/// What lets a request send a body.
const OWN: &str = "X-Kvscope: 1\r\n";

/// Plans with a question each that they answer.
const QUESTIONS: [(&str, &str); 9] = [
    ("capacity", "model=qwen3-8b&gpu=h200&context=32Ki&mix=4Ki,16Ki&price=2"),
    ("compress", "model=qwen3-8b&bandwidth=1GB/s"),
    ("cost", "model=deepseek-v3.2&context=1M&weight_dtype=fp8&flop_weights=fp8"),
    ("handover", "model=minimax-m2.5&gpu=h200&context=32Ki&prefill_seconds=1.11&link=ethernet-100g"),
    ("hardware", ""),
    ("label", "model=deepseek-v3.2&model=qwen3.5-397b-a17b&gpu=h200"),
    ("offload", "model=qwen3-8b&gpu=h200&block_size=64"),
    ("prefix", "model=qwen3.5-9b&first=979&engine=vllm@0.19"),
    ("simulate", "model=qwen3.5-9b&synthetic=50&tier=gpu%3D2GB&prefill_rate=1000&decode_rate=50"),
];

fn get(server: &Server, plan: &str, query: &str) -> (u16, Value) {
    let path = format!("/api/v1/plan/{plan}?{query}");
    let (status, answer) = ask(server, "GET", &path, &server.address.to_string());
    (status, body(&answer))
}

fn post(server: &Server, plan: &str, query: &str, content: &str) -> (u16, Value) {
    let path = format!("/api/v1/plan/{plan}?{query}");
    let (status, answer) = send(server, "POST", &path, &server.address.to_string(), OWN, content);
    (status, body(&answer))
}

fn answered(server: &Server, plan: &str, query: &str) -> Value {
    let (status, answer) =
        if plan == "simulate" { post(server, plan, query, "") } else { get(server, plan, query) };
    assert_eq!(status, 200, "{plan}: {answer}");
    answer
}

/// By hand: 253,952 B × 32,768 tokens; 61 layers × 64 heads × 2 × 128 a key and 1M keys; 528 of 979 tokens (vLLM issue 40696).
#[test]
fn every_plan_answers_the_figures_of_the_command_line() {
    let server = start();
    let all: Vec<Value> = QUESTIONS.iter().map(|(plan, query)| answered(&server, plan, query)).collect();
    assert_eq!(all[3]["at"][0]["payload_bytes"], 253_952_u64 * 32_768);
    let rows = all[2]["decode"]["rows"].as_array().unwrap();
    let indexer: u64 =
        rows.iter().filter(|row| row["part"] == "indexer").filter_map(|row| row["flops"].as_u64()).sum();
    assert_eq!(indexer, 2 * 64 * 128 * 1_000_000 * 61);
    assert_eq!(all[5].as_array().map(Vec::len), Some(2));
    assert_eq!(all[6][0]["block_tokens"], 64);
    assert_eq!(all[7][0]["rules"][0]["hit_tokens"], 528);
    assert_eq!(all[8][0]["requests"], 50);
}

#[test]
fn what_a_file_holds_is_sent_as_the_body() {
    let server = start();
    let entry = kvscope_sizing::find_entry("qwen3-8b").unwrap();
    let by_id = answered(&server, "cost", "model=qwen3-8b&context=4096");
    let (status, sent) = post(&server, "cost", "model=-&context=4096", &entry.config.to_string());
    assert_eq!((status, &sent["decode"]["flops"]), (200, &by_id["decode"]["flops"]), "{sent}");
    let query = "model=llama-3.1-8b&gpu=h100&mix=-";
    let (status, mixed) = post(&server, "capacity", query, "4096\n12288\n");
    assert_eq!((status, &mixed["mix"]["mean_tokens"]), (200, &json!(8192.0)), "{mixed}");
    let trace = r#"{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [7]}"#;
    let trace = format!("{trace}\n{trace}\n");
    let (status, replayed) = post(&server, "simulate", "model=qwen3-8b&trace=-&tier=gpu%3D2blocks", &trace);
    assert_eq!((status, &replayed[0]["lru"]["hit_blocks"]), (200, &json!(1)), "{replayed}");
}

#[test]
fn a_bad_question_is_answered_in_one_sentence() {
    let server = start();
    for (plan, query, sentence) in [
        ("capacity", "model=qwen3-8b", "the following required arguments were not provided: --gpu"),
        ("capacity", "model=qwen3-8b&gpu=h200&colour=red", "colour: unknown option; known: model, context, "),
        (
            "capacity",
            "model=qwen3-8b&gpu=h200&gpu=h100",
            "the argument '--gpu <GPU>' cannot be used multiple times",
        ),
        ("capacity", "model=qwen3-8b&gpu=h200&json=true", "json: unknown option"),
        ("capacity", "model=qwen3-8b&gpu=h200&set=help", "set: give NAME=VALUE"),
        (
            "capacity",
            "model=qwen3-8b&gpu=h200&mix=/etc/hostname",
            "mix: /etc/hostname: a request names no file",
        ),
        ("offload", "model=qwen3-8b&tflops=1&batch=8", "batch: unknown option; known: model, context, "),
        ("cost", "model=/etc/hostname", "/etc/hostname: no such file, and"),
        ("cost", "model=qwen3-8b&strict=yes", "strict: \"yes\" is not true"),
        ("cost", "model=qwen3-8b&tp=2", "tp: this command shows what the model"),
        ("cost", "model=-", "the request's body: "),
        (
            "handover",
            "model=qwen3-8b&gpu=h200&bandwidth=0&context=1000",
            "qwen3-8b: bandwidth: 0 a second moves nothing",
        ),
        ("offload", "model=qwen3-8b&tflops=400&measured=a-1", "a-1"),
        ("prefix", "model=qwen3-8b&first_tokens=/etc/hostname&second_tokens=-", "/etc/hostname: a request"),
    ] {
        let (status, problem) = get(&server, plan, query);
        assert_eq!((status, &problem["code"]), (400, &json!("bad_input")), "{plan}?{query}: {problem}");
        let message = problem["message"].as_str().unwrap();
        assert!(message.contains(sentence) && !message.contains('\n'), "{plan}?{query}: {message}");
    }
    let (status, problem) = post(&server, "simulate", "model=qwen3-8b&synthetic=2M&tier=g%3D1GB", "");
    assert_eq!(
        (status, &problem["message"]),
        (400, &json!("synthetic: 2,000,000 requests are more than 1,000,000"))
    );
}

/// A page of another site can make a browser send GET, but neither the header nor a body of its own.
#[test]
fn what_takes_seconds_is_not_asked_by_pages_of_other_sites() {
    let server = start();
    let (status, _) = get(&server, "simulate", "model=qwen3-8b&synthetic=50&tier=g%3D1GB");
    assert_eq!(status, 405);
    let path = "/api/v1/plan/simulate?model=qwen3-8b&synthetic=50&tier=g%3D1GB";
    assert_eq!(send(&server, "POST", path, &server.address.to_string(), "", "").0, 403);
}

#[test]
fn the_description_has_every_option_with_its_help() {
    let document = description();
    for (plan, _) in QUESTIONS {
        let path = &document["paths"][format!("/api/v1/plan/{plan}")];
        let described = path["parameters"].as_array().cloned().unwrap_or_default();
        let described: Vec<(String, String, bool)> = described
            .iter()
            .map(|row| {
                let text = |key: &str| row[key].as_str().unwrap().to_owned();
                (text("name"), text("description"), row["required"].as_bool().unwrap())
            })
            .collect();
        assert_eq!(described, plan_options(plan), "{plan}");
    }
    assert_eq!(api::routes().filter(|(path, _)| path.starts_with("/api/v1/plan/")).count(), QUESTIONS.len());
}

#[test]
fn the_description_s_schemas_hold_for_the_plans() {
    let server = start();
    for (plan, query) in QUESTIONS {
        let method = if plan == "simulate" { "post" } else { "get" };
        let schema = schema(&format!("/api/v1/plan/{plan}"), method, "200");
        let answer = answered(&server, plan, query);
        let faults: Vec<String> = jsonschema::validator_for(&schema)
            .unwrap()
            .iter_errors(&answer)
            .map(|fault| fault.to_string())
            .collect();
        assert!(faults.is_empty(), "{plan}: {faults:?}");
        undescribed_fields(&schema, &schema, &answer, plan);
    }
}
