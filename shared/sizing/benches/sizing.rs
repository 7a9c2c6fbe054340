//! How fast figures come: reading configs, and the sweep behind a page of growth curves.

use divan::{Bencher, black_box};
use kvscope_sizing::engine::{Engine, Quantity, Query, answer};
use kvscope_sizing::{Settings, StateModel, Tokens, catalogue};

fn main() {
    divan::main();
}

/// 40 versions × 512 contexts, bytes by component, from architectures already read.
#[divan::bench]
fn sweep_40_versions_512_contexts(bencher: Bencher<'_, '_>) {
    let states: Vec<StateModel> = catalogue()
        .iter()
        .take(40)
        .map(|entry| {
            let architecture = entry.architecture().expect("the catalogue reads");
            StateModel::new(&architecture, &Settings::default()).expect("the catalogue sizes")
        })
        .collect();
    bencher.bench_local(|| {
        for state in &states {
            for step in 1..=512 {
                let kinds = state.by_kind(Tokens::new(black_box(step * 2048)));
                black_box(&kinds.expect("no overflow below 2^21 tokens"));
            }
        }
    });
}

/// One config, from parsed JSON to an architecture.
#[divan::bench(args = ["deepseek-v4-pro", "qwen3.5-397b-a17b", "llama-3.1-8b"])]
fn read_config(bencher: Bencher<'_, '_>, id: &str) {
    let entry = kvscope_sizing::find_entry(id).expect("a catalogue id");
    bencher.bench_local(|| black_box(entry.architecture().expect("the catalogue reads")));
}

/// One figure of vLLM's plan, planned anew: what a hover over a chart in an engine's accounting costs.
#[divan::bench(args = ["deepseek-v4-pro", "qwen3.6-27b", "gemma-4-31b", "llama-3.1-405b"])]
fn engine_profile(bencher: Bencher<'_, '_>, id: &str) {
    let architecture = kvscope_sizing::find_entry(id)
        .and_then(kvscope_sizing::CatalogueEntry::architecture)
        .expect("the catalogue reads");
    let settings = Settings {
        available_kv_bytes: Some(1 << 35),
        max_model_len: Some(131_072),
        max_num_batched_tokens: Some(8192),
        prefix_caching: Some(true),
        ..Settings::default()
    };
    let engine: Engine = "vllm@0.33".parse().expect("a known engine");
    bencher.bench_local(|| {
        let query = Query::new(&architecture, engine.clone(), &settings).expect("checked settings");
        black_box(answer(&query, Quantity::LoggedKvTokens).expect("the pool is given"))
    });
}
