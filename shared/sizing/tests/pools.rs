//! What SGLang's pools must have for a batch, and what fits a memory: the inversion of the same pools.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "in tests a panic is the report, and these figures are exact"
)]

use crate::support::asked;

use asked::{catalogued, settings};
use kvscope_sizing::engine::{
    Engine, EngineKind, Query, answer, largest_batch_in, largest_context_in, report, reserved_bytes,
    settings_in,
};
use kvscope_sizing::{Architecture, Bytes, LargestContext, Settings, Tokens, catalogue};

fn figure(id: &str, pairs: &[(&str, &str)], quantity: &str) -> f64 {
    let settings = settings(pairs);
    let architecture = catalogued(id);
    let query = Query::new(&architecture, "sglang@0.5.23".parse().unwrap(), &settings).unwrap();
    answer(&query, quantity.parse().unwrap()).unwrap().as_f64()
}

fn largest(id: &str, memory: u64, pairs: &[(&str, &str)]) -> u64 {
    let settings = settings(pairs);
    let architecture = catalogued(id);
    let query = Query::new(&architecture, "sglang@0.5.23".parse().unwrap(), &settings).unwrap();
    match largest_context_in(&query, Bytes::new(memory), Tokens::MAX).unwrap() {
        LargestContext::Budget { tokens } => tokens.get(),
        other => panic!("{id}: {other:?}"),
    }
}

/// Gemma 4 31B: 10 full layers of 4 heads × 2 × 512 × 2 B and 50 window layers of 16 heads × 2 × 256 × 2 B, of which
/// four fifths come with every token: 81,920 + 0.8 × 819,200 = 737,280 B.
#[test]
fn windows_come_in_their_part_of_the_full_pool() {
    let id = "gemma-4-31b";
    let cell: u32 = 10 * 4 * 2 * 512 * 2 + 50 * 16 * 2 * 256 * 2 * 8 / 10;
    assert_eq!(cell, 737_280);
    assert_eq!(figure(id, &[("context", "100000")], "resident_bytes"), f64::from(cell) * 100_000.0);
    assert_eq!(figure(id, &[], "slope_bytes_per_token"), f64::from(cell));
    let two = [("context", "50000"), ("batch", "2")];
    assert_eq!(figure(id, &two, "resident_bytes"), f64::from(cell) * 100_000.0);
    // 60 GiB / 737,280 B: the line of the pool at that memory.
    let memory = 60 << 30;
    assert_eq!(largest(id, memory, &[]), memory / u64::from(cell));
    assert_eq!(largest(id, memory, &[]), 87_381);
}

/// What fits is never more than the tokens of the pool that this memory makes, whatever the model.
#[test]
fn what_fits_is_no_more_than_the_pool() {
    let mut compared = 0;
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        for gib in [20_u64, 60] {
            let memory = gib << 30;
            let budget = Settings { available_kv_bytes: Some(memory), ..Settings::default() };
            let query = Query::new(&architecture, Engine::newest(EngineKind::SgLang), &budget).unwrap();
            let Ok(tokens) = answer(&query, "logged_kv_tokens".parse().unwrap()) else { continue };
            let plain = Settings::default();
            let query = Query::new(&architecture, Engine::newest(EngineKind::SgLang), &plain).unwrap();
            let fits = match largest_context_in(&query, Bytes::new(memory), Tokens::MAX).unwrap() {
                LargestContext::Nothing => 0,
                LargestContext::Budget { tokens } | LargestContext::Limit { tokens } => tokens.get(),
            };
            assert!(fits <= tokens.whole().unwrap(), "{}: {fits} in a pool of {tokens}", entry.id);
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

/// Qwen3.5-397B over 8 ranks: 15 layers of 2 × 256 × 2 B, 15,360 B a token, and slots of 24,007,680 B. A launch gives states
/// 9/19 of the memory (`_handle_max_mamba_cache`): of 60 GiB 1271 whole slots, and the rest to the caches.
#[test]
fn states_have_their_part_of_the_memory() {
    let memory = 60_u64 << 30;
    let slot = 45 * (8 * 128 * 128 * 4 + 3 * 1536 * 2);
    let slots = memory * 9 / 19 / slot;
    assert_eq!(slots, 1271);
    let tokens = (memory - slots * slot) / 15_360;
    assert_eq!(largest("qwen3.5-397b-a17b", memory, &[("tp", "8")]), tokens);
    // As many slots as are set leave the rest to the caches: 6 and one more.
    let set = [("tp", "8"), ("state_slots", "6")];
    assert_eq!(largest("qwen3.5-397b-a17b", memory, &set), (memory - 7 * slot) / 15_360);
    // Requests of 1000 tokens: five slots each, and one more.
    let own = settings(&[("tp", "8")]);
    let architecture = catalogued("qwen3.5-397b-a17b");
    let query = Query::new(&architecture, "sglang".parse().unwrap(), &own).unwrap();
    assert_eq!(largest_batch_in(&query, Bytes::new(memory), Tokens::new(1000)), Ok(Some((slots - 1) / 5)));
}

/// Qwen3.5-27B without a radix cache: 48 layers of 48 × 128 × 128 f32 values and 3 × 10,240 bf16 ones a slot, and 16 layers of
/// 4 × 2 × 256 × 2 B a token. The requests that are set have a slot each and padded batches one, whatever the batch; where
/// none are set, states have 9/19 of the memory with a radix cache and without (`_handle_max_mamba_cache`).
#[test]
fn without_a_radix_cache_requests_decide_the_slots() {
    let id = "qwen3.5-27b";
    let slot = 48 * (48 * 128 * 128 * 4 + 3 * 10_240 * 2);
    assert_eq!(257 * slot, 39_563_624_448_u64);
    let cell = 16 * 4 * 2 * 256 * 2;
    let set = [("radix_cache", "false"), ("max_running_requests", "256")];
    let own = settings(&set);
    let architecture = catalogued(id);
    let query = Query::new(&architecture, "sglang@0.5.23".parse().unwrap(), &own).unwrap();
    assert_eq!(
        largest_context_in(&query, Bytes::new(39_000_000_000), Tokens::MAX),
        Ok(LargestContext::Nothing)
    );
    let left = 40_000_000_000 - 257 * slot;
    assert_eq!(left / cell, 6658);
    assert_eq!(largest(id, 40_000_000_000, &set), 6658);
    assert_eq!(largest(id, 40_000_000_000, &[("state_slots", "256")]), 6658);
    let eight = [&set[..], &[("context", "1000"), ("batch", "8")]].concat();
    assert_eq!(figure(id, &eight, "state_bytes"), (257 * slot) as f64);

    let divided = 40_000_000_000 * 9 / 19 / slot * slot;
    let tokens = (40_000_000_000 - divided) / cell;
    assert_eq!(tokens, 321_424);
    assert_eq!(largest(id, 40_000_000_000, &[]), tokens);
    assert_eq!(largest(id, 40_000_000_000, &[("radix_cache", "false")]), tokens);

    // What a launch makes beside a budget is told by the same rule: the ratio of 1/1.9 has no part in it.
    let told = |pairs: &[(&str, &str)]| {
        let settings = settings(&[&[("available_kv_bytes", "1GB")], pairs].concat());
        let query = Query::new(&architecture, "sglang@0.5.23".parse().unwrap(), &settings).unwrap();
        let found =
            report(&query).unwrap().warnings.into_iter().find(|warning| warning.field == "state_slots");
        found.unwrap().message
    };
    let message = told(&set);
    assert!(message.contains("256 requests and one more, 39,563,624,448 B"), "{message}");
    assert!(!message.contains("1.9"), "{message}");
    assert!(told(&[]).contains("1/1.9"));
}

/// A launch in a memory has the caches that the memory fits: Qwen3.5-27B in 40 GB makes 123 slots with the padded one.
#[test]
fn a_launch_in_a_memory_has_what_fits_it() {
    let architecture = catalogued("qwen3.5-27b");
    let plain = Settings::default();
    let query = Query::new(&architecture, "sglang@0.5.23".parse().unwrap(), &plain).unwrap();
    let launch = settings_in(&query, Bytes::new(40_000_000_000)).unwrap();
    assert_eq!(launch.available_kv_bytes, Some(40_000_000_000 - 123 * 153_944_064));
    assert_eq!(launch.state_slots, Some(122));
    let query = Query { settings: &launch, ..query.clone() };
    let whole = |quantity: &str| answer(&query, quantity.parse().unwrap()).unwrap().as_f64();
    assert_eq!(whole("logged_kv_tokens"), 321_424.0);
    // Tensors have a page of one token more than the budget.
    assert!(whole("pool_bytes") <= 40e9 + 65_536.0);
    assert_eq!(whole("max_running_requests"), 24.0);
    let wider = Query { settings: &plain, ..query };
    let message = settings_in(&wider, Bytes::new(1000)).unwrap_err().to_string();
    assert!(message.contains("less than the state slots"), "{message}");
}

/// A model of 4 window layers alone, 8 heads of 64 in bf16: 4 × 2048 B a token. Its one pool must be as long as a request
/// (`hybrid_swa_token_capacity` is the window pool's, and `get_worker_info` refuses longer requests), so it grows with
/// every token; a second request holds 128 + 128 + 1 + 1 tokens of it at most (`compute_swa_request_cap`).
#[test]
fn a_pool_of_windows_alone_holds_the_longest_request() {
    let architecture = windows_alone();
    let ask = |pairs: &[(&str, &str)], quantity: &str| {
        let settings = settings(pairs);
        let query = Query::new(&architecture, "sglang@0.5.23".parse().unwrap(), &settings).unwrap();
        answer(&query, quantity.parse().unwrap()).unwrap().as_f64()
    };
    for tokens in ["1000", "8192", "20000"] {
        let one = [("context", tokens)];
        assert_eq!(ask(&one, "resident_bytes"), 8192.0 * tokens.parse::<f64>().unwrap());
        assert_eq!(ask(&one, "slope_bytes_per_token"), 8192.0);
        assert_eq!(ask(&one, "fixed_bytes_per_request"), 0.0);
    }
    let three = [("context", "20000"), ("batch", "3")];
    assert_eq!(ask(&three, "resident_bytes"), 8192.0 * (20_000.0 + 2.0 * 258.0));
    // Requests shorter than that hold their tokens.
    assert_eq!(ask(&[("context", "100"), ("batch", "3")], "resident_bytes"), 8192.0 * 300.0);
    let plain = Settings::default();
    let query = Query::new(&architecture, "sglang@0.5.23".parse().unwrap(), &plain).unwrap();
    let found = largest_context_in(&query, Bytes::new(8_192_000), Tokens::MAX);
    assert_eq!(found, Ok(LargestContext::Budget { tokens: Tokens::new(1000) }));
}

fn windows_alone() -> Architecture {
    kvscope_sizing::read_config(
        r#"{"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 4,
            "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "hidden_size": 2880,
            "sliding_window": 128, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
            "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"]}"#,
    )
    .unwrap()
}

/// A pool with fewer tokens than the batch needs says both.
#[test]
fn pools_that_are_too_small_are_told() {
    let told = |pairs: &[(&str, &str)], name: &str| {
        let (settings, architecture) = (settings(pairs), catalogued("glm-4.5"));
        let query = Query::new(&architecture, "sglang".parse().unwrap(), &settings).unwrap();
        let found = report(&query).unwrap().warnings.into_iter().find(|warning| warning.field == name);
        found.map(|warning| warning.message)
    };
    let message = told(&[("context", "100000"), ("pool_tokens", "1")], "pool_tokens").unwrap();
    assert!(message.contains("has 1 tokens") && message.contains("needs 100,000"), "{message}");
    // 92 layers × 8 heads × 2 × 128 × 2 B: 376,832 B a token, 26,537 tokens in 10 GB.
    let message =
        told(&[("context", "30000"), ("available_kv_bytes", "10GB")], "available_kv_bytes").unwrap();
    assert!(message.contains("has 26,537 tokens") && message.contains("needs 30,000"), "{message}");
    assert_eq!(told(&[("context", "20000"), ("available_kv_bytes", "10GB")], "available_kv_bytes"), None);
}

/// Requests that a launch has no room for are told with both numbers.
#[test]
fn requests_beyond_the_launch_are_told() {
    let told = |engine: &str, pairs: &[(&str, &str)], name: &str| {
        let (settings, architecture) = (settings(pairs), catalogued("glm-4.5"));
        let query = Query::new(&architecture, engine.parse().unwrap(), &settings).unwrap();
        let found = report(&query).unwrap().warnings.into_iter().find(|warning| warning.field == name);
        found.map_or(String::new(), |warning| warning.message)
    };
    let cells = told("llama.cpp", &[("context", "100000"), ("n_ctx", "512")], "n_ctx");
    assert!(cells.starts_with("512 cells in one stream, but 100,000 are asked for"), "{cells}");
    let sequences = told("llama.cpp", &[("context", "512"), ("batch", "3"), ("n_seq_max", "2")], "n_seq_max");
    assert!(sequences.starts_with("2 sequences, but the batch has 3 requests"), "{sequences}");
    let longest = told("vllm", &[("context", "100000"), ("max_model_len", "50000")], "max_model_len");
    assert!(longest.starts_with("50,000 tokens, but each request has 100,000"), "{longest}");
    assert_eq!(told("vllm", &[("context", "50000"), ("max_model_len", "50000")], "max_model_len"), "");
    let few = [("context", "1000"), ("batch", "3"), ("max_running_requests", "2")];
    let waiting = told("sglang", &few, "max_running_requests");
    assert!(waiting.starts_with("the launch admits 2 requests at once, and this batch has 3"), "{waiting}");
    assert_eq!(told("sglang", &few[..1], "max_running_requests"), "");
    // A pool admits half as many requests as it has tokens (`resolve_max_num_reqs`).
    let tiny = [("context", "1"), ("batch", "6"), ("pool_tokens", "10")];
    let waiting = told("sglang", &tiny, "max_running_requests");
    assert!(waiting.starts_with("the launch admits 5 requests at once, and this batch has 6"), "{waiting}");
}

/// Pools that a launch sizes by its requests hold every request of a larger batch all the same, and what fits is no more
/// than the launch admits.
#[test]
fn pools_by_requests_hold_every_request_of_the_batch() {
    let pairs =
        [("radix_cache", "false"), ("max_running_requests", "2"), ("kv_dtype", "bf16"), ("context", "20000")];
    // gpt-oss-120b: 18 window layers of 8 × 128 × 2 B; 128 + 128 + 1 + 1 tokens a request, two chunks of 8192 and a page.
    let id = "gpt-oss-120b";
    let windows = |requests: u64| ((requests * 258 + 2 * 8192 + 1) * 18 * 2048) as f64;
    assert_eq!(figure(id, &pairs, "window_bytes"), windows(2));
    let batch = [&pairs[..], &[("batch", "64")]].concat();
    assert_eq!(figure(id, &batch, "window_bytes"), windows(64));
    let own = settings(&pairs);
    let architecture = catalogued(id);
    let query = Query::new(&architecture, "sglang@0.5.23".parse().unwrap(), &own).unwrap();
    let memory = Bytes::new(80_000_000_000);
    assert_eq!(largest_batch_in(&query, memory, Tokens::new(20_000)), Ok(Some(2)));

    // DeepSeek-V4-Flash launches with 256 requests (`deepseek_v4_hook.py`). Rings of 1000: (1001 × 128 + 129) rows in whole
    // groups of 128, 2 × 512 × 4 B each, in 20 layers; and for 1000 pages of windows 8 rows of 4 × 4 × (512 + 128) B in 21.
    let id = "deepseek-v4-flash";
    let rings = (1001_u64 * 128 + 129).next_multiple_of(128) * 2 * 512 * 4 * 20;
    let sparse = 1000 * 8 * 4 * 4 * (512 + 128) * 21;
    let batch = [("context", "1000"), ("batch", "1000")];
    assert_eq!(figure(id, &batch, "state_bytes"), (rings + sparse) as f64);
    let (architecture, plain) = (catalogued(id), Settings::default());
    let mut query = Query::new(&architecture, "sglang@0.5.23".parse().unwrap(), &plain).unwrap();
    let memory = Bytes::new(140_000_000_000);
    assert_eq!(largest_batch_in(&query, memory, Tokens::new(1000)), Ok(Some(256)));
    (query.context, query.batch) = (Some(Tokens::new(1000)), 1000);
    let found = report(&query).unwrap().warnings;
    assert!(
        found.iter().any(|warning| warning.message.starts_with("the launch admits 256 requests at once"))
    );
    let beside = kvscope_sizing::engine::reservation(&query).unwrap();
    let rest = format!("{:?}", beside.rest);
    assert!(!rest.contains("not named"), "{rest}");
}

/// Over whole blocks, pages and entries the growth of what is reserved is the slope, in every engine, on one rank and on
/// one of eight.
#[test]
fn reserved_bytes_grow_by_the_slope() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    let catalogued = catalogue().iter().map(|entry| (entry.id.clone(), entry.architecture().unwrap()));
    for (id, architecture) in catalogued.chain([("windows alone".to_owned(), windows_alone())]) {
        for kind in EngineKind::ALL {
            for tp in [1, 8] {
                let settings = Settings { tp: Some(tp), ..Settings::default() };
                let mut query = Query::new(&architecture, Engine::newest(kind), &settings).unwrap();
                query.context = Some(Tokens::new(1 << 21));
                let Ok(found) = report(&query) else { continue };
                let block = found.figure("attention_block_size".parse().unwrap());
                let block = block.and_then(kvscope_sizing::engine::Figure::whole).unwrap_or(1).max(1);
                // Ten for parts of a pool, 2^17 for entries of 256 × 128 tokens in cells.
                let step = block * 10 * (1 << 17);
                let at = |tokens: u64| {
                    let context = Some(Tokens::new((1 << 21) + tokens));
                    reserved_bytes(&Query { context, ..query.clone() })
                };
                let (Ok(before), Ok(after)) = (at(0), at(step)) else { continue };
                let slope = answer(&query, "slope_bytes_per_token".parse().unwrap()).unwrap().as_f64();
                let grown = (after.get() - before.get()) as f64 / step as f64;
                compared += 1;
                if (grown - slope).abs() > slope * 1e-9 {
                    wrong.push(format!("{id} in {}, tp {tp}: {slope} for {grown}", kind.name()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 600, "{compared}");
}
