//! Entries that one vector fills as key and value: how their bytes are laid out, read into f32 rows, and written.
//!
//! | format | bytes of 512 values | layout of one record |
//! | --- | --- | --- |
//! | bf16 | 1024 (1152 with 64 rotary ones) | values |
//! | `fp8_ds_mla`, DeepSeek-V3.2 | 656 with 64 rotary ones | e4m3 latent, an f32 scale for every 128, bf16 rotary part |
//! | `fp8_ds_mla`, DeepSeek-V4 | 584, 64 of them rotary | e4m3 values, bf16 rotary part, a scale byte (e8m0) for every 64, padding to 8 |
//! | mxfp8 | 528 | e4m3 values, a scale byte for every 32 |
//! | nvfp4 | 288 | e2m1 values, an e4m3 scale for every 16 |
//!
//! Sizes are those of sizing's formats (FlashMLA's README). Engines keep the scales of a whole page together; here each
//! record has its own beside it, which changes neither bytes nor work.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; callers state the lengths")]

pub(crate) mod reference;
#[cfg(test)]
mod tests;

use super::numbers::{E4M3, LARGEST_E2M1, LARGEST_E4M3, from_e8m0, to_bf16, to_e2m1, to_e4m3, to_e8m0_above};
use super::simd::{E4M3_SHRINK, Simd};
use super::state::{Kind, Run};

/// The layout of one record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Record {
    /// So many bf16 values, a multiple of 16.
    Bf16 { width: usize },
    /// DeepSeek-V3.2: a latent of a multiple of 128, and a rotary part of a multiple of 16.
    ScaledLatent { latent: usize, rope: usize },
    /// DeepSeek-V4: plain values of a multiple of 64, and a rotary part of a multiple of 16.
    ScaledEntry { plain: usize, rope: usize },
    /// Values in blocks of 32.
    Mxfp8 { width: usize },
    /// Values in blocks of 16; a multiple of 32.
    Nvfp4 { width: usize },
}

impl Record {
    /// Bytes of one record.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Bf16 { width } => 2 * width,
            Self::ScaledLatent { latent, rope } => latent + latent / 128 * 4 + 2 * rope,
            Self::ScaledEntry { plain, rope } => plain + 2 * rope + (plain / 64).next_multiple_of(8),
            Self::Mxfp8 { width } => width + width / 32,
            Self::Nvfp4 { width } => width / 2 + width / 16,
        }
    }

    /// What a record is filled with.
    pub(crate) fn runs(self) -> Vec<Run> {
        let runs = match self {
            Self::Bf16 { width } => vec![(2 * width, Kind::Bf16)],
            Self::ScaledLatent { latent, rope } => {
                vec![(latent, Kind::E4m3), (latent / 128 * 4, Kind::F32Scale), (2 * rope, Kind::Bf16)]
            }
            Self::ScaledEntry { plain, rope } => {
                let scales = self.bytes() - plain - 2 * rope;
                vec![(plain, Kind::E4m3), (2 * rope, Kind::Bf16), (scales, Kind::E8m0)]
            }
            Self::Mxfp8 { width } => vec![(width, Kind::E4m3), (width / 32, Kind::E8m0)],
            Self::Nvfp4 { width } => vec![(width / 2, Kind::E2m1), (width / 16, Kind::E4m3Scale)],
        };
        runs.into_iter().filter(|(bytes, _)| *bytes > 0).map(|(bytes, kind)| Run { bytes, kind }).collect()
    }

    /// Values of one row.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Bf16 { width } | Self::Mxfp8 { width } | Self::Nvfp4 { width } => width,
            Self::ScaledLatent { latent: plain, rope } | Self::ScaledEntry { plain, rope } => plain + rope,
        }
    }

    /// Whether the widths are whole blocks.
    pub(crate) fn is_whole(self) -> bool {
        match self {
            Self::Bf16 { width } => width.is_multiple_of(16),
            Self::ScaledLatent { latent, rope } => latent.is_multiple_of(128) && rope.is_multiple_of(16),
            Self::ScaledEntry { plain, rope } => plain.is_multiple_of(64) && rope.is_multiple_of(16),
            Self::Mxfp8 { width } | Self::Nvfp4 { width } => width.is_multiple_of(32),
        }
    }

    /// Widens one record to [`Record::width`] f32 values.
    ///
    /// # Safety
    /// `from` has [`Record::bytes`], `to` the width, and the record is whole.
    #[inline(always)]
    pub(crate) unsafe fn read<S: Simd>(self, from: *const u8, to: *mut f32) {
        // SAFETY: the caller's lengths; blocks are multiples of the lanes.
        unsafe {
            match self {
                Self::Bf16 { width } => read_bf16::<S>(from, width, to),
                Self::ScaledLatent { latent, rope } => {
                    let scales = from.add(latent);
                    for block in 0..latent / 128 {
                        let scale = scales.add(4 * block).cast::<f32>().read_unaligned();
                        read_e4m3::<S>(from.add(128 * block), 128, scale, to.add(128 * block));
                    }
                    read_bf16::<S>(scales.add(latent / 128 * 4), rope, to.add(latent));
                }
                Self::ScaledEntry { plain, rope } => {
                    let scales = from.add(plain + 2 * rope);
                    for block in 0..plain / 64 {
                        let scale = from_e8m0(scales.add(block).read());
                        read_e4m3::<S>(from.add(64 * block), 64, scale, to.add(64 * block));
                    }
                    read_bf16::<S>(from.add(plain), rope, to.add(plain));
                }
                Self::Mxfp8 { width } => {
                    for block in 0..width / 32 {
                        let scale = from_e8m0(from.add(width + block).read());
                        read_e4m3::<S>(from.add(32 * block), 32, scale, to.add(32 * block));
                    }
                }
                Self::Nvfp4 { width } => {
                    for block in 0..width / 16 {
                        let scale = E4M3[usize::from(from.add(width / 2 + block).read())];
                        // The vectors hold twice the values.
                        let scale = S::splat(scale * 0.5);
                        for first in (0..16).step_by(S::LANES) {
                            let place = 16 * block + first;
                            S::store(to.add(place), S::mul(S::load_e2m1(from.add(place / 2)), scale));
                        }
                    }
                }
            }
        }
    }

    /// Writes the record of one new row; scales are the smallest that keep every value of their block in range.
    pub(crate) fn write(self, row: &[f32], to: &mut [u8]) {
        assert!(row.len() == self.width() && to.len() == self.bytes());
        match self {
            Self::Bf16 { .. } => write_bf16(row, to),
            Self::ScaledLatent { latent, .. } => {
                let (values, rest) = to.split_at_mut(latent);
                let (scales, rope) = rest.split_at_mut(latent / 128 * 4);
                let blocks = row.chunks(128).zip(values.chunks_mut(128)).zip(scales.chunks_mut(4));
                for ((row, values), place) in blocks {
                    let scale = largest(row) / LARGEST_E4M3;
                    place.copy_from_slice(&scale.to_le_bytes());
                    write_e4m3(row, scale, values);
                }
                write_bf16(&row[latent..], rope);
            }
            Self::ScaledEntry { plain, rope } => {
                let (values, rest) = to.split_at_mut(plain);
                let (rotary, scales) = rest.split_at_mut(2 * rope);
                scales.fill(0);
                write_scaled(&row[..plain], 64, values, scales);
                write_bf16(&row[plain..], rotary);
            }
            Self::Mxfp8 { width } => {
                let (values, scales) = to.split_at_mut(width);
                write_scaled(row, 32, values, scales);
            }
            Self::Nvfp4 { width } => {
                let (values, scales) = to.split_at_mut(width / 2);
                for ((row, values), place) in row.chunks(16).zip(values.chunks_mut(8)).zip(scales) {
                    *place = to_e4m3(largest(row) / LARGEST_E2M1);
                    let scale = E4M3[usize::from(*place)].max(f32::MIN_POSITIVE);
                    for (pair, byte) in row.chunks(2).zip(values) {
                        *byte = to_e2m1(pair[0] / scale) | to_e2m1(pair[1] / scale) << 4;
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn read_bf16<S: Simd>(from: *const u8, count: usize, to: *mut f32) {
    let mut place = 0;
    while place < count {
        // SAFETY: the caller's lengths.
        unsafe { S::store(to.add(place), S::load_bf16(from.add(2 * place).cast())) }
        place += S::LANES;
    }
}

#[inline(always)]
unsafe fn read_e4m3<S: Simd>(from: *const u8, count: usize, scale: f32, to: *mut f32) {
    // SAFETY: the caller's lengths.
    unsafe {
        let scale = S::splat(scale * E4M3_SHRINK);
        let mut place = 0;
        while place < count {
            S::store(to.add(place), S::mul(S::load_e4m3(from.add(place)), scale));
            place += S::LANES;
        }
    }
}

fn write_bf16(row: &[f32], to: &mut [u8]) {
    for (value, bytes) in row.iter().zip(to.chunks_mut(2)) {
        bytes.copy_from_slice(&to_bf16(*value));
    }
}

/// e4m3 values with a power of two for every `block`.
fn write_scaled(row: &[f32], block: usize, values: &mut [u8], scales: &mut [u8]) {
    for ((row, values), place) in row.chunks(block).zip(values.chunks_mut(block)).zip(scales) {
        *place = to_e8m0_above(largest(row) / LARGEST_E4M3);
        write_e4m3(row, from_e8m0(*place), values);
    }
}

fn write_e4m3(row: &[f32], scale: f32, values: &mut [u8]) {
    for (value, byte) in row.iter().zip(values) {
        *byte = to_e4m3(value / scale.max(f32::MIN_POSITIVE));
    }
}

fn largest(row: &[f32]) -> f32 {
    row.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}
