//! How settings and config together choose the formats of state.

use smol_str::SmolStr;

use super::{MlaStorage, Settings};
use crate::fact::Source;
use crate::format::{IndexFormat, KvFormat, StateFormat};

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
    pub fn entry(&self, native: KvFormat, rule: &'static str) -> Chosen<KvFormat> {
        match self.settings.kv_dtype {
            Some(format) => set("kv_dtype", format, format.name()),
            None => Chosen { format: native, source: Source::Layout { rule: SmolStr::new_static(rule) } },
        }
    }

    /// Storage of index keys, `native` where nothing is set.
    pub fn index(&self, native: IndexFormat, rule: &'static str) -> Chosen<IndexFormat> {
        match self.settings.index_dtype {
            Some(format) => set("index_dtype", format, format.name()),
            None => Chosen { format: native, source: Source::Layout { rule: SmolStr::new_static(rule) } },
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

    fn side(&self, name: &'static str, own: Option<KvFormat>) -> Chosen<KvFormat> {
        match (own, self.settings.kv_dtype) {
            (Some(format), _) => set(name, format, format.name()),
            (None, Some(format)) => set("kv_dtype", format, format.name()),
            (None, None) => Chosen { format: self.model.format.into(), source: self.model.source.clone() },
        }
    }
}

fn set<T>(name: &'static str, format: T, value: &'static str) -> Chosen<T> {
    Chosen {
        format,
        source: Source::Setting { name: SmolStr::new_static(name), value: SmolStr::new_static(value) },
    }
}
