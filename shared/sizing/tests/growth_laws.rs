//! What must hold for every mixer at every length, checked on all catalogue versions and on generated shapes.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::generated;

use std::collections::BTreeSet;

use kvscope_sizing::{
    Architecture, Bytes, ComponentKind, Growth, LargestContext, Settings, StateModel, Tokens, catalogue,
    find_entry, read_config_value,
};
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
            // Several layers may read what one keeps.
            let is_shared = state.parts().iter().any(|part| !part.other_readers().is_empty());
            prop_assert!(is_shared || size.read_bytes_per_step <= size.resident_bytes, "{}", id);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_mixer_grows_lawfully(
        (config, architecture) in generated::architecture(),
        n in 0_u64..3_000_000,
        more in 0_u64..200_000,
        layer_of in 0_usize..1000,
    ) {
        let state = StateModel::new(&architecture, &Settings::default()).unwrap();
        let bytes = |n: u64| state.resident(Tokens::new(n), 1).unwrap().get();
        prop_assert!(bytes(n) <= bytes(n + more), "{config}: {} at {n}, {} at {}", bytes(n), bytes(n + more), n + more);
        mean_step_is_the_slope(&config, &state, n)?;
        layers_add_up(&config, &architecture, &state, Tokens::new(n))?;
        inversion_agrees(&config, &state, bytes(n), n + more)?;
        let layer = layer_of % architecture.layer_count();
        for part in state.class_components(architecture.class_of(layer).unwrap()) {
            prop_assert!(part.read_bytes(Tokens::new(n)).unwrap() <= part.bytes(Tokens::new(n)).unwrap(), "{config}");
        }
    }
}

/// Past every window the mean step over one common period of the compression ratios is the slope.
fn mean_step_is_the_slope(config: &str, state: &StateModel, n: u64) -> Result<(), TestCaseError> {
    let period = state.parts().iter().fold(1, |period, part| match part.component.growth {
        Growth::Compressed { ratio, .. } => least_common_multiple(period, ratio.get()),
        _ => period,
    });
    let start = n + state.kinks().last().copied().unwrap_or_default().get();
    let bytes = |n: u64| state.resident(Tokens::new(n), 1).unwrap().get();
    let slope = state.slope(None).unwrap();
    let step = bytes(start + period) - bytes(start);
    prop_assert_eq!(
        step * slope.denominator(),
        slope.numerator() * period,
        "{} over {} tokens",
        config,
        period
    );
    let at = state.slope(Some(Tokens::new(start))).unwrap();
    prop_assert_eq!(at, slope, "{}", config);
    Ok(())
}

/// Layer by layer, in the architecture's order, the bytes add up to the total.
fn layers_add_up(
    config: &str,
    architecture: &Architecture,
    state: &StateModel,
    n: Tokens,
) -> Result<(), TestCaseError> {
    let mut total = 0;
    for layer in 0..architecture.layer_count() {
        let class = architecture.class_of(layer).unwrap();
        total += state.class_components(class).iter().map(|part| part.bytes(n).unwrap().get()).sum::<u64>();
    }
    prop_assert_eq!(total, state.resident(n, 1).unwrap().get(), "{}", config);
    Ok(())
}

/// What fits in a number of bytes is the last length that does not take more.
fn inversion_agrees(config: &str, state: &StateModel, budget: u64, limit: u64) -> Result<(), TestCaseError> {
    let bytes = |n: Tokens| state.resident(n, 1).unwrap().get();
    match state.largest_context(Bytes::new(budget), 1, Tokens::new(limit)).unwrap() {
        LargestContext::Nothing => prop_assert!(bytes(Tokens::new(0)) > budget, "{config}"),
        LargestContext::Limit { tokens } => {
            prop_assert!(tokens.get() == limit && bytes(tokens) <= budget, "{config}");
        }
        LargestContext::Budget { tokens } => {
            prop_assert!(bytes(tokens) <= budget, "{config}: {tokens} take more");
            prop_assert!(bytes(Tokens::new(tokens.get() + 1)) > budget, "{config}: more than {tokens} fit");
        }
    }
    Ok(())
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut gcd, mut rest) = (a, b);
    while rest > 0 {
        (gcd, rest) = (rest, gcd % rest);
    }
    a / gcd * b
}

/// The laws above are of no worth for a mixer that no config has.
#[test]
fn the_generated_configs_have_every_mixer() {
    let mut words = BTreeSet::new();
    for (_, config) in generated::bases() {
        for class in read_config_value(&config).unwrap().classes() {
            words.extend(class.mixers.iter().map(generated::word));
            words.extend(class.mixers.is_empty().then_some("none"));
        }
    }
    assert_eq!(words, BTreeSet::from(generated::WORDS));
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
