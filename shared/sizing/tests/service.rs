//! Persisted and transferred bytes against figures derived from published configs and reports.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::cost::{CostOf, FlopWeights, Types};
use kvscope_sizing::parameters::Parameters;
use kvscope_sizing::{Settings, StateModel, Tokens, WindowPolicy, catalogue, find_entry};

const K32: Tokens = Tokens::new(32_768);
const K128: Tokens = Tokens::new(131_072);

fn state(id: &str, settings: &[(&str, &str)]) -> StateModel {
    let mut chosen = Settings::default();
    for (name, value) in settings {
        chosen.set(name, value).unwrap();
    }
    StateModel::new(&find_entry(id).unwrap().architecture().unwrap(), &chosen).unwrap()
}

/// Payload = bytes a token × tokens: `MiniMax` 62 × 8 × 256 × 2, Qwen3 94 × 4 × 256 × 2, MLA 61 × 576 × 2, DeepSeek-V3.2 in
/// its FP8 layout 61 × (656 + 132).
#[test]
fn payloads_of_caches_that_keep_every_token() {
    let fp8 = [("kv_dtype", "fp8_ds_mla")];
    let cases = [
        ("minimax-m2.5", &[][..], 253_952),
        ("qwen3-235b-a22b", &[], 192_512),
        ("deepseek-v3", &[], 70_272),
        ("deepseek-v3.2", &fp8, 48_068),
    ];
    for (id, settings, slope) in cases {
        let state = state(id, settings);
        for n in [K32, K128] {
            assert_eq!(state.transferred(n, 1).unwrap().get(), slope * n.get(), "{id}");
            assert_eq!(
                state.persisted(n, 1, WindowPolicy::default()).unwrap().get(),
                slope * n.get(),
                "{id}"
            );
        }
    }
}

/// Streams of whole entries, a 128-token window in every layer, and compressor rows that a disk store leaves out.
/// V4-Pro: 30 CSA layers at 4:1 with index keys, 31 HCA layers at 128:1. V4-Flash: 21 and 20 of 43 layers. V4.1: three
/// stores at 2:1 and one at 1:1, each 288 + 68 bytes.
#[test]
fn payloads_of_compressed_caches() {
    let pro = |n: u64| 30 * (n / 4) * (584 + 68) + 31 * (n / 128) * 584;
    let flash = |n: u64| 21 * (n / 4) * (584 + 68) + 20 * (n / 128) * 584;
    let v41 = |n: u64| (3 * (n / 2) + n) * (288 + 68);
    let cases = [
        ("deepseek-v4-pro", &pro as &dyn Fn(u64) -> u64, 61 * 128 * 584),
        ("deepseek-v4-flash", &flash, 43 * 128 * 584),
        ("deepseek-v4.1-flash", &v41, 40 * 128 * 528),
    ];
    for (id, streams, window) in cases {
        let state = state(id, &[]);
        let kinds = state.by_kind(K32).unwrap();
        let rows = kinds[kvscope_sizing::ComponentKind::CompressorState as usize].get();
        for n in [K32, K128, Tokens::new(100_001)] {
            let kept = streams(n.get()) + window;
            assert_eq!(state.persisted(n, 1, WindowPolicy::default()).unwrap().get(), kept, "{id}");
            assert_eq!(state.persisted(n, 1, WindowPolicy::Zero).unwrap().get(), kept - window, "{id}");
            assert_eq!(state.transferred(n, 1).unwrap().get(), kept + rows, "{id}");
        }
    }
}

/// One checkpoint of the recurrent part: 45 layers × (64 × 128 × 128 × 4 + 3 × 12,288 × 2) bytes.
#[test]
fn a_recurrent_state_is_kept_and_sent_once() {
    let state = state("qwen3.5-397b-a17b", &[]);
    for n in [Tokens::new(1), K128] {
        let expected = 3 * (30_720 * n.get() + 192_061_440);
        assert_eq!(state.transferred(n, 3).unwrap().get(), expected);
        assert_eq!(state.persisted(n, 3, WindowPolicy::default()).unwrap().get(), expected);
    }
}

/// Llama 4 Scout: 12 of 48 layers keep every token, 36 the current chunk of 8,192; an entry is 2 × 8 × 128 × 2 bytes. At a
/// whole number of chunks the next token starts an empty one.
#[test]
fn a_chunk_is_sent_as_far_as_it_is_live() {
    let state = state("llama-4-scout", &[]);
    for (n, live) in [(8_191, 8_191), (8_192, 0), (100_000, 1_696)] {
        let expected = 4_096 * (12 * n + 36 * live);
        assert_eq!(state.transferred(Tokens::new(n), 1).unwrap().get(), expected, "{n}");
        assert_eq!(state.persisted(Tokens::new(n), 1, WindowPolicy::AtEnd).unwrap().get(), expected, "{n}");
    }
}

/// The token at position n - 1 attends to positions of its own chunk up to itself (transformers 5.24, `chunked_overlay` of
/// `masking_utils.py`: `kv_idx // chunk_size == q_idx // chunk_size`); what is kept stays at the fullest moment.
#[test]
fn a_step_reads_as_much_of_a_chunk_as_its_token_sees() {
    let state = state("llama-4-scout", &[]);
    for (n, seen, kept) in
        [(1, 1, 1), (8_191, 8_191, 8_191), (8_192, 8_192, 8_192), (8_193, 1, 8_192), (100_000, 1_696, 8_192)]
    {
        let bytes = |of_chunk: u64| 4_096 * (12 * n + 36 * of_chunk);
        assert_eq!(state.read_per_step(Tokens::new(n), 1).unwrap().get(), bytes(seen), "{n}");
        assert_eq!(state.resident(Tokens::new(n), 1).unwrap().get(), bytes(kept), "{n}");
    }
}

/// A window of 4,096 tokens with checkpoints every 10,000 tokens of 25,000: two whole windows, and the last window of
/// which nothing is kept yet. Every 1,000 tokens: every entry once.
#[test]
fn window_policies_of_a_disk_store() {
    let state = state("mistral-7b-v0.1", &[]);
    let entry = 32 * 2 * 8 * 128 * 2;
    let n = Tokens::new(25_000);
    for (policy, entries) in [
        (WindowPolicy::AtEnd, 4_096),
        (WindowPolicy::Full, 25_000),
        (WindowPolicy::Periodic { interval: Tokens::new(10_000) }, 3 * 4_096),
        (WindowPolicy::Periodic { interval: Tokens::new(1_000) }, 25_000),
        (WindowPolicy::Zero, 0),
    ] {
        assert_eq!(state.persisted(n, 1, policy).unwrap().get(), entries * entry, "{policy:?}");
    }
}

#[test]
fn what_is_sent_or_kept_is_never_more_than_what_is_resident() {
    for entry in catalogue() {
        let state = state(&entry.id, &[]);
        for n in [1, 127, 128, 8_192, 99_999, 1_000_003].map(Tokens::new) {
            let resident = state.resident(n, 1).unwrap();
            let sent = state.transferred(n, 1).unwrap();
            let kept = state.persisted(n, 1, WindowPolicy::default()).unwrap();
            assert!(kept <= sent && sent <= resident, "{} at {n}: {kept}, {sent}, {resident}", entry.id);
        }
    }
}

/// DeepSeek-V4.1's layers read stores and index keys that earlier layers keep: the state's figure is that of the cost, whose
/// growth the report's figure 2 checks (claim V6).
#[test]
fn a_step_reads_what_earlier_layers_keep_too() {
    let mut compared = 0;
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        let Ok(parameters) = Parameters::of(&entry.config, &architecture) else { continue };
        let settings = Settings::default();
        let state = StateModel::new(&architecture, &settings).unwrap();
        let of = CostOf {
            architecture: &architecture,
            parameters: &parameters,
            settings: &settings,
            types: Types::of(&architecture),
            weights: FlopWeights::plain(),
        };
        for n in [1, 1000, 30_000, 1_000_000].map(Tokens::new) {
            let Ok(cost) = of.decode(n, 1) else { continue };
            assert_eq!(
                state.read_per_step(n, 1).unwrap(),
                cost.state_read_bytes.unwrap(),
                "{} at {n}",
                entry.id
            );
            compared += 1;
        }
    }
    assert!(compared > 250, "{compared}");
}
