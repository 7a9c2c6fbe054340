//! Every part of a reserved figure says how it comes about, in every engine and over every division.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::engine::{Query, Reservation, Rest, reservation};
use kvscope_sizing::{Architecture, Settings, Tokens, catalogue};

/// Every engine at its newest version, and versions with older rules.
const ENGINES: [&str; 9] = [
    "logical",
    "vllm",
    "vllm@0.22",
    "vllm@0.11",
    "sglang",
    "sglang@0.5.13",
    "llama.cpp",
    "trtllm",
    "transformers",
];

/// What is asked of one version.
#[derive(Clone, Copy, Debug)]
struct Asked {
    engine: &'static str,
    tp: u64,
    pp: u64,
    batch: u64,
    context: u64,
}

fn every_question() -> Vec<Asked> {
    let mut all = Vec::new();
    for engine in ENGINES {
        for (tp, pp) in [(1, 1), (2, 1), (8, 1), (1, 2), (2, 2), (8, 2)] {
            for batch in [1, 3] {
                all.extend([1, 77, 100_000].map(|context| Asked { engine, tp, pp, batch, context }));
            }
        }
    }
    all
}

/// Settings beside them; those that an engine does not have change nothing.
const SETS: [&[(&str, &str)]; 16] = [
    &[],
    &[("draft_layers", "1"), ("num_speculative_tokens", "2")],
    &[("pool_tokens", "300000")],
    &[("pool_tokens", "300000"), ("state_slots", "20")],
    &[("kv_dtype", "fp8")],
    &[("kv_dtype", "int4_per_token_head"), ("index_dtype", "bf16")],
    &[("dcp", "2")],
    &[("layers_on_rank", "3")],
    &[("dp", "2")],
    &[("n_seq_max", "4"), ("kv_unified", "true"), ("n_ctx", "131072")],
    &[("n_ctx", "131072"), ("n_seq_max", "2"), ("n_rs_seq", "2"), ("flash_attn", "false")],
    &[("max_running_requests", "8"), ("radix_cache", "false")],
    &[("available_kv_bytes", "20GB"), ("max_model_len", "131072")],
    &[("block_size", "128"), ("mamba_cache_mode", "none")],
    &[("mamba_cache_mode", "all"), ("hybrid_manager", "false")],
    &[("index_dtype", "bf16"), ("state_dtype", "f16"), ("conv_dtype", "f32")],
];

fn asked_of(architecture: &Architecture, asked: Asked, set: &[(&str, &str)]) -> Option<Reservation> {
    let mut settings = Settings { tp: Some(asked.tp), pp: Some(asked.pp), ..Settings::default() };
    for (name, value) in set {
        settings.set(name, value).unwrap();
    }
    let mut query = Query::new(architecture, asked.engine.parse().unwrap(), &settings).ok()?;
    (query.context, query.batch) = (Some(Tokens::new(asked.context)), asked.batch);
    reservation(&query).ok()
}

/// Whether a line of arithmetic makes so many bytes: sums of products with brackets and decimals, such as
/// `(3 × 5 + 1) slots × 1,024 B`. What stands behind a semicolon explains it.
fn makes(worked: &str, bytes: u64) -> bool {
    let sum = worked.split(';').next().unwrap();
    let (sum, is_rounded) = match sum.strip_suffix(", rounded up to a byte") {
        Some(sum) => (sum, true),
        None => (sum, false),
    };
    let (over, under) = value(sum);
    let exact = if is_rounded { over.div_ceil(under) } else { over / under };
    exact == u128::from(bytes) && (is_rounded || over.is_multiple_of(under))
}

/// The value as a ratio.
fn value(sum: &str) -> (u128, u128) {
    if let Some((inside, rest)) = sum.strip_prefix('(').and_then(|inside| inside.split_once(") ")) {
        let (over, under) = value(inside);
        let (by, of) = value(rest.split_once(" × ").unwrap().1);
        return (over * by, under * of);
    }
    let mut total = (0, 1);
    for term in sum.split(" + ") {
        let (over, under) = product(term);
        total = (total.0 * under + over * total.1, total.1 * under);
    }
    total
}

fn product(term: &str) -> (u128, u128) {
    let (mut over, mut under) = (1, 1);
    for factor in term.split(" × ") {
        let number = factor.split(' ').next().unwrap().replace(',', "");
        let (above, below) = number.split_once('/').unwrap_or((&number, "1"));
        let (whole, decimals) = above.split_once('.').unwrap_or((above, ""));
        over *= format!("{whole}{decimals}").parse::<u128>().unwrap_or_else(|_| panic!("{term}"));
        under *= below.parse::<u128>().unwrap() * 10_u128.pow(u32::try_from(decimals.len()).unwrap());
    }
    (over, under)
}

/// Every question about every model, each with the next list of settings.
fn check(models: &[(String, Architecture)], step: usize) -> usize {
    let questions = every_question();
    let mut checked = 0;
    for (at, (id, architecture)) in models.iter().enumerate() {
        for (number, asked) in questions.iter().enumerate().skip(at % step).step_by(step) {
            let set = SETS[(number / step + at) % SETS.len()];
            for set in [&[], set] {
                let Some(found) = asked_of(architecture, *asked, set) else { continue };
                check_one(&format!("{id} {asked:?} {set:?}"), &found);
                checked += 1;
            }
        }
    }
    checked
}

fn check_one(question: &str, found: &Reservation) {
    let mut sum = 0;
    for part in found.parts.iter().filter(|part| part.reserved.get() > 0) {
        let worked = part.worked.as_deref().unwrap_or_else(|| panic!("{question}: {} has none", part.what));
        assert!(makes(worked, part.reserved.get()), "{question}: {}: {worked}: {}", part.what, part.reserved);
        sum += part.reserved.get();
    }
    assert_eq!(sum, found.reserved.get(), "{question}");
    if let Rest::More(_, why) | Rest::Less(_, why) = &found.rest {
        assert!(!why.is_empty() && !why.contains("not named"), "{question}: {why}");
    }
}

#[test]
fn every_part_has_a_derivation_and_they_add_up() {
    let models: Vec<_> =
        catalogue().iter().map(|entry| (entry.id.clone(), entry.architecture().unwrap())).collect();
    let checked = check(&models, 5);
    assert!(checked > 6000, "{checked}");
}
