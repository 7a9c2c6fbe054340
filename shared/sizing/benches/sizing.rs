//! How fast figures come: reading configs, and the sweep behind a page of growth curves.

use divan::{Bencher, black_box};
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
