//! Every case of the case files: public reports, and answers of the engines' own planners.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::cases::run_cases;

fn passes(name: &str, text: &str, rows: usize) {
    let outcomes = run_cases(text).unwrap();
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
    passes("oracle-sglang", include_str!("data/cases/oracle-sglang.jsonl"), 170);
}

/// Rows of our own, made by running vLLM (see the README beside them): those that once failed first.
#[test]
fn answers_of_vllms_own_classes() {
    passes("oracle-vllm", include_str!("data/cases/oracle-vllm.jsonl"), 474);
}

/// Rows of our own, made by running transformers (see the README beside them): what the caches of its classes hold.
#[test]
fn answers_of_transformers_own_caches() {
    passes("oracle-transformers", include_str!("data/cases/oracle-transformers.jsonl"), 142);
}

/// Rows of our own, made by running llama.cpp (see the README beside them): those that once failed first.
#[test]
fn answers_of_llama_cpps_own_caches() {
    passes("oracle-llamacpp", include_str!("data/cases/oracle-llamacpp.jsonl"), 223);
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
        row("gqa-newer", "vllm@9.9", &config),
        row("gqa-known", "vllm@0.33", &config),
        r#"{"id": "gqa-typed", "engine": 7}"#.to_owned(),
    ]
    .join("\n");
    let outcomes = run_cases(&text).unwrap();
    let ids: Vec<&str> = outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
    assert_eq!(ids, ["gqa-newer", "gqa-known", "gqa-typed"]);
    let says = |index: usize, words: &str| {
        assert!(outcomes[index].detail.contains(words), "{index}: {}", outcomes[index].detail);
    };
    says(0, "no rules are known for vllm 9.9; those of 0.33");
    says(0, "model \"glm-5.1\" is not used");
    assert!(!outcomes[1].detail.contains("no rules"), "{}", outcomes[1].detail);
    says(2, "line 3: not a case: engine: 7 is no text");
    assert!(outcomes.iter().skip(2).all(|outcome| !outcome.ok));
}

/// A slip of the pen in a row is said where its answer is: a field that no case has, and a setting of another type with the line and
/// what the row states.
#[test]
fn slips_in_a_row_are_named() {
    let row = |id: &str, settings: &str, tolerance: &str| {
        format!(
            r#"{{"id": "{id}", "model": "glm-5.1", "engine": "logical", "settings": {settings},
                "quantity": "slope_bytes_per_token", "value": 100152, "unit": "B", "{tolerance}": 0}}"#
        )
        .replace('\n', "")
    };
    let text = [
        row("dsa-good", "{}", "rel_tol"),
        row("dsa-slip", "{}", "rel_toll"),
        row("dsa-typed", r#"{"tp": 1, "context": "long"}"#, "rel_tol"),
    ];
    let outcomes = run_cases(&text.join("\n")).unwrap();
    assert!(!outcomes[0].detail.contains("no field"), "{}", outcomes[0].detail);
    let slip = &outcomes[1].detail;
    assert!(slip.contains("\"rel_toll\" is no field of a case and is not read"), "{slip}");
    let typed = &outcomes[2];
    assert!(
        typed.detail.starts_with("line 3: not a case: settings.context: invalid type"),
        "{}",
        typed.detail
    );
    assert!(!typed.ok && typed.expected == 100_152, "{typed:?}");
}

/// A line that is no JSON object, or has no id of its own, is no case file's: its number and the offset in bytes are named. By
/// hand: the good line has 16 bytes with its end, the mark in front of it three.
#[test]
fn lines_that_are_no_cases_are_named_by_number_and_byte() {
    let good = r#"{"id": "gqa-a"}"#;
    assert_eq!(good.len() + 1, 16);
    for (text, error) in [
        (
            format!("{good}\n\n  {{\"id\": x}}\n"),
            "line 3, byte 26: no JSON object (expected value); write one object a line",
        ),
        (
            format!("\u{feff}{good}\nnot a case\n"),
            "line 2, byte 20: no JSON object (expected ident); write one object a line",
        ),
        (format!("{good}\n[1]\n"), "line 2, byte 16: no JSON object; write one object a line"),
        (
            format!("{good}\n{good}\n"),
            "line 2, byte 16: line 1 has the id \"gqa-a\" too; give each case an id of its own",
        ),
        (
            format!("{good}\n{{\"engine\": \"vllm\"}}\n"),
            "line 2, byte 16: no id; give the case one like \"gqa-llama-3.1-8b-slope\"",
        ),
        (
            "{\"id\": \" \"}".to_owned(),
            "line 1, byte 0: \" \" is no id; give the case one like \"gqa-llama-3.1-8b-slope\"",
        ),
        (
            "{\"id\": \"a\\u001b[31mb\"}".to_owned(),
            "line 1, byte 0: \"a\\u001b[31mb\" is no id; give the case one like \"gqa-llama-3.1-8b-slope\"",
        ),
    ] {
        assert_eq!(run_cases(&text).unwrap_err().to_string(), error, "{text:?}");
    }
}

/// The value of a load error is the key, which the error or warning must name: neither a part of it nor any word.
#[test]
fn a_load_error_is_of_the_key_that_it_names() {
    let case = |config: &str, key: &str| {
        let text = format!(
            r#"{{"id": "cfg-x", "config": {config}, "engine": "logical", "quantity": "load_error", "value": {key}}}"#
        );
        run_cases(&text).unwrap().remove(0)
    };
    let config =
        r#"{"num_attention_heads": 2, "head_dim": 8, "a": 1, "layer_types": ["full_attention", "odd"],
        "num_hidden_layers": 2}"#
            .replace('\n', "");
    let missing =
        config.replace(r#""num_hidden_layers": 2"#, r#""b": 2"#).replace(r#""odd""#, r#""full_attention""#);
    let named = case(&config, r#""layer_types""#);
    assert!(named.ok, "{}", named.detail);
    for key in
        [r#""layer""#, r#""layer_type""#, r#""e""#, r#""odd""#, r#""num_attention_heads""#, "3", r#""""#]
    {
        let other = case(&config, key);
        assert!(!other.ok, "{key}: {}", other.detail);
    }
    assert!(!case(&missing, r#""hidden""#).ok);
}

/// A case file comes from elsewhere: its words steer no terminal and forge no line, and a mark in front of it is no error.
#[test]
fn a_hostile_case_file_prints_one_line_a_case() {
    let case = |id: &str, quantity: &str, tolerance: &str| {
        format!(
            r#"{{"id": "{id}", "model": "gemma-2b", "engine": "logical", "quantity": "{quantity}",
            "value": 18432, "unit": "B", "rel_tol": {tolerance}}}"#
        )
        .replace('\n', "")
    };
    let text = [
        case("gqa-first", "slope_bytes_per_token", "0"),
        case("gqa-other", "slope_bytes_per_token", "10"),
        case("gqa-third", "\\u001b[31mevil\\nok       gqa-fourth: 1", "0"),
    ]
    .join("\n");
    let outcomes = run_cases(&format!("\u{feff}{text}\n")).unwrap();
    assert!(outcomes[0].ok, "{}", outcomes[0].line());
    assert!(!outcomes[1].ok && outcomes[1].detail.contains("lets any answer pass"), "{}", outcomes[1].detail);
    assert!(!outcomes[2].ok && outcomes[2].detail.contains("evil"), "{}", outcomes[2].detail);
    for outcome in &outcomes {
        assert!(!outcome.line().contains(char::is_control), "{:?}", outcome.line());
    }
}
