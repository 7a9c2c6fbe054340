//! Why reserved bytes differ from logical ones, in the words of the report, against arithmetic by hand.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::asked;

use asked::{catalogued, settings};
use kvscope_sizing::engine::{Engine, EngineKind, Query, Reservation, Rest, reservation, size_in_engine};
use kvscope_sizing::{Settings, StateModel, Tokens, catalogue, find_entry};

fn beside(id: &str, engine: &str, pairs: &[(&str, &str)]) -> Reservation {
    let (architecture, settings) = (catalogued(id), settings(pairs));
    reservation(&Query::new(&architecture, engine.parse().unwrap(), &settings).unwrap()).unwrap()
}

fn why(reservation: &Reservation) -> &str {
    match &reservation.rest {
        Rest::None => "",
        Rest::More(_, why) | Rest::Less(_, why) => why,
    }
}

/// Qwen3.5-27B: 48 layers with 48 × 128 × 128 f32 values and 3 × 10,240 bf16 ones are 153,944,064 B a slot. Four requests
/// have five slots each (`_calculate_mamba_ratio`), and padded batches write to one more.
#[test]
fn state_slots_are_requests_by_slots_and_one() {
    let found = beside("qwen3.5-27b", "sglang", &[("context", "1000"), ("batch", "4")]);
    let state = found.parts.iter().find(|part| part.what == "recurrent and compressor state").unwrap();
    let slot = 48 * (48 * 128 * 128 * 4 + 3 * 10_240 * 2);
    assert_eq!(slot, 153_944_064);
    assert_eq!(state.reserved.get(), (4 * 5 + 1) * slot);
    let words = state.worked.as_deref().unwrap();
    assert!(words.starts_with("(4 × 5 + 1) slots × 153,944,064 B; a slot is 48 layers × "), "{words}");
    assert!(words.contains("48 layers × 3,145,728 B recurrent_state (f32)"), "{words}");
    assert!(words.contains("48 layers × 61,440 B conv_state (bf16)"), "{words}");
}

/// Without a pool the padding of a report is that of the batch: 4 × 4 slots for reuse.
#[test]
fn padding_without_pools_is_of_the_batch() {
    let entry = find_entry("qwen3.5-27b").unwrap();
    let architecture = entry.architecture().unwrap();
    let (engine, context) = (Engine::newest(EngineKind::SgLang), Some(Tokens::new(1000)));
    let sized = size_in_engine(&entry.id, &architecture, &engine, context, 4, &Settings::default()).unwrap();
    let of = sized.report.padding_of.unwrap();
    assert_eq!((of.context.get(), of.batch), (1000, 4));
    let spare = sized.report.padding.iter().find(|row| row.what == "state slots for reuse").unwrap();
    assert_eq!(spare.bytes.get(), 4 * 4 * 153_944_064);
}

/// llama.cpp has one copy of the model whatever ranks are asked for: its words are those without them.
#[test]
fn llama_cpp_has_no_ranks_to_share() {
    for (id, ranks) in [("qwen3.5-27b", ("tp", "2")), ("gemma-3-27b", ("pp", "2"))] {
        let plain = beside(id, "llama.cpp", &[("context", "99991")]);
        let set = beside(id, "llama.cpp", &[("context", "99991"), ranks]);
        assert_eq!(set.rest, plain.rest, "{id}");
        assert!(!why(&set).contains("rank"), "{}", why(&set));
        assert_eq!(set.division, Rest::None, "{id}");
    }
}

/// DeepSeek-V4-Flash in SGLang: 21 layers keep index keys of 132 B for four tokens, of which the logical account has 68:
/// 21 × (33 − 17) B for each of the 99,988 tokens in whole entries.
#[test]
fn rates_are_taken_over_whole_entries() {
    // Up to 5120 tokens one request has the least pools that a launch makes, which do not grow.
    for context in ["100", "1000", "3000", "99991"] {
        let found = beside("deepseek-v4-flash", "sglang", &[("context", context)]);
        let words = "index keys take 21 layers × 33 B a token, 21 layers × 17 B";
        assert!(why(&found).contains(words), "{context}: {}", why(&found));
        assert!(!why(&found).contains("not named"), "{context}: {}", why(&found));
    }
}

/// A draft layer of GLM-4.5 keeps 8 × 2 × 128 × 2 B of every token, as its other 92 layers do; that is state, not padding.
#[test]
fn draft_layers_hold_state() {
    let set = [("context", "1000"), ("batch", "2"), ("draft_layers", "1"), ("block_size", "64")];
    let found = beside("glm-4.5", "sglang", &set);
    let rows: Vec<_> = found.padding.iter().map(|row| (row.what.as_str(), row.bytes.get())).collect();
    assert_eq!(rows, [("last pages", 2 * 24 * 93 * 4096)]);
    let bytes = kvscope_sizing::Bytes::new(2 * 1000 * 4096);
    let words =
        format!("{} in dense bytes with 1 draft layer", kvscope_sizing::Bytes::new(2 * 1000 * 93 * 4096));
    assert_eq!((found.division, found.rest), (Rest::More(bytes, words), Rest::None));
}

/// Mistral-7B in llama.cpp: its window is not used, so 32 layers × 4096 B × 99,991 tokens stand in the place of
/// 32 × 4096 B × 4096 tokens.
#[test]
fn windows_that_are_kept_in_full_are_named() {
    let found = beside("mistral-7b-v0.1", "llama.cpp", &[("context", "99991")]);
    let words = "caches of every token take 13,106,020,352 B, 0 B in dense bytes: the window of this class is not used, so \
                 its layers keep every token; windows and chunks take 0 B, 536,870,912 B in dense bytes: the window of \
                 this class is not used, so its layers keep every token";
    assert_eq!(99_991_u64 * 32 * 4096, 13_106_020_352);
    assert_eq!(why(&found), words);
}

/// GLM-4.5 on eight ranks of vLLM: 92 layers × 2 × 8 heads × 128 × 2 B are 376,832 B a token, an eighth of it on a rank.
/// 99,991 tokens take 6250 blocks of 16, which is 9 tokens of padding on that rank, and nothing is left.
#[test]
fn padding_of_a_rank_is_a_sum_apart_from_the_division() {
    let found = beside("glm-4.5", "vllm@0.33", &[("context", "99991"), ("tp", "8")]);
    assert_eq!(found.logical.get(), 99_991 * 376_832);
    let Rest::Less(bytes, why) = &found.division else { panic!("{:?}", found.division) };
    assert_eq!(bytes.get(), 99_991 * 376_832 / 8 * 7);
    assert!(why.starts_with("one rank of 8 has 4,709,976,064 B"), "{why}");
    assert_eq!(found.padding.iter().map(|row| row.bytes.get()).sum::<u64>(), 9 * 47_104);
    assert_eq!(found.rest, Rest::None);
    assert_eq!(found.reserved.get(), 100_000 * 47_104);
}

/// Formats that every engine has, so that bytes differ by what it keeps alone.
const EQUAL: [(&str, &str); 4] =
    [("kv_dtype", "bf16"), ("index_dtype", "bf16"), ("state_dtype", "f32"), ("conv_dtype", "f32")];

/// What engines keep otherwise at equal formats: by which words the report says so.
const KEPT_OTHERWISE: [(EngineKind, &str); 12] = [
    (EngineKind::Vllm, "so it keeps one more"),
    (EngineKind::Vllm, "keys wait in a ring until their group is whole"),
    (EngineKind::Vllm, "context-parallel ranks share its tokens"),
    (EngineKind::SgLang, "context-parallel ranks share its tokens"),
    (EngineKind::SgLang, "have slots before those of the text"),
    // DeepSeek-V4's pools have one layout of records and keys, whatever the flags say (`DSV4PoolConfigurator`).
    (EngineKind::SgLang, ", not bf16)"),
    (EngineKind::LlamaCpp, "the window of this class is not used"),
    (EngineKind::LlamaCpp, "every token has cells of its own, where several share a key"),
    (EngineKind::TrtLlm, "know windows and no chunks, so chunked layers keep every token"),
    (EngineKind::Transformers, "a window keeps a token less"),
    (EngineKind::Transformers, "a convolution keeps its whole kernel"),
    (EngineKind::Transformers, "K and V of every head are cached, not the latent"),
];

/// Every difference of every catalogued model in every engine has its reasons, with ranks and without. At equal formats
/// nothing lies between the bytes of one rank with their padding and the reserved ones, but what [`KEPT_OTHERWISE`] lists.
#[test]
fn nothing_is_left_without_a_name() {
    let mut unnamed = Vec::new();
    let (mut asked, mut equal) = (0, 0);
    let ranks: [&[(&str, &str)]; 7] = [
        &[],
        &[("tp", "2")],
        &[("tp", "3")],
        &[("tp", "4"), ("dcp", "2")],
        &[("tp", "8"), ("dcp", "4")],
        &[("pp", "2")],
        &[("pp", "3"), ("draft_layers", "1")],
    ];
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        for kind in EngineKind::ALL {
            for (ranks, formats) in ranks.iter().flat_map(|ranks| [(*ranks, &[][..]), (*ranks, &EQUAL[..])]) {
                let own = settings(&[&[("batch", "3"), ("context", "99991")], ranks, formats].concat());
                let query = Query::new(&architecture, Engine::newest(kind), &own).unwrap();
                let Ok(found) = reservation(&query) else { continue };
                asked += 1;
                let why = why(&found);
                let known =
                    KEPT_OTHERWISE.iter().any(|(engine, words)| *engine == kind && why.contains(words));
                let has_drafts = own.draft_layers.is_some();
                if why.contains("not named") || !(formats.is_empty() || known || has_drafts || why.is_empty())
                {
                    unnamed.push(format!("{} in {}, {ranks:?} {formats:?}: {why}", entry.id, kind.name()));
                }
                equal += u32::from(found.rest == Rest::None);
            }
        }
    }
    assert!(unnamed.is_empty(), "{} of {asked}:\n{}", unnamed.len(), unnamed.join("\n"));
    assert!(asked > 4000 && equal > 2000, "{equal} of {asked}");
}

/// Gemma 3 27B in llama.cpp: 52 windows of 1024 in 1536 cells of 8192 B each, and at 100 tokens in 256 cells. No rate is
/// given of windows that fill.
#[test]
fn cells_beyond_a_window_are_padding() {
    for (context, filled, cells) in [("100000", 1024, 1536), ("100", 100, 256)] {
        let found = beside("gemma-3-27b", "llama.cpp", &[("context", context)]);
        let row =
            found.padding.iter().find(|row| row.what == "cells of 52 layers beyond their windows").unwrap();
        assert_eq!(row.bytes.get(), 52 * (cells - filled) * 8192, "{context}");
        assert!(row.why.contains("a micro-batch of 512 tokens (n_ubatch)"), "{}", row.why);
        assert_eq!(found.rest, Rest::None, "{context}");
    }
    let short = beside("command-a-111b", "vllm@0.33", &[("context", "100")]);
    assert_eq!(short.rest, Rest::None);
}

/// Command A's windows count 4096 tokens before the newest: 48 layers × 8 × 2 × 128 × 2 B more in vLLM (`commandr.py`).
#[test]
fn a_window_of_one_token_more_says_so() {
    let found = beside("command-a-111b", "vllm@0.33", &[("context", "100000")]);
    let Rest::More(bytes, why) = &found.rest else { panic!("{:?}", found.rest) };
    assert_eq!(bytes.get(), 48 * 8 * 2 * 128 * 2);
    assert!(why.contains(": this class's window counts the tokens before the newest"), "{why}");
}

/// Gemma 3 27B in SGLang has no window pool: each of 2 context-parallel ranks holds every second of 100,000 tokens in all
/// layers, of a window 512 of 1024. 8 / 2 ranks divide 16 heads: 4 × 2 × 128 × 2 B a token and layer.
#[test]
fn context_parallel_ranks_take_turns_at_windows_kept_in_full() {
    let asked = [("context", "100000"), ("tp", "8"), ("dcp", "2")];
    let found = beside("gemma-3-27b", "sglang", &asked);
    assert_eq!(found.reserved.get(), 62 * 50_000 * 2048);
    let row = found.padding.iter().find(|row| row.what == "windows kept in full").unwrap();
    assert_eq!(row.bytes.get(), 52 * (50_000 - 512) * 2048);
    let Rest::Less(bytes, why) = &found.rest else { panic!("{:?}", found.rest) };
    assert_eq!(bytes.get(), (10 * 50_000 + 52 * 512) * 2048);
    assert_eq!(why.matches("2 context-parallel ranks share its tokens").count(), 2, "{why}");
}

/// DeepSeek-V4-Flash in llama.cpp: of 99,991 tokens 24,997 whole groups of 4 in 25,088 cells (multiples of 256), 781 of 128
/// in 1024; 21 and 20 layers of 512 f16 values.
#[test]
fn caches_of_whole_groups_are_derived() {
    let found = beside("deepseek-v4-flash", "llama.cpp", &[("context", "99991")]);
    let kv = worked(&found, "caches of every token");
    for term in
        ["21 layers × 25,088 cells × 1,024 B", "20 layers × 1,024 cells × 1,024 B", "every 4 and 128 tokens"]
    {
        assert!(kv.contains(term), "{term}: {kv}");
    }
    assert_eq!(found.parts[0].reserved.get(), (21 * 25_088 + 20 * 1024) * 1024);
    assert_eq!(found.padding.iter().filter(|row| row.why.contains("25088 for 24997")).count(), 2);
}

fn worked(found: &Reservation, what: &str) -> String {
    let part = found.parts.iter().find(|part| part.what == what).unwrap();
    part.worked.clone().unwrap()
}

/// DeepSeek-V4-Pro in vLLM: blocks of compressors of 4 and 8 tokens for a window and 16,384 tokens in flight, by
/// `kv_cache_interface.py`: ⌈(7 + 2 × 8192) / 4⌉ + 1 = 4099 and ⌈(127 + 2 × 8192) / 8⌉ + 1 = 2065.
#[test]
fn blocks_of_compressors_say_what_is_in_flight() {
    let found = beside("deepseek-v4-pro", "vllm@0.33", &[("context", "100000")]);
    let words =
        [worked(&found, "windows and chunks"), worked(&found, "recurrent and compressor state")].concat();
    assert_eq!(words.matches("in flight 2 batches").count(), 1, "{words}");
    assert_eq!(30 * 4099 * (32_832 + 8640) + 31 * 2065 * 32_832, 7_201_552_320_u64);
    for part in [
        "30 layers × 4,099 blocks × 32,832 B",
        "30 layers × 4,099 blocks × 8,640 B",
        "31 layers × 2,065 blocks × 32,832 B",
        "4,099 = ⌈(7 + 2 × 8,192) / 4⌉ + 1",
        "2,065 = ⌈(127 + 2 × 8,192) / 8⌉ + 1",
        "in flight 2 batches of 8,192 tokens (max_num_batched_tokens, the default on this GPU)",
        "async scheduling",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

/// Gemma 3 in both: ⌈(1023 + 2 × 8192) / 16⌉ + 1 = 1089 blocks in vLLM, 1024 + 512 cells in llama.cpp.
#[test]
fn windows_say_which_blocks_and_cells_they_have() {
    let found = beside("gemma-3-27b", "vllm@0.33", &[("context", "100000")]);
    let words = worked(&found, "windows and chunks");
    assert!(
        words.starts_with("52 layers × 1,089 blocks × 131,072 B; 1,089 = ⌈(1,023 + 2 × 8,192) / 16⌉ + 1; "),
        "{words}"
    );
    let row = found.padding.iter().find(|row| row.what == "windows beyond their tokens").unwrap();
    // Reserved for admission and held while decoding are two figures: a token of each of 2 batches in flight takes
    // ⌈(1023 + 2) / 16⌉ + 1 = 66 blocks of windows in place of 1089. 52 window layers are 6 groups of 10, 8 of them empty.
    assert!(!row.why.contains("decodes"), "{}", row.why);
    let decoding = found.decoding.unwrap().get();
    assert_eq!(found.reserved.get() - decoding, (1089 - 66) * 60 * 131_072);

    let found = beside("gemma-3-27b", "llama.cpp", &[("context", "100000")]);
    let words = worked(&found, "windows and chunks");
    assert!(words.starts_with("52 layers × 1,536 cells × 8,192 B; "), "{words}");
    assert!(words.contains("a micro-batch of 512 tokens (n_ubatch)"), "{words}");
}

/// With 15 drafts a step has 16 tokens: ⌈(1023 + 2 × 16) / 16⌉ + 1 = 67 blocks of a window while the batch decodes.
#[test]
fn drafts_are_in_flight_while_a_batch_decodes() {
    let asked = [("context", "100000"), ("num_speculative_tokens", "15")];
    let found = beside("gemma-3-27b", "vllm@0.33", &asked);
    let decoding = found.decoding.unwrap().get();
    assert_eq!(found.reserved.get() - decoding, (1089 - 67) * 60 * 131_072);
}

/// Llama 4 Scout in vLLM: 48 layers × 4096 B × 100,000 tokens where the manager of windows is off, as
/// `VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE` = 0 has it before 0.14 (`envs.py` of 0.13.0 and 0.14.0). Since then
/// 36 of them keep ⌈(8192 + 2 × 8192) / 16⌉ = 1536 blocks.
#[test]
fn chunked_layers_follow_the_default_of_the_version() {
    let reserved = |engine: &str| beside("llama-4-scout", engine, &[("context", "100000")]).reserved.get();
    assert_eq!(reserved("vllm@0.13"), 48 * 4096 * 100_000);
    assert_eq!(reserved("vllm@0.33"), 12 * 4096 * 100_000 + 36 * 4096 * 1536 * 16);
    assert_eq!(reserved("vllm@0.33"), 8_539_078_656);
}

/// DeepSeek-V4-Flash launched for fewer requests than the batch has, and for as many.
#[test]
fn rings_of_a_smaller_launch_are_named() {
    for requests in ["4", "50"] {
        let asked = [("context", "10000"), ("batch", "50"), ("max_running_requests", requests)];
        let found = beside("deepseek-v4-flash", "sglang@0.5.23", &asked);
        assert!(!why(&found).contains("not named"), "{requests}: {}", why(&found));
    }
}

/// Llama 3.2 Vision in vLLM: 8 layers keep the output of an encoder, 8 heads × 2 × 128 × 2 B for each of 1601 tokens. A
/// request has the ⌈8192 / 16⌉ = 512 blocks of a whole batch; no second batch enters.
#[test]
fn cross_attention_follows_the_encoder_alone() {
    let asked = [("context", "10000"), ("batch", "2"), ("encoder_tokens", "1601")];
    let found = beside("llama-3.2-11b-vision-instruct", "vllm@0.33", &asked);
    let words = worked(&found, "cross-attention");
    assert!(
        words.contains("512 = ⌈8,192 / 16⌉; an encoder's output has room for a batch of 8,192 tokens"),
        "{words}"
    );
    assert!(!words.contains("in flight"), "{words}");
    let row =
        found.padding.iter().find(|row| row.what == "cross-attention beyond the encoder's output").unwrap();
    assert_eq!(row.bytes.get(), 2 * (512 * 16 - 1601) * 8 * 8 * 2 * 128 * 2);
    assert_eq!(found.rest, Rest::None);
}

/// Gemma 3 in vLLM: a request of 100 tokens has ⌈100 / 16⌉ + 1 = 8 blocks of a window, whatever is in flight.
#[test]
fn a_short_request_bounds_its_windows() {
    let found = beside("gemma-3-27b", "vllm@0.33", &[("context", "100")]);
    let words = worked(&found, "windows and chunks");
    assert_eq!(words, "52 layers × 8 blocks × 131,072 B; 8 = ⌈100 / 16⌉ + 1");
}

/// Kimi-K2.6 in vLLM: 61 latents of 576 × 2 B. Of 100,000 tokens each of 8 context-parallel ranks has 12,500, in 782
/// blocks of 16 tokens.
#[test]
fn context_parallel_ranks_are_named() {
    let found = beside("kimi-k2.6", "vllm@0.33", &[("context", "100000"), ("tp", "8"), ("dcp", "8")]);
    assert_eq!(found.parts[0].worked.as_deref(), Some("12,512 tokens × 61 layers × 1,152 B"));
    assert_eq!((12_500_u64 * 61 * 1152, 100_000_u64 * 61 * 1152), (878_400_000, 7_027_200_000));
    let words = "caches of every token take 878,400,000 B, 7,027,200,000 B in dense bytes; 8 context-parallel ranks \
                 share its tokens";
    assert_eq!(why(&found), words);
}

/// SGLang's ranks of decode context parallelism take turns at tokens (`allocation_sizing.py`): of 10,001 tokens one of 8
/// has at most 1,251, in pages of one. Qwen3-8B's 8 K/V heads are divided by 4 / 2 ranks, so one has 4 of 128 + 128 values.
#[test]
fn context_parallel_ranks_of_sglang_take_turns_at_tokens() {
    let latents = beside("kimi-k2.6", "sglang", &[("context", "10001"), ("tp", "8"), ("dcp", "8")]);
    assert_eq!(latents.parts[0].worked.as_deref(), Some("1,251 tokens × 61 layers × 1,152 B"));
    assert_eq!(latents.parts[0].reserved.get(), 1251 * 61 * 576 * 2);
    let heads = beside("qwen3-8b", "sglang", &[("context", "1001"), ("tp", "4"), ("dcp", "2")]);
    assert_eq!(heads.parts[0].worked.as_deref(), Some("501 tokens × 36 layers × 2,048 B"));
    assert_eq!(heads.parts[0].reserved.get(), 501 * 36 * 4 * (128 + 128) * 2);
}

/// DeepSeek-V4-Flash in vLLM: 21 layers keep an fp8 key of 132 B for four tokens where the logical account has an fp4 one
/// of 68; that a page of 64 keys is rounded up from 8448 to 8640 B is padding. 20 layers of HCA and 21 of CSA lie in one
/// block.
#[test]
fn formats_are_named_and_their_rates_are_without_padding() {
    let found = beside("deepseek-v4-flash", "vllm@0.33", &[("context", "100000")]);
    let words = "index keys take 21 layers × 33 B a token, 21 layers × 17 B in dense bytes (fp8, not fp4)";
    assert!(why(&found).contains(words), "{}", why(&found));
    let Rest::More(bytes, _) = &found.rest else { panic!("{:?}", found.rest) };
    assert_eq!(bytes.get(), 21 * (33 - 17) * 100_000);
    let row = found.padding.iter().find(|row| row.what == "padding of pages").unwrap();
    assert!(row.why.contains("rounded up to a multiple of 576 B"), "{}", row.why);

    assert_eq!(21 * (37_440 + 8640) + 20 * 1728, 1_002_240);
    let together = found.worked.as_deref().unwrap();
    for part in
        ["× 1,002,240 B; a block is", "21 layers × 37,440 B", "21 layers × 8,640 B", "20 layers × 1,728 B"]
    {
        assert!(together.contains(part), "{part}: {together}");
    }
}

/// Gemma 3 27B in vLLM: 10 of 62 layers keep every token, so groups have 10 layers, and 52 windows make four groups of 9
/// and two of 8, each with 1089 blocks.
#[test]
fn narrow_groups_say_what_they_leave_unused() {
    let found = beside("gemma-3-27b", "vllm@0.33", &[("context", "100000")]);
    let part = found.parts.iter().find(|part| part.what == "unused width of blocks").unwrap();
    assert_eq!(part.reserved.get(), 8 * 1089 * 131_072);
    let words = part.worked.as_deref().unwrap();
    let sum = "4 groups × 1,089 blocks × 131,072 B + 2 groups × 1,089 blocks × 262,144 B; ";
    assert!(words.starts_with(sum), "{words}");
    let together = found.worked.as_deref().unwrap();
    let block = "× 1,310,720 B; a block is the pages of the widest group: 10 layers × 131,072 B";
    assert!(together.ends_with(block), "{together}");
}

/// Without blocks of one size the whole is its only part, or the sum of several.
#[test]
fn the_whole_is_derived_from_its_parts() {
    let found = beside("minimax-m2.7", "llama.cpp", &[("context", "100000")]);
    assert_eq!(found.parts.len(), 1);
    assert!(found.worked.is_some());
    assert_eq!(found.worked, found.parts[0].worked);
    let found = beside("gemma-3-27b", "llama.cpp", &[("context", "100000")]);
    assert_eq!(found.worked.as_deref(), Some("the sum of its parts"));
}

/// Qwen3.5-397B in vLLM on an H100: 45 states of 64 × 128 × 128 × 4 + 3 × 12,288 × 2 = 4,268,032 B beside tokens of
/// 2 × 2 × 256 × 2 = 2048 B. `FlashInfer` exports every 64 tokens, so a block has 2112 tokens, and a request 3 pages; with
/// Triton 2096 tokens and 2 pages.
#[test]
fn pages_of_states_are_named_one_by_one() {
    let found = beside("qwen3.5-397b-a17b", "vllm@0.33", &[("context", "100000")]);
    let words = worked(&found, "recurrent and compressor state");
    let kept = "3 pages: its own, 1 for prefixes (mode align), 1 for the checkpoint that FlashInfer's prefill writes \
                (gdn_prefill_backend, the default on the H100 that is assumed); ";
    assert!(words.contains(kept), "{words}");
    assert_eq!(45 * 2048 * (3 * 2112 - 2 * 2096), 197_591_040);
    let other = "; with gdn_prefill_backend=triton blocks have 2,096 tokens, and a request's states 197,591,040 B less";
    assert!(words.ends_with(other), "{words}");
    let triton = [("context", "100000"), ("gdn_prefill_backend", "triton")];
    let plain = beside("qwen3.5-397b-a17b", "vllm@0.33", &triton);
    let state = |of: &Reservation| {
        of.parts.iter().find(|part| part.what == "recurrent and compressor state").unwrap().reserved.get()
    };
    assert_eq!(state(&found) - state(&plain), 197_591_040);

    let found = beside("kimi-linear-48b-a3b", "vllm@0.33", &[("context", "100000")]);
    let words = worked(&found, "recurrent and compressor state");
    assert!(words.contains("2 pages: its own, 1 for prefixes (mode align); a state has "), "{words}");
}

/// Kimi-Linear names no dtype: 20 states of 32 × 128 × 128 values and 3 × 12,288 of a convolution, in bf16 half of what
/// engines keep in f32, the convolution apart.
#[test]
fn state_in_the_models_dtype_says_what_engines_keep() {
    let of = |value_bytes: u64| 20 * (32 * 128 * 128 * value_bytes + 3 * 12_288 * 2);
    assert_eq!((of(2), of(4)), (22_446_080, 43_417_600));
    let architecture = catalogued("kimi-linear-48b-a3b");
    let told = |pairs: &[(&str, &str)]| {
        let state = StateModel::new(&architecture, &settings(pairs)).unwrap();
        state.warnings().iter().find(|warning| warning.field == "state_dtype").map(|own| own.message.clone())
    };
    let message = told(&[]).unwrap();
    let words = "vLLM and SGLang keep f32, which makes the fixed part 43,417,600 B in place of 22,446,080 B";
    assert!(message.contains(words), "{message}");
    assert_eq!((told(&[("state_dtype", "f32")]), told(&[("state_dtype", "bf16")])), (None, None));
    let found = beside("kimi-linear-48b-a3b", "vllm@0.33", &[("context", "100000")]);
    let words = "take 43,417,600 B, 22,446,080 B in dense bytes (f32, not bf16)";
    assert!(why(&found).contains(words), "{}", why(&found));
}
