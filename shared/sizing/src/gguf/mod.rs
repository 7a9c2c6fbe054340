//! Reads the metadata of a GGUF file by its keys, never by the model's name.
//!
//! Only the first bytes of a file are looked at; tensor data is never asked for. The caller hands over a prefix and is
//! told how much more is needed, so that a file on disk, a pipe and a browser's `File` are read alike.

mod class_rules;
mod irrelevant;
mod keys;
mod known_classes;
mod layers;
mod shapes;
mod wire;

use crate::architecture::{Architecture, EngineHints, LayerDraft, ModelFacts, PlainHeads};
use crate::config::{StatedLengths, StatedWeights, Unknown, report_doubt, report_unread};
use crate::fact::Source;
use crate::format::StateFormat;
use crate::mixer::Mixer;
use crate::settings::Chosen;
use crate::warning::Warning;
use crate::{Error, Result};
use keys::Keys;

/// A good first prefix: it holds the keys of most files up to their vocabulary.
const FIRST_PREFIX: u64 = 64 << 10;

/// Characters of a name that are shown.
const LONGEST_NAME: usize = 80;

/// What a prefix of a file gave.
#[derive(Clone, Debug)]
pub enum GgufRead {
    /// All metadata was there.
    Architecture(Box<Architecture>),
    /// The metadata goes on: call again with the file's first `bytes` bytes, or with the whole file where it has fewer.
    NeedsPrefix {
        /// Bytes from the file's start; always more than were given.
        bytes: u64,
    },
}

/// Whether a file that begins with these bytes says that it is a GGUF file, whatever its name.
pub fn is_gguf(start: &[u8]) -> bool {
    start.starts_with(wire::MAGIC)
}

/// Reads the architecture from the first bytes of a GGUF file. `file_bytes` is the length of the whole file; `None`
/// where it is not known yet, as for a pipe.
///
/// # Errors
///
/// A file that is no GGUF, of an unknown version or byte order, cut short, or with lengths beyond the file; a missing key
/// without a defined default; values that contradict each other; a mixer that is not modelled. The error names the key
/// and its byte offset. [`Unknown::Refuse`] also refuses keys that could change the state and that no rule knows.
pub fn read_gguf(prefix: &[u8], file_bytes: Option<u64>, unknown: Unknown) -> Result<GgufRead> {
    match wire::parse(prefix, file_bytes) {
        Ok(metadata) => {
            let architecture = architecture(&Keys::new(&metadata)?, unknown)?;
            Ok(GgufRead::Architecture(Box::new(architecture)))
        }
        Err(wire::Stop::Bad(error)) => Err(error),
        Err(wire::Stop::Needs(least)) => {
            let doubled = FIRST_PREFIX.max(2 * prefix.len() as u64).max(least);
            Ok(GgufRead::NeedsPrefix { bytes: file_bytes.map_or(doubled, |length| doubled.min(length)) })
        }
    }
}

fn architecture(keys: &Keys<'_>, unknown: Unknown) -> Result<Architecture> {
    refuse_other_files(keys)?;
    let mut warnings = Vec::new();
    if let Some(doubt) = unknown_class(keys) {
        report_doubt(doubt, unknown, &mut warnings)?;
    }
    let mut drafts = layers::read_layers(keys, &mut warnings)?;
    let loops = layers::repeat(keys, &mut drafts, &mut warnings)?;
    warnings.dedup();
    let recurrent_dtype = recurrent_dtype(&drafts, &mut warnings);
    let rule =
        "f16, 2 bytes a value: a GGUF names the formats of weights only; K/V formats are an engine's setting";
    let dtype = Source::default("dtype", rule);
    let facts = ModelFacts {
        name: shown_name(keys),
        layers_field: keys.name("block_count"),
        count_field: keys.name("block_count"),
        dtype: Chosen { format: StateFormat::F16, source: dtype },
        recurrent_dtype,
        checkpoint_kv: None,
        checkpoint_weights: StatedWeights::default(),
        max_context: keys.count("context_length")?,
        lengths: StatedLengths::default(),
        model_type: Some(keys.architecture().to_owned()),
        architectures: Vec::new(),
        plain_heads: PlainHeads {
            hidden: keys.count("embedding_length")?,
            query_heads: keys.count("attention.head_count").ok().flatten(),
            kv_heads: keys.count("attention.head_count_kv").ok().flatten(),
        },
        encoder_layers: None,
        mamba_chunk: None,
        experts: keys.count("expert_count")?,
        loops,
        hints: EngineHints {
            latents_as_heads: keys.has("attention.kv_lora_rank") && !keys.has("attention.key_length_mla"),
            ..EngineHints::default()
        },
        rope_scaling: None,
    };
    // What keeps nothing keeps nothing whatever other keys say.
    if drafts.iter().any(|draft| !draft.mixers.is_empty()) {
        report_unread(keys.unread(), unknown, &mut warnings)?;
    }
    Ok(Architecture::new(drafts, facts, warnings))
}

/// A class may keep state that the keys of other classes do not tell.
fn unknown_class(keys: &Keys<'_>) -> Option<Warning> {
    let class: String = keys.architecture().chars().take(LONGEST_NAME).collect();
    let what = format!(
        "no rule knows the class {class:?}; it is sized by its keys alone, which holds only if it keeps nothing that they do \
         not tell"
    );
    (!known_classes::is_known(keys.architecture())).then(|| Warning::new("general.architecture", what))
}

/// `general.name`, in one line of a length that can be shown.
fn shown_name(keys: &Keys<'_>) -> Option<String> {
    let words = keys.general_text("general.name")?.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let name: String = words.join(" ").chars().take(LONGEST_NAME).collect();
    (!name.is_empty()).then_some(name)
}

/// The architecture of files that hold an encoder and what hands its output to a language model.
const PROJECTOR: &str = "clip";

/// Projectors, adapters, and all but the first of several files.
fn refuse_other_files(keys: &Keys<'_>) -> Result<()> {
    if let Some(part) = keys.general_number("split.no")?.filter(|part| *part > 0) {
        let parts = keys.general_number("split.count")?.unwrap_or(0);
        return Err(Error::field(
            "split.no",
            format!("this is part {} of {parts}; the first part holds the metadata", part.saturating_add(1)),
        ));
    }
    if keys.architecture() == PROJECTOR {
        let what = format!(
            "{PROJECTOR:?} is a projector of pictures or sound (mmproj), which keeps no cache; give the GGUF file of the \
             language model beside it"
        );
        return Err(Error::field("general.architecture", what));
    }
    match keys.general_text("general.type") {
        None | Some("model") => Ok(()),
        Some(other) => Err(Error::field(
            "general.type",
            format!("{other:?} is no language model; give the GGUF file of the model itself"),
        )),
    }
}

/// A GGUF names no format for recurrent state. The engine that reads such files keeps f32, so less would err low.
fn recurrent_dtype(drafts: &[LayerDraft], warnings: &mut Vec<Warning>) -> Option<Chosen<StateFormat>> {
    let is_recurrent = |mixer: &Mixer| matches!(mixer, Mixer::Recurrent(_));
    if !drafts.iter().any(|draft| draft.mixers.iter().any(is_recurrent)) {
        return None;
    }
    warnings.push(Warning::new(
        "state_dtype",
        "a GGUF names none; recurrent state is counted in f32, as llama.cpp keeps it, and convolution state in 2 bytes, \
         which llama.cpp keeps in f32 too",
    ));
    let rule = "f32, as llama.cpp keeps recurrent state";
    Some(Chosen { format: StateFormat::F32, source: Source::default("state_dtype", rule) })
}
