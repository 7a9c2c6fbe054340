//! Keys and values of a page as numbers, found by the layout's description alone.

use super::{Dimensions, Format};
use crate::bench::cpu::reference::{bf16, e4m3, f32_le};

/// One token's key of one head: dims in pairs, tokens within a pair of dims; single dims where a value is one byte.
pub(crate) fn key(page: &[u8], dims: Dimensions, kv_head: usize, token: usize) -> Vec<f64> {
    let head = head(page, dims, kv_head);
    let element = |d: usize| match dims.format {
        Format::Bf16 => d / 2 * 32 + token * 2 + d % 2,
        _ => d * 16 + token,
    };
    let scale = scale(head, dims, token, 0);
    (0..dims.k_width).map(|d| scale * number(head, dims.format, element(d))).collect()
}

/// One token's value of one head: tokens in pairs, columns within a pair of tokens; single tokens where a value is one byte.
pub(crate) fn value(page: &[u8], dims: Dimensions, kv_head: usize, token: usize) -> Vec<f64> {
    let head = head(page, dims, kv_head);
    let bytes = if dims.format == Format::Bf16 { 2 } else { 1 };
    let values = &head[head.len() - 16 * dims.v_width * bytes..];
    let element = |column: usize| match dims.format {
        Format::Bf16 => token / 2 * 2 * dims.v_width + column * 2 + token % 2,
        _ => token * dims.v_width + column,
    };
    let scale = scale(head, dims, token, 1);
    (0..dims.v_width).map(|column| scale * number(values, dims.format, element(column))).collect()
}

/// Heads have equal parts of a page.
fn head(page: &[u8], dims: Dimensions, kv_head: usize) -> &[u8] {
    let bytes = page.len() / dims.kv_heads;
    &page[kv_head * bytes..(kv_head + 1) * bytes]
}

fn number(page: &[u8], format: Format, element: usize) -> f64 {
    match format {
        Format::Bf16 => bf16([page[2 * element], page[2 * element + 1]]),
        Format::Fp8 | Format::Fp8PerTokenHead => e4m3(page[element]),
        Format::Int8PerTokenHead => f64::from(page[element].cast_signed()),
    }
}

/// Scales stand between a head's keys and values: 16 of the keys, then 16 of the values.
fn scale(head: &[u8], dims: Dimensions, token: usize, side: usize) -> f64 {
    if matches!(dims.format, Format::Bf16 | Format::Fp8) {
        return 1.0;
    }
    let place = 16 * dims.k_width + (side * 16 + token) * 4;
    f32_le(&head[place..place + 4])
}
