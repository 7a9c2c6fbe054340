//! Every case of the four case files: public reports, and answers of the engines' own planners.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::cases::run_cases;

fn passes(name: &str, text: &str, rows: usize) {
    let outcomes = run_cases(text);
    assert_eq!(outcomes.len(), rows, "{name}: rows");
    let failing: Vec<String> = outcomes
        .iter()
        .filter(|outcome| !outcome.ok && !outcome.unverified)
        .map(|outcome| {
            format!("{}: got {}, expected {}: {}", outcome.id, outcome.got, outcome.expected, outcome.detail)
        })
        .collect();
    assert!(failing.is_empty(), "{name}: {} cases fail\n{}", failing.len(), failing.join("\n"));
}

#[test]
fn public_reports() {
    passes("public-a", include_str!("data/cases/public-a.jsonl"), 44);
}

#[test]
fn answers_of_vllms_planner() {
    passes("run-vllm-a", include_str!("data/cases/run-vllm-a.jsonl"), 230);
}

#[test]
fn answers_of_sglangs_planner() {
    passes("run-sglang-a", include_str!("data/cases/run-sglang-a.jsonl"), 34);
}

#[test]
fn answers_of_llama_cpps_planner() {
    passes("run-llamacpp-a", include_str!("data/cases/run-llamacpp-a.jsonl"), 40);
}

/// Rows of our own, made by running SGLang (see the README beside them): those that once failed first.
#[test]
fn answers_of_sglangs_own_configurators() {
    passes("oracle-sglang", include_str!("data/cases/oracle-sglang.jsonl"), 156);
}

/// Rows of our own, made by running vLLM (see the README beside them): those that once failed first.
#[test]
fn answers_of_vllms_own_classes() {
    passes("oracle-vllm", include_str!("data/cases/oracle-vllm.jsonl"), 425);
}
