//! The change between two versions, split by cause.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::{
    Architecture, Bytes, Cause, Comparison, Ratio, Settings, Tokens, Version, catalogue, compare, find_entry,
};

fn compared(from: &str, to: &str, n: u64, settings: &Settings) -> Comparison {
    let entries = [find_entry(from).unwrap(), find_entry(to).unwrap()];
    let read = entries.map(|entry| entry.architecture().unwrap());
    let version = |side: usize| Version {
        label: &entries[side].id,
        name: &entries[side].name,
        architecture: &read[side],
    };
    compare(version(0), version(1), settings, Tokens::new(n)).unwrap()
}

fn slopes(comparison: &Comparison) -> Vec<(Cause, i128)> {
    let whole = comparison.steps.iter().inspect(|step| assert_eq!(step.slope.denominator(), 1));
    whole.map(|step| (step.cause, step.slope.numerator())).collect()
}

/// By hand: 92 → 78 layers at 2 × 8 × 128 × 2 = 4,096 bytes, then 78 layers from 4,096 to 576 × 2 = 1,152 bytes, then 78
/// index keys of 132 bytes.
#[test]
fn from_glm_4_5_to_glm_5_1() {
    let comparison = compared("glm-4.5", "glm-5.1", 100_000, &Settings::default());
    let expected =
        [(Cause::Layers, -14 * 4_096), (Cause::Mixer, 78 * (1_152 - 4_096)), (Cause::IndexKeys, 78 * 132)];
    assert_eq!(slopes(&comparison), expected);
    // index_topk 2,048 latents and every index key.
    assert_eq!(comparison.read_bytes_per_step[1].get(), 78 * (2_048 * 1_152 + 100_000 * 132));
    assert_eq!(
        comparison.sentence,
        "GLM-4.5 → GLM-5.1: 376,832 → 100,152 B/token (92 → 78 layers −57,344, GQA → DSA −229,632, index keys \
         +10,296); at 100,000 tokens 37.7 GB → 10.0 GB, 3.8 times less; a decode step reads 37.7 GB → 1.21 GB"
    );
    let layers = comparison.facts.iter().find(|fact| fact.fact == "layers").unwrap();
    let layers = serde_json::to_value(layers).unwrap();
    assert_eq!(layers["to"], serde_json::json!({"values": [78], "source": "num_hidden_layers"}));
    let keys = comparison.facts.iter().find(|fact| fact.fact == "layers_with_index_keys").unwrap();
    let keys = serde_json::to_value(keys).unwrap();
    assert_eq!(keys["to"]["source"], "num_hidden_layers, index_head_dim");
    let rank = comparison.facts.iter().find(|fact| fact.fact == "kv_lora_rank").unwrap();
    assert_eq!((&rank.from, rank.to.as_ref().unwrap().source.as_str()), (&None, "kv_lora_rank"));
}

/// Qwen3-235B → Qwen3.5: 94 → 60 layers at 2 × 4 × 128 × 2 = 2,048 bytes, 45 of them stop keeping K and V, then 15 layers
/// go from 4 to 2 heads and from 128 to 256 values.
#[test]
fn heads_and_widths_are_causes_of_their_own() {
    let comparison = compared("qwen3-235b-a22b", "qwen3.5-397b-a17b", 100_000, &Settings::default());
    let moved: Vec<_> = slopes(&comparison).into_iter().filter(|(_, slope)| *slope != 0).collect();
    let expected = [
        (Cause::Layers, -34 * 2_048),
        (Cause::Mixer, -45 * 2_048),
        (Cause::Heads, -15 * 1_024),
        (Cause::Widths, 15 * 1_024),
    ];
    assert_eq!(moved, expected);
}

/// DeepSeek-V3.2 → V4-Pro, values as BF16 until the format is taken: 61 layers of 1,152 + 132 bytes a token become 30 of
/// 1,024/4 + 132 and 31 of 1,024/128, then one key for four tokens, then records of 584 bytes and keys of 68.
#[test]
fn a_record_layout_is_a_cause_of_its_own() {
    let comparison = compared("deepseek-v3.2", "deepseek-v4-pro", 1_000_000, &Settings::default());
    let of = |cause: Cause| comparison.steps.iter().find(|step| step.cause == cause).unwrap().slope;
    assert_eq!(
        of(Cause::Mixer),
        Ratio::whole(30 * (256 + 132) + 31 * 8).minus(Ratio::whole(61 * 1_284)).unwrap()
    );
    assert_eq!(of(Cause::IndexKeys), Ratio::ZERO.minus(Ratio::whole(30 * (132 - 33))).unwrap());
    let records = Ratio::new(-30 * (440 + 64) * 32 - 31 * 440, 128).unwrap();
    assert_eq!(of(Cause::Format), records);
}

/// Every pair of versions, under formats and lengths that change what grows.
#[test]
fn steps_add_up_exactly_over_all_pairs() {
    let read: Vec<(&str, Architecture)> =
        catalogue().iter().map(|entry| (entry.id.as_str(), entry.architecture().unwrap())).collect();
    let fp8 = Settings { kv_dtype: Some("fp8".parse().unwrap()), ..Settings::default() };
    for (index, (from, old)) in read.iter().enumerate() {
        for (to, new) in &read {
            let (settings, n) = match index % 3 {
                0 => (Settings::default(), 100_000),
                1 => (Settings::default(), 500),
                _ => (fp8.clone(), 1_000_003),
            };
            let version = |label, architecture| Version { label, name: label, architecture };
            let change = compare(version(from, old), version(to, new), &settings, Tokens::new(n)).unwrap();
            let add = |figure: &dyn Fn(&kvscope_sizing::Step) -> Ratio| {
                change.steps.iter().fold(Ratio::ZERO, |sum, step| sum.plus(figure(step)).unwrap())
            };
            let bytes = |[a, b]: [Bytes; 2]| Ratio::from(b).minus(a.into()).unwrap();
            let [a, b] = change.slope_bytes_per_token.map(Ratio::from);
            assert_eq!(add(&|step| step.slope), b.minus(a).unwrap(), "{from} → {to}: slope");
            assert_eq!(add(&|step| step.fixed), bytes(change.fixed_bytes), "{from} → {to}: fixed");
            assert_eq!(add(&|step| step.resident), bytes(change.resident_bytes), "{from} → {to}: resident");
            if from == to {
                assert!(change.steps.is_empty() && change.facts.is_empty(), "{from}: {:?}", change.steps);
            }
        }
    }
}

/// A step that no fact explains would be a remainder under another name.
#[test]
fn every_step_has_a_fact_that_changed() {
    for from in catalogue() {
        for to in catalogue().iter().filter(|to| to.family == from.family) {
            let change = compared(&from.id, &to.id, 100_000, &Settings::default());
            for step in &change.steps {
                let explained = |cause: Cause| change.facts.iter().any(|fact| fact.cause == cause);
                // Sharing and record layouts may come with the mixer that brings them.
                let known = explained(step.cause) || explained(Cause::Mixer);
                assert!(known, "{} → {}: {step:?}", from.id, to.id);
            }
        }
    }
}
