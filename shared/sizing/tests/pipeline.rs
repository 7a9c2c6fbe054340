//! What pipeline ranks reserve: every rank has pools of its own layers, and the one that holds most decides.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::engine::{
    Engine, EngineKind, Figure, Query, Reservation, Rest, Room, answer, largest_batch_in, largest_context_in,
    report, reservation, reserved_bytes, settings_in,
};
use kvscope_sizing::{
    Architecture, Bytes, LargestContext, Settings, StateModel, Tokens, catalogue, find_entry, read_config,
};

const SGLANG: &str = "sglang@0.5.23";

fn beside(id: &str, engine: &str, pairs: &[(&str, &str)]) -> Reservation {
    let (architecture, settings) = (catalogued(id), settings(pairs));
    reservation(&Query::new(&architecture, engine.parse().unwrap(), &settings).unwrap()).unwrap()
}

/// Gemma 2 27B in vLLM over 2 ranks of 23 layers, the first of which has windows on its 12 even layers and every token on
/// 11: 16 × 2 × 128 × 2 B a token. A window of 4096 has ⌈(4095 + 3 × 8192) / 16⌉ + 1 = 1793 blocks of 16 tokens. Parts and
/// dense bytes are of one rank, and nothing is left between them.
#[test]
fn parts_and_dense_bytes_are_of_one_rank() {
    let found = beside("gemma-2-27b", "vllm@0.33", &[("context", "100000"), ("batch", "2"), ("pp", "2")]);
    let reserved: Vec<u64> = found.parts.iter().map(|part| part.reserved.get()).collect();
    assert_eq!(reserved[..2], [2 * 11 * 100_000 * 8192, 2 * 12 * 1793 * 16 * 8192]);
    let dense = 2 * (11 * 100_000 + 12 * 4096) * 8192;
    let Rest::Less(bytes, why) = &found.division else { panic!("{:?}", found.division) };
    assert_eq!(bytes.get(), 2 * 23 * (100_000 + 4096) * 8192 - dense);
    assert!(why.starts_with(&format!("one rank of 2 has {}", Bytes::new(dense))), "{why}");
    assert_eq!(found.rest, Rest::None);
}

/// GLM-4.5 in vLLM: 92 layers of 4096 B a token over 2 ranks, 46 each, and a draft layer on the last, which holds most. Of
/// Kimi-K2.6's 61 layers the first rank has 31 (`get_pp_indices`), as many as the last with the draft layer.
#[test]
fn draft_layers_are_on_the_last_rank() {
    let asked = [("context", "100000"), ("pp", "2"), ("draft_layers", "1")];
    let found = beside("glm-4.5", "vllm@0.33", &asked);
    assert_eq!((found.reserved.get(), found.rest), (100_000 * 47 * 4096, Rest::None));
    let own = settings(&asked);
    let glm = catalogued("glm-4.5");
    let told = report(&Query::new(&glm, "vllm@0.33".parse().unwrap(), &own).unwrap()).unwrap().warnings;
    let told = told.iter().find(|warning| warning.field == "pp").unwrap();
    assert!(
        told.message.contains("rank 2 of 2") && told.message.contains("layers 46 to 91"),
        "{}",
        told.message
    );
    let found = beside("kimi-k2.6", "vllm@0.33", &asked);
    assert_eq!((found.reserved.get(), found.rest), (100_000 * 31 * 1152, Rest::None));
}

/// `max(1, max_num_reqs // attn_dp_size)` (`resolve_max_num_reqs`): 2 requests over 4 groups are one in each, and 6 too.
#[test]
fn requests_that_groups_cannot_share_evenly_are_told() {
    let model = catalogued("kimi-k2.6");
    for (requests, together) in [("2", Some("4 together")), ("6", Some("4 together")), ("8", None)] {
        let own = settings(&[("tp", "8"), ("dp", "4"), ("max_running_requests", requests)]);
        let query = Query::new(&model, SGLANG.parse().unwrap(), &own).unwrap();
        let found = report(&query).unwrap().warnings;
        let told = found.iter().find(|warning| warning.field == "max_running_requests");
        assert_eq!(told.is_some(), together.is_some(), "{requests}: {found:?}");
        let words = told.map_or("", |warning| warning.message.as_str());
        assert!(words.contains(together.unwrap_or_default()), "{requests}: {words}");
    }
}

fn catalogued(id: &str) -> Architecture {
    find_entry(id).unwrap().architecture().unwrap()
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

fn resident(architecture: &Architecture, engine: &str, pairs: &[(&str, &str)]) -> u64 {
    let settings = settings(pairs);
    let query = Query::new(architecture, engine.parse().unwrap(), &settings).unwrap();
    answer(&query, "resident_bytes".parse().unwrap()).unwrap().whole().unwrap()
}

fn requests(architecture: &Architecture, memory: u64, context: u64, pairs: &[(&str, &str)]) -> u64 {
    let settings = settings(pairs);
    let query = Query::new(architecture, SGLANG.parse().unwrap(), &settings).unwrap();
    largest_batch_in(&query, Bytes::new(memory), Tokens::new(context)).unwrap().unwrap()
}

/// 64 layers of Qwen3.6-27B over 6 ranks are 10, 10, 11, 11, 11, 11 (`get_pp_indices`), every fourth with attention: 4 heads
/// × 2 × 256 × 2 B a token; others keep 48 × 128 × 128 bf16 values and 3 × 10,240. Ranks 4 to 6 have 3 + 8 of them; 300
/// requests have a slot each, padded batches one.
#[test]
fn states_of_a_rank_count_beside_its_tokens() {
    let qwen = catalogued("qwen3.6-27b");
    let asked = [
        ("pp", "6"),
        ("context", "1000"),
        ("batch", "300"),
        ("state_dtype", "bf16"),
        ("radix_cache", "false"),
    ];
    let state = 48 * 128 * 128 * 2 + 3 * 10_240 * 2;
    let most = 300_000 * 3 * 4 * 2 * 256 * 2 + 301 * 8 * state;
    assert_eq!((state, most), (1_634_304, 7_621_804_032_u64));
    assert_eq!(resident(&qwen, SGLANG, &asked), most);
    let own = settings(&asked);
    let found = report(&Query::new(&qwen, SGLANG.parse().unwrap(), &own).unwrap()).unwrap().warnings;
    let told = found.iter().find(|warning| warning.field == "pp").unwrap();
    assert!(
        told.message.contains("rank 4 of 6") && told.message.contains("layers 31 to 41"),
        "{}",
        told.message
    );

    // 42 layers of Nemotron 3 Nano 4B over 8 ranks: M are 96 × 80 × 128 bf16 values and 3 × 9728, * 8 × 2 × 128 × 2 B a token.
    let nano = catalogued("nemotron-3-nano-4b");
    let pattern = "M-M-M-MM-M-M*-M-M*-M-M-M*-M-M-MM*-MMM-M-M-";
    let ranks = [0, 5, 10, 15, 20, 25, 30, 36, 42];
    let of_rank = |ends: &[usize]| {
        let count = |kind| pattern[ends[0]..ends[1]].matches(kind).count() as u64;
        300_000 * count("*") * 4096 + 301 * count("M") * (96 * 80 * 128 * 2 + 3 * 9728 * 2)
    };
    let most = ranks.windows(2).map(of_rank).max().unwrap();
    // 6 layers of the seventh rank: 4 M and 1 *.
    assert_eq!(most, 3_666_235_392);
    let asked = [&[("pp", "8")][..], &asked[1..]].concat();
    assert_eq!(resident(&nano, SGLANG, &asked), most);
}

/// Gemma 4 26B over 7 ranks: 4 layers on the first, all with windows of 8 × 2 × 256 × 2 B a token; the sixth has a full layer
/// of 2 × 2 × 512 × 2 B beside 4 of them. 300 windows of 1000 tokens are four fifths of 375,000 tokens of a full pool. All
/// ranks have as many tokens, and one of windows alone applies no ratio (`_solve_pool_sizes`): it holds most.
#[test]
fn ranks_have_the_tokens_of_the_one_that_needs_most() {
    let gemma = catalogued("gemma-4-26b-a4b");
    let asked = [("pp", "7"), ("context", "1000"), ("batch", "300")];
    let window = 8 * 2 * 256 * 2;
    let sixth = 375_000 * 2 * 2 * 512 * 2 + 300_000 * 4 * window;
    let first = 375_000 * 4 * window;
    assert_eq!((sixth, first), (11_366_400_000_u64, 12_288_000_000_u64));
    assert_eq!(resident(&gemma, SGLANG, &asked), first);
    // A byte less makes one token fewer on that rank, and so on all.
    let at = |memory| requests(&gemma, memory, 1000, &asked[..1]);
    assert_eq!((at(first), at(first - 1)), (300, 299));
}

/// Llama 3.2 11B Vision over 3 ranks of 13, 13 and 14 layers, each with 8 × 2 × 128 × 2 B a slot. An encoder's tokens have
/// slots too (`prepare_encoder_info_extend`), in layers of either kind.
#[test]
fn cross_attention_of_a_rank_counts() {
    let llama = catalogued("llama-3.2-11b-vision-instruct");
    let asked = [("pp", "3"), ("context", "1000"), ("batch", "300"), ("encoder_tokens", "1601")];
    assert_eq!(resident(&llama, SGLANG, &asked), 300 * 14 * (1000 + 1601) * 4096);
}

/// Two ranks: mamba × 3 and attention, and attention × 4, of 64 × 2 × 2 B a token. A state is 32,768 × 128 f32 values and
/// 3 × 32,768 bf16 ones. A launch takes the states of the first rank from the memory of both: of 2 GB, 9/19 for 18 slots.
#[test]
fn every_rank_must_fit() {
    let jamba = read_config(
        r#"{"architectures": ["JambaForCausalLM"], "model_type": "jamba", "num_hidden_layers": 8,
            "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 64, "hidden_size": 4096,
            "mamba_expand": 8, "mamba_d_state": 128, "mamba_d_conv": 4, "max_position_embeddings": 262144,
            "layers_block_type": ["mamba", "mamba", "mamba", "attention", "attention", "attention", "attention",
                                  "attention"]}"#,
    )
    .unwrap();
    let asked = [("pp", "2"), ("radix_cache", "false")];
    let state = 3 * (32_768 * 128 * 4 + 3 * 32_768 * 2);
    assert_eq!(2_000_000_000_u64 * 9 / 19 / state, 18);
    assert_eq!(requests(&jamba, 2_000_000_000, 1000, &asked), 17);
    // One slot and the padded one are more than 9/19 of 200 MB.
    assert_eq!(requests(&jamba, 200_000_000, 1000, &asked), 0);
    // As many slots as are set: 11 states, and on the second rank 4 layers of 1000 tokens for each of ten requests.
    let set = [&asked[..], &[("state_slots", "10")]].concat();
    let least = 11 * state + 10 * 4 * 1000 * 256;
    assert_eq!(requests(&jamba, least, 1000, &set), 10);
    assert_eq!(requests(&jamba, least - 1, 1000, &set), 9);
}

/// Jamba 1.5 Mini over 8 ranks of 4 layers: every second has no attention, and makes no pool of tokens; the others decide
/// (`_zero_kv_max_tokens`). 1 TB has tokens and slots for more requests than a launch admits, 4096.
#[test]
fn a_rank_without_attention_goes_by_the_others() {
    let jamba = catalogued("jamba-1.5-mini");
    assert_eq!(requests(&jamba, 1_000_000_000_000, 1000, &[("pp", "8")]), 4096);
    // 4 layers of 8192 × 16 f32 values and 3 × 8192 bf16 ones; an attention layer of 8 × 2 × 128 × 2 B.
    let (memory, slot) = (10_000_000_000_u64, 4 * (8192 * 16 * 4 + 3 * 8192 * 2));
    let left = memory - memory * 9 / 19 / slot * slot;
    let own = settings(&[("pp", "8")]);
    let query = Query::new(&jamba, SGLANG.parse().unwrap(), &own).unwrap();
    let found = largest_context_in(&query, Bytes::new(memory), Tokens::MAX).unwrap();
    assert_eq!(found, LargestContext::Budget { tokens: Tokens::new(left / 4096) });
    let pool = [("pp", "8"), ("available_kv_bytes", "40960000")];
    let pool = settings(&pool);
    let query = Query::new(&jamba, SGLANG.parse().unwrap(), &pool).unwrap();
    let tokens = answer(&query, "logged_kv_tokens".parse().unwrap()).unwrap().whole();
    assert_eq!(tokens, Some(10_000));
}

/// MiMo-V2-Flash has a window pool, and its first layer keeps every token: alone on a rank it has no window layer, which
/// `HybridSWAPoolConfigurator` asserts.
#[test]
fn a_rank_without_windows_is_refused_where_the_engine_refuses_it() {
    let mimo = catalogued("mimo-v2-flash");
    let own = settings(&[("pp", "48"), ("context", "1000")]);
    let query = Query::new(&mimo, SGLANG.parse().unwrap(), &own).unwrap();
    let error = reserved_bytes(&query).unwrap_err().to_string();
    assert!(error.starts_with("pp: ") && error.contains("layers 0 to 0"), "{error}");
}

/// Some rank holds at least its mean share, whatever the engine, the split and the model.
#[test]
fn no_rank_holds_less_than_the_mean() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        for kind in EngineKind::ALL.into_iter().filter(|kind| *kind != EngineKind::LlamaCpp) {
            let reserved = |ranks: u64| {
                let mut settings = settings(&[("async_scheduling", "false")]);
                settings.pp = Some(ranks);
                let mut query = Query::new(&architecture, Engine::newest(kind), &settings).unwrap();
                (query.context, query.batch) = (Some(Tokens::new(1000)), 300);
                reserved_bytes(&query).map(Bytes::get)
            };
            let Ok(whole) = reserved(1) else { continue };
            for ranks in 2..=8 {
                let Ok(most) = reserved(ranks) else { continue };
                compared += 1;
                if most * ranks < whole {
                    wrong.push(format!("{} in {}, pp {ranks}: {most} of {whole}", entry.id, kind.name()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 1500, "{compared}");
}

/// What is found for several ranks fits each of them, and a page more does not.
#[test]
fn what_fits_several_ranks_is_what_they_hold() {
    let mut compared = 0;
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        let own = settings(&[("pp", "3")]);
        let query = Query::new(&architecture, SGLANG.parse().unwrap(), &own).unwrap();
        let ask = |quantity: &str| answer(&query, quantity.parse().unwrap()).ok().and_then(Figure::whole);
        // Memory is divided between states and caches.
        if ask("state_blocks_per_request").is_some() {
            continue;
        }
        let memory = Bytes::new(20_000_000_000);
        let Ok(LargestContext::Budget { tokens }) = largest_context_in(&query, memory, Tokens::MAX) else {
            continue;
        };
        let reserved = |tokens: u64| {
            reserved_bytes(&Query { context: Some(Tokens::new(tokens)), ..query.clone() }).unwrap()
        };
        let page = ask("attention_block_size").unwrap();
        assert!(reserved(tokens.get()) <= memory, "{}: {tokens}", entry.id);
        assert!(reserved(tokens.get() + page) > memory, "{}: {tokens}", entry.id);
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}

/// Drafts of Nemotron 3 Nano 4B (`_handle_max_mamba_cache`): each request has 5 slots, and a state waits for each of 3 draft
/// tokens of the requests that slots admit, at most 48, and of padded batches.
#[test]
fn states_that_wait_for_drafts_have_room() {
    let nano = catalogued("nemotron-3-nano-4b");
    let (memory, slot) = (10_000_001_661_u64, 21 * (96 * 80 * 128 * 4 + 3 * 9728 * 2));
    for (drafts, requests) in [(3, 48), (3, 2)] {
        let slots = (9 * memory - 19 * slot * (1 + drafts)) * 5 / (19 * slot * (5 + drafts));
        let admitted = (slots / 5).min(requests);
        let text = requests.to_string();
        let own = settings(&[("num_speculative_tokens", "3"), ("max_running_requests", &text)]);
        let query = Query::new(&nano, SGLANG.parse().unwrap(), &own).unwrap();
        let divided = settings_in(&query, Bytes::new(memory)).unwrap();
        assert_eq!((slots, divided.state_slots), (32, Some(32)));
        let caches = memory - (slots + 1) * slot - (admitted + 1) * drafts * slot;
        assert_eq!(divided.available_kv_bytes, Some(caches), "{requests}");
    }
}

/// TensorRT-LLM gives what equal shares leave over to the first ranks (`Mapping.pp_layers`): of 4 layers on 3 ranks the first
/// has 2, here the two that keep every token.
#[test]
fn the_first_ranks_of_tensorrt_llm_have_the_layers_left_over() {
    let model = read_config(
        r#"{"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 4,
            "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 64, "hidden_size": 512, "sliding_window": 128,
            "torch_dtype": "bfloat16", "max_position_embeddings": 131072,
            "layer_types": ["full_attention", "full_attention", "sliding_attention", "sliding_attention"]}"#,
    )
    .unwrap();
    let asked = [("pp", "3"), ("context", "32000")];
    assert_eq!(resident(&model, "trtllm", &asked), 2 * 32_000 * 256);
}

/// Ranks that an engine does not start with: parts of the tensor-parallel ones. TensorRT-LLM's attention data parallelism
/// has a group for each of them.
#[test]
fn rank_counts_that_cannot_be_are_refused() {
    let refusal = |id: &str, engine: &str, pairs: &[(&str, &str)]| {
        let (architecture, own) = (catalogued(id), settings(pairs));
        let query = Query::new(&architecture, engine.parse().unwrap(), &own).unwrap();
        report(&query).err().map(|error| error.to_string())
    };
    for (id, engine, pairs, place) in [
        ("qwen3-8b", SGLANG, &[("dcp", "2")] as &[_], "dcp: "),
        ("kimi-k2.6", SGLANG, &[("dcp", "2")], "dcp: "),
        ("kimi-k2.6", SGLANG, &[("tp", "8"), ("dcp", "16")], "dcp: "),
        ("kimi-k2.6", SGLANG, &[("tp", "8"), ("dcp", "3")], "dcp: "),
        ("qwen3-8b", SGLANG, &[("tp", "8"), ("dp", "4"), ("dcp", "4")], "dcp: "),
        ("mimo-v2-flash", SGLANG, &[("tp", "8"), ("dp", "3")], "dp: "),
        ("mimo-v2-flash", SGLANG, &[("tp", "8"), ("dp", "16")], "dp: "),
        ("qwen3-8b", "trtllm", &[("tp", "8"), ("dp", "3")], "dp: "),
    ] {
        let error = refusal(id, engine, pairs).unwrap_or_default();
        assert!(error.starts_with(place), "{id} {pairs:?}: {error}");
    }
    for (id, engine, pairs) in [
        ("kimi-k2.6", SGLANG, &[("tp", "8"), ("dcp", "8")]),
        ("mimo-v2-flash", SGLANG, &[("tp", "8"), ("dp", "2")]),
        ("qwen3-8b", "trtllm", &[("tp", "8"), ("dp", "8")]),
    ] {
        assert_eq!(refusal(id, engine, pairs), None, "{id} {pairs:?}");
    }
}

/// Qwen3.5-27B keeps 153,944,064 B of states a request. A rank of attention data parallelism holds one request of four
/// whole, its states too (`mamba_cache_manager.py`).
#[test]
fn a_group_of_data_parallel_attention_has_whole_states() {
    let (model, own) = (
        catalogued("qwen3.5-27b"),
        settings(&[("tp", "4"), ("dp", "4"), ("batch", "4"), ("context", "1000")]),
    );
    let query = Query::new(&model, "trtllm".parse().unwrap(), &own).unwrap();
    let found = answer(&query, "state_bytes".parse().unwrap()).unwrap();
    let state = 48 * (48 * 128 * 128 * 4 + 3 * 10_240 * 2);
    assert_eq!(found, Figure::Bytes(Bytes::new(state)));
}

/// Nemotron 3 Nano 4B: 21 layers of 96 × 80 × 128 f32 values and 3 × 9728 bf16 ones, of which a launch makes as many as 9/19
/// of the memory hold.
#[test]
fn fit_says_which_part_of_the_memory_is_of_states() {
    let nano = catalogued("nemotron-3-nano-4b");
    let (memory, slot) = (10_000_001_661_u64, 21 * (96 * 80 * 128 * 4 + 3 * 9728 * 2));
    let slots = memory * 9 / 19 / slot;
    let told = |pairs: &[(&str, &str)]| {
        let own = settings(pairs);
        let state = StateModel::new(&nano, &own).unwrap();
        let query = Query::new(&nano, SGLANG.parse().unwrap(), &own).unwrap();
        Room { query, state: &state, memory: Bytes::new(memory) }.division().unwrap()
    };
    let message = told(&[("batch", "3")]).unwrap().message;
    assert!(message.contains("9/19 of the memory to states"), "{message}");
    assert!(message.contains(&format!(" {} slots and one more", slots - 1)), "{message}");
    assert!(message.contains(&Bytes::new(slots * slot).to_string()), "{message}");
    assert_eq!(told(&[("state_slots", "15")]), None);
}
