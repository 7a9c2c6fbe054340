use super::*;
use crate::{Settings, find_entry};

/// The cost of the layer classes of a catalogue version that have `name`, one layer each.
fn cost(id: &str, name: &str, n: u64) -> StepCost {
    let architecture = find_entry(id).unwrap().architecture().unwrap();
    let formats = architecture.formats(&Settings::default());
    let mixers = architecture.mixers();
    let mixer = mixers.into_iter().find(|mixer| mixer.name() == name).unwrap();
    mixer.step_cost(&formats, Tokens::new(n)).unwrap()
}

fn one(operand: Operand, rows: u64, flops: u64) -> Operations {
    Operations { operand, rows, flops }
}

#[test]
fn grouped_queries() {
    // MiniMax-M2.7: 48 query heads on 8 K/V heads of 128: 2 × 48 × 256 operations and 8 × 256 × 2 bytes a token.
    let cost = cost("minimax-m2.7", "GQA", 1000);
    assert_eq!(cost.operations, [one(Operand::Bf16, 6, 24_576_000)]);
    assert_eq!((cost.read_bytes.get(), cost.appended_bytes.get()), (4_096_000, 4096));
    assert_eq!(cost.exponentials, 48 * 1000);
    // Operations over bytes: the group of 6 queries for each bf16 value.
    assert!((cost.intensity().unwrap() - 6.0).abs() < 1e-12);
}

/// DeepSeek-V3.2 (arXiv 2512.02556; terms of the count by hand): core 128 × min(2048, L) × 2 × (576 + 512), indexer
/// 64 × 128 × 2 × L; times 61 layers at L = 1e6 they are 35 GFLOP in bf16 and 999 GFLOP in fp8.
#[test]
fn sparse_latents_and_their_indexer() {
    let cost = cost("deepseek-v3.2", "DSA", 1_000_000);
    assert_eq!(
        cost.operations,
        [one(Operand::Bf16, 128, 570_425_344), one(Operand::Fp8, 64, 16_384_000_000)]
    );
    let total = cost.times(61).unwrap();
    assert_eq!(total.operations[0].flops / 1_000_000_000, 34);
    assert_eq!(total.operations[1].flops / 1_000_000_000, 999);
}

/// DeepSeek-V4-Pro (arXiv 2606.19348): 30 CSA layers of 128 heads, 64 × 128 indexer over L / 4 keys in FP4, top 1024;
/// 31 HCA layers. At L = 1e6 the core is 147 and the indexer 61 GFLOP in FP8-equivalents (bf16 2, FP4 0.5).
#[test]
fn compressed_attention_adds_up_to_core_and_indexer() {
    let csa = cost("deepseek-v4-pro", "CSA", 1_000_000).times(30).unwrap();
    let hca = cost("deepseek-v4-pro", "HCA", 1_000_000).times(31).unwrap();
    let all = csa.plus(hca).unwrap();
    let flops = |operand| {
        all.operations.iter().filter(|one| one.operand == operand).map(|one| one.flops).sum::<u64>()
    };
    // Core in entries: 30 × (1024 + 128) + 31 × (7812 + 128), each 128 heads × 2 × 1024; records are fp8.
    let entries = 30 * (1024 + 128) + 31 * (7812 + 128);
    assert_eq!(flops(Operand::Fp8), entries * 128 * 2 * 1024);
    assert_eq!(all.exponentials, entries * 128);
    assert_eq!(flops(Operand::Fp8) * 2 / 1_000_000_000, 147);
    assert_eq!(flops(Operand::Fp4), 30 * 64 * 128 * 2 * 250_000);
    assert_eq!(flops(Operand::Fp4) / 2 / 1_000_000_000, 61);
}

/// DeepSeek-V4.1: a layer that borrows its store still reads 512 entries of 288 bytes, and its window of 128 × 528.
#[test]
fn a_borrowed_store_is_read() {
    let architecture = find_entry("deepseek-v4.1-flash").unwrap().architecture().unwrap();
    let formats = architecture.formats(&Settings::default());
    let borrower = architecture.layers().nth(3).unwrap();
    let cost = borrower.mixers[0].step_cost(&formats, Tokens::new(100_000)).unwrap();
    assert_eq!(cost.borrowed_bytes.get(), 512 * 288);
    assert_eq!(cost.read_bytes.get(), 512 * 288 + 128 * 528);
}

#[test]
fn recurrences_read_and_write_their_state() {
    // Qwen3-Next: 32 value heads of 128 × 128, a 4-tap convolution over 2 × 16 × 128 + 32 × 128 channels.
    let cost = cost("qwen3-next-80b-a3b", "gated DeltaNet", 5);
    let state = 32 * 128 * 128;
    assert_eq!(cost.rewritten_bytes, cost.read_bytes);
    assert_eq!(cost.appended_bytes, Bytes::ZERO);
    let flops = |rows| cost.operations.iter().filter(|o| o.rows == rows).map(|o| o.flops).sum::<u64>();
    assert_eq!(flops(1), 7 * state + 2 * 4 * 8192);
}

#[test]
fn a_decay_for_every_value_needs_an_exponential_for_every_value() {
    // Jamba-1.5-Large: 16,384 channels with a state of 16, a 4-tap convolution.
    let mamba1 = cost("jamba-1.5-large", "Mamba-1", 5);
    let state = 16_384 * 16;
    assert_eq!((mamba1.exponentials, mamba1.flops()), (state, 6 * state + 2 * 4 * 16_384));
    assert_eq!(mamba1.times(3).unwrap().plus(mamba1).unwrap().exponentials, 4 * state);
    assert_eq!(cost("nemotron-3-nano-30b-a3b", "Mamba-2", 5).exponentials, 0);
}

#[test]
fn every_layer_of_the_catalogue_has_a_cost() {
    for entry in crate::catalogue() {
        let architecture = entry.architecture().unwrap();
        let settings = Settings { encoder_tokens: Some(1500), ..Settings::default() };
        let formats = architecture.formats(&settings);
        for mixer in architecture.mixers() {
            let cost = mixer.step_cost(&formats, Tokens::new(4096)).unwrap();
            assert!(cost.flops() > 0 || *mixer == Mixer::None, "{}: {mixer:?}", entry.id);
        }
    }
}

#[test]
fn each_side_computes_in_its_own_format() {
    let operations = |id: &str, settings: &Settings| {
        let architecture = find_entry(id).unwrap().architecture().unwrap();
        let formats = architecture.formats(settings);
        let mixer = architecture.classes()[0].mixers[0].clone();
        mixer.step_cost(&formats, Tokens::new(1000)).unwrap().operations
    };
    let mut settings = Settings::default();
    settings.set("k_dtype", "q8_0").unwrap();
    settings.set("v_dtype", "q4_0").unwrap();
    // Qwen3-8B: 32 query heads on 8 of 128: 2 × 32 × 128 × 1000 for the score, as many for the sum.
    let half = 2 * 32 * 128 * 1000;
    assert_eq!(operations("qwen3-8b", &settings), [one(Operand::Fp8, 4, half), one(Operand::Fp4, 4, half)]);
    // DeepSeek-V3 expanded: 128 heads, K of 128 + 64 values, V of 128.
    settings.set("mla_storage", "expanded").unwrap();
    let side = |width: u64| 2 * 128 * width * 1000;
    assert_eq!(
        operations("deepseek-v3", &settings),
        [one(Operand::Fp8, 1, side(192)), one(Operand::Fp4, 1, side(128))]
    );
}

#[test]
fn operations_beyond_64_bits_are_an_error() {
    let half = |operand| StepCost { operations: vec![one(operand, 1, 1 << 63)], ..StepCost::default() };
    assert!(half(Operand::F32).plus(half(Operand::Bf16)).is_err());
    assert!(half(Operand::F32).times(2).is_err());
}
