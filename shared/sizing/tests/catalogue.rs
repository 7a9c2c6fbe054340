//! Every catalogue version against figures that were derived outside this code.
//!
//! `data/expected.json`: slope and fixed part beyond every window, bytes at 100,000 tokens and layer counts, derived from
//! the configs by whoever collected the model facts; BF16 K/V and latents, 132-byte DSA index keys, DeepSeek-V4 and V4.1
//! in their own record layouts.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::BTreeMap;

use kvscope_sizing::{
    ComponentKind, Growth, Mixer, Recurrence, Settings, StateModel, Tokens, catalogue, find_entry,
};
use serde_json::Value;

fn expected() -> BTreeMap<String, Value> {
    serde_json::from_str(include_str!("data/expected.json")).unwrap()
}

fn state(id: &str) -> StateModel {
    let architecture = find_entry(id).unwrap().architecture().unwrap_or_else(|error| panic!("{id}: {error}"));
    StateModel::new(&architecture, &Settings::default()).unwrap_or_else(|error| panic!("{id}: {error}"))
}

#[test]
fn every_version_has_an_expected_figure_and_the_other_way_round() {
    let ids: Vec<&str> = catalogue().iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, expected().keys().map(String::as_str).collect::<Vec<_>>());
    assert!(ids.len() >= 83);
}

#[test]
fn slope_and_fixed_part_equal_the_derived_figures() {
    for (id, want) in expected() {
        let state = state(&id);
        let slope = state.slope(None).unwrap().as_f64();
        let difference = (slope - want["slope_bytes_per_token"].as_f64().unwrap()).abs();
        assert!(difference < 1e-9, "{id}: slope {slope}, expected {}", want["slope_bytes_per_token"]);
        assert_eq!(state.fixed(None).unwrap().get(), want["fixed_bytes_per_request"], "{id}: fixed part");
    }
}

/// At 100,000 tokens; a compressed stream holds whole entries only, so it may be short by less than one entry a layer.
#[test]
fn resident_bytes_at_100k_equal_the_derived_figures() {
    for (id, want) in expected() {
        let state = state(&id);
        let n = Tokens::new(100_000);
        let want = want["resident_bytes_100k"].as_u64().unwrap();
        let got = state.resident(n, 1).unwrap().get();
        let short: u64 = state
            .parts()
            .iter()
            .filter(|part| matches!(part.component.growth, Growth::Compressed { .. }))
            .map(|part| part.component.growth.entry().get() * part.layers)
            .sum();
        assert!(got <= want && want - got <= short, "{id}: {got}, expected {want} or up to {short} less");
        if short == 0 {
            assert_eq!(got, want, "{id}");
        }
    }
}

#[test]
fn layer_counts_by_kind_equal_the_derived_ones() {
    for (id, want) in expected() {
        let architecture = find_entry(&id).unwrap().architecture().unwrap();
        let mut got: BTreeMap<&str, u64> = BTreeMap::new();
        for class in architecture.classes().iter().filter(|class| class.borrows.is_none()) {
            for word in class.mixers.iter().flat_map(words) {
                *got.entry(word).or_default() += class.layers.len() as u64;
            }
        }
        for (word, count) in want["layers"].as_object().unwrap() {
            assert_eq!(got.get(word.as_str()).copied().unwrap_or(0), count.as_u64().unwrap(), "{id}: {word}");
        }
    }
}

/// The words of the expected layer counts for one mixer.
fn words(mixer: &Mixer) -> Vec<&'static str> {
    match mixer {
        Mixer::Full(_) | Mixer::IndexedFull(..) => vec!["full"],
        Mixer::Sliding { .. } => vec!["swa"],
        Mixer::Chunked { .. } => vec!["chunked"],
        Mixer::Mla(_) | Mixer::Dsa { index: None, .. } => vec!["mla"],
        Mixer::Dsa { .. } => vec!["dsa"],
        Mixer::Compressed(attention) => match &attention.compression {
            Some(branch) if branch.own_store && branch.top_k.is_some() => vec!["swa", "csa"],
            Some(branch) if branch.own_store => vec!["swa", "hca"],
            _ => vec!["swa"],
        },
        Mixer::Recurrent(recurrent) => match recurrent.recurrence {
            Recurrence::GatedDeltaNet { .. } => vec!["gdn"],
            Recurrence::Kda { .. } => vec!["kda"],
            Recurrence::Mamba1 { .. } => vec!["mamba1"],
            Recurrence::Mamba2 { .. } => vec!["mamba2"],
            Recurrence::Lightning { .. } => vec!["lightning"],
            Recurrence::ShortConv => vec!["shortconv"],
        },
        Mixer::Cross { .. } | Mixer::None => Vec::new(),
    }
}

/// The parts that the slice's table names for DeepSeek-V4-Pro, and the share of V3.2 in its FP8 layout at 1M tokens
/// (656 + 132 bytes a layer: 48,068 B/token; DeepSeek-V4 report: about 10 %).
#[test]
fn deepseek_v4_pro_by_parts() {
    let state = state("deepseek-v4-pro");
    let kinds = state.by_kind(Tokens::new(1_000_000)).unwrap();
    let of = |kind: ComponentKind| kinds[kind as usize].get();
    assert_eq!(of(ComponentKind::WindowKv), 128 * 584 * 61);
    assert_eq!(of(ComponentKind::CompressorState), 18_710_528);
    let slope = state.slope(None).unwrap();
    assert_eq!((slope.numerator(), slope.denominator()), (80_503, 16));

    let v32 = find_entry("deepseek-v3.2").unwrap().architecture().unwrap();
    let settings = Settings { kv_dtype: Some("fp8_ds_mla".parse().unwrap()), ..Settings::default() };
    let v32 = StateModel::new(&v32, &settings).unwrap();
    assert_eq!(v32.slope(None).unwrap().whole(), Some(48_068));
    let growing = of(ComponentKind::CompressedKv) + of(ComponentKind::IndexKey);
    let share = growing as f64 / v32.resident(Tokens::new(1_000_000), 1).unwrap().get() as f64;
    assert!((share - 0.1047).abs() < 0.0001, "{share}");
}

/// Public statements about what a decode step reads of DeepSeek-V3.2: all index keys, and 2,048 latents a layer.
#[test]
fn dsa_reads_all_keys_and_the_chosen_latents() {
    let state = state("deepseek-v3.2");
    let n = 1 << 17;
    let read = state.read_per_step(Tokens::new(n), 1).unwrap().get();
    assert_eq!(read, 61 * (132 * n + 1152 * 2048));
    let short = state.read_per_step(Tokens::new(100), 1).unwrap();
    assert_eq!(short, state.resident(Tokens::new(100), 1).unwrap());
}
