//! Kinds of values that settings have, and how their text is read.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::format::{IndexFormat, KvFormat, StateFormat};

/// A value of a setting, read from what a person typed.
pub(super) trait SettingValue: Sized {
    /// Reads the text; the error says what was expected, without the setting's name.
    fn read(text: &str) -> Result<Self, String>;
    /// The text that reads back as this value.
    fn write(&self) -> String;
    /// Every word that it takes; nothing where it takes a number or any text.
    fn words() -> Vec<&'static str> {
        Vec::new()
    }
}

/// Declares an enum whose names are the same on the command line and in JSON.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// The word in settings and JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl SettingValue for $name {
            fn read(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(format!("unknown value {text:?}; known: {}", [$($word),*].join(", "))),
                }
            }

            fn write(&self) -> String {
                self.name().to_owned()
            }

            fn words() -> Vec<&'static str> {
                vec![$($word),*]
            }
        }
    };
}

words! {
    /// What an MLA layer keeps of a token.
    #[derive(Default)]
    MlaStorage {
        /// The latent and the rotary part, shared by all heads.
        #[default]
        Latent = "latent",
        /// K and V of every head.
        Expanded = "expanded",
    }
}

words! {
    /// How vLLM keeps recurrent states for prefix reuse.
    MambaCacheMode {
        /// One state a request, no reuse.
        None = "none",
        /// States at block boundaries that the scheduler stops at.
        Align = "align",
        /// A state for every block (older versions).
        All = "all",
    }
}

words! {
    /// How SGLang keeps recurrent states for prefix reuse.
    MambaRadixStrategy {
        /// States are copied where a prefix ends.
        NoBuffer = "no_buffer",
        /// One spare state a request.
        ExtraBufferLazy = "extra_buffer_lazy",
        /// Spare states that overlap with the next batch.
        ExtraBuffer = "extra_buffer",
    }
}

words! {
    /// Which kernels prefill gated DeltaNet in vLLM.
    GdnPrefillBackend {
        /// Triton kernels.
        Triton = "triton",
        /// `FlashInfer` kernels, which export checkpoints of the state.
        FlashInfer = "flashinfer",
    }
}

words! {
    /// A formula that other tools use in place of the model's own layers.
    NaiveFormula {
        /// Every layer costs as much as a full-attention layer.
        AllLayersFull = "all_layers_full",
        /// Sliding and chunked layers keep every token.
        WindowsFull = "windows_full",
        /// Query heads in place of K/V heads.
        MhaHeads = "mha_heads",
        /// K and V of `hidden_size / num_attention_heads` values for every K/V head in place of a latent.
        MlaAsMha = "mla_as_mha",
        /// K and V of `kv_lora_rank` values in place of a latent.
        MlaAsKv = "mla_as_kv",
    }
}

/// Tokens of a window pool over those of the full-attention pool: positive and finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct PoolRatio(f64);

impl PoolRatio {
    /// Wraps a ratio above 0 and up to 1000.
    ///
    /// # Errors
    ///
    /// Anything else, NaN included.
    pub fn new(ratio: f64) -> Result<Self, String> {
        if ratio > 0.0 && ratio <= 1000.0 {
            return Ok(Self(ratio));
        }
        Err(format!("{ratio:?} is no ratio above 0 and up to 1000"))
    }

    /// The ratio.
    pub fn get(self) -> f64 {
        self.0
    }
}

// NaN is refused, so equality is total.
impl Eq for PoolRatio {}

impl<'de> Deserialize<'de> for PoolRatio {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl SettingValue for PoolRatio {
    fn read(text: &str) -> Result<Self, String> {
        Self::new(text.parse().map_err(|_| format!("{text:?} is not a number"))?)
    }

    fn write(&self) -> String {
        self.0.to_string()
    }
}

impl SettingValue for u64 {
    fn read(text: &str) -> Result<Self, String> {
        crate::parse_count(text)
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for bool {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "true" | "on" => Ok(true),
            "false" | "off" => Ok(false),
            _ => Err(format!("{text:?} is neither true nor false")),
        }
    }

    fn write(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }

    fn words() -> Vec<&'static str> {
        vec!["on", "off"]
    }
}

impl SettingValue for String {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.chars().count() > 100 {
            return Err("expected 1 to 100 characters".to_owned());
        }
        Ok(text.to_owned())
    }

    fn write(&self) -> String {
        self.clone()
    }
}

/// A storage format by its name.
macro_rules! format_value {
    ($format:ty, $words:expr) => {
        impl SettingValue for $format {
            fn read(text: &str) -> Result<Self, String> {
                read_format(text)
            }

            fn write(&self) -> String {
                self.name().to_owned()
            }

            fn words() -> Vec<&'static str> {
                $words
            }
        }
    };
}

format_value!(KvFormat, Self::all().map(|(name, _)| name).collect());
format_value!(IndexFormat, Self::all().map(|(name, _)| name).collect());
format_value!(StateFormat, [Self::F32, Self::Bf16, Self::F16].map(Self::name).into());

fn read_format<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: Error| error.what().to_owned())
}
