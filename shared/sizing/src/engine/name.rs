//! Names and versions of engines: `logical`, `vllm@0.33`, `sglang@0.5.23`, `llama.cpp`, `trtllm`, `transformers`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::settings::Settings;
use crate::warning::Warning;
use crate::{Error, Result};

/// An engine, at the newest known version or at one that was asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Engine {
    kind: EngineKind,
    version: Option<Version>,
    asked: Option<String>,
}

/// The engines that have a profile.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EngineKind {
    /// Dense bytes, no paging.
    Logical,
    /// vLLM.
    Vllm,
    /// SGLang.
    SgLang,
    /// llama.cpp.
    LlamaCpp,
    /// TensorRT-LLM.
    TrtLlm,
    /// transformers: dense tensors.
    Transformers,
}

/// The leading parts of a version: `0.33` or `0.33.0`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Version(Vec<u32>);

impl EngineKind {
    /// Every engine.
    pub const ALL: [Self; 6] =
        [Self::Logical, Self::Vllm, Self::SgLang, Self::LlamaCpp, Self::TrtLlm, Self::Transformers];

    /// The name without a version.
    pub fn name(self) -> &'static str {
        match self {
            Self::Logical => "logical",
            Self::Vllm => "vllm",
            Self::SgLang => "sglang",
            Self::LlamaCpp => "llama.cpp",
            Self::TrtLlm => "trtllm",
            Self::Transformers => "transformers",
        }
    }

    /// The newest version whose rules are known; `None` where rules do not go by version.
    pub fn newest(self) -> Option<&'static [u32]> {
        match self {
            Self::Vllm => Some(&[0, 33]),
            Self::SgLang => Some(&[0, 5, 23]),
            Self::Transformers => Some(&[5, 24]),
            Self::Logical | Self::LlamaCpp | Self::TrtLlm => None,
        }
    }

    /// The oldest version whose rules are known: vLLM's sources were read from 0.11 on; SGLang's pools of 0.5.3 are
    /// settled by a public report of its memory; transformers' were read from 4.57 on. Rules do not change between versions
    /// before those.
    fn oldest(self) -> Option<&'static [u32]> {
        match self {
            Self::Vllm => Some(&[0, 11]),
            Self::SgLang => Some(&[0, 5, 3]),
            Self::Transformers => Some(&[4, 57]),
            Self::Logical | Self::LlamaCpp | Self::TrtLlm => None,
        }
    }
}

impl Engine {
    /// An engine at its newest known version.
    pub fn newest(kind: EngineKind) -> Self {
        Self { kind, version: None, asked: None }
    }

    /// Which engine it is.
    pub fn kind(&self) -> EngineKind {
        self.kind
    }

    /// Whether logical sizing answers by itself: without ranks and pools, which only a profile accounts for.
    pub fn is_dense(&self, settings: &Settings) -> bool {
        self.kind == EngineKind::Logical && !settings.names_an_engine()
    }

    /// Whether the rules of `parts` and later apply. Leading parts decide: 0.33 is as new as 0.33.0. Without a known
    /// version the newest rules apply.
    pub fn at_least(&self, parts: &[u32]) -> bool {
        self.version.as_ref().is_none_or(|version| version.at_least(parts))
    }

    /// Says so where no rules are known for the version asked for, and whose are taken: for an older one the oldest, else
    /// the newest.
    pub fn warning(&self) -> Option<Warning> {
        let asked = self.asked.as_ref()?;
        let (taken, which) = self.in_place_of_asked()?;
        let taken = shown(taken);
        let message = format!(
            "no rules are known for {} {asked}; those of {taken}, the {which} known, are taken",
            self.kind.name()
        );
        Some(Warning::new("engine", message))
    }
}

impl Engine {
    /// The known version that stands for an unknown one, and which it is: where none was asked for, the newest.
    fn in_place_of_asked(&self) -> Option<(&'static [u32], &'static str)> {
        let older = |version: &Version| self.kind.oldest().is_some_and(|oldest| newer(oldest, &version.0));
        match &self.version {
            None => Some((self.kind.newest()?, "newest")),
            Some(version) if older(version) => Some((self.kind.oldest()?, "oldest")),
            Some(_) => None,
        }
    }

    /// The engine with the version whose rules answer: the one asked for, or a known one in its place. `None` where rules do not
    /// go by version.
    pub fn rules(&self) -> Option<String> {
        self.kind.newest()?;
        Some(match self.in_place_of_asked() {
            Some((taken, _)) => format!("{}@{}", self.kind.name(), shown(taken)),
            None => self.to_string(),
        })
    }
}

/// Parts of a version as it is written.
pub(super) fn shown(version: &[u32]) -> String {
    version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

impl Version {
    fn at_least(&self, parts: &[u32]) -> bool {
        let differing = self.0.iter().zip(parts).find(|(own, other)| own != other);
        differing.is_none_or(|(own, other)| own > other)
    }

    /// The leading numbers of a text: `0.5.3.post1` is 0.5.3, `0.33rc1` is 0.33. One number alone is a version of no
    /// engine: 0 has been the first of each.
    fn leading(text: &str) -> Option<Self> {
        let mut parts: Vec<u32> = Vec::new();
        for part in text.split('.') {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let Ok(number) = part[..digits].parse() else { break };
            parts.push(number);
            if digits < part.len() {
                break;
            }
        }
        (parts.len() > 1).then_some(Self(parts))
    }
}

/// `vllm`, `vllm@0.33`, `sglang@0.5.23`, … An unknown version is accepted and takes the nearest known rules; see
/// [`Engine::warning`]. An engine whose rules do not go by version refuses one.
impl FromStr for Engine {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, asked) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version.trim())),
            None => (text, None),
        };
        let name = name.trim();
        let kind = EngineKind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        let Some(kind) = kind else {
            let known: Vec<&str> = EngineKind::ALL.into_iter().map(EngineKind::name).collect();
            let what = format!(
                "unknown engine {name:?}; known: {} (vllm, sglang and transformers also with @version)",
                known.join(", ")
            );
            return Err(Error::setting("engine", what));
        };
        if asked == Some("") {
            return Err(Error::setting("engine", format!("{text:?} has no version after @")));
        }
        let is_of_version = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
        if let Some(asked) = asked.filter(|asked| !asked.chars().all(is_of_version)) {
            let what = format!("{asked:?} is no version; expected {}@0.5 or the like", kind.name());
            return Err(Error::setting("engine", what));
        }
        if let Some(asked) = asked.filter(|_| kind.newest().is_none()) {
            let what = format!("{} has no rules that go by version; leave out @{asked}", kind.name());
            return Err(Error::setting("engine", what));
        }
        let version = asked.and_then(|asked| Version::leading(asked.trim_start_matches('v')));
        let known = version.filter(|version| kind.newest().is_some_and(|newest| !newer(&version.0, newest)));
        Ok(Self { kind, version: known, asked: asked.map(str::to_owned) })
    }
}

/// Whether `version` is newer than `newest` in their common leading parts.
fn newer(version: &[u32], newest: &[u32]) -> bool {
    version.iter().zip(newest).find(|(own, other)| own != other).is_some_and(|(own, other)| own > other)
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.asked {
            Some(version) => write!(f, "{}@{version}", self.kind.name()),
            None => f.write_str(self.kind.name()),
        }
    }
}

impl Serialize for Engine {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_matches_by_its_leading_parts() {
        let engine = |text: &str| text.parse::<Engine>().unwrap();
        for text in ["vllm@0.33", "vllm@0.33.0", "vllm@0.33.1", "vllm", "vllm@0.33rc1", "vllm@0.33+cu129"] {
            assert!(engine(text).at_least(&[0, 33]), "{text}");
            assert_eq!(engine(text).warning(), None, "{text}");
        }
        assert!(!engine("vllm@0.20").at_least(&[0, 21]));
        assert!(!engine("vllm@0.6").at_least(&[0, 21]));
        assert!(engine("vllm@0.27.1").at_least(&[0, 26]));
        assert!(!engine("sglang@0.5.3.post1").at_least(&[0, 5, 23]));
    }

    #[test]
    fn an_unknown_version_takes_the_newest_rules_and_says_so() {
        for text in ["vllm@0.99", "vllm@1.0", "vllm@nightly", "sglang@0.6", "vllm@0"] {
            let engine: Engine = text.parse().unwrap();
            assert!(engine.at_least(&[0, 33]) || engine.kind() == EngineKind::SgLang, "{text}");
            assert!(engine.warning().unwrap().message.contains("are taken"), "{text}");
            assert_eq!(engine.to_string(), text);
        }
    }

    #[test]
    fn a_version_before_all_known_ones_takes_the_oldest_rules_and_says_so() {
        for (text, taken) in [
            ("vllm@0.6", "those of 0.11, the oldest"),
            ("vllm@0.10.2", "those of 0.11, the oldest"),
            ("sglang@0.4", "those of 0.5.3, the oldest"),
            ("sglang@0.5.2", "those of 0.5.3, the oldest"),
        ] {
            let engine: Engine = text.parse().unwrap();
            assert!(!engine.at_least(&[0, 11]), "{text}");
            let warning = engine.warning().unwrap();
            assert!(warning.message.contains(taken), "{warning}");
        }
        for known in ["vllm@0.11", "vllm@0.11.0.post1", "sglang@0.5", "sglang@0.5.3.post1"] {
            assert_eq!(known.parse::<Engine>().unwrap().warning(), None, "{known}");
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["vllm@0.33@1", "vllm@0.33 1", "sglang@0.5/23", "vllm@0,33"] {
            let error = text.parse::<Engine>().unwrap_err().to_string();
            assert!(error.contains("is no version"), "{text}: {error}");
        }
    }

    #[test]
    fn an_engine_without_versions_refuses_one() {
        for kind in EngineKind::ALL.into_iter().filter(|kind| kind.newest().is_none()) {
            let error = format!("{}@9", kind.name()).parse::<Engine>().unwrap_err().to_string();
            assert!(error.starts_with("engine: ") && error.contains("leave out @9"), "{error}");
            assert!(kind.name().parse::<Engine>().is_ok());
        }
    }

    #[test]
    fn an_unknown_engine_lists_the_known_ones() {
        let error = "ollama@1".parse::<Engine>().unwrap_err().to_string();
        assert!(error.contains("logical, vllm, sglang, llama.cpp, trtllm, transformers"), "{error}");
        assert!("vllm@".parse::<Engine>().is_err());
    }
}
