//! Operations and bytes of whole prefills and decode steps, by hand.

use kvscope_sizing::cost::{CostOf, FlopWeights, ModelCost, Part, Phase, Types};
use kvscope_sizing::parameters::Parameters;
use kvscope_sizing::{Settings, Tokens, find_entry};

/// The cost of one request, with the checkpoint's types.
fn cost(id: &str, phase: Phase, n: u64) -> ModelCost {
    batch_cost(id, phase, n, 1)
}

fn batch_cost(id: &str, phase: Phase, n: u64, batch: u64) -> ModelCost {
    let architecture = find_entry(id).unwrap().architecture().unwrap();
    let of = CostOf {
        architecture: &architecture,
        parameters: &parameters(id),
        settings: &Settings::default(),
        types: Types::of(&architecture),
        weights: FlopWeights::plain(),
    };
    of.cost(phase, Tokens::new(n), batch).unwrap()
}

fn parameters(id: &str) -> Parameters {
    let entry = find_entry(id).unwrap();
    Parameters::of(&entry.config, &entry.architecture().unwrap()).unwrap()
}

/// Operations, bytes of state and bytes of weights of the parts.
fn sums(cost: &ModelCost, parts: &[Part]) -> [u64; 3] {
    let rows = || cost.rows.iter().filter(|row| parts.contains(&row.part));
    [
        rows().map(|row| row.flops).sum(),
        rows().map(|row| row.state_read_bytes.get()).sum(),
        rows().map(|row| row.weight_read_bytes.get()).sum(),
    ]
}

/// A prefill by hand: Llama-3.1-8B, 32 layers of 32 heads of 128: 2 × 32 × 256 operations for each of n(n + 1)/2 pairs, two for
/// each parameter and token, the head once.
#[test]
fn a_prefill_meets_every_pair_once() {
    let n = 1000_u64;
    let head = 128_256 * 4096;
    let pairs = n * (n + 1) / 2;
    let by_hand = 32 * 2 * 32 * 256 * pairs + 2 * (parameters("llama-3.1-8b").active - head) * n + 2 * head;
    assert_eq!(cost("llama-3.1-8b", Phase::Prefill, n).flops, by_hand);
    assert_eq!(batch_cost("llama-3.1-8b", Phase::Prefill, n, 3).flops, 3 * by_hand);
    // DeepSeek-V3's latents are expanded for it: 128 heads × (192 + 128) a pair, not 128 × 1,088.
    let [core, ..] = sums(&cost("deepseek-v3", Phase::Prefill, n), &[Part::Core]);
    assert_eq!(core, 61 * 2 * 128 * (192 + 128) * pairs);
}

/// Its prefill leaves out the layers behind the last that keeps entries: a token of a prompt passes about 8B parameters
/// (the report's figure), against 16B of a decoded one.
#[test]
fn a_prefill_of_v4_1_runs_half_the_layers() {
    let n = 1_000_000;
    let all = cost("deepseek-v4.1-flash", Phase::Prefill, n);
    let [state, ..] = sums(&all, &[Part::Core, Part::Indexer, Part::Compressor]);
    let billions = (all.flops - state) as f64 / 2.0 / n as f64 / 1e9;
    assert!((7.5..8.5).contains(&billions), "{billions}");
    assert_eq!((parameters("deepseek-v4.1-flash").active + 500_000_000) / 1_000_000_000, 16);
}

/// Llama 3.2 Vision: K and V of its eight layers of cross-attention are made once, of the 4 × (40² + 1) tokens of a picture.
/// A decode step multiplies by the matrices of queries and outputs alone: 4,096 × 4,096 each.
#[test]
fn keys_and_values_of_cross_attention_are_made_by_the_prefill_alone() {
    let id = "llama-3.2-11b-vision-instruct";
    let (n, picture) = (8192_u64, 4 * 1601_u64);
    let (outer, inner) = (8 * 2 * 4096 * 4096_u64, 8 * 2 * 4096 * 1024_u64);
    let of_cross = |phase| {
        let mut cost = cost(id, phase, n);
        cost.rows.retain(|row| row.mixer == "cross-attention");
        cost
    };
    let both = [Part::Projections, Part::EncoderProjections];
    assert_eq!(sums(&of_cross(Phase::Decode), &both), [2 * outer, 0, 2 * outer]);
    let prefill = of_cross(Phase::Prefill);
    assert_eq!(sums(&prefill, &[Part::Projections]), [2 * outer * n, 0, 2 * outer]);
    assert_eq!(sums(&prefill, &[Part::EncoderProjections]), [2 * inner * picture, 0, 2 * inner]);
}

/// Taps are weights and an operation on the state: one multiply-add each, counted once. LFM2-1.2B has ten layers of three taps
/// for 2,048 channels. Jamba-1.5-Large's Mamba layers, 63 of 72, multiply a state of 16,384 × 16 by A: the product is among the
/// six operations a value of the recurrence.
#[test]
fn taps_and_decays_are_counted_once() {
    let taps = 10 * 3 * 2048;
    let [flops, _, weights] = sums(&cost("lfm2-1.2b", Phase::Decode, 1000), &[Part::Convolution]);
    assert_eq!([flops, weights], [2 * taps, 2 * taps]);
    let [flops, _, weights] = sums(&cost("lfm2-1.2b", Phase::Prefill, 1000), &[Part::Convolution]);
    assert_eq!([flops, weights], [2 * taps * 1000, 2 * taps]);
    let values = 63 * 16_384 * 16;
    let [flops, _, weights] = sums(&cost("jamba-1.5-large", Phase::Decode, 1000), &[Part::Recurrence]);
    assert_eq!([flops, weights], [6 * values, 2 * values]);
}
