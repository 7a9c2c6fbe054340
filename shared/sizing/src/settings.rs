//! What a user may set about a figure, and how settings and config together choose the formats.

use serde::{Deserialize, Serialize};

use crate::fact::Source;
use crate::format::{IndexFormat, KvFormat, StateFormat};
use crate::{Error, Result};

/// Settings of the user. Whatever is absent has its default: the config's own dtype, or the native layout of a mixer.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Storage of K/V values, latents and compressed entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_dtype: Option<KvFormat>,
    /// Storage of K where it differs from V.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k_dtype: Option<KvFormat>,
    /// Storage of V where it differs from K.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v_dtype: Option<KvFormat>,
    /// Storage of the cross-attention cache where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_dtype: Option<KvFormat>,
    /// Storage of index keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_dtype: Option<IndexFormat>,
    /// Storage of recurrent state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dtype: Option<StateFormat>,
    /// Storage of convolution state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conv_dtype: Option<StateFormat>,
    /// Whether an MLA layer keeps its latent or K and V of every head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mla_storage: Option<MlaStorage>,
    /// Tokens of the encoder's output that cross-attention keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder_tokens: Option<u64>,
}

/// What an MLA layer keeps of a token.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MlaStorage {
    /// The latent and the rotary part, shared by all heads.
    #[default]
    Latent,
    /// K and V of every head.
    Expanded,
}

impl Settings {
    /// The names that [`Settings::set`] knows.
    pub const NAMES: [&'static str; 9] = [
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

    /// Sets one setting by its name, as `--set name=value` does.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let renamed = |error: Error| Error::setting(name, error.what());
        match name {
            "kv_dtype" => self.kv_dtype = Some(value.parse().map_err(renamed)?),
            "k_dtype" => self.k_dtype = Some(value.parse().map_err(renamed)?),
            "v_dtype" => self.v_dtype = Some(value.parse().map_err(renamed)?),
            "cross_dtype" => self.cross_dtype = Some(value.parse().map_err(renamed)?),
            "index_dtype" => self.index_dtype = Some(value.parse().map_err(renamed)?),
            "state_dtype" => self.state_dtype = Some(value.parse().map_err(renamed)?),
            "conv_dtype" => self.conv_dtype = Some(value.parse().map_err(renamed)?),
            "mla_storage" => {
                self.mla_storage = Some(match value {
                    "latent" => MlaStorage::Latent,
                    "expanded" => MlaStorage::Expanded,
                    _ => {
                        return Err(Error::setting(
                            name,
                            format!("{value:?} is neither latent nor expanded"),
                        ));
                    }
                });
            }
            "encoder_tokens" => {
                let tokens: u64 =
                    value.parse().map_err(|_| Error::setting(name, format!("{value:?} is not a count")))?;
                self.encoder_tokens = Some(crate::Tokens::context(tokens).map_err(renamed)?.get());
            }
            _ => {
                return Err(Error::setting(
                    name,
                    format!("unknown setting; known: {}", Self::NAMES.join(", ")),
                ));
            }
        }
        Ok(())
    }
}

/// A format and where the choice came from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Chosen<T> {
    /// The format.
    pub format: T,
    /// A setting, a config field, or a default.
    pub source: Source,
}

/// The formats of one architecture under some settings.
#[derive(Clone, Debug)]
pub struct Formats {
    settings: Settings,
    model: Chosen<StateFormat>,
    recurrent: Option<Chosen<StateFormat>>,
}

impl Formats {
    /// Combines the settings with what the config says: the model's dtype, and the dtype that it asks for recurrent
    /// state, if any.
    pub fn new(
        settings: &Settings,
        model: Chosen<StateFormat>,
        recurrent: Option<Chosen<StateFormat>>,
    ) -> Self {
        Self { settings: settings.clone(), model, recurrent }
    }

    /// The settings behind these formats.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Storage of K (its own setting first).
    pub fn k(&self) -> Chosen<KvFormat> {
        self.side("k_dtype", self.settings.k_dtype)
    }

    /// Storage of V (its own setting first).
    pub fn v(&self) -> Chosen<KvFormat> {
        self.side("v_dtype", self.settings.v_dtype)
    }

    /// Storage of an MLA latent.
    pub fn latent(&self) -> Chosen<KvFormat> {
        self.k()
    }

    /// Storage of the cross-attention cache.
    pub fn cross(&self) -> Option<Chosen<KvFormat>> {
        self.settings.cross_dtype.map(|format| set("cross_dtype", format, format.name()))
    }

    /// Storage of compressed and window entries whose mixer has a layout of its own, used where nothing is set.
    pub fn entry(&self, native: KvFormat, rule: &str) -> Chosen<KvFormat> {
        match self.settings.kv_dtype {
            Some(format) => set("kv_dtype", format, format.name()),
            None => Chosen { format: native, source: Source::Layout { rule: rule.to_owned() } },
        }
    }

    /// Storage of index keys, `native` where nothing is set.
    pub fn index(&self, native: IndexFormat, rule: &str) -> Chosen<IndexFormat> {
        match self.settings.index_dtype {
            Some(format) => set("index_dtype", format, format.name()),
            None => Chosen { format: native, source: Source::Layout { rule: rule.to_owned() } },
        }
    }

    /// Storage of recurrent state: the setting, else what the config asks, else the model's dtype.
    pub fn recurrent(&self) -> Chosen<StateFormat> {
        match (self.settings.state_dtype, &self.recurrent) {
            (Some(format), _) => set("state_dtype", format, format.name()),
            (None, Some(asked)) => asked.clone(),
            (None, None) => self.model.clone(),
        }
    }

    /// Storage of convolution state: the setting, else the model's dtype.
    pub fn conv(&self) -> Chosen<StateFormat> {
        match self.settings.conv_dtype {
            Some(format) => set("conv_dtype", format, format.name()),
            None => self.model.clone(),
        }
    }

    /// What an MLA layer keeps.
    pub fn mla_storage(&self) -> MlaStorage {
        self.settings.mla_storage.unwrap_or_default()
    }

    fn side(&self, name: &str, own: Option<KvFormat>) -> Chosen<KvFormat> {
        match (own, self.settings.kv_dtype) {
            (Some(format), _) => set(name, format, format.name()),
            (None, Some(format)) => set("kv_dtype", format, format.name()),
            (None, None) => Chosen { format: self.model.format.into(), source: self.model.source.clone() },
        }
    }
}

fn set<T>(name: &str, format: T, value: &str) -> Chosen<T> {
    Chosen { format, source: Source::Setting { name: name.to_owned(), value: value.to_owned() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_can_be_set() {
        for name in Settings::NAMES {
            let mut settings = Settings::default();
            let value = match name {
                "mla_storage" => "expanded",
                "encoder_tokens" => "1500",
                _ => "bf16",
            };
            settings.set(name, value).unwrap();
            assert_ne!(settings, Settings::default(), "{name}");
        }
        assert!(Settings::default().set("kv_type", "bf16").unwrap_err().to_string().starts_with("kv_type: "));
    }
}
