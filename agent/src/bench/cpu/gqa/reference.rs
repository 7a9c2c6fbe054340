//! Keys and values of a page as numbers, found by the layout's description alone.

use super::{Dimensions, Format};
use crate::bench::cpu::reference::{bf16, e4m3, f32_le};

/// One token's key of one head: dims in pairs, tokens within a pair of dims; single dims where a value is one byte.
pub(crate) fn key(page: &[u8], dims: Dimensions, kv_head: usize, token: usize) -> Vec<f64> {
    let first = 16 * kv_head * (dims.k_width + dims.v_width);
    let element = |d: usize| match dims.format {
        Format::Bf16 => first + d / 2 * 32 + token * 2 + d % 2,
        _ => first + d * 16 + token,
    };
    let scale = scale(page, dims, kv_head, token, 0);
    (0..dims.k_width).map(|d| scale * number(page, dims.format, element(d))).collect()
}

/// One token's value of one head: tokens in pairs, columns within a pair of tokens; single tokens where a value is one byte.
pub(crate) fn value(page: &[u8], dims: Dimensions, kv_head: usize, token: usize) -> Vec<f64> {
    let first = 16 * (kv_head * (dims.k_width + dims.v_width) + dims.k_width);
    let element = |column: usize| match dims.format {
        Format::Bf16 => first + token / 2 * 2 * dims.v_width + column * 2 + token % 2,
        _ => first + token * dims.v_width + column,
    };
    let scale = scale(page, dims, kv_head, token, 1);
    (0..dims.v_width).map(|column| scale * number(page, dims.format, element(column))).collect()
}

fn number(page: &[u8], format: Format, element: usize) -> f64 {
    match format {
        Format::Bf16 => bf16([page[2 * element], page[2 * element + 1]]),
        Format::Fp8 | Format::Fp8PerTokenHead => e4m3(page[element]),
        Format::Int8PerTokenHead => f64::from(page[element].cast_signed()),
    }
}

/// Scales stand after all values of a page: those of keys, then those of values, 16 a head.
fn scale(page: &[u8], dims: Dimensions, kv_head: usize, token: usize, side: usize) -> f64 {
    if matches!(dims.format, Format::Bf16 | Format::Fp8) {
        return 1.0;
    }
    let values = 16 * dims.kv_heads * (dims.k_width + dims.v_width);
    let place = values + ((side * dims.kv_heads + kv_head) * 16 + token) * 4;
    f32_le(&page[place..place + 4])
}
