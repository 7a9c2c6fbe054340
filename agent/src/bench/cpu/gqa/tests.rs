//! Every format and instruction set against the f64 reference, over odd shapes and lengths.

use half::bf16;

use super::*;
use crate::bench::cpu::parts::Extent;
use crate::bench::cpu::pool::Pool;
use crate::bench::cpu::reference::{Attention, attend, relative_error};
use crate::bench::cpu::state::{PagedState, StateShape, random_value};
use crate::bench::cpu::step::{Kernel, Step};

const FORMATS: [Format; 4] = [Format::Bf16, Format::Fp8, Format::Fp8PerTokenHead, Format::Int8PerTokenHead];

fn largest_error(dims: Dimensions, set: InstructionSet, requests: usize, context: usize) -> f64 {
    let pool = Pool::for_all_cores().unwrap();
    let kernel = Kernel::Gqa(dims);
    let pages_a_request = context.div_ceil(PAGE_TOKENS);
    let shape =
        StateShape { layers: 2, pages: requests * pages_a_request, page_values: dims.page_bytes() / 2 };
    let state = PagedState::filled(shape, &dims.page_runs(), context as u64, &pool).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let queries: Vec<Vec<f32>> = (0..requests)
        .map(|_| {
            (0..dims.query_heads * dims.k_width)
                .map(|_| bf16::from_bits(random_value(random.u64(..))).to_f32())
                .collect()
        })
        .collect();
    let extent = Extent { requests, context, pages_a_request };
    let mut step = Step::new(kernel, set, extent, &queries, pool.workers());
    pool.enter(|| step.run_layer(&state, 1, &pool));

    let mut worst = 0.0_f64;
    for (request, output) in step.output().chunks(dims.query_heads * dims.v_width).enumerate() {
        let page = |token: usize| {
            let page = state.table()[request * pages_a_request + token / 16] as usize;
            &state.layer_bytes(1)[page * dims.page_bytes()..(page + 1) * dims.page_bytes()]
        };
        let query: Vec<Vec<f64>> = queries[request]
            .chunks(dims.k_width)
            .map(|head| head.iter().map(|v| f64::from(*v)).collect())
            .collect();
        let group = dims.query_heads / dims.kv_heads;
        let attention = Attention {
            queries: &query,
            scale: kernel.scale(),
            tokens: context,
            key: &|head, token| reference::key(page(token), dims, head / group, token % 16),
            value: &|head, token| reference::value(page(token), dims, head / group, token % 16),
        };
        let right = (0..dims.query_heads).flat_map(|head| attend(&attention, head));
        worst = worst.max(relative_error(right, output));
    }
    worst
}

#[test]
fn every_format_agrees_with_the_reference() {
    // MHA, MQA, groups of 5 to 9, unequal widths, and widths whose tiles have one page only.
    let shapes = [
        (1, 1, 16, 16),
        (3, 3, 32, 48),
        (5, 1, 64, 32),
        (14, 2, 48, 64),
        (9, 1, 16, 16),
        (16, 2, 128, 128),
        (6, 1, 256, 512),
    ];
    for format in FORMATS {
        for set in InstructionSet::available() {
            for (query_heads, kv_heads, k_width, v_width) in shapes {
                let dims = Dimensions { query_heads, kv_heads, k_width, v_width, format };
                for (requests, context) in
                    [(1, 1), (3, 2), (1, 15), (2, 16), (1, 17), (2, 33), (1, 63), (1, 100)]
                {
                    let error = largest_error(dims, set, requests, context);
                    // f32 sums. Where pairs are packed, queries and weights are rounded to 8 bits of mantissa, 2^-9 each, which
                    // so few terms do not even out.
                    let rounded = set.packs_pairs() && format == Format::Bf16;
                    let tolerance = if rounded { 2.0 / 512.0 } else { 2e-5 };
                    assert!(error < tolerance, "{set:?} {dims:?} {requests} × {context}: {error}");
                }
            }
        }
    }
}

/// 16 tokens of 8 heads of 128 + 128: 4096 bytes a token in bf16, 2048 in fp8, and 8 × 2 × 4 more with scales.
#[test]
fn a_page_holds_what_sizing_says_and_no_more() {
    let bytes =
        |format| Dimensions { query_heads: 64, kv_heads: 8, k_width: 128, v_width: 128, format }.page_bytes();
    assert_eq!(FORMATS.map(bytes), [16 * 4096, 16 * 2048, 16 * 2112, 16 * 2112]);
}
