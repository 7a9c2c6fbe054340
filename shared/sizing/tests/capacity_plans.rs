//! What a capacity plan says of an engine on several GPUs.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::cost::Types;
use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::hardware::find_gpu;
use kvscope_sizing::plan::{
    CapacityPlan, CapacityQuestion, MemoryQuestion, Mix, Moving, Subject, WrongFormula, capacity,
};
use kvscope_sizing::{Bytes, MlaStorage, Result, Settings, Tokens, find_entry};

/// Eight H100, all of whose memory is taken.
fn memory(id: &str) -> MemoryQuestion<'static> {
    MemoryQuestion {
        gpu: find_gpu("h100").unwrap(),
        count: 8,
        memory: None,
        weights: None,
        types: Types::of(&find_entry(id).unwrap().architecture().unwrap()),
        weight_ranks: 8,
        share_percent: 100,
        batch_tokens: 8192,
        activations: Some(Bytes::ZERO),
        graphs: Bytes::ZERO,
    }
}

/// Requests of `n` tokens in a memory.
fn asked(
    id: &str,
    kind: EngineKind,
    settings: &Settings,
    n: u64,
    memory: MemoryQuestion<'_>,
) -> Result<CapacityPlan> {
    answered(id, &CapacityQuestion { memory, ..question(id, kind, settings, &[Tokens::new(n)]) })
}

/// Requests of `n` tokens and of a mix.
fn asked_of_mix(
    id: &str,
    kind: EngineKind,
    settings: &Settings,
    n: u64,
    mix: Option<Mix>,
) -> Result<CapacityPlan> {
    answered(id, &CapacityQuestion { mix, ..question(id, kind, settings, &[Tokens::new(n)]) })
}

fn question<'a>(
    id: &str,
    kind: EngineKind,
    settings: &'a Settings,
    contexts: &'a [Tokens],
) -> CapacityQuestion<'a> {
    CapacityQuestion {
        moving: Moving::Inputs,
        memory: memory(id),
        engine: Engine::newest(kind),
        settings,
        contexts,
        mix: None,
        price_per_hour: None,
    }
}

fn answered(id: &str, question: &CapacityQuestion<'_>) -> Result<CapacityPlan> {
    let entry = find_entry(id).unwrap();
    let architecture = entry.architecture().unwrap();
    capacity(&Subject::of(entry, &architecture), question)
}

fn plan(id: &str, kind: EngineKind, settings: &Settings, n: u64) -> Result<CapacityPlan> {
    asked(id, kind, settings, n, memory(id))
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
    assert_eq!(one.bytes_per_request.get(), 62 * 8192 * 100_000 / 8);
    // What is full attention in every layer is sized right by it, whatever an engine rounds.
    let own = plan("llama-3.1-70b", EngineKind::Vllm, &on_eight(), 100).unwrap().wrong_formulas;
    assert!(own.iter().all(|wrong| !wrong.taken_for.contains("full attention")), "{own:?}");
}

/// DeepSeek-V2 as an engine without latents keeps it: 128 heads of 192 + 128 values in bf16 on 8 ranks, 60 layers: 614,400 B a token.
/// What an engine does with latents changes no formula, and what such an engine holds is what the formula admits.
#[test]
fn formulas_divide_by_ranks_as_what_they_take_the_model_for() {
    let of = |settings: &Settings| plan("deepseek-v2", EngineKind::Logical, settings, 10_000).unwrap();
    let expanded = Settings { mla_storage: Some(MlaStorage::Expanded), ..on_eight() };
    let formula = |plan: &CapacityPlan| {
        plan.wrong_formulas.iter().find(|wrong| wrong.taken_for.contains("real keys")).cloned()
    };
    let taken = formula(&of(&on_eight())).unwrap();
    assert_eq!(taken.bytes_per_request.get(), 60 * 16 * 320 * 2 * 10_000);
    assert_eq!(Some(taken.admits), of(&expanded).at[0].requests);
    assert_eq!(formula(&of(&expanded)), None, "it is right there");
}

/// SGLang keeps the rows of DeepSeek-V4's compressors once: requests and that are what the memory holds.
#[test]
fn what_stands_once_is_no_requests() {
    let plan = plan("deepseek-v4-flash", EngineKind::SgLang, &on_eight(), 65_536).unwrap();
    let at = &plan.at[0];
    let (each, once) = (at.bytes_per_request_and_gpu.get(), at.once_bytes_per_gpu.get());
    let (room, requests) = (plan.memory.state_bytes.unwrap().get(), at.requests.unwrap());
    assert!(once > 2_000_000_000, "{once}");
    assert!(
        (requests + 8) * each + once > room && requests * each + once <= room,
        "{requests} {each} {once}"
    );
}

/// The unmoved answer lies between those of a tenth more and less memory, of engines that divide it and of those that admit few.
#[test]
fn a_tenth_of_the_memory_moves_the_engines_own_answer() {
    for (id, kind, settings) in [
        ("qwen3.6-27b", EngineKind::SgLang, on_eight()),
        ("deepseek-v4-flash", EngineKind::SgLang, on_eight()),
        ("mixtral-8x7b", EngineKind::LlamaCpp, Settings::default()),
    ] {
        let plan = plan(id, kind, &settings, 8192).unwrap();
        let requests = plan.at[0].requests.unwrap();
        let row = plan.sensitivities.iter().find(|row| row.input == "memory").unwrap();
        let more = MemoryQuestion { memory: Some(Bytes::new(88_000_000_000)), ..memory(id) };
        let right = asked(id, kind, &settings, 8192, more).unwrap().at[0].requests.unwrap();
        assert_eq!(row.with_more, Some(right as f64), "{id}");
        assert!(row.with_less.unwrap() <= requests as f64, "{id}: {row:?}");
    }
}

/// vLLM counts 2 × 8,192 tokens in flight of each of Gemma 3's windows; the plan says so, and which GPU was taken.
#[test]
fn a_plan_says_what_its_engine_assumes() {
    let plan = plan("gemma-3-27b", EngineKind::Vllm, &on_eight(), 100_000).unwrap();
    let said = |field: &str| plan.warnings.iter().filter(|warning| warning.field == field).count();
    assert_eq!((said("gpu"), said("requests"), said("max_num_batched_tokens")), (1, 1, 1));
}

/// A mix of one length is that length: of SGLang's hybrids, whose pools are divided once, of requests that are admitted and of
/// those that the memory holds. A pool's null block may be the place of one request.
#[test]
fn a_mix_of_one_length_holds_what_that_length_does() {
    for (id, kind, settings) in [
        ("qwen3.6-27b", EngineKind::SgLang, on_eight()),
        ("gpt-oss-120b", EngineKind::SgLang, on_eight()),
        ("qwen3.6-27b", EngineKind::Vllm, on_eight()),
        ("qwen3-8b", EngineKind::LlamaCpp, Settings::default()),
        ("qwen3-8b", EngineKind::Logical, on_eight()),
    ] {
        for n in [200, 2048, 5000, 30_000] {
            let plan = asked_of_mix(id, kind, &settings, n, Some(Mix::listed(vec![n; 3]).unwrap())).unwrap();
            let (alone, mixed) = (plan.at[0].requests.unwrap(), plan.mix.unwrap().requests.unwrap());
            assert!(
                alone <= mixed && mixed <= alone + alone / 50 + 1,
                "{id} {kind:?} {n}: {mixed}, not {alone}"
            );
        }
    }
}

/// The most is what is admitted, and what each takes adds up: with the short requests of a mix that fits by memory, no more than of
/// the short ones alone and no fewer than of the long ones.
#[test]
fn a_mix_lies_between_its_lengths() {
    let of = |lengths: Vec<u64>| {
        let mix = Some(Mix::listed(lengths).unwrap());
        asked_of_mix("qwen3.6-27b", EngineKind::SgLang, &on_eight(), 1000, mix).unwrap().mix.unwrap().requests
    };
    let (short, long, both) = (of(vec![200]), of(vec![30_000]), of(vec![200, 30_000]));
    assert!(long < both && both <= short, "{long:?} {both:?} {short:?}");
}

/// Qwen3-8B's config allows 40,960; a longer limit is set, not assumed.
#[test]
fn a_longer_limit_is_set() {
    let of = |settings: &Settings| plan("qwen3-8b", EngineKind::Vllm, settings, 100_000);
    let refused = of(&on_eight()).unwrap_err().to_string();
    assert!(
        refused.contains("40Ki that the config allows; give at most those, or set max_model_len"),
        "{refused}"
    );
    let longer = of(&Settings { max_model_len: Some(131_072), ..on_eight() }).unwrap();
    assert_eq!((longer.largest_context_is_limit, longer.max_context), (true, Some(Tokens::new(131_072))));
}

/// Llama-3.1-70B, 70,553,706,496 published parameters of two bytes: llama.cpp spreads its 80 layers and the output over
/// eight GPUs of 80 GB; the first has ⌈81 / 8⌉ = 11, which is 11 × 4,096 B a token (11 × 2 × 8 × 128 × 2).
#[test]
fn llama_cpp_spreads_layers_over_all_gpus() {
    let plan = plan("llama-3.1-70b", EngineKind::LlamaCpp, &Settings::default(), 100_000).unwrap();
    assert_eq!((plan.ranks, plan.replicas), (8, 1));
    let left = plan.memory.state_bytes.unwrap().get();
    assert!((80_000_000_000_u64 - left).abs_diff(70_553_706_496 * 2 / 8) < 5_000_000, "{left}");
    assert_eq!(plan.at[0].requests, Some(left / (11 * 4_096 * 100_096)));
    assert_eq!(plan.at[0].bytes_per_request_and_gpu.get(), 11 * 4_096 * 100_096);
    assert!(plan.warnings.iter().any(|warning| warning.message.contains("11 of 80 layers")));
    let alone = MemoryQuestion { weight_ranks: 1, ..memory("llama-3.1-70b") };
    assert!(
        asked("llama-3.1-70b", EngineKind::LlamaCpp, &Settings::default(), 100_000, alone)
            .unwrap()
            .memory
            .does_not_fit
            .unwrap()
            .contains("1 GPU has 80.0 GB")
    );
}
