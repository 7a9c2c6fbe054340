//! What a log says about the launch: engine, version, model, settings.

use serde::Serialize;

use super::line::Line;
use super::stated::{By, Of, Stated};
use crate::format::{FP8_NAMES, StateFormat};
use crate::settings::Settings;
use crate::warning::Warning;

/// A setting that was read from the log.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ReadSetting {
    /// The name among the settings of the engine profiles.
    pub name: &'static str,
    /// Its value in those words.
    pub value: String,
    /// The line that it stands in.
    pub line: usize,
}

/// The launch as far as the log shows it; what comes later in the log holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Launch {
    pub(super) version: Option<String>,
    pub(super) model: Option<String>,
    /// How drafts are made.
    pub(super) draft_method: Option<String>,
    pub(super) settings: Settings,
    /// The model's dtype by the arguments.
    dtype: Option<StateFormat>,
    /// The dtype that a float32 checkpoint is run in, which goes before.
    downcast: Option<StateFormat>,
    pub(super) read: Vec<ReadSetting>,
    pub(super) warnings: Vec<Warning>,
    /// Whether any line of this engine was seen, other than figures.
    pub(super) seen: bool,
    /// Whether a line lists the arguments of the launch that are not defaults.
    pub(super) lists_arguments: bool,
    pub(super) stated: Stated,
    /// Why what the plan of the pool decides is not recomputed, where the engine plans by rules that the profiles do not have.
    pub(super) unplanned: Option<&'static str>,
}

/// A key of an engine's arguments, the setting that it is, and how its values translate.
pub(super) type Key = (&'static str, &'static str, fn(&str) -> Option<&str>);

impl Launch {
    /// Sets what the argument list in `line` says.
    pub(super) fn read(&mut self, line: &Line, keys: &[Key]) {
        self.seen = true;
        for (key, setting, translate) in keys {
            if let Some(value) = line.value(key).and_then(translate) {
                self.state(setting, value, line.number);
            }
        }
    }

    /// The dtype that the model runs in, as far as the log says it.
    pub(super) fn dtype(&self) -> Option<StateFormat> {
        self.downcast.or(self.dtype)
    }

    /// Takes the model's dtype from the argument list in `line`; `auto` says nothing.
    pub(super) fn read_dtype(&mut self, line: &Line) {
        let named = line.value("dtype").and_then(kv_format).and_then(|name| name.parse().ok());
        self.dtype = named.or(self.dtype);
    }

    /// Takes what `Downcasting torch.float32 to torch.bfloat16.` says.
    pub(super) fn read_downcast(&mut self, line: &Line) {
        let Some(scan) = line.after("Downcasting torch.float32 to ") else { return };
        let named = line.unquoted(&line.text[scan.at()..]).and_then(kv_format);
        self.downcast = named.and_then(|name| name.parse().ok()).or(self.downcast);
    }

    /// Sets what a line says of the launch itself, of which there is one.
    pub(super) fn state(&mut self, name: &'static str, value: &str, line: usize) {
        if let Some(of) = Of::setting(name) {
            self.stated.state(of, value, line);
        }
        self.set(name, value, line);
    }

    /// Takes the version that a line names, where it names one.
    pub(super) fn version(&mut self, version: Option<String>, line: usize) {
        let Some(version) = version else { return };
        self.stated.state(Of::Version, &version, line);
        self.version = Some(version);
    }

    pub(super) fn set(&mut self, name: &'static str, value: &str, line: usize) {
        if let Err(error) = self.settings.set(name, value) {
            let what = format!("line {line} says {value:?}, which is left out: {}", error.what());
            self.warn(name, what);
            return;
        }
        self.read.retain(|known| known.name != name);
        self.read.push(ReadSetting { name, value: value.to_owned(), line });
    }

    /// Whether a line sets it.
    pub(super) fn states(&self, name: &str) -> bool {
        self.read.iter().any(|known| known.name == name)
    }

    pub(super) fn warn(&mut self, field: &str, what: impl Into<String>) {
        let warning = Warning::new(field, what);
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    pub(super) fn model(&mut self, name: Option<&str>, by: By, line: usize) {
        if let Some(name) = name.map(str::trim).filter(|name| !name.is_empty() && *name != "None") {
            self.stated.state(Of::Model(by), name, line);
            self.model = Some(name.to_owned());
        }
    }
}

/// Values as they are, apart from those that stand for a default.
pub(super) fn plain(value: &str) -> Option<&str> {
    (!matches!(value, "None" | "none" | "null" | "auto" | "-1" | "")).then_some(value)
}

/// Python's and C's words for yes and no.
pub(super) fn truth(value: &str) -> Option<&str> {
    match value {
        "True" | "true" | "1" | "enabled" | "on" => Some("true"),
        "False" | "false" | "0" | "disabled" | "off" => Some("false"),
        _ => None,
    }
}

/// The same of a flag that turns something off.
pub(super) fn reversed(value: &str) -> Option<&str> {
    truth(value).map(|word| if word == "true" { "false" } else { "true" })
}

/// Formats of the cache by the names that Python engines have for them; `auto` is the model's own.
pub(super) fn kv_format(value: &str) -> Option<&str> {
    let name = value.strip_prefix("torch.").unwrap_or(value);
    match name {
        _ if FP8_NAMES.contains(&name) => Some("fp8"),
        "bfloat16" => Some("bf16"),
        "float16" | "half" => Some("f16"),
        "float32" | "float" => Some("f32"),
        _ => plain(name),
    }
}

/// The version that begins in `text`: digits and dots, with what follows a digit.
pub(super) fn version(text: &str) -> Option<String> {
    let text = text.trim_start().trim_start_matches('v');
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_')))
        .unwrap_or(text.len());
    let version = text[..end].trim_end_matches(['.', '-']);
    (version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.')).then(|| version.to_owned())
}
