//! What a MODEL argument names: a catalogue id, a config file, a folder that holds one, or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use kvscope_sizing::{
    Architecture, CatalogueEntry, ErrorKind, Settings, StateModel, find_entry, read_config,
};

use crate::failure::Failure;

/// Far more than any config.json; a file beyond it is something else.
const LARGEST_CONFIG: u64 = 64 << 20;

/// A model that was found and read.
#[derive(Debug)]
pub struct Model {
    /// The catalogue id, or the path as it was given.
    pub label: String,
    /// The catalogue entry, where it is one.
    pub entry: Option<&'static CatalogueEntry>,
    /// Its layers.
    pub architecture: Architecture,
}

impl Model {
    /// Finds and reads what `argument` names.
    pub fn load(argument: &str) -> Result<Self, Failure> {
        if argument == "-" {
            return Self::from_text("standard input", &read_limited(io::stdin().lock(), "standard input")?);
        }
        let path = Path::new(argument);
        if path.is_dir() {
            return Self::from_file(&config_in(path)?);
        }
        if path.exists()
            || path.extension().is_some_and(|extension| extension == "json" || extension == "gguf")
        {
            return Self::from_file(path);
        }
        let entry = find_entry(argument).map_err(|error| match error.kind() {
            ErrorKind::UnknownModel if argument.contains(['/', '\\']) => {
                Failure::input(format!("{argument}: no such file, and {error}"))
            }
            _ => Failure::input(error),
        })?;
        let architecture =
            entry.architecture().map_err(|error| Failure::input(format!("{}: {error}", entry.id)))?;
        Ok(Self { label: entry.id.clone(), entry: Some(entry), architecture })
    }

    /// Its state in the formats that `settings` choose.
    pub fn state(&self, settings: &Settings) -> Result<StateModel, Failure> {
        StateModel::new(&self.architecture, settings).map_err(|error| self.failure(&error))
    }

    /// An error about this model, with its label in front.
    pub fn failure(&self, error: &kvscope_sizing::Error) -> Failure {
        Failure::input(format!("{}: {error}", self.label))
    }

    fn from_file(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let failed = |error: io::Error| Failure::input(format!("{shown}: {}", reason(&error)));
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        if size > LARGEST_CONFIG {
            return Err(too_large(&shown, &format!("{size} bytes")));
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
            return Err(Failure::input(format!(
                "{shown}: GGUF files are not read yet; give the model's config.json"
            )));
        }
        Self::from_text(&shown, &read_limited(file, &shown)?)
    }

    fn from_text(label: &str, text: &str) -> Result<Self, Failure> {
        let architecture = read_config(text).map_err(|error| Failure::input(format!("{label}: {error}")))?;
        Ok(Self { label: label.to_owned(), entry: None, architecture })
    }
}

fn config_in(folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join("config.json");
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::input(format!("{}: the folder holds no config.json", folder.display())))
}

/// Reads text, at most [`LARGEST_CONFIG`] bytes of it, also from what has no length (pipes, devices).
fn read_limited(source: impl Read, shown: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    source
        .take(LARGEST_CONFIG + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::input(format!("{shown}: {}", reason(&error))))?;
    if bytes.len() as u64 > LARGEST_CONFIG {
        return Err(too_large(shown, "more"));
    }
    String::from_utf8(bytes).map_err(|error| {
        Failure::input(format!(
            "{shown}: byte {} is not UTF-8; expected a config.json",
            error.utf8_error().valid_up_to()
        ))
    })
}

fn too_large(shown: &str, size: &str) -> Failure {
    Failure::input(format!(
        "{shown}: a config.json has at most {} MiB, this has {size}",
        LARGEST_CONFIG >> 20
    ))
}

/// The system's reason without its error number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
