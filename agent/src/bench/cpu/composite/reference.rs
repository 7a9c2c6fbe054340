//! The same layer in f64: every record and key found and read by its description, the attention one step after the other.

use super::Layer;
use super::step::Token;
use crate::bench::cpu::indexer::{Dimensions, KeyFormat};
use crate::bench::cpu::reference::{bf16, dot, e2m1, e4m3, e8m0, f32_le};

/// The output of one head over `rows`, with a sink whose base-2 score is `sink`.
pub(super) fn attend(
    layer: &Layer,
    token: &Token,
    head: usize,
    rows: &[Vec<f64>],
    sink: Option<f32>,
) -> Vec<f64> {
    let width = layer.rows.width;
    let query: Vec<f64> =
        token.query[head * width..(head + 1) * width].iter().map(|v| f64::from(*v)).collect();
    let weights: Vec<f64> = rows.iter().map(|row| (layer.scale() * dot(&query, row)).exp()).collect();
    let total: f64 = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| f64::from(sink).exp2());
    (0..layer.rows.value_width)
        .map(|d| rows.iter().zip(&weights).map(|(row, weight)| weight / total * row[d]).sum())
        .collect()
}

/// The indexer's score of one key.
pub(super) fn score(token: &Token, dims: Dimensions, key: &[f64]) -> f64 {
    let heads = token.index_query.chunks(dims.width).zip(&token.index_weights);
    heads
        .map(|(query, weight)| {
            let query: Vec<f64> = query.iter().map(|value| f64::from(*value)).collect();
            f64::from(*weight) * dot(&query, key).max(0.0)
        })
        .sum()
}

/// One key of a page of 64: values by dim, then by key; scales of each block of dims, then by key, after all values.
pub(super) fn key(page: &[u8], dims: Dimensions, place: usize) -> Vec<f64> {
    let width = dims.width;
    (0..width)
        .map(|d| match dims.format {
            KeyFormat::Fp8 => {
                let scale = 64 * width + (d / 128 * 64 + place) * 4;
                e4m3(page[d * 64 + place]) * f32_le(&page[scale..scale + 4])
            }
            KeyFormat::Fp4 => {
                let code = page[d * 32 + place / 2] >> (place % 2 * 4) & 15;
                e2m1(code) * e8m0(page[32 * width + d / 32 * 64 + place])
            }
            KeyFormat::Bf16 => {
                let at = (d * 64 + place) * 2;
                bf16([page[at], page[at + 1]])
            }
        })
        .collect()
}
