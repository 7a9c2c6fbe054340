//! What a capacity plan says of an engine on several GPUs.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::cost::Types;
use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::hardware::find_gpu;
use kvscope_sizing::plan::{
    CapacityPlan, CapacityQuestion, MemoryQuestion, Moving, Subject, WrongFormula, capacity,
};
use kvscope_sizing::{Bytes, Result, Settings, Tokens, find_entry};

/// Requests of `n` tokens on eight H100, all of whose memory is taken.
fn plan(id: &str, kind: EngineKind, settings: &Settings, n: u64) -> Result<CapacityPlan> {
    let entry = find_entry(id).unwrap();
    let architecture = entry.architecture().unwrap();
    let memory = MemoryQuestion {
        gpu: find_gpu("h100").unwrap(),
        count: 8,
        memory: None,
        weights: None,
        types: Types::of(&architecture),
        weight_ranks: 8,
        share_percent: 100,
        batch_tokens: 8192,
        activations: Some(Bytes::ZERO),
        graphs: Bytes::ZERO,
    };
    let question = CapacityQuestion {
        moving: Moving::Inputs,
        memory,
        engine: Engine::newest(kind),
        settings,
        contexts: &[Tokens::new(n)],
        mix: None,
        price_per_hour: None,
    };
    capacity(&Subject::of(entry, &architecture), &question)
}

fn on_eight() -> Settings {
    Settings { tp: Some(8), ..Settings::default() }
}

/// SGLang has no window pool for Gemma 3: it keeps 62 × 8,192 B a token on 8 ranks together, which is no wrong formula; in
/// logical bytes it is, and once.
#[test]
fn what_an_engine_really_keeps_is_no_wrong_formula() {
    let full = |kind: EngineKind| -> Vec<WrongFormula> {
        let all = plan("gemma-3-27b", kind, &on_eight(), 100_000).unwrap().wrong_formulas;
        all.into_iter().filter(|wrong| wrong.taken_for.contains("full attention")).collect()
    };
    assert_eq!(full(EngineKind::SgLang), []);
    let [one] = full(EngineKind::Logical).try_into().unwrap();
    assert_eq!(one.bytes_per_request.get(), 62 * 8192 * 100_000);
}

/// vLLM counts 2 × 8,192 tokens in flight of each of Gemma 3's windows; the plan says so, and which GPU was taken.
#[test]
fn a_plan_says_what_its_engine_assumes() {
    let plan = plan("gemma-3-27b", EngineKind::Vllm, &on_eight(), 100_000).unwrap();
    let said = |field: &str| plan.warnings.iter().filter(|warning| warning.field == field).count();
    assert_eq!((said("gpu"), said("requests"), said("max_num_batched_tokens")), (1, 1, 1));
}

/// Qwen3-8B's config allows 40,960; a longer limit is set, not assumed.
#[test]
fn a_longer_limit_is_set() {
    let asked = |settings: &Settings| plan("qwen3-8b", EngineKind::Vllm, settings, 100_000);
    let refused = asked(&on_eight()).unwrap_err().to_string();
    assert!(
        refused.contains("40Ki that the config allows; give at most those, or set max_model_len"),
        "{refused}"
    );
    let longer = asked(&Settings { max_model_len: Some(131_072), ..on_eight() }).unwrap();
    assert_eq!((longer.largest_context_is_limit, longer.max_context), (true, Some(Tokens::new(131_072))));
}
