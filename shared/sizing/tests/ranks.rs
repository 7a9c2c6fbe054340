//! What one of several ranks reserves: context-parallel ranks of SGLang, and groups of data-parallel attention.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::asked;

use asked::{catalogued, settings};
use kvscope_sizing::engine::{Query, Rest, answer, largest_context_in, report, reservation};
use kvscope_sizing::{Architecture, Bytes, LargestContext, Tokens};

fn figure(architecture: &Architecture, pairs: &[(&str, &str)], quantity: &str) -> u64 {
    let settings = settings(pairs);
    let query = Query::new(architecture, "sglang".parse().unwrap(), &settings).unwrap();
    answer(&query, quantity.parse().unwrap()).unwrap().whole().unwrap()
}

/// Kimi-K2.6: 61 layers × (512 + 64) × 2 B a token, of which each of 8 context-parallel ranks holds an eighth: 12,500
/// tokens of 100,000, and 12,501 of 100,001. SGLang's own pool of 100,000 slots counts for 800,000 tokens.
#[test]
fn context_parallel_ranks_hold_a_share_of_the_tokens() {
    let kimi = catalogued("kimi-k2.6");
    let with = |pairs: &[(&'static str, &'static str)]| [&[("tp", "8"), ("dcp", "8")], pairs].concat();
    let batch = with(&[("context", "100000"), ("batch", "8")]);
    assert_eq!(figure(&kimi, &batch, "resident_bytes"), 8 * 12_500 * 61 * 1152);
    assert_eq!(figure(&kimi, &batch, "slope_bytes_per_token"), 61 * 1152 / 8);
    assert_eq!(figure(&kimi, &with(&[("context", "100001")]), "resident_bytes"), 12_501 * 61 * 1152);
    let pages = with(&[("context", "100001"), ("block_size", "64")]);
    assert_eq!(figure(&kimi, &pages, "resident_bytes"), 12_544 * 61 * 1152);
    let pool = with(&[("pool_tokens", "100000")]);
    assert_eq!(figure(&kimi, &pool, "logged_kv_tokens"), 800_000);

    let settings = settings(&with(&[]));
    let query = Query::new(&kimi, "sglang".parse().unwrap(), &settings).unwrap();
    let memory = Bytes::new(40_000_000_000);
    let found = largest_context_in(&query, memory, Tokens::MAX).unwrap();
    // 40e9 / 70,272 B are 569,216 slots of a rank.
    assert_eq!(found, LargestContext::Budget { tokens: Tokens::new(569_216 * 8) });
}

/// GLM-5.1 with an indexer in each of 78 layers: latents of 1152 B are spread over two ranks, keys of 132 B are not
/// (`pool_configurator.py` multiplies them by the ranks).
#[test]
fn index_keys_are_kept_by_every_context_parallel_rank() {
    let glm = catalogued("glm-5.1");
    let asked = [("tp", "2"), ("dcp", "2"), ("context", "128000"), ("kv_dtype", "bf16")];
    assert_eq!(figure(&glm, &asked, "kv_bytes"), 78 * 64_000 * 1152);
    assert_eq!(figure(&glm, &asked, "index_bytes"), 78 * 128_000 * 132);
    assert_eq!(figure(&glm, &asked, "slope_bytes_per_token"), 78 * (576 + 132));
}

/// Eight requests over eight groups of data-parallel attention are one for each: 1000 tokens × 61 layers × 1152 B on a
/// rank. Nine are two on the fullest.
#[test]
fn groups_of_data_parallel_attention_divide_the_batch() {
    let kimi = catalogued("kimi-k2.6");
    let with = |pairs: &[(&'static str, &'static str)]| {
        [&[("tp", "8"), ("dp", "8"), ("context", "1000")], pairs].concat()
    };
    assert_eq!(figure(&kimi, &with(&[("batch", "8")]), "resident_bytes"), 1000 * 61 * 1152);
    assert_eq!(figure(&kimi, &with(&[("batch", "9")]), "resident_bytes"), 2 * 1000 * 61 * 1152);

    let eight = settings(&with(&[("batch", "8")]));
    let query = Query::new(&kimi, "sglang".parse().unwrap(), &eight).unwrap();
    let beside = reservation(&query).unwrap();
    assert_eq!(beside.parts[0].worked.as_deref(), Some("1,000 tokens × 61 layers × 1,152 B"));
    assert_eq!(
        beside.division,
        Rest::Less(
            Bytes::new(7 * 1000 * 61 * 1152),
            "one rank of 8 has 70,272,000 B of the logical bytes".to_owned()
        )
    );
    assert_eq!(beside.rest, Rest::None);
    let told = report(&query).unwrap().warnings.into_iter().find(|warning| warning.field == "dp").unwrap();
    assert!(told.message.contains("1 request on one rank"), "{}", told.message);

    // 40e9 / 70,272 B are 569,216 tokens of one request, for eight requests on eight groups too.
    let found = largest_context_in(&query, Bytes::new(40_000_000_000), Tokens::MAX).unwrap();
    assert_eq!(found, LargestContext::Budget { tokens: Tokens::new(569_216) });
}

/// Qwen3.5-397B: 45 layers keep 64 × 128 × 128 f32 values and 3 × 12,288 bf16 ones. With attention in 2 groups of 2 ranks
/// each has half of the heads; 3 requests are 2 on the fullest group, with 5 slots each, and one slot more.
#[test]
fn state_slots_follow_the_groups() {
    let qwen = catalogued("qwen3.5-397b-a17b");
    let asked = [("tp", "4"), ("dp", "2"), ("context", "1000"), ("batch", "3")];
    let state = 45 * (32 * 128 * 128 * 4 + 3 * 6144 * 2);
    // Pages of one token; the batches of two groups overlap with their running.
    assert_eq!(figure(&qwen, &asked, "state_bytes"), (2 * 5 + 1) * state);
}

/// Context-parallel ranks are a part of the tensor-parallel ones (`initialize_model_parallel` of SGLang).
#[test]
fn context_ranks_divide_the_tensor_ranks_in_sglang() {
    let kimi = catalogued("kimi-k2.6");
    let refused = |pairs: &[(&str, &str)]| {
        let settings = settings(pairs);
        let query = Query::new(&kimi, "sglang".parse().unwrap(), &settings).unwrap();
        report(&query).err().map(|error| error.to_string())
    };
    let why = refused(&[("tp", "8"), ("dcp", "3")]).unwrap();
    assert!(why.starts_with("dcp: 3 context-parallel ranks must divide the 8 tensor-parallel ones"), "{why}");
    assert!(refused(&[("dcp", "2")]).is_some());
    assert_eq!(refused(&[("tp", "8"), ("dcp", "4")]), None);
}
