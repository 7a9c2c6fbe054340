//! Inversion and growth agree: what fits fits, and one more does not. The same under every engine's accounting.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::engine::{
    Bound, Engine, EngineKind, Quantity, Query, Room, answer, largest_batch_in, largest_context_in,
    reserved_bytes,
};
use kvscope_sizing::{
    Architecture, Bytes, LargestContext, Mixer, Settings, StateModel, Tokens, catalogue, find_entry,
    read_config,
};
use proptest::prelude::*;

fn state(id: &str) -> StateModel {
    StateModel::new(&find_entry(id).unwrap().architecture().unwrap(), &Settings::default()).unwrap()
}

proptest! {
    #[test]
    fn one_token_more_does_not_fit(
        entry in 0..catalogue().len(),
        budget in prop_oneof![0_u64..1 << 36, 0_u64..1 << 44],
        batch in 1_u64..=64,
        limit in 1_u64..=1 << 24,
    ) {
        let entry = &catalogue()[entry];
        let state = StateModel::new(&entry.architecture().unwrap(), &Settings::default()).unwrap();
        let (budget, limit) = (Bytes::new(budget), Tokens::new(limit));
        let resident = |tokens: u64| state.resident(Tokens::new(tokens), batch).unwrap();
        match state.largest_context(budget, batch, limit).unwrap() {
            LargestContext::Nothing => prop_assert!(resident(0) > budget),
            LargestContext::Budget { tokens } => {
                prop_assert!(resident(tokens.get()) <= budget);
                prop_assert!(resident(tokens.get() + 1) > budget);
                prop_assert!(tokens < limit);
            }
            LargestContext::Limit { tokens } => {
                prop_assert_eq!(tokens, limit);
                prop_assert!(resident(tokens.get()) <= budget);
            }
        }
    }

    #[test]
    fn one_request_more_does_not_fit(
        entry in 0..catalogue().len(),
        budget in 0_u64..1 << 44,
        context in 1_u64..=1 << 22,
    ) {
        let entry = &catalogue()[entry];
        let state = StateModel::new(&entry.architecture().unwrap(), &Settings::default()).unwrap();
        let context = Tokens::new(context);
        let batch = state.largest_batch(Bytes::new(budget), context).unwrap().unwrap();
        prop_assert!(state.resident(context, batch).unwrap().get() <= budget);
        prop_assert!(state.resident(context, batch + 1).unwrap().get() > budget);
    }
}

/// Gemma 3 27B, by hand: 62 layers of 8192 B a token, 52 of them with a window of 1024. 10 GiB = 10,737,418,240 B; the
/// windows take 52 × 1024 × 8192 = 436,207,616 B; (10,737,418,240 − 436,207,616) / 81,920 = 125,747.2…
#[test]
fn a_full_window_leaves_its_bytes_to_the_other_layers() {
    let config = r#"{"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "hidden_size": 5376,
        "sliding_window": 1024, "sliding_window_pattern": 6}}"#;
    let state = StateModel::new(&read_config(config).unwrap(), &Settings::default()).unwrap();
    let slope = 10 * 16 * 256 * 2;
    let windows = 52 * 1024 * 16 * 256 * 2;
    let expected = ((10 << 30) - windows) / slope;
    let found = state.largest_context(Bytes::new(10 << 30), 1, Tokens::new(1 << 20)).unwrap();
    assert_eq!(found, LargestContext::Budget { tokens: Tokens::new(expected) });
}

#[test]
fn a_budget_below_the_fixed_part_holds_nothing() {
    let state = state("qwen3.6-27b");
    let fixed = state.fixed(None).unwrap().get();
    let largest = |bytes: u64| state.largest_context(Bytes::new(bytes), 1, Tokens::new(1000)).unwrap();
    assert_eq!(largest(fixed - 1), LargestContext::Nothing);
    assert_eq!(largest(fixed), LargestContext::Budget { tokens: Tokens::new(0) });
    assert!(state.largest_context(Bytes::new(1), 0, Tokens::new(1)).is_err());
}

/// The longest request that fits is the engine's own estimate (`estimated_max_model_len`, for which
/// `tests/cases.rs` holds answers of vLLM's planner), whatever the ranks. Its start-up check leaves the null block out
/// since 0.29.
#[test]
fn the_longest_request_is_the_engines_own_estimate() {
    let limit = 1 << 24;
    let mut compared = 0;
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        for (engine, pp) in [("vllm@0.33", 1), ("vllm@0.33", 2), ("vllm@0.29", 1)] {
            for gib in [1, 7, 80] {
                let settings = Settings { pp: Some(pp), ..Settings::default() };
                let query = Query::new(&architecture, engine.parse().unwrap(), &settings).unwrap();
                let found = largest_context_in(&query, Bytes::new(gib << 30), Tokens::new(limit));
                let own = Settings {
                    available_kv_bytes: Some(gib << 30),
                    max_model_len: Some(limit),
                    ..settings.clone()
                };
                let query = Query::new(&architecture, engine.parse().unwrap(), &own).unwrap();
                let estimate = answer(&query, Quantity::EstimatedMaxModelLen);
                let (found, estimate) = match (found, estimate) {
                    (Ok(found), Ok(estimate)) => (found, estimate.whole().unwrap()),
                    (found, estimate) => {
                        assert_eq!(found.is_err(), estimate.is_err(), "{} in {engine}", entry.id);
                        continue;
                    }
                };
                let tokens = match found {
                    LargestContext::Nothing => 0,
                    LargestContext::Budget { tokens } | LargestContext::Limit { tokens } => tokens.get(),
                };
                assert_eq!(tokens, estimate, "{} in {engine} with {pp} ranks and {gib} GiB", entry.id);
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

fn has_state(architecture: &Architecture) -> bool {
    let mut mixers = architecture.mixers();
    mixers.any(|mixer| matches!(mixer, Mixer::Recurrent(_)))
}

/// What each engine reserves at the length that is found fits, and one token more does not; the same for requests.
#[test]
fn an_engine_holds_what_is_found_and_no_more() {
    let memory = Bytes::new(24 << 30);
    let (mut contexts, mut batches) = (0, 0);
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        for kind in EngineKind::ALL.into_iter().filter(|kind| *kind != EngineKind::Vllm) {
            // SGLang divides memory between states and caches (`tests/pools.rs`).
            if kind == EngineKind::SgLang && has_state(&architecture) {
                continue;
            }
            let settings = Settings::default();
            let query = Query::new(&architecture, Engine::newest(kind), &settings).unwrap();
            let reserved = |tokens: u64, batch: u64| {
                let context = Some(Tokens::new(tokens));
                reserved_bytes(&Query { context, batch, ..query.clone() }).unwrap()
            };
            let name = format!("{} in {}", entry.id, kind.name());
            for batch in [1, 6] {
                let asked = Query { batch, ..query.clone() };
                let found = match largest_context_in(&asked, memory, Tokens::new(1 << 30)) {
                    Ok(found) => found,
                    Err(error) => {
                        let own = reserved_bytes(&Query { context: Some(Tokens::new(1)), ..asked });
                        assert_eq!(own, Err(error), "{name}");
                        continue;
                    }
                };
                contexts += 1;
                match found {
                    LargestContext::Nothing => assert!(reserved(1, batch) > memory, "{name}"),
                    LargestContext::Limit { tokens } => {
                        assert!(reserved(tokens.get(), batch) <= memory, "{name}");
                    }
                    LargestContext::Budget { tokens } => {
                        assert!(reserved(tokens.get(), batch) <= memory, "{name}: {tokens}");
                        // SGLang divides in floating point, which may lose the token that fills a memory exactly.
                        let more = reserved(tokens.get() + 1, batch);
                        let exact = kind == EngineKind::SgLang && more == memory;
                        assert!(more > memory || exact, "{name}: {tokens}");
                    }
                }
            }
            let Ok(Some(requests)) = largest_batch_in(&query, memory, Tokens::new(5000)) else { continue };
            batches += 1;
            assert!(requests == 0 || reserved(5000, requests) <= memory, "{name}: {requests}");
            // A launch of SGLang admits no more than 4096 requests at once (`resolve_max_num_reqs`), of DeepSeek-V4 256.
            // llama.cpp starts with no more than 256 (`LLAMA_MAX_SEQ`).
            let admitted = match kind {
                EngineKind::SgLang => [256, 4096].contains(&requests),
                EngineKind::LlamaCpp => requests == 256,
                _ => false,
            };
            assert!(admitted || reserved(5000, requests + 1) > memory, "{name}: {requests}");
        }
    }
    assert!(contexts > 400 && batches > 200, "{contexts} contexts, {batches} batches");
}

/// Kimi-K2.6 in llama.cpp keeps 61 layers × 576 f16 values a token: 70,272 B. Two requests of 4096 tokens, a multiple of
/// 256 cells, take 575,668,224 B; with a byte less a request loses 256 cells.
#[test]
fn by_hand_in_llama_cpp() {
    let architecture = find_entry("kimi-k2.6").unwrap().architecture().unwrap();
    let settings = Settings::default();
    let mut query = Query::new(&architecture, "llama.cpp".parse().unwrap(), &settings).unwrap();
    query.batch = 2;
    let found = |bytes: u64| largest_context_in(&query, Bytes::new(bytes), Tokens::MAX);
    assert_eq!(found(575_668_224), Ok(LargestContext::Budget { tokens: Tokens::new(4096) }));
    assert_eq!(found(575_668_223), Ok(LargestContext::Budget { tokens: Tokens::new(4096 - 256) }));
    assert_eq!(largest_batch_in(&query, Bytes::new(575_668_224), Tokens::new(4096)), Ok(Some(2)));
    assert_eq!(largest_batch_in(&query, Bytes::new(575_668_224), Tokens::new(4097)), Ok(Some(1)));
}

/// Qwen3-8B: 36 layers × 2 × 8 heads × 128 × 2 B, 2,359,296 B for 16 tokens. 1 GiB are 455 blocks. No version hands out
/// the first of them (`BlockPool.__init__` pops the null block), so 454 × 16 tokens fit; the check of 0.28 counts it all
/// the same and estimates 455 × 16, above the longest length that was asked for.
#[test]
fn the_null_block_is_there_in_every_version() {
    let architecture = find_entry("qwen3-8b").unwrap().architecture().unwrap();
    let gib = Bytes::new(1 << 30);
    for version in ["vllm@0.20", "vllm@0.25", "vllm@0.28", "vllm@0.29", "vllm@0.33"] {
        let settings = Settings::default();
        let query = Query::new(&architecture, version.parse().unwrap(), &settings).unwrap();
        let found = largest_context_in(&query, gib, Tokens::MAX);
        assert_eq!(found, Ok(LargestContext::Budget { tokens: Tokens::new(454 * 16) }), "{version}");
    }
    let estimate = |version: &str| {
        let settings = Settings {
            available_kv_bytes: Some(gib.get()),
            max_model_len: Some(40_960),
            ..Settings::default()
        };
        let query = Query::new(&architecture, version.parse().unwrap(), &settings).unwrap();
        answer(&query, Quantity::EstimatedMaxModelLen).unwrap().whole()
    };
    assert_eq!((estimate("vllm@0.28"), estimate("vllm@0.29")), (Some(455 * 16), Some(454 * 16)));
}

/// MiniMax-M2.7 in vLLM 0.33: a block is 16 × 253,952 = 4,063,232 B. 10 GiB are 2642 blocks, one of which is never
/// handed out: 2641 × 16 tokens for one request, 880 blocks each for three.
#[test]
fn by_hand_in_vllm() {
    let architecture = find_entry("minimax-m2.7").unwrap().architecture().unwrap();
    let settings = Settings::default();
    let mut query = Query::new(&architecture, "vllm@0.33".parse().unwrap(), &settings).unwrap();
    let memory = Bytes::new(10 << 30);
    let tokens = |query: &Query<'_>| match largest_context_in(query, memory, Tokens::MAX).unwrap() {
        LargestContext::Budget { tokens } => tokens.get(),
        other => panic!("{other:?}"),
    };
    assert_eq!(tokens(&query), 2641 * 16);
    assert_eq!(largest_batch_in(&query, memory, Tokens::new(880 * 16)), Ok(Some(3)));
    assert_eq!(largest_batch_in(&query, memory, Tokens::new(880 * 16 + 1)), Ok(Some(2)));
    query.batch = 3;
    assert_eq!(tokens(&query), 880 * 16);
    let settings = Settings { available_kv_bytes: Some(1), ..Settings::default() };
    let query = Query::new(&architecture, "vllm".parse().unwrap(), &settings).unwrap();
    let error = largest_context_in(&query, memory, Tokens::MAX).unwrap_err();
    assert_eq!(error.place(), Some("available_kv_bytes"));
}

/// What a room says beside its answer. Qwen3.5-397B in SGLang: a slot of state is 192,061,440 B (45 layers × (4,194,304 + 73,728) B),
/// 9/19 of the memory has room for 8 of them, one of which padded batches write to; what is left has a slot for every 30,720 B.
#[test]
fn a_room_says_how_a_launch_divides_it() {
    let memory = 3_333_333_333_u64;
    let slot = 45 * (4_194_304 + 73_728);
    let slots = memory * 9 / 19 / slot - 1;
    let architecture = find_entry("qwen3.5-397b-a17b").unwrap().architecture().unwrap();
    let settings = Settings::default();
    let state = StateModel::new(&architecture, &settings).unwrap();
    let query = Query::new(&architecture, "sglang@0.5.23".parse().unwrap(), &settings).unwrap();
    let room = Room { query, state: &state, memory: Bytes::new(memory) };
    let launch = room.launch().unwrap().unwrap();
    // Of 1 GB the states have 2 slots, with which a launch admits nobody.
    assert_eq!(Room { memory: Bytes::new(1_000_000_000), ..room.clone() }.launch(), Ok(None));
    let caches = memory - (slots + 1) * slot;
    assert_eq!((launch.state_slots, launch.cache_bytes.get()), (slots, caches));
    assert_eq!(launch.cache_tokens, Some(Tokens::new(caches / 30_720)));
    // One request takes 5 slots: its own, 2 for prefixes, 2 of the extra buffer.
    assert_eq!(launch.max_running_requests, Some(slots / 5));
}

/// llama.cpp starts no more than 256 sequences (`LLAMA_MAX_SEQ`), whatever the memory; Llama-3.1-8B keeps 131,072 B a token.
#[test]
fn a_room_says_what_bounds_its_batch() {
    let architecture = find_entry("llama-3.1-8b").unwrap().architecture().unwrap();
    let settings = Settings::default();
    let state = StateModel::new(&architecture, &settings).unwrap();
    let n = Tokens::new(1024);
    let found = |engine: &str, memory: u64| {
        let query = Query::new(&architecture, engine.parse().unwrap(), &settings).unwrap();
        let room = Room { query, state: &state, memory: Bytes::new(memory) };
        let requests = room.largest_batch(n).unwrap().unwrap();
        (requests, room.bound(n, requests).unwrap())
    };
    let request = 1024 * 131_072;
    assert_eq!(found("llama.cpp", 300 * request), (256, Bound::AdmittedRequests));
    assert_eq!(found("llama.cpp", 3 * request), (3, Bound::Memory));
    assert_eq!(found("vllm", 300 * request), (299, Bound::Memory));
    // A launch admits at most 4,096 where nothing is set (`resolve_max_num_reqs`).
    assert_eq!(found("sglang", 5000 * request), (4096, Bound::AdmittedRequests));
}

/// DeepSeek-V3.2 in vLLM: of every size one block is never handed out: 64 tokens × 61 layers × (1,152 + 132) B.
#[test]
fn a_room_names_its_null_block() {
    let architecture = find_entry("deepseek-v3.2").unwrap().architecture().unwrap();
    let settings = Settings::default();
    let state = StateModel::new(&architecture, &settings).unwrap();
    for (engine, block) in [("vllm@0.33", Some(64 * 61 * 1284)), ("llama.cpp", None), ("logical", None)] {
        let query = Query::new(&architecture, engine.parse().unwrap(), &settings).unwrap();
        let room = Room { query, state: &state, memory: Bytes::new(1 << 32) };
        assert_eq!(room.once().unwrap().map(|(bytes, _)| bytes.get()), block, "{engine}");
        assert_eq!(room.while_decoding(Tokens::new(1000)).unwrap(), None, "{engine}");
    }
}
