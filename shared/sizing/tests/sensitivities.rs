//! What a tenth of each input does to the answers of plans, by hand.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::cost::{FlopWeights, Types};
use kvscope_sizing::hardware::find_gpu;
use kvscope_sizing::parameters::Parameters;
use kvscope_sizing::plan::{
    ChosenLink, CostQuestion, CostSensitivities, HandoverQuestion, HandoverSensitivities, Moving,
    PrefillTime, Sensitivity, Subject, cost, handover, label,
};
use kvscope_sizing::{Architecture, CatalogueEntry, Settings, Tokens, find_entry};

fn version(id: &str) -> (&'static CatalogueEntry, Architecture) {
    let entry = find_entry(id).unwrap();
    (entry, entry.architecture().unwrap())
}

fn near(rows: &[Sensitivity], input: &str, less: f64, more: f64) {
    let row = rows.iter().find(|row| row.input == input).unwrap_or_else(|| panic!("{input}: {rows:?}"));
    for (got, right) in [(row.with_less.unwrap(), less), (row.with_more.unwrap(), more)] {
        assert!((got / right - 1.0).abs() < 1e-9, "{input}: {got}, not {right}");
    }
}

fn cost_of(id: &str, n: u64, batch: u64) -> CostSensitivities {
    let (entry, architecture) = version(id);
    let settings = Settings::default();
    let question = CostQuestion {
        moving: Moving::Inputs,
        context: Tokens::new(n),
        batch,
        settings: &settings,
        types: Types::of(&architecture),
        weights: FlopWeights::plain(),
    };
    cost(&Subject::of(entry, &architecture), &question).unwrap().sensitivities
}

/// Llama-3.1-8B: two operations for each active parameter, and 32 layers × 32 heads × 2 × 256 = 524,288 for each token of the
/// context; 131,072 B of K/V a token and two bytes for each parameter are read.
#[test]
fn a_step_s_operations_and_bytes() {
    let (entry, architecture) = version("llama-3.1-8b");
    let active = Parameters::of(&entry.config, &architecture).unwrap().active as f64;
    let moved = cost_of("llama-3.1-8b", 10_000, 1);
    let core = 524_288.0 * 10_000.0;
    let weights = 2.0 * active;
    near(&moved.decode_operations, "context", weights + 0.9 * core, weights + 1.1 * core);
    near(&moved.decode_operations, "active parameters", 0.9 * weights + core, 1.1 * weights + core);
    near(&moved.decode_operations, "operations on state", weights + 0.9 * core, weights + 1.1 * core);
    assert_eq!(moved.decode_operations[0].input, "active parameters");
    let state = 131_072.0 * 10_000.0;
    near(&moved.decode_read_bytes, "bytes of an entry", weights + 0.9 * state, weights + 1.1 * state);
    // A tenth more of the prompt: 11,000 × 11,001 / 2 pairs, and the head once.
    let head = 2.0 * 128_256.0 * 4096.0;
    let prefill = |n: f64| (weights - head) * n + head + 524_288.0 * n * (n + 1.0) / 2.0;
    near(&moved.prefill_operations, "context", prefill(9000.0), prefill(11_000.0));
    // Of three requests there is no tenth.
    assert!(cost_of("llama-3.1-8b", 10_000, 3).decode_operations.iter().all(|row| row.input != "batch"));
    let ten = cost_of("llama-3.1-8b", 10_000, 10).decode_operations;
    near(&ten, "batch", 9.0 * (weights + core), 11.0 * (weights + core));
}

fn hand_over(prefill: PrefillTime<'_>, link: &ChosenLink) -> HandoverSensitivities {
    let (entry, architecture) = version("minimax-m2.5");
    let question = HandoverQuestion {
        moving: Moving::Inputs,
        contexts: &[Tokens::new(32_768)],
        settings: &Settings::default(),
        gpu: find_gpu("h200").unwrap(),
        count: 8,
        tp: 8,
        fleet: None,
        links: std::slice::from_ref(link),
        blocks: Some(1000),
        prefill,
    };
    handover(&Subject::of(entry, &architecture), &question).unwrap().sensitivities
}

/// MiniMax-M2.5: 253,952 B a token over 62 layers; a tenth of 32,768 tokens ends at 29,491 and 36,045.
#[test]
fn a_hand_over_s_rate_and_time() {
    let link = ChosenLink {
        link: "mine".to_owned(),
        grade: "given",
        source: "given".to_owned(),
        start_seconds: 0.0,
        alpha_seconds: 15e-6,
        bytes_per_second: 50e9,
    };
    let payload = 253_952.0 * 32_768.0;
    let moved = hand_over(PrefillTime::Given(&[1.11]), &link);
    near(&moved.egress, "prefill time", payload / (0.9 * 1.11), payload / (1.1 * 1.11));
    near(&moved.egress, "context", 253_952.0 * 29_491.0 / 1.11, 253_952.0 * 36_045.0 / 1.11);
    // All but the last layer hides.
    let after = |rate: f64| (0.015 + payload / rate) / 62.0;
    near(&moved.layerwise_seconds, "bandwidth", after(45e9), after(55e9));
    assert!(moved.layerwise_seconds.iter().all(|row| row.input != "start"));
    // Where the prefill is estimated, the rate of computing is what moves.
    let (_, architecture) = version("minimax-m2.5");
    let estimated = PrefillTime::Estimated { percent: 40.0, types: Types::of(&architecture) };
    let moved = hand_over(estimated, &link).egress;
    let rate = moved.iter().find(|row| row.input == "rate of computing").unwrap();
    assert!((rate.with_more.unwrap() / rate.with_less.unwrap() - 1.1 / 0.9).abs() < 1e-9);
    // Beside that a longer prompt lowers Φ here: its quadratic part grows faster than its bytes.
    let context = moved.iter().find(|row| row.input == "context").unwrap();
    assert!(context.with_more < context.with_less);
}

/// Qwen3.5-397B at 100K: 3,072,000,000 B that grow and 192,061,440 B that do not.
#[test]
fn a_label_s_bytes() {
    let (entry, architecture) = version("qwen3.5-397b-a17b");
    let settings = Settings::default();
    let hardware = Some((find_gpu("h200").unwrap(), 8));
    let subject = Subject::of(entry, &architecture);
    let moved =
        label(&subject, &settings, &[Tokens::new(100_000)], hardware, Moving::Inputs).unwrap().sensitivities;
    let (growing, fixed) = (3_072_000_000.0, 192_061_440.0);
    near(&moved.resident_bytes, "context", 0.9 * growing + fixed, 1.1 * growing + fixed);
    near(&moved.resident_bytes, "fixed part", growing + 0.9 * fixed, growing + 1.1 * fixed);
    assert_eq!(moved.resident_bytes.last().unwrap().input, "fixed part");
    assert_eq!(moved.prefill_seconds.len(), 2);
    assert!(
        label(&subject, &settings, &[Tokens::new(100_000)], hardware, Moving::Nothing)
            .unwrap()
            .sensitivities
            .resident_bytes
            .is_empty()
    );
    let alone =
        label(&subject, &settings, &[Tokens::new(100_000)], None, Moving::Inputs).unwrap().sensitivities;
    assert!(alone.prefill_seconds.is_empty());
}
