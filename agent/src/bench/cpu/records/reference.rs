//! Records as numbers, by the description of their layout alone.

use super::Record;
use crate::bench::cpu::reference::{bf16, e2m1, e4m3, e8m0, f32_le};

/// The values of one record.
pub(crate) fn row(bytes: &[u8], record: Record) -> Vec<f64> {
    let halves = |from: usize, count: usize| -> Vec<f64> {
        (0..count).map(|d| bf16([bytes[from + 2 * d], bytes[from + 2 * d + 1]])).collect()
    };
    match record {
        Record::Bf16 { width } => halves(0, width),
        Record::ScaledLatent { latent, rope } => {
            let scale = |d: usize| f32_le(&bytes[latent + d / 128 * 4..][..4]);
            let plain = (0..latent).map(|d| e4m3(bytes[d]) * scale(d));
            plain.chain(halves(latent + latent / 32, rope)).collect()
        }
        Record::ScaledEntry { plain, rope } => {
            let scale = |d: usize| e8m0(bytes[plain + 2 * rope + d / 64]);
            (0..plain).map(|d| e4m3(bytes[d]) * scale(d)).chain(halves(plain, rope)).collect()
        }
        Record::Mxfp8 { width } => (0..width).map(|d| e4m3(bytes[d]) * e8m0(bytes[width + d / 32])).collect(),
        Record::Nvfp4 { width } => {
            let code = |d: usize| bytes[d / 2] >> (4 * (d % 2)) & 15;
            (0..width).map(|d| e2m1(code(d)) * e4m3(bytes[width / 2 + d / 16])).collect()
        }
    }
}
