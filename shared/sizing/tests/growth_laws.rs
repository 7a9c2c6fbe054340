//! What must hold for every mixer at every length, checked on all catalogue versions.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::{ComponentKind, Settings, StateModel, Tokens, catalogue, find_entry};
use proptest::prelude::*;

fn states() -> Vec<(&'static str, StateModel)> {
    let state = |entry: &'static kvscope_sizing::CatalogueEntry| {
        let architecture = entry.architecture().unwrap();
        (entry.id.as_str(), StateModel::new(&architecture, &Settings::default()).unwrap())
    };
    catalogue().iter().map(state).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn bytes_never_shrink(n in 1_u64..2_000_000, more in 0_u64..100_000) {
        for (id, state) in states() {
            let (a, b) = (state.resident(Tokens::new(n), 1).unwrap(), state.resident(Tokens::new(n + more), 1).unwrap());
            prop_assert!(a <= b, "{id}: {a} at {n}, {b} at {}", n + more);
        }
    }

    #[test]
    fn components_layers_and_batch_add_up(n in 1_u64..2_000_000, batch in 1_u64..64) {
        for (id, state) in states() {
            let one = state.resident(Tokens::new(n), 1).unwrap().get();
            let kinds: u64 = state.by_kind(Tokens::new(n)).unwrap().iter().map(|bytes| bytes.get()).sum();
            prop_assert_eq!(one, kinds, "{}", id);
            prop_assert_eq!(state.resident(Tokens::new(n), batch).unwrap().get(), one * batch, "{}", id);
            let size = state.size(id, Some(Tokens::new(n)), batch, &Settings::default()).unwrap();
            let parts: u64 = size.components.iter().map(|part| part.bytes.unwrap().get()).sum();
            prop_assert_eq!(parts, one * batch, "{}", id);
            prop_assert!(size.read_bytes_per_step <= size.resident_bytes, "{}", id);
        }
    }

    /// Past every window the mean step over one common period of the compression ratios is the slope.
    #[test]
    fn the_mean_step_is_the_slope(start in 300_000_u64..2_000_000) {
        const PERIOD: u64 = 128;
        for (id, state) in states() {
            let (a, b) = (state.resident(Tokens::new(start), 1).unwrap(), state.resident(Tokens::new(start + PERIOD), 1).unwrap());
            let slope = state.slope(None).unwrap();
            prop_assert_eq!((b.get() - a.get()) * slope.denominator(), slope.numerator() * PERIOD, "{}", id);
        }
    }
}

/// Layer by layer, in the architecture's order, the bytes add up to the total.
#[test]
fn the_layers_add_up_to_the_total() {
    let n = Tokens::new(123_457);
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        let state = StateModel::new(&architecture, &Settings::default()).unwrap();
        let mut total = 0;
        for layer in 0..architecture.layer_count() {
            let class = architecture.class_of(layer).unwrap();
            total +=
                state.class_components(class).iter().map(|part| part.bytes(n).unwrap().get()).sum::<u64>();
        }
        assert_eq!(total, state.resident(n, 1).unwrap().get(), "{}", entry.id);
    }
}

/// Every derivation's formula, worked with its inputs, names each symbol, and its result is what the growth uses.
#[test]
fn derivations_carry_what_they_claim() {
    for (id, state) in states() {
        for part in state.parts() {
            let component = &part.component;
            assert_eq!(component.derivation.result, component.growth.entry(), "{id}: {:?}", component.kind);
            let worked = component.derivation.worked();
            assert!(!worked.contains('_'), "{id}: {worked} leaves a symbol open");
            if !matches!(component.kind, ComponentKind::IndexKey) {
                assert_eq!(evaluate(&worked), component.growth.entry().get(), "{id}: {worked}");
            }
        }
    }
}

/// An expanded latent with blocks of 32 values in 34 bytes: 128 heads of 192 and 128 values are
/// 128 × (192 + 128) / 32 × 34 B; with K alone in that format, V has 2 bytes a value.
#[test]
fn an_expanded_latent_derives_what_it_keeps() {
    let architecture = find_entry("deepseek-v3").unwrap().architecture().unwrap();
    let rows = [
        ("k_dtype", "v_dtype", "q8_0", 128 * (192 + 128) / 32 * 34, "q8_0"),
        ("k_dtype", "k_dtype", "mixed", 128 * 192 / 32 * 34 + 128 * 128 * 2, "q8_0"),
        ("k_dtype", "v_dtype", "bf16", 128 * (192 + 128) * 2, "bf16"),
    ];
    for (one, other, name, bytes, format) in rows {
        let mut settings = Settings::default();
        for (setting, value) in [("mla_storage", "expanded"), (one, format), (other, format)] {
            settings.set(setting, value).unwrap();
        }
        let state = StateModel::new(&architecture, &settings).unwrap();
        let component = &state.parts()[0].component;
        let worked = component.derivation.worked();
        assert_eq!(component.growth.entry().get(), bytes, "{worked}");
        assert_eq!(evaluate(&worked), bytes, "{worked}");
        assert_eq!(component.format, name);
    }
}

/// Evaluates sums of products with one level of brackets, independent of the code under test.
fn evaluate(text: &str) -> u64 {
    if let (Some(open), Some(close)) = (text.find('('), text.rfind(')')) {
        let inner = evaluate(&text[open + 1..close]);
        return evaluate(&format!("{}{inner}{}", &text[..open], &text[close + 1..]));
    }
    text.split('+')
        .map(|term| term.split('×').map(|factor| factor.trim().parse::<u64>().unwrap()).product::<u64>())
        .sum()
}
