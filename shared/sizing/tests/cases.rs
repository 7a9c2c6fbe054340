//! Every case of the case files: public reports, and answers of the engines' own planners.

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

/// Reports of our own gathering, each with its source: those that once failed first.
#[test]
fn more_public_reports() {
    passes("public-b", include_str!("data/cases/public-b.jsonl"), 70);
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
    passes("oracle-vllm", include_str!("data/cases/oracle-vllm.jsonl"), 431);
}

/// Rows of our own, made by running transformers (see the README beside them): what the caches of its classes hold.
#[test]
fn answers_of_transformers_own_caches() {
    passes("oracle-transformers", include_str!("data/cases/oracle-transformers.jsonl"), 142);
}

/// What a row leaves in doubt stands in its detail, and a row that cannot be read keeps its name.
#[test]
fn a_row_says_what_was_not_used() {
    let row = |id: &str, engine: &str, more: &str| {
        format!(
            r#"{{"id": "{id}", "engine": "{engine}", "quantity": "kv_bytes_per_token", "value": 1{more}}}"#
        )
    };
    let config = r#", "config": {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
        "head_dim": 1, "dtype": "bfloat16"}, "model": "glm-5.1""#
        .replace('\n', " ");
    let text = [
        row("newer", "vllm@9.9", &config),
        row("newer", "vllm@0.33", &config),
        row("", "vllm", &config),
        r#"{"id": "typed", "engine": 7}"#.to_owned(),
        r#"{"engine": 7}"#.to_owned(),
    ]
    .join("\n");
    let outcomes = run_cases(&text);
    let ids: Vec<&str> = outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
    assert_eq!(ids, ["newer", "newer", "line 3", "typed", "line 5"]);
    let says = |index: usize, words: &str| {
        assert!(outcomes[index].detail.contains(words), "{index}: {}", outcomes[index].detail);
    };
    says(0, "no rules are known for vllm 9.9; those of 0.33");
    says(0, "model \"glm-5.1\" is not used");
    says(1, "line 1 has the same id");
    assert!(!outcomes[1].detail.contains("no rules"), "{}", outcomes[1].detail);
    says(2, "id is empty");
    assert!(outcomes.iter().skip(2).all(|outcome| !outcome.ok));
}

/// A case file comes from elsewhere: its ids steer no terminal and forge no line, and a mark in front of it is no error.
#[test]
fn a_hostile_case_file_prints_one_line_a_case() {
    let case = |id: &str, tolerance: &str| {
        format!(
            r#"{{"id": "{id}", "model": "gemma-2b", "engine": "logical", "quantity": "slope_bytes_per_token",
            "value": 18432, "unit": "B", "rel_tol": {tolerance}}}"#
        )
        .replace('\n', "")
    };
    let text = format!(
        "\u{feff}{}\n{}\n",
        case("gqa-first", "0"),
        case("\\u001b[31mevil\\nok       gqa-other: 1", "10")
    );
    let outcomes = kvscope_sizing::cases::run_cases(&text);
    assert!(outcomes[0].ok, "{}", outcomes[0].line());
    assert!(!outcomes[1].ok && outcomes[1].detail.contains("lets any answer pass"), "{}", outcomes[1].detail);
    for outcome in &outcomes {
        assert!(!outcome.line().contains(char::is_control), "{:?}", outcome.line());
    }
}
