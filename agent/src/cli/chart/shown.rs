//! The versions that a figure shows, and the words that say what was asked of them.

use clap::Args;
use kvscope_charts::palette::{SeriesColour, assign_colours};
use kvscope_charts::versions;
use kvscope_protocol::ViewState;
use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::{Settings, StateModel, Tokens, UnitSystem, Warning};

use crate::cli::request::{Accounting, Batch, Contexts, warn_of_all};
use crate::failure::Failure;
use crate::model::Model;

/// What every figure of state takes.
#[derive(Args, Debug)]
pub(super) struct Asked {
    /// Catalogue ids, config.json or GGUF files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    #[command(flatten)]
    pub(super) contexts: Contexts,
    #[command(flatten)]
    pub(super) batch: Batch,
    #[command(flatten)]
    pub(super) accounting: Accounting,
    /// Units of bytes
    #[arg(long, default_value = "GB", value_parser = ["GB", "GiB"], value_name = "UNIT")]
    units: String,
}

/// A version with its state, its name and its colour.
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) colour: SeriesColour,
    pub(super) model: Model,
    pub(super) state: StateModel,
}

impl Asked {
    /// Reads every version; the first that cannot be sized ends it.
    pub(super) fn models(&self, settings: &Settings) -> Result<Vec<Shown>, Failure> {
        let models = self.models.iter().map(|name| Model::load_checked(name, self.accounting.unknown()));
        let models: Vec<Model> = models.collect::<Result<_, _>>()?;
        let family =
            |model: &Model| model.entry.map_or_else(|| model.label.clone(), |entry| entry.family.clone());
        let families: Vec<String> = models.iter().map(family).collect();
        let colours = assign_colours(&families.iter().map(String::as_str).collect::<Vec<_>>());
        let mut shown = Vec::new();
        for (model, colour) in models.into_iter().zip(colours) {
            let state = model.state(settings)?;
            let name = model.entry.map_or_else(|| model.shown.clone(), |entry| entry.name.clone());
            shown.push(Shown { id: model.label.clone(), name, colour, model, state });
        }
        Ok(shown)
    }

    /// The same as a question to the figures that the page draws too.
    pub(super) fn question<'a>(
        &self,
        versions: &'a [versions::Version<'a>],
        engine: &'a Engine,
        settings: &'a Settings,
        (context, batch): (Tokens, u64),
        width: f64,
    ) -> versions::Asked<'a> {
        versions::Asked { versions, engine, settings, context, batch, units: self.units(), width }
    }

    fn units(&self) -> UnitSystem {
        if self.units == "GiB" { UnitSystem::Binary } else { UnitSystem::Decimal }
    }

    /// The page's link to the same view, `figure` with what was asked, from its `?` on; empty where a link cannot say it: files
    /// are not in links.
    pub(super) fn link(
        &self,
        versions: &[Shown],
        engine: &Engine,
        settings: &Settings,
        (context, batch): (Tokens, u64),
        figure: ViewState,
    ) -> String {
        if versions.iter().any(|one| one.model.entry.is_none()) {
            return String::new();
        }
        let view = ViewState {
            models: versions.iter().map(|one| one.id.clone()).collect(),
            context,
            batch,
            kv_format: settings.kv_dtype,
            index_format: settings.index_dtype,
            state_format: settings.state_dtype,
            engine: engine.clone(),
            engine_own: settings.clone(),
            units: self.units(),
            ..figure
        };
        let query = view.to_query();
        let (opened, notices) = ViewState::from_query(&query);
        let answered = match engine.kind() {
            EngineKind::Logical => opened.settings(),
            _ => opened.engine_settings().unwrap_or_default(),
        };
        if answered == *settings && notices.is_empty() { format!("?{query}") } else { String::new() }
    }
}

impl Shown {
    pub(super) fn version(&self) -> versions::Version<'_> {
        versions::Version {
            id: &self.id,
            name: &self.name,
            label: &self.model.shown,
            colour: self.colour,
            subject: self.model.subject(),
            state: &self.state,
        }
    }

    /// What its logical bytes assume.
    pub(super) fn warnings(
        &self,
        context: Tokens,
        batch: u64,
        settings: &Settings,
    ) -> Result<Vec<Warning>, Failure> {
        let size = self.state.size(&self.model.shown, Some(context), batch, settings);
        Ok(size.map_err(|error| self.model.failure(&error))?.warnings)
    }
}

/// Tells what each version assumes.
pub(super) fn told(assumed: &[(&str, Vec<Warning>)]) {
    warn_of_all(assumed.iter().map(|(model, warnings)| (*model, warnings.as_slice())));
}
