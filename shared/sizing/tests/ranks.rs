//! What one of several ranks reserves: context-parallel ranks of SGLang, and groups of data-parallel attention.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::engine::{Query, answer, largest_context_in};
use kvscope_sizing::{Architecture, Bytes, LargestContext, Settings, Tokens, find_entry};

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
