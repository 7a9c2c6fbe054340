use serde_json::Value;

use crate::architecture::Architecture;
use crate::catalogue::CatalogueEntry;
use crate::cost::{CostOf, FlopWeights, Phase, PhaseWork, Types};
use crate::parameters::Parameters;
use crate::settings::Settings;
use crate::{Error, Result};

/// The model that a plan is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Catalogue id or path, for the answer.
    pub model: &'a str,
    /// Its layers.
    pub architecture: &'a Architecture,
    /// Its config; none for a GGUF file.
    pub config: Option<&'a Value>,
    /// What the catalogue knows of it.
    pub entry: Option<&'a CatalogueEntry>,
}

impl<'a> Subject<'a> {
    /// A version of the catalogue with its layers.
    pub fn of(entry: &'a CatalogueEntry, architecture: &'a Architecture) -> Self {
        Self { model: &entry.id, architecture, config: Some(&entry.config), entry: Some(entry) }
    }

    /// Its parameters, counted from its config.
    ///
    /// # Errors
    ///
    /// A GGUF file, or a width that the config does not say.
    pub fn parameters(&self) -> Result<Parameters> {
        let config = self.config.ok_or_else(|| {
            let what = "parameters are counted from a config.json; a GGUF file does not say all widths";
            Error::setting("model", what)
        })?;
        Parameters::of(config, self.architecture)
    }

    /// The operations of its prefill at any length.
    ///
    /// # Errors
    ///
    /// As [`Self::parameters`], or a head count that the config does not say.
    pub(super) fn prefill(&self, settings: &Settings, types: Types) -> Result<PhaseWork> {
        let of = CostOf {
            architecture: self.architecture,
            parameters: &self.parameters()?,
            settings,
            types,
            weights: FlopWeights::plain(),
        };
        of.work(Phase::Prefill)
    }
}
