//! Every kernel in every instruction set against the f64 reference, over odd sizes.

use std::sync::Arc;

use kvscope_protocol::run::Cache;
use kvscope_sizing::{Bytes, KvFormat};

use super::paged::{Paged, PagedCase, compare_with_reference};
use super::pool::Pool;
use super::simd::InstructionSet;
use crate::bench::BenchError;
use crate::bench::backend::{CaseOrder, Check, PreparedCase};
use crate::bench::shape::{FormShape, GqaShape, MlaShape, TokenRange};

fn paged(shape: &FormShape) -> Result<Paged, BenchError> {
    match shape {
        FormShape::Gqa(gqa) => Paged::gqa(gqa),
        FormShape::Mla(mla) => Paged::mla(mla),
        other => panic!("{other:?} is not paged"),
    }
}

fn largest_error(shape: FormShape, context: u64, batch: u64, set: InstructionSet) -> f64 {
    let pool = Arc::new(Pool::for_all_cores().unwrap());
    let usual = paged(&shape).unwrap();
    let kernel = usual.kernel;
    let order = CaseOrder { shape, layers: 2, context, batch, seed: context ^ batch, cache: Cache::Cold };
    let mut case = PagedCase::new(&order, Paged { set, ..usual }, pool).unwrap();
    case.step().unwrap();
    // Every request of the last layer, from the output of the real step.
    let width = kernel.query_heads() * kernel.output_width();
    let layer = case.state.layer_bytes(case.state.layers() - 1);
    let mut worst = 0.0_f64;
    for request in 0..case.extent.requests {
        let table = case.state.table()[request * case.extent.pages_a_request..].to_vec();
        let output = &case.step.output()[request * width..(request + 1) * width];
        let query = &case.queries[request];
        worst = worst.max(compare_with_reference(layer, &table, kernel, query, case.extent.context, output));
    }
    worst
}

fn check_all(shapes: &[FormShape], sizes: &[(u64, u64)]) {
    for set in InstructionSet::available() {
        for shape in shapes {
            for (context, batch) in sizes {
                let error = largest_error(*shape, *context, *batch, set);
                // f32 sums over bf16 inputs: far inside the tolerance of a run, 2e-3. Factors rounded to bf16 are not.
                let tolerance = if set.packs_pairs() { Check::TOLERANCE } else { 2e-5 };
                assert!(error < tolerance, "{set:?} {shape:?} context {context} batch {batch}: {error}");
            }
        }
    }
}

fn ranged(query_heads: u64, kv_heads: u64, width: u64, range: TokenRange, format: KvFormat) -> GqaShape {
    let (k_width, v_width, k_format, v_format) = (width, width, format, format);
    GqaShape { query_heads, kv_heads, k_width, v_width, range, k_format, v_format }
}

fn gqa(query_heads: u64, kv_heads: u64, k_width: u64, v_width: u64) -> FormShape {
    let shape = ranged(query_heads, kv_heads, k_width, TokenRange::All, KvFormat::Bf16);
    FormShape::Gqa(GqaShape { v_width, ..shape })
}

fn mla(query_heads: u64, latent: u64, rope: u64, format: KvFormat) -> FormShape {
    FormShape::Mla(MlaShape { query_heads, latent, rope, format })
}

/// The kernel of every format has its own tests; here is what a case makes of a shape.
#[test]
fn windows_chunks_and_encoders_agree_with_the_reference() {
    let shapes = [
        ranged(6, 2, 32, TokenRange::All, KvFormat::Fp8),
        ranged(4, 4, 32, TokenRange::Window(100), KvFormat::Bf16),
        ranged(8, 1, 16, TokenRange::Chunk(64), KvFormat::Int8PerTokenHead),
        ranged(9, 3, 48, TokenRange::Encoder(37), KvFormat::Fp8PerTokenHead),
    ];
    check_all(&shapes.map(FormShape::Gqa), &[(1, 1), (17, 2), (99, 1), (130, 3)]);
}

#[test]
fn windows_and_encoders_hold_what_they_say_whatever_the_context() {
    for (range, context, tokens) in [
        (TokenRange::Window(128), 100_000, 128),
        (TokenRange::Window(128), 100, 112),
        (TokenRange::Chunk(8192), 1 << 20, 8192),
        (TokenRange::Encoder(1500), 448, 1504),
    ] {
        let shape = paged(&FormShape::Gqa(ranged(8, 8, 64, range, KvFormat::Bf16))).unwrap();
        let layout = crate::bench::cpu::Kernel::layout(&shape, context, 1).unwrap();
        // Whole pages of 16 tokens of 8 heads of 64 + 64 values of 2 bytes.
        assert_eq!(layout.layer_bytes, tokens * 2048);
        assert_eq!(layout.layer_bytes - layout.padding_bytes, range.kept(context) * 2048);
    }
}

#[test]
fn mla_agrees_with_the_reference() {
    let shapes = [
        mla(1, 32, 16, KvFormat::Bf16),
        mla(16, 64, 32, KvFormat::Bf16),
        mla(7, 96, 16, KvFormat::Bf16),
        mla(20, 512, 64, KvFormat::Bf16),
        mla(13, 512, 64, KvFormat::Fp8DsMla),
    ];
    check_all(&shapes, &[(1, 1), (7, 3), (16, 1), (33, 2), (64, 1), (65, 1), (150, 3)]);
}

#[test]
fn a_wrong_result_is_seen() {
    let pool = Arc::new(Pool::for_all_cores().unwrap());
    let order =
        CaseOrder { shape: gqa(4, 2, 32, 32), layers: 1, context: 50, batch: 1, seed: 9, cache: Cache::Cold };
    let mut case = PagedCase::new(&order, paged(&order.shape).unwrap(), pool).unwrap();
    assert!(case.check().unwrap().is_correct());
    case.step().unwrap();
    let mut output = case.step.output().to_vec();
    output[17] += 0.02;
    let table = case.state.table();
    let error =
        compare_with_reference(case.state.layer_bytes(0), table, case.kernel, &case.queries[0], 50, &output);
    assert!(!Check { largest_relative_error: error, part: None }.is_correct());
    output[17] = f32::NAN;
    let error =
        compare_with_reference(case.state.layer_bytes(0), table, case.kernel, &case.queries[0], 50, &output);
    assert!(!Check { largest_relative_error: error, part: None }.is_correct());
}

#[test]
fn shapes_without_a_kernel_say_why() {
    for (shape, what) in [
        (gqa(5, 2, 32, 32), "5 query heads are no multiple of 2"),
        (gqa(4, 2, 24, 32), "not multiples of 16"),
        (gqa(0, 1, 32, 32), "outside 1 to 65,536"),
        (mla(4, 32, 8, KvFormat::Bf16), "not in whole blocks"),
        (mla(4, 96, 16, KvFormat::Fp8DsMla), "not in whole blocks"),
        (mla(4, 32, 16, KvFormat::Fp8), "latents in fp8"),
        (FormShape::Gqa(ranged(4, 2, 32, TokenRange::All, KvFormat::Q8_0)), "K in q8_0 and V in q8_0"),
    ] {
        let error = paged(&shape).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn asked_bytes_are_the_shape_s() {
    // 2 layers × 2 requests × 3 pages of 16 tokens × 2 heads × (32 + 32) values × 2 bytes.
    let pool = Arc::new(Pool::for_all_cores().unwrap());
    let order =
        CaseOrder { shape: gqa(4, 2, 32, 32), layers: 2, context: 33, batch: 2, seed: 1, cache: Cache::Cold };
    let case = PagedCase::new(&order, paged(&order.shape).unwrap(), pool).unwrap();
    assert_eq!(case.asked_bytes(), Bytes::new(2 * 2 * 3 * 16 * 2 * 64 * 2));
}
