//! Every form in every instruction set and both storages against the f64 reference, over real and odd shapes.

use std::sync::Arc;

use super::case::{RecurrentCase, Right, relative};
use super::conv::{Around, Convolution};
use super::element::Storage;
use super::form::Recurrence;
use super::layer::Layer;
use super::lightning::Lightning;
use super::mamba1::Mamba1;
use super::mamba2::Mamba2;
use super::state::Extent;
use super::{gdn, kda};
use crate::bench::backend::PreparedCase;
use crate::bench::cpu::pool::Pool;
use crate::bench::cpu::simd::InstructionSet;

fn pool(workers: usize) -> Arc<Pool> {
    Arc::new(Pool::with_workers(workers).unwrap())
}

/// A recurrence behind the convolution that feeds it, `taps` 0 for none.
fn behind(taps: usize, form: impl Recurrence + 'static, storage: Storage) -> Layer {
    let convolution = (taps > 0).then(|| {
        (Convolution { kernel: taps, channels: form.activations(), around: Around::Silu }, Storage::Bf16)
    });
    Layer { convolution, recurrence: Some((Arc::new(form), storage)) }
}

/// What `check_all` compares: layers of one form in one storage.
type Layers = fn(Storage) -> Vec<Layer>;

fn check_all(layers: Layers) {
    let mut compared = 0;
    for storage in [Storage::F32, Storage::Bf16] {
        for layer in layers(storage) {
            for set in InstructionSet::available() {
                if layer.instruction_set(&[set]).is_err() {
                    continue;
                }
                for (requests, workers) in [(1, 2), (3, 1), (3, 2), (2, 3)] {
                    let extent = Extent { layers: 2, requests };
                    let mut case = RecurrentCase::new(layer.clone(), set, extent, 7, pool(workers)).unwrap();
                    case.step().unwrap();
                    for request in 0..requests {
                        let differences = case.compare(request);
                        let what = format!(
                            "{set:?} {layer:?} request {request} of {requests}, {workers} workers: {differences:?}"
                        );
                        assert!(differences.largest() < 1e-5, "{what}");
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(compared > 0);
}

#[test]
fn gated_deltanet_agrees_with_the_reference() {
    // Value heads on shared keys 1, 2, 3 and 4 to 1, odd counts, a width that is no power of two, rows left over.
    check_all(|storage| {
        [(1, 1, 64, 64), (2, 8, 128, 128), (3, 9, 64, 32), (1, 2, 256, 64), (4, 4, 96, 16)]
            .into_iter()
            .map(|(k_heads, v_heads, k_dim, v_dim)| {
                behind(4, gdn::layer(k_heads, v_heads, k_dim, v_dim), storage)
            })
            .chain([behind(0, gdn::layer(1, 1, 32, 7), storage)])
            .collect()
    });
}

#[test]
fn kda_agrees_with_the_reference() {
    check_all(|storage| {
        [(1, 64), (3, 128), (2, 256), (5, 32)]
            .into_iter()
            .map(|(heads, dim)| behind(4, kda::layer(heads, dim), storage))
            .collect()
    });
}

#[test]
fn mamba1_agrees_with_the_reference() {
    check_all(|storage| {
        [(32, 16), (224, 16), (96, 64), (32, 128), (64, 48), (64, 8)]
            .into_iter()
            .map(|(d_inner, d_state)| behind(4, Mamba1 { d_inner, d_state }, storage))
            .chain([behind(0, Mamba1 { d_inner: 7, d_state: 16 }, storage)])
            .collect()
    });
}

#[test]
fn mamba2_agrees_with_the_reference() {
    // One group for all heads, a group a head, head widths 64, 80 (no multiple of 64) and 128.
    check_all(|storage| {
        [(5, 64, 128, 1), (4, 80, 128, 2), (2, 128, 256, 1), (3, 64, 16, 3), (6, 48, 64, 2)]
            .into_iter()
            .map(|(heads, head_dim, d_state, groups)| {
                behind(4, Mamba2 { heads, head_dim, d_state, groups }, storage)
            })
            .chain([behind(0, Mamba2 { heads: 3, head_dim: 7, d_state: 32, groups: 1 }, storage)])
            .collect()
    });
}

#[test]
fn lightning_agrees_with_the_reference() {
    check_all(|storage| {
        [(1, 64), (3, 128), (2, 256), (5, 32)]
            .into_iter()
            .map(|(heads, dim)| behind(0, Lightning { heads, dim }, storage))
            .collect()
    });
}

#[test]
fn short_convolutions_agree_with_the_reference() {
    check_all(|storage| {
        [(3, 2048), (4, 96), (2, 32), (7, 160)]
            .into_iter()
            .map(|(kernel, channels)| Layer {
                convolution: Some((Convolution { kernel, channels, around: Around::Factors }, storage)),
                recurrence: None,
            })
            .collect()
    });
}

/// One layer of each form.
fn one_of_each(storage: Storage) -> Vec<Layer> {
    vec![
        behind(4, gdn::layer(2, 4, 64, 64), storage),
        behind(4, kda::layer(2, 64), storage),
        behind(4, Mamba1 { d_inner: 96, d_state: 16 }, storage),
        behind(4, Mamba2 { heads: 4, head_dim: 32, d_state: 64, groups: 2 }, storage),
        behind(0, Lightning { heads: 8, dim: 32 }, storage),
    ]
}

#[test]
fn many_steps_stay_with_a_reference_that_goes_its_own_way() {
    const STEPS: u32 = 100;
    for storage in [Storage::F32, Storage::Bf16] {
        // f32 errors fade with the state. Rounding to bf16 is off by 2^-8 at most in each step and may add up in every one.
        let tolerance = match storage {
            Storage::F32 => 1e-5,
            Storage::Bf16 => f64::from(STEPS) / 256.0,
        };
        for layer in one_of_each(storage) {
            let set = layer.instruction_set(&InstructionSet::available()).unwrap();
            let extent = Extent { layers: 1, requests: 1 };
            let mut case = RecurrentCase::new(layer.clone(), set, extent, 3, pool(2)).unwrap();
            let mut right = case.state.widen(0, &layer);
            for _ in 0..STEPS {
                let Right { recurrent, conv, .. } = Right::compute(&case.step, &right, 0);
                right = [recurrent, conv];
                case.step().unwrap();
            }
            let [recurrent, conv] = case.state.widen(0, &layer);
            let off = relative(&recurrent, &right[0], Storage::F32);
            assert!(off < tolerance, "{layer:?}: the state is off by {off}");
            assert!(
                relative(&conv, &right[1], Storage::Bf16) < 1e-6,
                "{layer:?}: the convolution's inputs differ"
            );
        }
    }
}

#[test]
fn the_state_neither_vanishes_nor_grows_without_end() {
    for layer in one_of_each(Storage::Bf16) {
        let set = layer.instruction_set(&InstructionSet::available()).unwrap();
        let extent = Extent { layers: 1, requests: 2 };
        let mut case = RecurrentCase::new(layer.clone(), set, extent, 11, pool(2)).unwrap();
        for step in 1..=2000 {
            case.step().unwrap();
            if step % 500 == 0 {
                let [state, _] = case.state.widen(1, &layer);
                let mean = state.iter().map(|value| value * value).sum::<f64>() / state.len() as f64;
                assert!((1e-6..1e6).contains(&mean), "{layer:?}, step {step}: mean square {mean}");
                let zeros = state.iter().filter(|value| value.abs() < 1e-30).count();
                assert!(zeros * 100 < state.len(), "{layer:?}, step {step}: {zeros} values are next to 0");
            }
        }
    }
}

#[test]
fn a_wrong_result_is_seen() {
    let layer = behind(4, gdn::layer(1, 2, 32, 32), Storage::Bf16);
    let set = layer.instruction_set(&InstructionSet::available()).unwrap();
    let extent = Extent { layers: 1, requests: 1 };
    let mut case = RecurrentCase::new(layer.clone(), set, extent, 5, pool(1)).unwrap();
    let before = case.state.widen(0, &layer);
    let right = Right::compute(&case.step, &before, 0);
    case.step().unwrap();
    let [state, _] = case.state.widen(0, &layer);
    assert!(relative(&state, &right.recurrent, Storage::Bf16) < 1e-5);
    // Cut off instead of rounded: up to a whole unit of the last place away instead of half of one.
    let cut = |value: &f64| {
        let unit = 2.0 * Storage::Bf16.half_unit(*value);
        (value / unit).trunc() * unit
    };
    let cut: Vec<f64> = right.recurrent.iter().map(cut).collect();
    assert!(relative(&cut, &right.recurrent, Storage::Bf16) > 1e-4);
    let mut lost = state.clone();
    lost[17] = f64::NAN;
    assert!(relative(&lost, &right.recurrent, Storage::Bf16).is_infinite());
    assert!(relative(&state[1..], &right.recurrent, Storage::Bf16).is_infinite());
}
