//! Start-up logs of engines, decoded: what each line about memory means, recomputed, and where lines contradict.
//!
//! Text in, [`DecodedLog`] out. A figure of the log is good to half its last printed digit, and so is every printed
//! input of a recomputed one; only what differs beyond both is called a difference. Lines that are not known are
//! skipped.
//!
//! ```
//! let log = "INFO GPU KV cache size: 290,864 tokens\n\
//!            INFO Maximum concurrency for 32,768 tokens per request: 33.04x\n";
//! let decoded = kvscope_sizing::log::decode_log(log, None)?;
//! assert!(decoded.contradictions[0].what.contains("the concurrency line is the capacity"));
//! # Ok::<(), kvscope_sizing::Error>(())
//! ```

mod cause;
mod figures;
mod grams;
mod known_model;
mod launch;
mod line;
mod llama_cpp;
mod printed;
mod repeated;
mod sglang;
mod stated;
mod topic;
mod vllm;
mod words;

pub use launch::ReadSetting;
pub use printed::{Printed, Range};
pub use words::log_text;

use serde::Serialize;

use crate::engine::{Engine, EngineKind};
use crate::settings::Settings;
use crate::warning::Warning;
use crate::{Architecture, Error, Result, sort_short};
use figures::{Figure, Figures};
use launch::Launch;
use line::Line;

/// Bytes of the largest log that is read: start-up logs have some thousand lines; a file beyond this is something else.
pub const LARGEST_LOG_BYTES: u64 = 64 << 20;

/// No start has as many; a file beyond it is no start-up log.
const MOST_FIGURES: usize = 5000;

/// A model that the caller knows the log to be about.
#[derive(Clone, Copy, Debug)]
pub struct GivenModel<'a> {
    /// What to call it.
    pub label: &'a str,
    /// Its layers.
    pub architecture: &'a Architecture,
}

/// What a log says.
#[derive(Clone, Debug, Serialize)]
pub struct DecodedLog {
    /// What the file's first lines say of it behind a `#`, such as where its figures come from. They are not decoded.
    pub note: Option<String>,
    /// The engine, at the version whose rules are taken.
    pub engine: Engine,
    /// Where that version is from; none where the newest rules are taken, or rules do not go by version.
    pub version_from: Option<VersionFrom>,
    /// The model.
    pub model: LogModel,
    /// Settings that the log states, by the names of the engine profiles.
    pub settings: Settings,
    /// The same with the lines that they stand in.
    pub read_settings: Vec<ReadSetting>,
    /// The figures about memory, in the order of the log.
    pub figures: Vec<LogFigure>,
    /// Lines that cannot both be right as they read.
    pub contradictions: Vec<Contradiction>,
    /// What the capacity is, in one sentence.
    pub capacity: Option<String>,
    /// What was assumed or left out.
    pub warnings: Vec<Warning>,
}

/// Where the version of a log's engine is from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionFrom {
    /// The log names it.
    Log,
    /// The log names none, and its lines are as this version, the newest of several, prints them.
    Lines,
}

/// The model of a log.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct LogModel {
    /// The name in the log.
    pub named: Option<String>,
    /// The model that the figures were recomputed for: what the caller gave, else the catalogue entry of that name.
    pub recomputed_as: Option<String>,
}

/// One figure of the log.
#[derive(Clone, Debug, Serialize)]
pub struct LogFigure {
    /// Number of the line, from 1; the first of equal ones.
    pub line: usize,
    /// Ranks that print it: `TP0`, `DP1 TP0`; empty where the log does not tell ranks apart.
    pub ranks: Vec<String>,
    /// How often it stands in the log.
    pub times: usize,
    /// What it is: a quantity of the engine profiles where there is one.
    pub name: &'static str,
    /// The excerpt.
    pub says: String,
    /// What it means.
    pub means: String,
    /// The figure as printed.
    pub printed: Printed,
    /// What it comes to by the engine's rules.
    pub recomputed: Option<Range>,
    /// The recomputed figure less the printed one, where the two differ beyond what printing rounds.
    pub difference: Option<String>,
    /// Why it could not be recomputed although its model is known.
    pub not_computed: Option<String>,
}

/// Lines that contradict one another.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Contradiction {
    /// Their numbers.
    pub lines: Vec<usize>,
    /// What they say and which holds.
    pub what: String,
    /// Whether the engine is known to print such lines; else something is wrong.
    pub explained: bool,
}

/// What is read of a log as the log of one engine.
#[derive(Clone, Debug, Default)]
struct Reading {
    launch: Launch,
    figures: Figures,
    /// vLLM: requests of the longest length that the pools hold, recomputed where no line says it.
    concurrencies: Vec<Range>,
    /// Ranks whose engine began to start.
    started: Vec<String>,
    /// vLLM: the line that refuses a start for which no memory is left.
    refused: Option<usize>,
    /// What recomputing found to contradict.
    doubts: Vec<Contradiction>,
    /// llama.cpp: what the next cache is of.
    next_cache: llama_cpp::CacheOf,
    /// llama.cpp: the caches of cells for every token.
    whole_caches: Vec<llama_cpp::WholeCache>,
    /// llama.cpp: what devices hold of them.
    shares: llama_cpp::Shares,
    /// llama.cpp: a second model was loaded, such as a draft.
    other_model: bool,
}

impl Reading {
    /// A start of an engine that started before makes what was read of it the past.
    fn starts_again(&mut self, line: &Line, end: usize) {
        let rank = line.rank(end);
        if !self.started.contains(&rank) {
            self.started.push(rank);
            return;
        }
        if self.figures.all.is_empty() && self.figures.unreadable.is_empty() {
            return;
        }
        self.figures = Figures::default();
        self.refused = None;
        self.launch.stated.start_again();
        self.started = vec![rank];
        self.launch.warn(
            "log",
            format!("a new start begins at line {}; figures before it are left out", line.number),
        );
    }
}

/// One engine's way to read, check and recompute.
struct Decoder {
    kind: EngineKind,
    read: fn(&Line, &mut Reading),
    contradictions: fn(&Engine, Option<&Architecture>, &mut Reading) -> Vec<Contradiction>,
    recompute: fn(&Engine, &Architecture, &mut Reading) -> Result<()>,
    capacity: fn(&Reading) -> Option<String>,
    /// The version whose rules apply, where a log names none and the shape of its lines tells older ones.
    version_of_lines: fn(&Reading, Option<&Architecture>) -> Option<&'static str>,
}

const DECODERS: [Decoder; 3] = [
    Decoder {
        kind: EngineKind::Vllm,
        read: vllm::read,
        contradictions: vllm::contradictions,
        recompute: vllm::recompute,
        capacity: vllm::capacity,
        version_of_lines: vllm::version_of_lines,
    },
    Decoder {
        kind: EngineKind::SgLang,
        read: sglang::read,
        contradictions: sglang::contradictions,
        recompute: sglang::recompute,
        capacity: sglang::capacity,
        version_of_lines: |_, _| None,
    },
    Decoder {
        kind: EngineKind::LlamaCpp,
        read: llama_cpp::read,
        contradictions: llama_cpp::contradictions,
        recompute: llama_cpp::recompute,
        capacity: llama_cpp::capacity,
        version_of_lines: |_, _| None,
    },
];

impl DecodedLog {
    /// Whether a recomputed figure differs, or lines contradict one another without a known reason.
    pub fn has_differences(&self) -> bool {
        self.figures.iter().any(|figure| figure.difference.is_some())
            || self.contradictions.iter().any(|found| !found.explained)
    }
}

/// Decodes a start-up log of vLLM, SGLang or llama.cpp. `model` is taken in place of the one that the log names.
///
/// # Errors
///
/// No line about memory is known, or the model's figures overflow. A model that the settings of the log do not fit is
/// a warning.
pub fn decode_log(text: &str, model: Option<GivenModel<'_>>) -> Result<DecodedLog> {
    let lines = line::lines(text);
    let (note, lines) = note(&lines);
    let mut readings: Vec<(&Decoder, Reading)> = DECODERS
        .iter()
        .map(|decoder| {
            let mut reading = Reading::default();
            for line in lines {
                (decoder.read)(line, &mut reading);
                if reading.figures.all.len() + reading.figures.unreadable.len() > MOST_FIGURES {
                    let what = format!(
                        "more than {MOST_FIGURES} figures; what follows line {} is left out",
                        line.number
                    );
                    reading.launch.warn("log", what);
                    break;
                }
            }
            (decoder, reading)
        })
        .collect();
    // The engine with most figures comes first; of equals, the one that also names itself.
    let known = |reading: &Reading| reading.figures.all.len() + reading.figures.unreadable.len();
    let weight = |reading: &Reading| (known(reading), reading.launch.seen);
    sort_short(&mut readings, |(_, a), (_, b)| weight(a) < weight(b));
    let others: Vec<&str> = readings[1..]
        .iter()
        .filter(|(_, reading)| !reading.figures.all.is_empty())
        .map(|(other, _)| other.kind.name())
        .collect();
    let others = others.join(" and ");
    let (decoder, mut reading) = readings.swap_remove(0);
    if reading.figures.all.is_empty() {
        return Err(nothing_known(decoder, &reading));
    }
    for found in std::mem::take(&mut reading.figures.unreadable) {
        reading.launch.warn(found.topic.name(), format!("{}, so it is left out", found.words()));
        reading.figures.unreadable.push(found);
    }
    if !others.is_empty() {
        reading.launch.warn("log", format!("it also holds lines of {others}, which are left out"));
    }
    if let Some(line) = lines.iter().find(|line| line.is_shortened) {
        let what = format!("line {} is too long; of such lines the begin alone is read", line.number);
        reading.launch.warn("log", what);
    }
    reading.figures.sort();
    let named = reading.launch.model.clone();
    let mut recomputed_as = None;
    let entry = named.as_deref().filter(|_| model.is_none()).and_then(known_model::find);
    let own = entry.map(crate::CatalogueEntry::architecture).transpose()?;
    let known = match (&model, entry, &own) {
        (Some(given), ..) => Some((given.label, given.architecture)),
        (None, Some(entry), Some(architecture)) => Some((entry.id.as_str(), architecture)),
        _ => None,
    };
    let architecture = known.map(|(_, architecture)| architecture);
    let (engine, version_from) = engine(decoder, architecture, &mut reading);
    let mut contradictions = reading.launch.stated.contradictions();
    contradictions.extend(repeated::contradictions(&reading));
    contradictions.extend((decoder.contradictions)(&engine, architecture, &mut reading));
    if let Some((label, architecture)) = known {
        let before = reading.clone();
        match (decoder.recompute)(&engine, architecture, &mut reading) {
            Ok(()) => {
                recomputed_as = Some(label.to_owned());
                let cause = cause::of_differences(decoder, &engine, architecture, &before, &reading);
                reading.launch.warnings.extend(cause);
            }
            Err(error) => reading.launch.warn("model", format!("{label} is not recomputed: {error}")),
        }
    } else {
        let who = named
            .as_ref()
            .map_or("the log names no model".to_owned(), |name| format!("{name:?} is not in the catalogue"));
        reading.launch.warn("model", format!("{who}, so nothing is recomputed"));
    }
    contradictions.append(&mut reading.doubts);
    Ok(DecodedLog {
        capacity: (decoder.capacity)(&reading),
        note,
        engine,
        version_from,
        model: LogModel { named, recomputed_as },
        figures: reading.figures.all.into_iter().map(LogFigure::from).collect(),
        settings: reading.launch.settings,
        read_settings: reading.launch.read,
        contradictions,
        warnings: reading.launch.warnings,
    })
}

/// The engine at the version of the log, or at the newest that prints such lines. Builds of an untagged tree count from 0.1
/// and say nothing.
fn engine(
    decoder: &Decoder,
    architecture: Option<&Architecture>,
    reading: &mut Reading,
) -> (Engine, Option<VersionFrom>) {
    let by_lines = (decoder.version_of_lines)(reading, architecture);
    let (kind, launch) = (decoder.kind, &mut reading.launch);
    let untagged = launch.version.as_ref().is_some_and(|version| version.starts_with("0.1.dev"));
    let named = launch.version.as_ref().filter(|_| !untagged && kind != EngineKind::LlamaCpp);
    let at = |version: &str| -> Option<Engine> { format!("{}@{version}", kind.name()).parse().ok() };
    if let Some(engine) = named.and_then(|version| at(version)) {
        return (engine, Some(VersionFrom::Log));
    }
    if kind == EngineKind::LlamaCpp {
        return (Engine::newest(kind), None);
    }
    let why = if untagged { "its version is that of an untagged build" } else { "the log names no version" };
    if untagged {
        launch.version = None;
    }
    let (engine, from, taken) = match by_lines.and_then(|version| Some((version, at(version)?))) {
        Some((version, engine)) => (
            engine,
            Some(VersionFrom::Lines),
            format!(
                "the rules of {version} are taken, the newest whose lines of tokens and requests differ as here"
            ),
        ),
        None => (Engine::newest(kind), None, "the newest known rules are taken".to_owned()),
    };
    launch.warn("engine", format!("{why}; {taken}"));
    (engine, from)
}

/// The comment that a log begins with, and the lines behind it.
fn note(lines: &[Line]) -> (Option<String>, &[Line]) {
    let length = lines.iter().take_while(|line| line.text.starts_with("# ")).count();
    let (comment, rest) = lines.split_at(length);
    let words: Vec<&str> = comment.iter().map(|line| line.text.trim_start_matches('#').trim()).collect();
    (Some(words.join(" ")).filter(|words| !words.is_empty()), rest)
}

fn nothing_known(decoder: &Decoder, reading: &Reading) -> Error {
    if let Some(line) = reading.refused {
        return Error::syntax(format!(
            "line {line} refuses the start, since no memory is left for the cache"
        ));
    }
    if let Some(found) = reading.figures.unreadable.first() {
        return Error::syntax(format!("{}, and no other line about memory is known", found.words()));
    }
    if reading.launch.seen {
        let what = format!(
            "the log is of {}, but holds none of its lines about memory; give it from the start of the engine on",
            decoder.kind.name()
        );
        return Error::syntax(what);
    }
    Error::syntax(
        "no line is known; expected the start-up log of vLLM, SGLang or llama.cpp, with its lines about memory",
    )
}

impl From<Figure> for LogFigure {
    fn from(figure: Figure) -> Self {
        let difference = figure.difference();
        Self {
            line: figure.line,
            ranks: figure.ranks,
            times: figure.times,
            name: figure.topic.name(),
            means: figure.means.unwrap_or_else(|| figure.topic.means().to_owned()),
            says: figure.says,
            printed: figure.printed,
            recomputed: figure.recomputed,
            difference,
            not_computed: figure.not_computed,
        }
    }
}
