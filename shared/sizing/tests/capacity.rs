//! Inversion and growth agree: what fits fits, and one more does not.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::{
    Bytes, LargestContext, Settings, StateModel, Tokens, catalogue, find_entry, read_config,
};
use proptest::prelude::*;

fn state(id: &str) -> StateModel {
    StateModel::new(&find_entry(id).unwrap().architecture().unwrap(), &Settings::default()).unwrap()
}

proptest! {
    #[test]
    fn one_token_more_does_not_fit(
        entry in 0..catalogue().len(),
        budget in prop_oneof![0_u64..1 << 36, 0_u64..1 << 44],
        batch in 1_u64..=64,
        limit in 1_u64..=1 << 24,
    ) {
        let entry = &catalogue()[entry];
        let state = StateModel::new(&entry.architecture().unwrap(), &Settings::default()).unwrap();
        let (budget, limit) = (Bytes::new(budget), Tokens::new(limit));
        let resident = |tokens: u64| state.resident(Tokens::new(tokens), batch).unwrap();
        match state.largest_context(budget, batch, limit).unwrap() {
            LargestContext::Nothing => prop_assert!(resident(0) > budget),
            LargestContext::Budget { tokens } => {
                prop_assert!(resident(tokens.get()) <= budget);
                prop_assert!(resident(tokens.get() + 1) > budget);
                prop_assert!(tokens < limit);
            }
            LargestContext::Limit { tokens } => {
                prop_assert_eq!(tokens, limit);
                prop_assert!(resident(tokens.get()) <= budget);
            }
        }
    }

    #[test]
    fn one_request_more_does_not_fit(
        entry in 0..catalogue().len(),
        budget in 0_u64..1 << 44,
        context in 1_u64..=1 << 22,
    ) {
        let entry = &catalogue()[entry];
        let state = StateModel::new(&entry.architecture().unwrap(), &Settings::default()).unwrap();
        let context = Tokens::new(context);
        let batch = state.largest_batch(Bytes::new(budget), context).unwrap().unwrap();
        prop_assert!(state.resident(context, batch).unwrap().get() <= budget);
        prop_assert!(state.resident(context, batch + 1).unwrap().get() > budget);
    }
}

/// Gemma 3 27B, by hand: 62 layers of 8192 B a token, 52 of them with a window of 1024. 10 GiB = 10,737,418,240 B; the
/// windows take 52 × 1024 × 8192 = 436,207,616 B; (10,737,418,240 − 436,207,616) / 81,920 = 125,747.2…
#[test]
fn a_full_window_leaves_its_bytes_to_the_other_layers() {
    let config = r#"{"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "hidden_size": 5376,
        "sliding_window": 1024, "sliding_window_pattern": 6}}"#;
    let state = StateModel::new(&read_config(config).unwrap(), &Settings::default()).unwrap();
    let slope = 10 * 16 * 256 * 2;
    let windows = 52 * 1024 * 16 * 256 * 2;
    let expected = ((10 << 30) - windows) / slope;
    let found = state.largest_context(Bytes::new(10 << 30), 1, Tokens::new(1 << 20)).unwrap();
    assert_eq!(found, LargestContext::Budget { tokens: Tokens::new(expected) });
}

#[test]
fn a_budget_below_the_fixed_part_holds_nothing() {
    let state = state("qwen3.6-27b");
    let fixed = state.fixed(None).unwrap().get();
    let largest = |bytes: u64| state.largest_context(Bytes::new(bytes), 1, Tokens::new(1000)).unwrap();
    assert_eq!(largest(fixed - 1), LargestContext::Nothing);
    assert_eq!(largest(fixed), LargestContext::Budget { tokens: Tokens::new(0) });
    assert!(state.largest_context(Bytes::new(1), 0, Tokens::new(1)).is_err());
}
