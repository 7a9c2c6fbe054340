//! How DeepSeek-V4's and V4.1's records stand in a page (`dsv4/kv_layout.py`).

use super::launch::Launch;
use crate::format::{IndexFormat, KvFormat};
use crate::mixer::{CompressedAttention, Generation};
use crate::settings::Settings;
use crate::{Bytes, Result};

/// Compression ratios whose entries layers own only where the config lists them: V4.1's.
const LOW_RATIOS: [u64; 2] = [1, 2];

/// The layout of one pool's pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PageLayout {
    /// 448 FP8 values, 64 BF16 values and 8 bytes of scales: V4's record, and V4.1's too before compute capability 10.
    V4,
    /// 512 FP8 values and a scale for every 32.
    V41,
    /// 512 FP4 values and a scale for every 16.
    V41Fp4,
}

impl PageLayout {
    /// The layout of the window pool: V4.1's has kernels on compute capability 10 alone, for all heads on one rank
    /// (`_default_dsv4_attention_backend`).
    pub(super) fn of_windows(generation: Generation, launch: &Launch) -> Self {
        match generation {
            Generation::V41 if launch.is_sm100 && launch.split.tp == 1 => Self::V41,
            _ => Self::V4,
        }
    }

    /// The layout of entries that `ratio` tokens share, beside windows of this layout
    /// (`resolve_compressed_kv_layout`).
    pub(super) fn of_entries(self, ratio: u64) -> Self {
        match self {
            Self::V41 if is_low(ratio) => Self::V41Fp4,
            other => other,
        }
    }

    /// How one record is stored.
    pub(super) fn format(self) -> KvFormat {
        match self {
            Self::V4 => KvFormat::Fp8DsMla,
            Self::V41 => KvFormat::Mxfp8,
            Self::V41Fp4 => KvFormat::Nvfp4,
        }
    }

    /// Bytes of a page of `slots` records: pages begin at multiples of what the kernels read at once.
    pub(super) fn page(self, attention: &CompressedAttention, slots: u64) -> Result<Bytes> {
        let unit = match self {
            Self::V4 => 576,
            Self::V41 => 512,
            Self::V41Fp4 => 256,
        };
        let record = self.format().entry(attention.width.get(), attention.rope.get())?;
        record.times(slots)?.round_up_to(unit)
    }
}

/// Whether entries of this ratio are V4.1's, with index keys in FP4 and no ring for their compressor beyond a pair.
pub(super) fn is_low(ratio: u64) -> bool {
    LOW_RATIOS.contains(&ratio)
}

/// Index keys: FP4 in V4.1's pools whatever is set; in V4's FP8 where nothing is (`_make_indexer_pool`).
pub(super) fn index_format(ratio: u64, settings: &Settings) -> IndexFormat {
    if is_low(ratio) { IndexFormat::Fp4 } else { settings.index_dtype.unwrap_or(IndexFormat::Fp8) }
}
