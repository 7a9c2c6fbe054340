//! What a MODEL argument names: a catalogue id, a config or GGUF file, a folder that holds one, or standard input.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use kvscope_sizing::plan::Subject;
use kvscope_sizing::{
    Architecture, CatalogueEntry, ErrorKind, GgufRead, Settings, StateModel, Unknown, find_entry, first_part,
    is_gguf, is_gguf_name, model_file, read_config_and_value, read_gguf,
};

use serde_json::Value;

use crate::failure::Failure;
use crate::input::{Files, reason, standard_input};

/// Far more than any config.json; a file beyond it is something else.
const LARGEST_CONFIG: u64 = 64 << 20;

/// A model that was found and read.
#[derive(Debug)]
pub(crate) struct Model {
    /// The catalogue id, or the path as it was given.
    pub(crate) label: String,
    /// What figures show: the label, behind the name that a file has for its model.
    pub(crate) shown: String,
    /// The catalogue entry, where it is one.
    pub(crate) entry: Option<&'static CatalogueEntry>,
    /// Its layers.
    pub(crate) architecture: Architecture,
    /// Its config, where it is none of the catalogue's; a GGUF file has none.
    config: Option<Value>,
}

impl Model {
    /// Finds and reads what `argument` names; fields that no rule knows become warnings.
    pub(crate) fn load(argument: &str) -> Result<Self, Failure> {
        Self::load_checked(argument, Unknown::Warn)
    }

    /// Finds and reads what `argument` names; `unknown` says what becomes of fields that no rule knows.
    pub(crate) fn load_checked(argument: &str, unknown: Unknown) -> Result<Self, Failure> {
        Self::load_from(Files::OfSystem, argument, unknown)
    }

    /// The same where files may be those of a request.
    pub(crate) fn load_from(files: Files<'_>, argument: &str, unknown: Unknown) -> Result<Self, Failure> {
        if let Files::OfRequest(body) = files {
            return match argument {
                "-" => Self::from_stream(files.label("-"), body, Some(body.len() as u64), unknown),
                id => Self::of_catalogue(id, unknown),
            };
        }
        if argument == "-" {
            return Self::from_stream("standard input", standard_input()?, None, unknown);
        }
        let path = Path::new(argument);
        if path.is_dir() {
            return Self::from_file(&model_in(path)?, unknown);
        }
        let named_as_file = || {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            extension.eq_ignore_ascii_case("json") || extension.eq_ignore_ascii_case("gguf")
        };
        if path.exists() || named_as_file() {
            return Self::from_file(path, unknown);
        }
        Self::of_catalogue(argument, unknown)
    }

    fn of_catalogue(argument: &str, unknown: Unknown) -> Result<Self, Failure> {
        let entry = find_entry(argument).map_err(|error| match error.kind() {
            ErrorKind::UnknownModel if argument.contains(['/', '\\']) => {
                Failure::input(format!("{argument}: no such file, and {error}"))
            }
            _ => Failure::input(error),
        })?;
        let architecture = entry
            .architecture_strictly(unknown)
            .map_err(|error| Failure::input(format!("{}: {error}", entry.id)))?;
        let label = entry.id.clone();
        Ok(Self { shown: label.clone(), label, entry: Some(entry), architecture, config: None })
    }

    /// What a plan asks about.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            model: &self.shown,
            architecture: &self.architecture,
            config: self.entry.map(|entry| &entry.config).or(self.config.as_ref()),
            entry: self.entry,
        }
    }

    /// Its state in the formats that `settings` choose.
    pub(crate) fn state(&self, settings: &Settings) -> Result<StateModel, Failure> {
        self.state_in(settings).map_err(|error| self.failure(&error))
    }

    /// The same with an error that does not name the model.
    pub(crate) fn state_in(&self, settings: &Settings) -> kvscope_sizing::Result<StateModel> {
        StateModel::new(&self.architecture, settings)
    }

    /// An error about this model, with its label in front.
    pub(crate) fn failure(&self, error: &kvscope_sizing::Error) -> Failure {
        Failure::input(format!("{}: {error}", self.label))
    }

    fn from_file(path: &Path, unknown: Unknown) -> Result<Self, Failure> {
        let path = first_of_parts(path);
        let shown = path.display().to_string();
        let failed = |error: io::Error| Failure::input(format!("{shown}: {}", reason(&error)));
        let file = File::open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        // Pipes and devices have no length of their own.
        let length = metadata.is_file().then_some(metadata.len());
        Self::from_stream(&shown, file, length, unknown)
    }

    /// Reads a config or the metadata of a GGUF file, by the first bytes of what comes.
    fn from_stream(
        label: &str,
        mut stream: impl Read,
        length: Option<u64>,
        unknown: Unknown,
    ) -> Result<Self, Failure> {
        let mut start = Vec::new();
        read_up_to(&mut stream, 4, &mut start, label)?;
        let (architecture, config) = if is_gguf(&start) {
            (gguf(label, stream, start, length, unknown)?, None)
        } else {
            if is_gguf_name(label) {
                return Err(Failure::input(format!(
                    "{label}: byte 0: not a GGUF file; it does not begin with \"GGUF\""
                )));
            }
            let text = config_text(label, stream, start, length)?;
            let failed = |error| Failure::input(format!("{label}: {error}"));
            let (architecture, config) = read_config_and_value(&text, unknown).map_err(failed)?;
            (architecture, Some(config))
        };
        let label = label.to_owned();
        let shown = architecture.name().map_or_else(|| label.clone(), |name| format!("{name} ({label})"));
        Ok(Self { shown, label, entry: None, architecture, config })
    }
}

/// Reads as much of the file's start as its metadata takes; tensor data stays where it is.
fn gguf(
    label: &str,
    mut stream: impl Read,
    mut prefix: Vec<u8>,
    mut length: Option<u64>,
    unknown: Unknown,
) -> Result<Architecture, Failure> {
    loop {
        let read = read_gguf(&prefix, length, unknown)
            .map_err(|error| Failure::input(format!("{label}: {error}")))?;
        match read {
            GgufRead::Architecture(architecture) => return Ok(*architecture),
            GgufRead::NeedsPrefix { bytes } => {
                read_up_to(&mut stream, bytes, &mut prefix, label)?;
                if (prefix.len() as u64) < bytes {
                    length = Some(prefix.len() as u64);
                }
            }
        }
    }
}

fn config_text(
    label: &str,
    mut stream: impl Read,
    start: Vec<u8>,
    length: Option<u64>,
) -> Result<String, Failure> {
    if let Some(length) = length.filter(|length| *length > LARGEST_CONFIG) {
        return Err(too_large(label, &format!("{length} bytes")));
    }
    let mut bytes = start;
    read_up_to(&mut stream, LARGEST_CONFIG + 1, &mut bytes, label)?;
    if bytes.len() as u64 > LARGEST_CONFIG {
        return Err(too_large(label, "more"));
    }
    String::from_utf8(bytes).map_err(|error| {
        Failure::input(format!(
            "{label}: byte {} is not UTF-8; expected a config.json or a GGUF file",
            error.utf8_error().valid_up_to()
        ))
    })
}

/// Extends `bytes` to `wanted` bytes, or to the end of the stream.
fn read_up_to(stream: &mut impl Read, wanted: u64, bytes: &mut Vec<u8>, label: &str) -> Result<(), Failure> {
    let missing = wanted.saturating_sub(bytes.len() as u64);
    stream
        .take(missing)
        .read_to_end(bytes)
        .map(|_| ())
        .map_err(|error| Failure::input(format!("{label}: {}", reason(&error))))
}

/// The one file of a folder that says what the model is: its config.json, else its GGUF file.
fn model_in(folder: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| Failure::input(format!("{}: {}", folder.display(), reason(&error)));
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // A name that is no text promises nothing.
        let name = path.file_name().and_then(|name| name.to_str()).filter(|_| path.is_file());
        names.extend(name.map(str::to_owned));
    }
    let place =
        model_file(&names).map_err(|error| Failure::input(format!("{}: {error}", folder.display())))?;
    Ok(folder.join(&names[place]))
}

/// The first of the files that a model was split into, where `path` is a later one and the first stands beside it.
fn first_of_parts(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str());
    let first = name.and_then(first_part).map(|first| path.with_file_name(first));
    first.filter(|first| first.is_file()).unwrap_or_else(|| path.to_owned())
}

fn too_large(shown: &str, size: &str) -> Failure {
    Failure::input(format!(
        "{shown}: a config.json has at most {} MiB, this has {size}",
        LARGEST_CONFIG >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dense model of two layers as a GGUF file, without tensors; `extra` are further numbers.
    fn gguf_bytes(extra: &[(&str, u32)]) -> Vec<u8> {
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        let numbers = [
            ("llama.block_count", 2),
            ("llama.embedding_length", 4096),
            ("llama.attention.head_count", 32),
            ("llama.attention.head_count_kv", 8),
        ];
        let mut bytes = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend((1 + numbers.len() as u64 + extra.len() as u64).to_le_bytes());
        text(&mut bytes, "general.architecture");
        bytes.extend(8_u32.to_le_bytes());
        text(&mut bytes, "llama");
        for (key, value) in numbers.iter().chain(extra) {
            text(&mut bytes, key);
            bytes.extend(4_u32.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    /// Two layers of eight heads with 128 values, K and V, two bytes each.
    fn is_the_dense_model(model: &Model) {
        let slope = model.state(&Settings::default()).unwrap().slope(None).unwrap();
        assert_eq!(slope.whole(), Some(2 * 8 * 128 * 2 * 2));
    }

    fn load(path: &Path) -> Result<Model, Failure> {
        Model::load(path.to_str().unwrap())
    }

    #[test]
    fn a_gguf_file_is_known_by_its_magic_and_its_tensors_stay_unread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.bin");
        fs::write(&path, gguf_bytes(&[])).unwrap();
        // Sparse: a reader that went through it would not end in a test's time.
        File::options().write(true).open(&path).unwrap().set_len(100 << 30).unwrap();
        is_the_dense_model(&load(&path).unwrap());
    }

    #[test]
    fn a_gguf_file_is_shown_by_its_name_for_the_model() {
        let mut bytes = gguf_bytes(&[]);
        bytes[16] += 1;
        bytes.extend(12_u64.to_le_bytes());
        bytes.extend(b"general.name");
        bytes.extend(8_u32.to_le_bytes());
        bytes.extend(8_u64.to_le_bytes());
        bytes.extend(b"Qwen3 8B");
        let model = Model::from_stream("q.gguf", &bytes[..], None, Unknown::Warn).unwrap();
        assert_eq!((model.shown.as_str(), model.label.as_str()), ("Qwen3 8B (q.gguf)", "q.gguf"));
        let plain = Model::from_stream("q.gguf", &gguf_bytes(&[])[..], None, Unknown::Warn).unwrap();
        assert_eq!(plain.shown, "q.gguf");
    }

    #[test]
    fn a_pipe_is_read_by_its_first_bytes() {
        let read = |bytes: &[u8]| Model::from_stream("standard input", bytes, None, Unknown::Warn);
        is_the_dense_model(&read(&gguf_bytes(&[])).unwrap());
        let config = r#"{"num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}"#;
        is_the_dense_model(&read(config.as_bytes()).unwrap());
        let whole = gguf_bytes(&[]);
        let cut = read(&whole[..whole.len() - 3]).unwrap_err().to_string();
        assert!(cut.contains("llama.attention.head_count_kv") && cut.contains("cut short"), "{cut}");
        for (bytes, word) in [(&b""[..], "empty"), (b"GGU", "not valid JSON"), (b"\xff\xfe", "UTF-8")] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_folder_gives_its_config_or_its_only_gguf_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(load(folder.path()).unwrap_err().to_string().contains("neither a config.json nor a GGUF"));
        fs::write(at("model-00001-of-00002.gguf"), gguf_bytes(&[("split.no", 0), ("split.count", 2)]))
            .unwrap();
        fs::write(at("model-00002-of-00002.gguf"), gguf_bytes(&[("split.no", 1), ("split.count", 2)]))
            .unwrap();
        is_the_dense_model(&load(folder.path()).unwrap());
        is_the_dense_model(&load(&at("model-00002-of-00002.gguf")).unwrap());
        fs::write(at("other.gguf"), gguf_bytes(&[])).unwrap();
        let several = load(folder.path()).unwrap_err().to_string();
        assert!(several.contains("model-00001-of-00002.gguf, other.gguf"), "{several}");
        fs::write(at("config.json"), r#"{"num_hidden_layers": 1, "num_attention_heads": 1, "head_dim": 1}"#)
            .unwrap();
        assert_eq!(load(folder.path()).unwrap().architecture.layer_count(), 1);
        fs::remove_file(at("model-00001-of-00002.gguf")).unwrap();
        let alone = load(&at("model-00002-of-00002.gguf")).unwrap_err().to_string();
        assert!(alone.contains("part 2 of 2"), "{alone}");
    }

    #[test]
    fn a_name_that_promises_gguf_is_held_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        fs::write(&path, "{}").unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("not a GGUF file"));
    }

    #[test]
    fn strict_reading_refuses_what_plain_reading_doubts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        fs::write(&path, gguf_bytes(&[("llama.attention.memory_heads", 4)])).unwrap();
        let name = path.to_str().unwrap();
        is_the_dense_model(&Model::load_checked(name, Unknown::Warn).unwrap());
        let error = Model::load_checked(name, Unknown::Refuse).unwrap_err().to_string();
        assert!(error.contains("llama.attention.memory_heads"), "{error}");
    }
}
