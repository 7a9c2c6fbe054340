//! What a user may set about a figure, and how settings and config together choose the formats.

mod effect;
mod formats;
mod values;

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

pub use formats::{Chosen, Formats};
pub use values::{
    GdnPrefillBackend, MambaCacheMode, MambaRadixStrategy, MlaStorage, NaiveFormula, PoolRatio,
};

use crate::format::{IndexFormat, KvFormat, StateFormat};
use crate::{Bytes, Error, Result, Tokens};
use values::SettingValue;

/// Ranks of one kind of parallelism.
const RANKS: RangeInclusive<u64> = 1..=1024;
/// Layers of a model or of its drafts.
const LAYERS: RangeInclusive<u64> = 0..=10_000;
/// Tokens of one block, page or batch.
const BLOCK: RangeInclusive<u64> = 1..=1 << 30;
/// Tokens of one request or pool.
const TOKENS: RangeInclusive<u64> = 0..=Tokens::MAX.get();
/// Requests, sequences or slots.
const REQUESTS: RangeInclusive<u64> = 1..=1 << 32;
/// Tokens that a draft proposes, or snapshots that a state keeps for them.
const DRAFTS: RangeInclusive<u64> = 0..=4096;
/// Any number of bytes.
const BYTES: RangeInclusive<u64> = 0..=u64::MAX;

/// Settings that choose formats and shapes of what is kept.
const FORMATS: [&str; 9] = [
    "kv_dtype",
    "k_dtype",
    "v_dtype",
    "cross_dtype",
    "index_dtype",
    "state_dtype",
    "conv_dtype",
    "mla_storage",
    "encoder_tokens",
];

/// Declares every setting once: its field, its name, how its text is read, and the range that it is checked against.
macro_rules! settings {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty $(, in $range:expr)?;)*) => {
        /// Settings of the user. Whatever is absent has its default: the config's own dtype, the native layout of a
        /// mixer, or the default of the engine.
        #[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Settings {
            $($(#[doc = $doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)*
        }

        impl Settings {
            /// The names that [`Settings::set`] knows.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Sets one setting by its name, as `--set name=value` does.
            ///
            /// # Errors
            ///
            /// An unknown name (the error lists the known ones), or a value of a wrong kind or out of range.
            /// Names that end in `_bytes` take units of bytes; see [`Bytes::given`]. A storage of `auto` is that of the
            /// model, as in the flags of vLLM and SGLang.
            pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
                if value.eq_ignore_ascii_case("auto") && name.ends_with("_dtype") && Self::NAMES.contains(&name) {
                    self.clear(name);
                    return Ok(());
                }
                let bytes = name.ends_with("_bytes").then(|| Bytes::given(value)).transpose();
                let bytes = bytes.map_err(|error| Error::setting(name, error.what()))?;
                let bytes = bytes.map(|bytes| bytes.get().to_string());
                let value = bytes.as_deref().unwrap_or(value);
                match name {
                    $(stringify!($name) => {
                        let value = <$type as SettingValue>::read(value)
                            .map_err(|why| Error::setting(name, why))?;
                        $(in_range(name, value, &$range)?;)?
                        self.$name = Some(value);
                    })*
                    _ => {
                        let known = Self::NAMES.join(", ");
                        return Err(Error::setting(name, format!("unknown setting; known: {known}")));
                    }
                }
                Ok(())
            }

            /// A setting's value as [`Settings::set`] takes it; none where it is not set.
            pub fn value(&self, name: &str) -> Option<String> {
                let text = match name {
                    $(stringify!($name) => self.$name.as_ref().map(SettingValue::write),)*
                    _ => None,
                }?;
                let bytes = text.parse().ok().filter(|_| name.ends_with("_bytes")).map(Bytes::new);
                Some(bytes.map_or(text, Bytes::as_given))
            }

            /// Takes a setting's value away, so that its default holds.
            pub fn clear(&mut self, name: &str) {
                match name {
                    $(stringify!($name) => self.$name = None,)*
                    _ => {}
                }
            }

            /// The words that a setting takes; nothing where it takes a number or any text.
            pub fn words(name: &str) -> Vec<&'static str> {
                match name {
                    $(stringify!($name) => <$type as SettingValue>::words(),)*
                    _ => Vec::new(),
                }
            }

            /// What a setting is, in one sentence.
            pub fn about(name: &str) -> &'static str {
                match name {
                    $(stringify!($name) => concat!($($doc),*).trim(),)*
                    _ => "",
                }
            }

            /// The names of the settings that are set.
            pub fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
                [$(self.$name.is_some().then_some(stringify!($name))),*].into_iter().flatten()
            }

            /// Checks every number against its range, for settings that did not come through [`Settings::set`].
            ///
            /// # Errors
            ///
            /// The first setting that is out of range.
            pub fn check(&self) -> Result<()> {
                $($(if let Some(value) = self.$name {
                    in_range(stringify!($name), value, &$range)?;
                })?)*
                Ok(())
            }
        }
    };
}

settings! {
    /// Tokens in one request (llama.cpp: `n_ctx`, split or shared by the sequences).
    context: u64, in TOKENS;
    /// Concurrent requests.
    batch: u64, in REQUESTS;
    /// Storage of K/V values, latents and compressed entries.
    kv_dtype: KvFormat;
    /// Storage of K where it differs from V.
    k_dtype: KvFormat;
    /// Storage of V where it differs from K.
    v_dtype: KvFormat;
    /// Storage of the cross-attention cache where it differs.
    cross_dtype: KvFormat;
    /// Storage of index keys.
    index_dtype: IndexFormat;
    /// Storage of recurrent state.
    state_dtype: StateFormat;
    /// Storage of convolution state.
    conv_dtype: StateFormat;
    /// Whether an MLA layer keeps its latent or K and V of every head.
    mla_storage: MlaStorage;
    /// Tokens of the encoder's output that cross-attention keeps.
    encoder_tokens: u64, in 1..=Tokens::MAX.get();
    /// Tensor-parallel ranks.
    tp: u64, in RANKS;
    /// Pipeline-parallel ranks.
    pp: u64, in RANKS;
    /// Decode-context-parallel ranks.
    dcp: u64, in RANKS;
    /// Data-parallel ranks.
    dp: u64, in RANKS;
    /// Layers that this rank holds, where the split is uneven.
    layers_on_rank: u64, in LAYERS;
    /// Tokens of one block or page.
    block_size: u64, in BLOCK;
    /// Tokens that an enlarged block of a hybrid must be a multiple of.
    kernel_block_size: u64, in BLOCK;
    /// The longest request that the engine admits.
    max_model_len: u64, in 1..=Tokens::MAX.get();
    /// Tokens of one scheduled batch.
    max_num_batched_tokens: u64, in BLOCK;
    /// Whether the next batch is scheduled while one runs.
    async_scheduling: bool;
    /// Whether blocks are kept for requests with the same prefix.
    prefix_caching: bool;
    /// How recurrent states are kept for prefix reuse (vLLM).
    mamba_cache_mode: MambaCacheMode;
    /// Extra state pages of a request in align mode (vLLM).
    mamba_prefill_checkpoint_blocks: u64, in DRAFTS;
    /// Which kernels prefill gated DeltaNet (vLLM).
    gdn_prefill_backend: GdnPrefillBackend;
    /// Tokens that a draft proposes at once.
    num_speculative_tokens: u64, in DRAFTS;
    /// Layers with a cache of their own that drafting adds.
    draft_layers: u64, in LAYERS;
    /// Whether windows keep only their tokens (vLLM's hybrid manager).
    hybrid_manager: bool;
    /// Bytes of the pool, after every fraction and every other user of the memory.
    available_kv_bytes: u64, in BYTES;
    /// The GPU that the engine runs on; it chooses back ends.
    gpu: String;
    /// Sequences of one context (llama.cpp).
    n_seq_max: u64, in REQUESTS;
    /// Tokens of one physical batch (llama.cpp).
    n_ubatch: u64, in BLOCK;
    /// Tokens of the whole context, over all streams (llama.cpp).
    n_ctx: u64, in TOKENS;
    /// Whether all sequences share one stream of cells (llama.cpp).
    kv_unified: bool;
    /// Whether a window cache has full size (llama.cpp).
    swa_full: bool;
    /// Snapshots of recurrent state to roll back to (llama.cpp).
    n_rs_seq: u64, in DRAFTS;
    /// Whether flash attention is on (llama.cpp).
    flash_attn: bool;
    /// Tokens of a preallocated pool; with windows, of the full-attention pool (SGLang).
    pool_tokens: u64, in TOKENS;
    /// Tokens of the window pool over those of the full-attention pool (SGLang).
    swa_full_tokens_ratio: PoolRatio;
    /// Requests that the engine runs at once (SGLang).
    max_running_requests: u64, in REQUESTS;
    /// Slots for recurrent states (SGLang).
    state_slots: u64, in REQUESTS;
    /// Whether prefixes are kept for reuse (SGLang).
    radix_cache: bool;
    /// How states are kept for prefix reuse (SGLang).
    mamba_radix_strategy: MambaRadixStrategy;
    /// Tokens between two states that are kept for prefix reuse.
    checkpoint_interval: u64, in BLOCK;
    /// The formula of other tools that an over-estimate is computed for.
    naive: NaiveFormula;
}

impl Settings {
    /// Whether anything beyond formats is set: ranks, pools, blocks, which only an engine profile accounts for.
    pub fn names_an_engine(&self) -> bool {
        self.given().any(|name| !Self::is_format(name))
    }

    /// Whether the setting of that name chooses a format or a shape, so that logical sizing takes it too.
    pub fn is_format(name: &str) -> bool {
        FORMATS.contains(&name)
    }

    /// Tensor-parallel ranks: the setting, else one.
    pub fn tp(&self) -> u64 {
        self.tp.unwrap_or(1)
    }

    /// Pipeline ranks: the setting, else one.
    pub fn pp(&self) -> u64 {
        self.pp.unwrap_or(1)
    }

    /// Decode-context-parallel ranks: the setting, else one.
    pub fn dcp(&self) -> u64 {
        self.dcp.unwrap_or(1)
    }

    /// The format that is set for latents, which are K and V at once, and the setting that says it.
    pub(crate) fn latent_dtype(&self) -> Option<(&'static str, KvFormat)> {
        let own = self.k_dtype.map(|format| ("k_dtype", format));
        own.or_else(|| self.kv_dtype.map(|format| ("kv_dtype", format)))
    }

    /// Tokens that a draft proposes: the setting, else none.
    pub fn draft_tokens(&self) -> u64 {
        self.num_speculative_tokens.unwrap_or(0)
    }
}

fn in_range(name: &str, value: u64, range: &RangeInclusive<u64>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(Error::setting(name, format!("{value} is outside {} to {}", range.start(), range.end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that is not the default of any field of that kind.
    fn example(name: &str) -> &'static str {
        match name {
            "mla_storage" => "expanded",
            "mamba_cache_mode" => "align",
            "mamba_radix_strategy" => "extra_buffer",
            "gdn_prefill_backend" => "triton",
            "naive" => "windows_full",
            "swa_full_tokens_ratio" => "0.8",
            "gpu" => "H100-80GB",
            _ if name.ends_with("_bytes") => "80GB",
            _ if name.ends_with("dtype") => "bf16",
            "async_scheduling" | "prefix_caching" | "hybrid_manager" | "kv_unified" | "swa_full"
            | "flash_attn" | "radix_cache" => "true",
            _ => "8",
        }
    }

    #[test]
    fn every_listed_name_can_be_set_and_survives_json() {
        for name in Settings::NAMES {
            let mut settings = Settings::default();
            settings.set(name, example(name)).unwrap();
            assert_ne!(settings, Settings::default(), "{name}");
            let json = serde_json::to_value(&settings).unwrap();
            assert_eq!(json.as_object().unwrap().keys().collect::<Vec<_>>(), [name], "{name}");
            assert_eq!(serde_json::from_value::<Settings>(json).unwrap(), settings, "{name}");
        }
    }

    #[test]
    fn every_setting_says_what_it_is() {
        assert!(Settings::NAMES.iter().all(|name| Settings::about(name).ends_with('.')));
        assert_eq!(Settings::about("tp"), "Tensor-parallel ranks.");
    }

    #[test]
    fn every_value_is_written_as_it_is_read() {
        for name in Settings::NAMES {
            let mut settings = Settings::default();
            assert_eq!(settings.value(name), None, "{name}");
            let words = Settings::words(name);
            for typed in if words.is_empty() { vec![example(name)] } else { words } {
                settings.set(name, typed).unwrap();
                let written = settings.value(name).unwrap();
                let mut again = Settings::default();
                again.set(name, &written).unwrap();
                assert_eq!(again, settings, "{name}");
                assert_eq!(written.replace(' ', ""), typed, "{name}");
            }
            settings.clear(name);
            assert_eq!(settings, Settings::default(), "{name}");
        }
        assert!(FORMATS.iter().all(|name| Settings::NAMES.contains(name)));
        assert_eq!((Settings::words("tp"), Settings::words("prefix_caching")), (vec![], vec!["on", "off"]));
    }

    #[test]
    fn errors_name_the_setting() {
        let error = |name: &str, value: &str| Settings::default().set(name, value).unwrap_err().to_string();
        assert!(error("kv_type", "bf16").starts_with("kv_type: unknown setting; known: context, batch"));
        assert!(error("k_dtype", "q9").starts_with("k_dtype: unknown format"));
        assert_eq!(error("tp", "0"), "tp: 0 is outside 1 to 1024");
        assert!(error("tp", "two").starts_with("tp: "));
        assert!(error("prefix_caching", "yes").starts_with("prefix_caching: "));
        assert!(error("swa_full_tokens_ratio", "-1").starts_with("swa_full_tokens_ratio: "));
        let unchecked = Settings { pp: Some(2000), ..Settings::default() };
        assert_eq!(unchecked.check().unwrap_err().place(), Some("pp"));
    }

    #[test]
    fn counts_are_read_as_people_type_them() {
        let mut settings = Settings::default();
        settings.set("max_model_len", "128Ki").unwrap();
        assert_eq!(settings.max_model_len, Some(131_072));
        settings.set("available_kv_bytes", "80GB").unwrap();
        assert_eq!(settings.available_kv_bytes, Some(80_000_000_000));
        settings.set("available_kv_bytes", "85899345920").unwrap();
        assert_eq!(settings.available_kv_bytes, Some(80 << 30));
        let error = settings.set("available_kv_bytes", "80").unwrap_err().to_string();
        assert!(error.starts_with("available_kv_bytes: 80 without a unit"), "{error}");
    }
}
