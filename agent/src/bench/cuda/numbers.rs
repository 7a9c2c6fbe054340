//! Random inputs of kernels and their results as numbers.

use half::bf16;

/// Random numbers like normalised activations: never zero, magnitudes from 0.125 to 2.
pub(super) struct Random(fastrand::Rng);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(super) fn rng(&mut self) -> &mut fastrand::Rng {
        &mut self.0
    }

    pub(super) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| f32::from_bits(0x3E00_0000 | (self.0.u32(..) & 0x81FF_FFFF))).collect()
    }

    pub(super) fn between(&mut self, low: f32, high: f32, count: usize) -> Vec<f32> {
        (0..count).map(|_| low + (high - low) * self.0.f32()).collect()
    }

    pub(super) fn bf16(&mut self, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| (0x3E00 | (self.0.u16(..) & 0x81FF)).to_le_bytes()).collect()
    }
}

/// f32 numbers as bytes.
pub(super) fn bytes_of(values: &[f32]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

/// 32-bit counts as bytes.
pub(super) fn counts_of(values: impl IntoIterator<Item = usize>) -> Vec<u8> {
    let word =
        |value: usize| i32::try_from(value).expect("counts were checked with their case").to_le_bytes();
    values.into_iter().flat_map(word).collect()
}

/// Bytes as f32 numbers.
pub(super) fn floats_of(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Bytes as bf16 numbers.
pub(super) fn halves_of(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f64()).collect()
}

/// The nearest bf16 of each, as bytes.
pub(super) fn to_halves(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| bf16::from_f64(*value).to_le_bytes()).collect()
}

/// `scale × log2 e` as kernels take it.
#[allow(clippy::cast_possible_truncation, reason = "a factor near 0.1 needs no f64")]
pub(super) fn base_2(scale: f64) -> f32 {
    (scale * std::f64::consts::LOG2_E) as f32
}

/// What a check leaves out, in words; none where it leaves out nothing.
pub(super) fn part(left_out: &[Option<String>]) -> Option<String> {
    let words: Vec<&str> = left_out.iter().flatten().map(String::as_str).collect();
    (!words.is_empty()).then(|| format!("{}, in one layer", words.join(", ")))
}

/// `the first of 3 requests`, where there are several.
pub(super) fn first_of(requests: usize) -> Option<String> {
    (requests > 1).then(|| format!("the first of {requests} requests"))
}
