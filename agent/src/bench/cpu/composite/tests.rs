//! Every form, format and instruction set against the f64 reference, over odd lengths and several requests.

use std::sync::Arc;

use kvscope_protocol::run::Cache;

use super::case::CompositeCase;
use super::*;
use crate::bench::cpu::Kernel;
use crate::bench::shape::FormShape;

fn dsa(heads: u64, format: KvFormat, index: IndexFormat) -> DsaShape {
    let indexer = IndexShape { query_heads: 5, key_heads: 1, width: 128, pool: 1, format: index };
    DsaShape {
        attention: MlaShape { query_heads: heads, latent: 128, rope: 32, format },
        index: Some(indexer),
        top_k: Some(70),
    }
}

/// DeepSeek-V4's shapes with fewer heads and a smaller top k.
fn csa(ratio: u64) -> CompressedShape {
    let index = IndexShape { query_heads: 6, key_heads: 1, width: 128, pool: 4, format: IndexFormat::Fp4 };
    let of_csa = BranchShape {
        ratio: 4,
        store: StoreOwner::Own,
        format: KvFormat::Fp8DsMla,
        top_k: Some(20),
        index: Some(index),
        rows: Some(RowsShape { rows: 8, values: 4 * (512 + 128) }),
    };
    let of_hca = BranchShape {
        ratio: 128,
        top_k: None,
        index: None,
        rows: Some(RowsShape { rows: 128, values: 2 * 512 }),
        ..of_csa
    };
    CompressedShape {
        query_heads: 9,
        width: 512,
        rope: 64,
        window: 128,
        window_format: KvFormat::Fp8DsMla,
        branch: Some(if ratio == 4 { of_csa } else { of_hca }),
    }
}

/// DeepSeek-V4.1's: NVFP4 entries, MXFP8 window.
fn csa2(ratio: u64, store: StoreOwner) -> CompressedShape {
    let index =
        IndexShape { query_heads: 4, key_heads: 1, width: 128, pool: ratio, format: IndexFormat::Fp4 };
    CompressedShape {
        query_heads: 4,
        window_format: KvFormat::Mxfp8,
        branch: Some(BranchShape {
            ratio,
            store,
            format: KvFormat::Nvfp4,
            top_k: Some(100),
            index: (store == StoreOwner::Own).then_some(index),
            rows: None,
        }),
        ..csa(4)
    }
}

fn check(layer: Layer, contexts: &[u64], batch: u64) {
    let pool = Arc::new(Pool::for_all_cores().unwrap());
    for set in InstructionSet::available() {
        for context in contexts {
            // The shape of an order is for whoever chooses the kernel.
            let shape = FormShape::Compressed(csa(4));
            let order =
                CaseOrder { shape, layers: 2, context: *context, batch, seed: *context, cache: Cache::Cold };
            let mut case = CompositeCase::new(layer, set, &order, Arc::clone(&pool)).unwrap();
            assert_eq!(case.stores.bytes(), 2 * layer.layout(*context, batch).unwrap().layer_bytes);
            // A step over all layers twice: what is written must not depend on what was there.
            for at in [0, 1, 0, 1] {
                case.run_layer(at);
            }
            for request in 0..usize::try_from(batch).unwrap() {
                let error = case.compare(1, request, layer.rows.heads);
                assert!(error < 2e-5, "{set:?} {layer:?} context {context}, request {request}: {error}");
                let off = case.compare_choice(1, request, usize::MAX);
                assert!(
                    off < 1e-6,
                    "{set:?} {layer:?} context {context}, request {request}: choice off by {off}"
                );
            }
        }
    }
}

#[test]
fn latents_behind_an_indexer() {
    for (format, index) in [
        (KvFormat::Bf16, IndexFormat::Fp8),
        (KvFormat::Fp8DsMla, IndexFormat::Fp8),
        (KvFormat::Fp8DsMla, IndexFormat::Bf16),
        (KvFormat::Bf16, IndexFormat::Fp4),
    ] {
        // Fewer tokens than the top k, as many, and more than whole pages.
        check(Layer::dsa(&dsa(11, format, index)).unwrap(), &[1, 70, 129, 400], 1);
    }
    check(Layer::dsa(&dsa(3, KvFormat::Bf16, IndexFormat::Fp8)).unwrap(), &[200], 3);
    let borrowed = DsaShape { index: None, ..dsa(16, KvFormat::Fp8DsMla, IndexFormat::Fp8) };
    check(Layer::dsa(&borrowed).unwrap(), &[50, 300], 2);
}

#[test]
fn compressed_entries_beside_a_window() {
    // Before the first group ends, at its end, within the window, and beyond it within and at the end of a group.
    check(Layer::compressed(&csa(4)).unwrap(), &[3, 4, 8, 100, 130, 516], 1);
    check(Layer::compressed(&csa(4)).unwrap(), &[256], 3);
    check(Layer::compressed(&csa(128)).unwrap(), &[127, 128, 256, 1000, 8960], 1);
    check(Layer::compressed(&csa(128)).unwrap(), &[384], 3);
    check(Layer::compressed(&CompressedShape { branch: None, ..csa(4) }).unwrap(), &[1, 64, 500], 2);
}

#[test]
fn second_generation_entries_owned_and_borrowed() {
    for ratio in [1, 2] {
        check(Layer::compressed(&csa2(ratio, StoreOwner::Own)).unwrap(), &[1 + ratio, 401], 1);
        check(Layer::compressed(&csa2(ratio, StoreOwner::Earlier)).unwrap(), &[90, 400], 2);
    }
}

/// Bytes by hand from the published records: 584-byte entries, 528 and 288, 68- and 132-byte keys, f32 rows.
#[test]
fn layers_hold_what_sizing_says() {
    let bytes = |layer: Layer, context: u64| {
        let layout = layer.layout(context, 1).unwrap();
        layout.layer_bytes - layout.padding_bytes
    };
    assert_eq!(bytes(Layer::compressed(&csa(4)).unwrap(), 1000), 250 * (584 + 68) + 128 * 584 + 8 * 2560 * 4);
    assert_eq!(bytes(Layer::compressed(&csa(128)).unwrap(), 1000), 7 * 584 + 128 * 584 + 128 * 1024 * 4);
    assert_eq!(
        bytes(Layer::compressed(&csa2(2, StoreOwner::Own)).unwrap(), 1001),
        500 * (288 + 68) + 128 * 528
    );
    let deepseek = DsaShape {
        attention: MlaShape { query_heads: 128, latent: 512, rope: 64, format: KvFormat::Fp8DsMla },
        ..dsa(1, KvFormat::Bf16, IndexFormat::Fp8)
    };
    assert_eq!(bytes(Layer::dsa(&deepseek).unwrap(), 777), 777 * (656 + 132));
}

/// What a step writes is what its records say: the window's slot, the entry that the compressor made, and the key.
#[test]
fn a_step_writes_its_own_records() {
    let pool = Arc::new(Pool::for_all_cores().unwrap());
    let layer = Layer::compressed(&csa(4)).unwrap();
    let order = CaseOrder {
        shape: FormShape::Compressed(csa(4)),
        layers: 1,
        context: 520,
        batch: 1,
        seed: 4,
        cache: Cache::Cold,
    };
    let mut case = CompositeCase::new(layer, InstructionSet::available()[0], &order, pool).unwrap();
    let stored = |case: &CompositeCase| {
        let (window, entries) = (case.stores.window.as_ref().unwrap(), case.stores.entries.as_ref().unwrap());
        [(window, 519 % 128), (entries, 129)].map(|(store, index)| {
            let byte = store.byte(0, index);
            store.state.layer_bytes(0)[byte..byte + store.record.bytes()].to_vec()
        })
    };
    let before = stored(&case);
    case.run_layer(0);
    let after = stored(&case);
    assert!(before[0] != after[0] && before[1] != after[1]);
    // An RMS norm leaves a mean square of about 1, times gains of 0.5 to 1.5.
    let record = case.stores.entries.as_ref().unwrap().record;
    let entry = crate::bench::cpu::records::reference::row(&after[1], record);
    let square = entry.iter().map(|value| value * value).sum::<f64>() / 512.0;
    assert!((0.7..1.6).contains(&square), "{square}");
}

#[test]
fn shapes_without_a_kernel_say_why() {
    let pooled = IndexShape { pool: 2, ..dsa(1, KvFormat::Bf16, IndexFormat::Fp8).index.unwrap() };
    let errors = [
        Layer::dsa(&DsaShape { index: Some(pooled), ..dsa(1, KvFormat::Bf16, IndexFormat::Fp8) }),
        Layer::dsa(&dsa(1, KvFormat::Q8_0, IndexFormat::Fp8)),
        Layer::compressed(&CompressedShape { width: 500, branch: None, ..csa(4) }),
        Layer::compressed(&CompressedShape { window: 0, ..csa(4) }),
    ];
    let words = ["a key for 2 tokens", "latents in q8_0", "whole blocks", "outside 1 to"];
    for (error, words) in errors.into_iter().zip(words) {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
