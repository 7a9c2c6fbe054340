//! Every option of every plan with what nobody means: an answer in numbers or one sentence, never a panic, an infinity, a NaN or a
//! figure below zero.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jsonschema::Validator;
use serde_json::Value;

use super::tests::schema;
use crate::cli::{AroundPlan, answer_plan, plan_options};
use crate::input::Files;

/// What is typed in place of each option's value.
const VALUES: [&str; 62] = [
    "",
    " ",
    "0",
    "-0",
    "1",
    "-1",
    "0.5",
    "1e-320",
    "1e-300",
    "1e300",
    "1e309",
    "-1e300",
    "NaN",
    "inf",
    "-inf",
    "18446744073709551615",
    "18446744073709551616",
    "9007199254740993",
    "1Ki",
    "16777216T",
    "100TB",
    "x",
    "=",
    ",",
    ";",
    "-",
    "--json",
    "no/such\n\u{1b}[2J漢",
    "0B",
    "0GB/s",
    "1B/s",
    "0.1bps",
    "1bps",
    "18446744073709551615B/s",
    "1e30GB/s",
    "0.0000001bps",
    "0s",
    "0.00000000000000000000000000000000000001s",
    "1000000000000s",
    "999999999999h",
    "-5ms",
    "a=0GB/s",
    "a=1B/s",
    "a=18446744073709551615B/s,999999999999s,999999999999s",
    "a=1GB/s,-1s",
    "=1GB/s",
    "a=0B",
    "a=0blocks",
    "a=18446744073709551615blocks",
    "a=unlimited",
    "lognormal:9,0,1,10",
    "lognormal:1e300,1,1,10",
    "lognormal:NaN,1,1,10",
    "lognormal:2,1,0,18446744073709551615",
    "0,0",
    "1,18446744073709551615",
    "q=quantise:0:1GB/s",
    "q=quantise:1e300:1GB/s:1e300",
    "q=quantise:1e-300:1GB/s",
    "q=quantise:4:0GB/s",
    "bf16=1e300",
    "bf16=1e-300",
];

/// What stands in an answer for a figure that was not asked for, is not there or has no end. Every other null would be an infinity
/// or a NaN, which JSON does not have.
const MAY_BE_NULL: [&str; 27] = [
    "accuracy_loss_points",
    "capacity_bytes",
    "break_even_bytes_per_second",
    "does_not_fit",
    "efficiency_percent",
    "fleet_bytes_per_second",
    "granularity_tokens",
    "hardware",
    "hit_rate",
    "largest_context",
    "mean_bytes",
    "mix",
    "needs_link",
    "optimum",
    "pays_below_bytes_per_second",
    "price_per_request_hour",
    "refused",
    "restore_seconds",
    "running",
    "slo_bytes_per_second",
    "state_bytes",
    "state_read_bytes",
    "to_bytes_per_second",
    "why",
    "winner",
    "with_less",
    "write_amplification",
];

struct Plan {
    name: &'static str,
    schema: Validator,
}

impl Plan {
    fn of(name: &'static str) -> Self {
        let method = if name == "simulate" { "post" } else { "get" };
        let schema = schema(&format!("/api/v1/plan/{name}"), method, "200");
        Self { name, schema: jsonschema::validator_for(&schema).unwrap() }
    }

    /// The answer in figures that can be, or a sentence.
    fn answer(&self, question: &[(&str, &str)], body: &str) -> Result<Value, String> {
        let name = self.name;
        let pairs: Vec<_> =
            question.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let around =
            AroundPlan { files: Files::OfRequest(body.as_bytes()), runs: None, most_made_requests: 1000 };
        let answered = catch_unwind(AssertUnwindSafe(|| answer_plan(name, &pairs, &around)));
        let answered = answered.unwrap_or_else(|_| panic!("{name} {question:?} panics"));
        match answered {
            Ok(json) => {
                let answer: Value = serde_json::from_str(&json).unwrap();
                let faults: Vec<String> =
                    self.schema.iter_errors(&answer).map(|fault| fault.to_string()).collect();
                assert!(faults.is_empty(), "{name} {question:?}: {faults:?}");
                check_figures(&answer, "answer", &|place| format!("{name} {question:?}: {place}"));
                Ok(answer)
            }
            Err(failure) => {
                let sentence = failure.to_string();
                let is_line = !sentence.is_empty() && !sentence.contains(char::is_control);
                assert!(is_line, "{name} {question:?}: {sentence:?}");
                for word in ["NaN", "inf"] {
                    let typed = question.iter().any(|(_, value)| value.contains(word) || *value == "1e309");
                    let said =
                        sentence.split(|letter: char| !letter.is_alphabetic()).any(|part| part == word);
                    assert!(typed || !said, "{name} {question:?}: {sentence}");
                }
                Err(sentence)
            }
        }
    }
}

fn check_figures(value: &Value, place: &str, what: &dyn Fn(&str) -> String) {
    match value {
        Value::Null => assert!(MAY_BE_NULL.contains(&place), "{} is null", what(place)),
        Value::Number(number) => assert!(number.as_f64().unwrap() >= 0.0, "{} is {number}", what(place)),
        Value::Array(all) => all.iter().for_each(|one| check_figures(one, place, what)),
        Value::Object(all) => all.iter().for_each(|(name, one)| check_figures(one, name, what)),
        Value::Bool(_) | Value::String(_) => {}
    }
}

/// Asks with each option at each value, then with every two that were taken. At least `least` questions have an answer.
fn drive(name: &'static str, question: &[(&'static str, &'static str)], least: usize) {
    let plan = Plan::of(name);
    let ask = |more: &[(&str, &str)]| {
        let kept = question.iter().filter(|(known, _)| more.iter().all(|(name, _)| known != name));
        let asked: Vec<(&str, &str)> = kept.chain(more).copied().collect();
        plan.answer(&asked, "").is_ok()
    };
    let options = plan_options(name);
    let mut taken: Vec<(&str, &str)> = Vec::new();
    for (option, ..) in options.iter().filter(|(option, ..)| option != "strict") {
        for value in VALUES {
            if ask(&[(option, value)]) && !["", " ", "-0", "1"].contains(&value) {
                taken.push((option, value));
            }
        }
    }
    let mut answers = taken.len();
    for (place, one) in taken.iter().enumerate() {
        let others = taken[..place].iter().filter(|other| other.0 != one.0);
        answers += others.filter(|other| ask(&[*one, **other])).count();
    }
    assert!(answers >= least, "{name}: {answers} answers");
}

#[test]
fn capacity() {
    drive("capacity", &[("model", "qwen3-8b"), ("gpu", "h200"), ("context", "4096"), ("price", "2")], 300);
}

#[test]
fn compression() {
    drive("compress", &[("model", "qwen3-8b"), ("bandwidth", "1GB/s"), ("context", "4096")], 200);
}

#[test]
fn cost() {
    drive("cost", &[("model", "qwen3.5-9b"), ("context", "4096")], 5);
}

#[test]
fn handover() {
    let question = [("model", "qwen3-8b"), ("gpu", "h200"), ("context", "4096"), ("bandwidth", "10GB")];
    drive("handover", &question, 240);
}

#[test]
fn labels() {
    drive("label", &[("model", "qwen3.5-9b"), ("gpu", "h200"), ("context", "4096")], 1);
}

#[test]
fn offload() {
    let question = [("model", "qwen3-8b"), ("gpu", "h200"), ("context", "4096"), ("tier", "host=1GB/s")];
    drive("offload", &question, 5);
    drive(
        "offload",
        &[("model", "qwen3.5-9b"), ("tflops", "400"), ("tier", "a=1GB/s"), ("context", "4096")],
        5,
    );
}

#[test]
fn prefix() {
    drive("prefix", &[("model", "qwen3.5-9b"), ("first", "979"), ("shared", "500")], 20);
}

#[test]
fn simulation() {
    drive("simulate", &[("model", "qwen3.5-9b"), ("synthetic", "20"), ("tier", "gpu=2GB")], 10);
    let rates = [("prefill_rate", "1000"), ("decode_rate", "50")];
    let question = [("model", "qwen3.5-9b"), ("synthetic", "20"), ("tier", "gpu=2GB")];
    drive("simulate", &[&question[..], &rates].concat(), 20);
}

/// Plans with a question each that every version with a config answers.
const QUESTIONS: [(&str, &[(&str, &str)]); 8] = [
    ("capacity", &[("gpu", "h200"), ("count", "8"), ("weight_dtype", "fp4")]),
    ("compress", &[("bandwidth", "1GB/s")]),
    ("cost", &[]),
    ("handover", &[("gpu", "h200"), ("prefill_seconds", "1")]),
    ("label", &[("gpu", "h200")]),
    ("offload", &[("tflops", "400"), ("tier", "host=50GB/s")]),
    ("prefix", &[("first", "64")]),
    ("simulate", &[("synthetic", "20"), ("tier", "gpu=2GB")]),
];

/// A length beyond the model's is refused, or is a warning where the answer does not end at the model's limit.
#[test]
fn lengths_beyond_the_model_s_are_told_by_every_plan() {
    for (name, question) in QUESTIONS.iter().filter(|(name, _)| *name != "simulate") {
        let length = if *name == "prefix" { "first" } else { "context" };
        let kept = question.iter().filter(|(name, _)| *name != length);
        let more = [("model", "qwen3-8b"), (length, "1000000")];
        let asked: Vec<_> = kept.chain(&more).copied().collect();
        let told = match Plan::of(name).answer(&asked, "") {
            Ok(answer) => answer.to_string(),
            Err(sentence) => sentence,
        };
        assert!(told.contains("1,000,000 tokens is beyond the 40Ki that"), "{name}: {told}");
    }
}

/// What comes as a file: none of it is a trace, a list of lengths, token ids or a config.
#[test]
fn what_a_file_should_hold_is_named_with_its_line() {
    let trace = [("model", "qwen3-8b"), ("trace", "-"), ("tier", "gpu=1GB")];
    let mix = [("model", "qwen3-8b"), ("gpu", "h200"), ("context", "4096"), ("mix", "-")];
    let ids = [("model", "qwen3-8b"), ("first_tokens", "-"), ("second_tokens", "-")];
    let row = |tokens: &str, blocks: &str| {
        format!(r#"{{"timestamp": 0, "input_length": {tokens}, "output_length": 1, "hash_ids": {blocks}}}"#)
    };
    for (name, question, body, words) in [
        ("simulate", &trace[..], String::new(), "trace: it holds no request"),
        ("simulate", &trace, "\n\n".to_owned(), "trace: it holds no request"),
        ("simulate", &trace, "{}".to_owned(), "line 1: timestamp: missing"),
        ("simulate", &trace, format!("{}\nnot json", row("513", "[7]")), "line 2: "),
        ("simulate", &trace, row("-1", "[7]"), "line 1: input_length"),
        ("simulate", &trace, row("0", "[]"), "line 1: a prompt of 0 tokens"),
        (
            "simulate",
            &trace,
            row("18446744073709551615", "[7]"),
            "line 1: a prompt of 18,446,744,073,709,551,615 tokens",
        ),
        (
            "simulate",
            &trace,
            row("512", "[7, 8]"),
            "line 1: 2 blocks of 512 tokens are not those of 512 tokens, which have 1",
        ),
        ("simulate", &trace, row("513", "[1.5]"), "line 1: "),
        ("capacity", &mix, String::new(), "mix: sums to nothing; give at least one length above 0"),
        ("capacity", &mix, "0\n0\n".to_owned(), "mix: sums to nothing; give at least one length above 0"),
        ("capacity", &mix, "4096\nmany\n".to_owned(), "line 2: \"many\" is not a count"),
        ("capacity", &mix, "4096\n-1\n".to_owned(), "line 2: \"-1\" is not a count"),
        ("capacity", &mix, "4096\n1000000\n".to_owned(), "1,000,000 tokens is beyond the 40Ki"),
        ("prefix", &ids, String::new(), "first: a prompt of 0 tokens has no prefix; give at least 1"),
        ("prefix", &ids, "1 2 three".to_owned(), "\"three\" is no token id"),
        ("prefix", &ids, "[1, -2]".to_owned(), "the request's body: "),
        ("cost", &[("model", "-")], "[]".to_owned(), "the request's body: "),
        ("cost", &[("model", "-")], "{\"model_type\": \"llama\"}".to_owned(), "num_hidden_layers"),
    ] {
        let sentence = Plan::of(name).answer(question, &body).expect_err(name);
        assert!(sentence.contains(words), "{name}: {body:?}: {sentence}");
    }
}
