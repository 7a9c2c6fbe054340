//! How one entry of a state component is stored: element types, inline scales, padding.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Bytes, Error, Result};

/// The storage of K/V values and latents, by the names that engines use.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KvFormat {
    /// 4 bytes a value.
    F32,
    /// 2 bytes a value.
    Bf16,
    /// 2 bytes a value.
    F16,
    /// 1 byte a value, no inline scale.
    Fp8,
    /// The scaled record of an MLA latent or a DeepSeek-V4 entry: FP8 values, BF16 rotary part, scales.
    Fp8DsMla,
    /// 1 byte a value and one 4-byte scale a token and head.
    Int8PerTokenHead,
    /// 1 byte a value and one 4-byte scale a token and head.
    Fp8PerTokenHead,
    /// Half a byte a value and one 4-byte scale a token and head.
    Int4PerTokenHead,
    /// Half a byte a value and one FP8 scale for every 16 values.
    Nvfp4,
    /// 1 byte a value and one scale byte for every 32 values.
    Mxfp8,
    /// llama.cpp: 34 bytes for 32 values.
    #[serde(rename = "q8_0")]
    Q8_0,
    /// llama.cpp: 24 bytes for 32 values.
    #[serde(rename = "q5_1")]
    Q5_1,
    /// llama.cpp: 22 bytes for 32 values.
    #[serde(rename = "q5_0")]
    Q5_0,
    /// llama.cpp: 20 bytes for 32 values.
    #[serde(rename = "q4_1")]
    Q4_1,
    /// llama.cpp: 18 bytes for 32 values.
    #[serde(rename = "q4_0")]
    Q4_0,
    /// llama.cpp: 18 bytes for 32 values.
    Iq4Nl,
}

/// The storage of an indexer's keys.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexFormat {
    /// 1 byte a value and a 4-byte scale for every 128: 132 bytes for 128 values.
    Fp8,
    /// Half a byte a value and a scale byte for every 32: 68 bytes for 128 values.
    Fp4,
    /// 2 bytes a value: 256 bytes for 128 values.
    Bf16,
}

/// The storage of recurrent and convolution state.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StateFormat {
    /// 4 bytes a value.
    F32,
    /// 2 bytes a value.
    Bf16,
    /// 2 bytes a value.
    F16,
}

/// All names, for messages and menus.
const KV_NAMES: [(&str, KvFormat); 16] = [
    ("bf16", KvFormat::Bf16),
    ("f16", KvFormat::F16),
    ("f32", KvFormat::F32),
    ("fp8", KvFormat::Fp8),
    ("fp8_ds_mla", KvFormat::Fp8DsMla),
    ("fp8_per_token_head", KvFormat::Fp8PerTokenHead),
    ("int8_per_token_head", KvFormat::Int8PerTokenHead),
    ("int4_per_token_head", KvFormat::Int4PerTokenHead),
    ("nvfp4", KvFormat::Nvfp4),
    ("mxfp8", KvFormat::Mxfp8),
    ("q8_0", KvFormat::Q8_0),
    ("q5_1", KvFormat::Q5_1),
    ("q5_0", KvFormat::Q5_0),
    ("q4_1", KvFormat::Q4_1),
    ("q4_0", KvFormat::Q4_0),
    ("iq4_nl", KvFormat::Iq4Nl),
];

/// FP8 by the names of `--kv-cache-dtype` (vLLM 0.33, `CacheDType` of `config/cache.py`; SGLang 0.5.23,
/// `kv_cache_dtype` of `arg_groups/fields/model.py`) and of `PyTorch`'s types.
pub(crate) const FP8_NAMES: [&str; 6] =
    ["fp8_e4m3", "fp8_e5m2", "fp8_inc", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"];

impl KvFormat {
    /// Every format with its name, plain ones first.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        KV_NAMES.into_iter()
    }

    /// The name that settings and JSON use.
    pub fn name(self) -> &'static str {
        KV_NAMES.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| *name)
    }

    /// Bytes that `heads` vectors of `width` values take, inline scales included. Block formats need the whole row
    /// to be a multiple of their block.
    pub fn row(self, heads: u64, width: u64) -> Result<Bytes> {
        let values =
            heads.checked_mul(width).ok_or_else(|| Error::overflow(format!("{heads} × {width} values")))?;
        let (bytes, block) = match self {
            Self::F32 => (4, 1),
            Self::Bf16 | Self::F16 => (2, 1),
            Self::Fp8 => (1, 1),
            Self::Int8PerTokenHead | Self::Fp8PerTokenHead => {
                return Bytes::new(values).plus(Bytes::new(4).times(heads)?);
            }
            Self::Int4PerTokenHead => {
                return Bytes::new(values.div_ceil(2)).plus(Bytes::new(4).times(heads)?);
            }
            Self::Nvfp4 => (9, 16),
            Self::Mxfp8 => (33, 32),
            Self::Q8_0 => (34, 32),
            Self::Q5_1 => (24, 32),
            Self::Q5_0 => (22, 32),
            Self::Q4_1 => (20, 32),
            Self::Q4_0 | Self::Iq4Nl => (18, 32),
            Self::Fp8DsMla => {
                return Err(Error::setting(
                    "kv_dtype",
                    "fp8_ds_mla is a record of MLA latents; this model keeps K and V heads (use fp8)",
                ));
            }
        };
        if values % block != 0 {
            return Err(Error::setting(
                "kv_dtype",
                format!("{} stores blocks of {block} values, and a row here has {values}", self.name()),
            ));
        }
        Bytes::new(values / block).times(bytes)
    }

    /// Bytes of one MLA latent of `rank` values with a rotary part of `rope` values.
    ///
    /// `fp8_ds_mla`: `rank` FP8 values, a 4-byte scale for every 128 of them, and the rotary part in BF16: 656 bytes for
    /// 512 + 64 (vLLM 0.33 and SGLang 0.5.23, DeepSeek-V3.2 layout).
    pub fn latent(self, rank: u64, rope: u64) -> Result<Bytes> {
        if self == Self::Fp8DsMla {
            return Bytes::new(rank)
                .plus(Bytes::new(rank.div_ceil(128)).times(4)?)?
                .plus(Bytes::new(rope).times(2)?);
        }
        self.row(1, rank.saturating_add(rope))
    }

    /// Bytes of one compressed or window entry of `width` values of which `rope` are rotary.
    ///
    /// `fp8_ds_mla`: FP8 values with one scale byte for every 64, padded to a multiple of 8, and the rotary part in BF16:
    /// 584 bytes for 512 with 64 (FlashMLA README, DeepSeek-V4 layout).
    pub fn entry(self, width: u64, rope: u64) -> Result<Bytes> {
        if self != Self::Fp8DsMla {
            return self.row(1, width);
        }
        let plain = width.checked_sub(rope).ok_or_else(|| {
            Error::field("qk_rope_head_dim", format!("{rope} is larger than head_dim {width}"))
        })?;
        let scales = Bytes::new(plain.div_ceil(64)).round_up_to(8)?;
        Bytes::new(plain).plus(Bytes::new(rope).times(2)?)?.plus(scales)
    }
}

impl IndexFormat {
    /// Every format with its name.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        [("fp8", Self::Fp8), ("fp4", Self::Fp4), ("bf16", Self::Bf16)].into_iter()
    }

    /// The name that settings and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp8 => "fp8",
            Self::Fp4 => "fp4",
            Self::Bf16 => "bf16",
        }
    }

    /// Bytes of one key of `width` values, scales included.
    pub fn key(self, width: u64) -> Result<Bytes> {
        match self {
            Self::Fp8 => Bytes::new(width).plus(Bytes::new(width.div_ceil(128)).times(4)?),
            Self::Fp4 => Bytes::new(width.div_ceil(2)).plus(Bytes::new(width.div_ceil(32))),
            Self::Bf16 => Bytes::new(width).times(2),
        }
    }
}

impl StateFormat {
    /// The name that settings and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// Bytes of one value.
    pub fn bytes_per_value(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }
}

/// The type that a config or a user names, with the long names of config files (`bfloat16`, `float32`).
impl FromStr for StateFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name.trim_start_matches("torch.") {
            "f32" | "fp32" | "float32" | "float" => Ok(Self::F32),
            "bf16" | "bfloat16" => Ok(Self::Bf16),
            "f16" | "fp16" | "float16" | "half" => Ok(Self::F16),
            _ => {
                Err(Error::setting("dtype", format!("unknown element type {name:?}; known: f32, bf16, f16")))
            }
        }
    }
}

impl FromStr for KvFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some((_, format)) = KV_NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return Ok(*format);
        }
        if FP8_NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Ok(Self::Fp8);
        }
        if let Ok(plain) = name.parse::<StateFormat>() {
            return Ok(plain.into());
        }
        let known: Vec<&str> = KV_NAMES.iter().map(|(name, _)| *name).collect();
        Err(Error::setting("kv_dtype", format!("unknown format {name:?}; known: {}", known.join(", "))))
    }
}

impl FromStr for IndexFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "fp8" => Ok(Self::Fp8),
            "fp4" | "mxfp4" => Ok(Self::Fp4),
            "bf16" | "bfloat16" => Ok(Self::Bf16),
            _ => {
                Err(Error::setting("index_dtype", format!("unknown format {name:?}; known: fp8, fp4, bf16")))
            }
        }
    }
}

impl From<StateFormat> for KvFormat {
    fn from(plain: StateFormat) -> Self {
        match plain {
            StateFormat::F32 => Self::F32,
            StateFormat::Bf16 => Self::Bf16,
            StateFormat::F16 => Self::F16,
        }
    }
}

impl fmt::Display for KvFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for IndexFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for StateFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that FlashMLA's README, vLLM 0.33 and SGLang 0.5.23 state.
    #[test]
    fn published_record_sizes() {
        assert_eq!(KvFormat::Fp8DsMla.latent(512, 64).unwrap().get(), 656);
        assert_eq!(KvFormat::Bf16.latent(512, 64).unwrap().get(), 1152);
        assert_eq!(KvFormat::Fp8DsMla.entry(512, 64).unwrap().get(), 584);
        assert_eq!(KvFormat::Mxfp8.entry(512, 64).unwrap().get(), 528);
        assert_eq!(KvFormat::Nvfp4.entry(512, 64).unwrap().get(), 288);
        assert_eq!(IndexFormat::Fp8.key(128).unwrap().get(), 132);
        assert_eq!(IndexFormat::Fp4.key(128).unwrap().get(), 68);
        assert_eq!(IndexFormat::Bf16.key(128).unwrap().get(), 256);
    }

    /// llama.cpp's bits a value: `q8_0` 8.5, `q5_1` 6, `q5_0` 5.5, `q4_1` 5, `q4_0` and `iq4_nl` 4.5.
    #[test]
    fn llama_cpp_bits_per_value() {
        for (name, half_bits) in
            [("q8_0", 17), ("q5_1", 12), ("q5_0", 11), ("q4_1", 10), ("q4_0", 9), ("iq4_nl", 9)]
        {
            let format: KvFormat = name.parse().unwrap();
            assert_eq!(format.row(8, 128).unwrap().get() * 16, 8 * 128 * half_bits, "{name}");
        }
    }

    /// vLLM: 128-wide heads with inline scales take 132 bytes a side, four-bit ones 68.
    #[test]
    fn inline_scales_a_token_and_head() {
        assert_eq!(KvFormat::Int8PerTokenHead.row(1, 128).unwrap().get(), 132);
        assert_eq!(KvFormat::Int4PerTokenHead.row(1, 128).unwrap().get(), 68);
        assert_eq!(KvFormat::Nvfp4.row(1, 128).unwrap().get(), 72);
    }

    #[test]
    fn a_row_that_is_no_whole_number_of_blocks_is_refused() {
        assert!(KvFormat::Q8_0.row(1, 80).unwrap_err().to_string().contains("80"));
        assert!(KvFormat::Fp8DsMla.row(8, 128).is_err());
    }
}
