//! What must hold for any query of an engine profile and for any log. The fuzz targets and the bounded replay both call
//! it.

use std::sync::OnceLock;

use kvscope_sizing::engine::{
    Engine, Query, largest_batch_in, largest_context_in, report, reservation, reserved_bytes, reserved_curve,
};
use kvscope_sizing::log::{GivenModel, decode_log};
use kvscope_sizing::{
    Architecture, Bytes, Error, ErrorKind, LargestContext, Settings, Tokens, Warning, catalogue, read_config,
};

/// Engines at versions on both sides of each rule that goes by version.
pub(crate) const ENGINES: [&str; 20] = [
    "logical",
    "vllm@0.33",
    "vllm@0.32",
    "vllm@0.31",
    "vllm@0.29",
    "vllm@0.28",
    "vllm@0.27.1",
    "vllm@0.25",
    "vllm@0.21",
    "vllm@0.20",
    "vllm@0.11",
    "vllm@0.6",
    "sglang@0.5.23",
    "sglang@0.5.21",
    "sglang@0.5.14",
    "sglang@0.5.3",
    "sglang@0.4",
    "llama.cpp",
    "trtllm",
    "transformers",
];

/// Values of settings: small counts, sizes of blocks, limits of ranges, and every word.
pub(crate) const VALUES: [&str; 62] = [
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "16",
    "17",
    "32",
    "61",
    "64",
    "100",
    "128",
    "255",
    "256",
    "512",
    "784",
    "1000",
    "1024",
    "4096",
    "8192",
    "10000",
    "131072",
    "163841",
    "1048576",
    "1073741824",
    "4294967296",
    "34359738368",
    "85899345920",
    "1099511627776",
    "9223372036854775807",
    "18446744073709551615",
    "true",
    "false",
    "bf16",
    "f16",
    "f32",
    "fp8",
    "fp8_ds_mla",
    "int8_per_token_head",
    "int4_per_token_head",
    "nvfp4",
    "mxfp8",
    "q8_0",
    "q4_0",
    "fp4",
    "latent",
    "expanded",
    "none",
    "align",
    "all",
    "no_buffer",
    "extra_buffer",
    "extra_buffer_lazy",
    "triton",
    "all_layers_full",
    "mla_as_kv",
    "0.8",
    "0.000001",
    "H100",
];

/// The model byte from which on the rest of the data is a config.
pub(crate) const OWN_CONFIG: u8 = 200;

/// Bytes as a query: engine, model, number of settings, two bytes each, then a config where the model byte asks for one.
/// Answered or refused in one line.
#[allow(dead_code, reason = "each fuzz target checks one thing")]
pub(crate) fn engine(data: &[u8]) {
    let [engine, model, count, rest @ ..] = data else { return };
    let engine: Engine =
        ENGINES[usize::from(*engine) % ENGINES.len()].parse().expect("the list holds known engines");
    let (pairs, text) = rest.split_at(rest.len().min(2 * usize::from(count % 24)));
    let mut settings = Settings::default();
    for pair in pairs.chunks_exact(2) {
        set(&mut settings, pair[0], pair[1]);
    }
    let own;
    let architecture = if *model < OWN_CONFIG {
        let known = architectures();
        &known[usize::from(*model) % known.len()]
    } else {
        let Some(read) = std::str::from_utf8(text).ok().and_then(|text| read_config(text).ok()) else {
            return;
        };
        own = read;
        &own
    };
    judge(architecture, engine.clone(), &settings);
    // Plans are made many times over for these, so they take turns.
    let turn = data.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let Ok(query) = Query::new(architecture, engine, &settings) else { return };
    if turn.is_multiple_of(8) {
        reserves(&query);
    }
    if turn.is_multiple_of(64) {
        fits(&query);
    }
}

/// Any text as a log: decoded or refused in one line, without a model and with one.
#[allow(dead_code, reason = "each fuzz target checks one thing")]
pub(crate) fn log(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let known = architectures();
    let given = GivenModel { label: "given", architecture: &known[data.len() % known.len()] };
    for model in [None, Some(given)] {
        match decode_log(&text, model) {
            Ok(decoded) => {
                decoded.warnings.iter().for_each(one_line);
                serde_json::to_string(&decoded).expect("a decoded log is JSON");
            }
            Err(error) => is_one_line(&error.to_string()),
        }
    }
}

/// The setting and the value that two bytes name; the next value that the setting takes.
fn set(settings: &mut Settings, name: u8, value: u8) {
    let name = Settings::NAMES[usize::from(name) % Settings::NAMES.len()];
    for step in 0..VALUES.len() {
        if settings.set(name, VALUES[(usize::from(value) + step) % VALUES.len()]).is_ok() {
            return;
        }
    }
}

fn architectures() -> &'static [Architecture] {
    static READ: OnceLock<Vec<Architecture>> = OnceLock::new();
    READ.get_or_init(|| {
        catalogue().iter().map(|entry| entry.architecture().expect("the catalogue reads")).collect()
    })
}

fn judge(architecture: &Architecture, engine: Engine, settings: &Settings) {
    let Ok(query) = Query::new(architecture, engine, settings).map_err(|error| refused(&error)) else {
        return;
    };
    match report(&query) {
        Ok(report) => {
            for (quantity, figure) in &report.figures {
                assert!(figure.as_f64() >= 0.0, "{} is {figure}", quantity.name());
            }
            for row in &report.unanswered {
                is_one_line(&row.why);
            }
            for line in &report.log_lines {
                is_one_line(line);
            }
            for row in &report.padding {
                is_one_line(&row.what);
                is_one_line(&row.why);
            }
            report.warnings.iter().for_each(one_line);
            serde_json::to_string(&report).expect("a report is JSON");
        }
        Err(error) => refused(&error),
    }
}

/// A context for queries that have none.
const SOME_CONTEXT: Tokens = Tokens::new(1000);

/// What is reserved is the same alone, in a curve, and beside logical bytes.
fn reserves(query: &Query<'_>) {
    let context = query.context.unwrap_or(SOME_CONTEXT);
    let query = Query { context: Some(context), ..query.clone() };
    let alone = reserved_bytes(&query);
    if let Err(error) = &alone {
        refused(error);
    }
    match reserved_curve(&query, &[context]) {
        Ok(curve) => assert_eq!(curve.first(), alone.as_ref().ok()),
        Err(error) => refused(&error),
    }
    match reservation(&query) {
        Ok(found) => {
            assert_eq!(Ok(found.reserved), alone);
            serde_json::to_string(&found).expect("a reservation is JSON");
        }
        Err(error) => refused(&error),
    }
}

/// What is found to fit does.
fn fits(query: &Query<'_>) {
    let memory = Bytes::new(80 << 30);
    match largest_context_in(query, memory, Tokens::MAX) {
        Ok(LargestContext::Budget { tokens } | LargestContext::Limit { tokens }) => {
            let held = reserved_bytes(&Query { context: Some(tokens), ..query.clone() });
            assert!(held.is_ok_and(|held| held <= memory), "{tokens} tokens in {memory}");
        }
        Ok(LargestContext::Nothing) => {}
        Err(error) => refused(&error),
    }
    if let Err(error) = largest_batch_in(query, memory, query.context.unwrap_or(SOME_CONTEXT)) {
        refused(&error);
    }
}

fn refused(error: &Error) {
    is_one_line(&error.to_string());
    is_named(error);
}

/// A refused query says which setting or field it is about, or that a figure is too large.
fn is_named(error: &Error) {
    assert!(error.place().is_some() || error.kind() == ErrorKind::Overflow, "{error} names nothing");
}

fn one_line(warning: &Warning) {
    is_one_line(&warning.to_string());
}

fn is_one_line(line: &str) {
    assert!(!line.is_empty() && !line.contains(char::is_control), "{line:?} is not one line");
}
