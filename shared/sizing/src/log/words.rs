//! What a decoded log says, in the words of the command line and of the page alike.

use super::{DecodedLog, LogFigure, VersionFrom};
use crate::state::counted;

/// Ranks that are named one by one.
const NAMED_RANKS: usize = 4;
/// Stands where there is no figure.
const NOTHING: &str = "–";

impl DecodedLog {
    /// Engine, version and model: `vllm@0.19.0, model Qwen/Qwen3.5-27B, recomputed as qwen3.5-27b`. A version that the log
    /// does not name is said to be inferred.
    pub fn title(&self) -> String {
        let model = match (&self.model.named, &self.model.recomputed_as) {
            (Some(named), Some(known)) => format!(", model {named}, recomputed as {known}"),
            (Some(named), None) => format!(", model {named}, not recomputed"),
            (None, Some(known)) => format!(", recomputed as {known}"),
            (None, None) => String::new(),
        };
        let inferred = match self.version_from {
            Some(VersionFrom::Lines) => " (version inferred from its lines, the log names none)",
            Some(VersionFrom::Log) | None => "",
        };
        format!("{}{inferred}{model}", self.engine)
    }

    /// The settings that the log states: `tp 2, max_model_len 32768`; empty where it states none.
    pub fn settings_words(&self) -> String {
        let words = self.read_settings.iter().map(|setting| format!("{} {}", setting.name, setting.value));
        words.collect::<Vec<_>>().join(", ")
    }

    /// What the capacity is, in one sentence.
    pub fn capacity_words(&self) -> &str {
        self.capacity.as_deref().unwrap_or("The log does not say what the capacity is.")
    }

    /// What does not agree, in one line; none where [`Self::has_differences`] is false.
    pub fn differences_words(&self) -> Option<String> {
        if !self.has_differences() {
            return None;
        }
        let count =
            |of: fn(&LogFigure) -> bool| self.figures.iter().filter(|figure| of(figure)).count() as u64;
        let differing = count(|figure| figure.difference.is_some());
        let recomputed = count(|figure| figure.recomputed.is_some());
        let open = self.contradictions.iter().filter(|found| !found.explained).count() as u64;
        let figures = (differing > 0).then(|| {
            let verb = if differing == 1 { "differs" } else { "differ" };
            format!(
                "{differing} of {} {verb}",
                counted(recomputed, "recomputed figure", "recomputed figures")
            )
        });
        let contradictions = (open > 0).then(|| {
            let verb = if open == 1 { "has" } else { "have" };
            format!("{} {verb} no known reason", counted(open, "contradiction", "contradictions"))
        });
        Some(figures.into_iter().chain(contradictions).collect::<Vec<_>>().join(", and "))
    }
}

impl LogFigure {
    /// The line and the ranks that print it: `14 (TP0, TP1)`.
    pub fn place(&self) -> String {
        match self.ranks.len() {
            0 => self.line.to_string(),
            count if count > NAMED_RANKS => format!("{} ({count} ranks)", self.line),
            _ => format!("{} ({})", self.line, self.ranks.join(", ")),
        }
    }

    /// The recomputed figure, or why there is none.
    pub fn recomputed_words(&self) -> String {
        match (self.recomputed, &self.not_computed) {
            (Some(range), _) => self.printed.show(range),
            (None, Some(why)) => why.clone(),
            (None, None) => NOTHING.to_owned(),
        }
    }

    /// The recomputed figure less the printed one.
    pub fn difference_words(&self) -> &str {
        match (&self.difference, self.recomputed) {
            (Some(difference), _) => difference,
            (None, Some(_)) => "none",
            (None, None) => NOTHING,
        }
    }
}

/// The text of a log file, whatever its encoding: what is not UTF-8 is replaced, and the UTF-16 of a Windows redirection
/// is read.
pub fn log_text(bytes: &[u8]) -> String {
    let join: fn([u8; 2]) -> u16 = match bytes.get(..2) {
        Some([0xff, 0xfe]) => u16::from_le_bytes,
        Some([0xfe, 0xff]) => u16::from_be_bytes,
        _ => return String::from_utf8_lossy(bytes).into_owned(),
    };
    let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| join([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_utf_16_is_that_in_utf_8() {
        let text = "GPU KV cache size: 290,864 tokens ▁\n";
        let mut little = vec![0xff, 0xfe];
        little.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        let mut big = vec![0xfe, 0xff];
        big.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
        for bytes in [text.as_bytes(), &little, &big] {
            assert_eq!(log_text(bytes), text);
        }
        assert_eq!(log_text(b"\xff\x80 a"), "\u{fffd}\u{fffd} a");
    }
}
