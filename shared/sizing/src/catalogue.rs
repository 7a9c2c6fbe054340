//! The model versions of `assets/models/`, one file each, built into the binary.

use std::sync::OnceLock;

use serde_json::Value;

use crate::architecture::Architecture;
use crate::config::{Unknown, read_config_object};
use crate::record;
use crate::record::read_record;
use crate::{Error, Result};

/// `(id, file text)` of every catalogue file, sorted by id.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/models.rs"));

/// Ids that a hint names one by one.
const NAMED: usize = 5;

/// What is known of one model version: its config and where that comes from.
#[derive(Clone, Debug)]
pub struct CatalogueEntry {
    /// The id in lower case: `deepseek-v3.2`.
    pub id: String,
    /// The name as published: `DeepSeek-V3.2`.
    pub name: String,
    /// Family within a vendor: `DeepSeek`.
    pub family: String,
    /// Who published it.
    pub vendor: String,
    /// Id of the version before it in its line.
    pub previous: Option<String>,
    /// Month of release, `2025-12`.
    pub released: Option<String>,
    /// Where the config comes from; left out of the page, which shows `confidence`.
    pub source: Vec<String>,
    /// How sure the facts are, in the words of whoever collected them.
    pub confidence: String,
    /// All parameters, as published.
    pub params_total: Option<u64>,
    /// Parameters active for a token, as published.
    pub params_active: Option<u64>,
    /// What to know about the facts; left out of the page.
    pub notes: Option<String>,
    /// Figures published elsewhere for the same quantity, shown beside the computed one.
    pub published: Vec<PublishedFigure>,
    /// The config, with Hugging Face field names.
    pub config: Value,
    /// What the published config says of the types of its checkpoint's weights, where they are not the model's own; apart
    /// from the config, since the same model is also run as bf16.
    pub checkpoint: Option<Value>,
}

/// A figure that somebody published, and why the computed one differs where it does.
#[derive(Clone, Debug)]
pub struct PublishedFigure {
    /// What it states: `2.4 GB at 100K tokens`.
    pub figure: String,
    /// Who published it.
    pub source: String,
    /// How it relates to the computed figure.
    pub remark: String,
}

record!(CatalogueEntry {
    name, family, vendor, previous, released, confidence, params_total, params_active, notes, config, checkpoint;
    or default id, source, published
});
record!(PublishedFigure { figure, source, remark });

impl CatalogueEntry {
    /// Reads the config.
    ///
    /// # Errors
    ///
    /// What [`read_config_object`] reports; the catalogue's tests read all entries.
    pub fn architecture(&self) -> Result<Architecture> {
        self.architecture_strictly(Unknown::Warn)
    }

    /// The same, which says what becomes of fields that no rule knows.
    ///
    /// # Errors
    ///
    /// What [`read_config_object`] reports.
    pub fn architecture_strictly(&self, unknown: Unknown) -> Result<Architecture> {
        let architecture = read_config_object(&self.config, unknown)?;
        Ok(match &self.checkpoint {
            Some(checkpoint) => architecture.published_as(checkpoint),
            None => architecture,
        })
    }
}

/// Every version, sorted by id. Parsed on first use.
pub fn catalogue() -> &'static [CatalogueEntry] {
    static ENTRIES: OnceLock<Vec<CatalogueEntry>> = OnceLock::new();
    ENTRIES.get_or_init(|| FILES.iter().map(|(id, text)| parse(id, text)).collect())
}

/// Finds a version by its id. Case and a vendor prefix (`deepseek-ai/`) do not matter.
///
/// # Errors
///
/// An unknown id; the error names the known ones that begin with it, else the nearest one.
pub fn find_entry(id: &str) -> Result<&'static CatalogueEntry> {
    let wanted = id.rsplit('/').next().unwrap_or(id).to_ascii_lowercase();
    catalogue().iter().find(|entry| entry.id == wanted).ok_or_else(|| Error::unknown_model(id, hint(&wanted)))
}

/// The versions of a family line by line: each after the one that it followed, with how many came before it in its line.
/// Lines, and versions that followed the same one, stand in order of release, unknown months last.
pub fn lineage(family: &str) -> Vec<(&'static CatalogueEntry, usize)> {
    let is_of = |entry: &&CatalogueEntry| entry.family == family;
    let after = |before: Option<&str>| {
        let follows = |entry: &&CatalogueEntry| match entry.previous.as_deref() {
            // A line that began in another family begins here.
            Some(previous) if catalogue().iter().filter(is_of).any(|known| known.id == previous) => {
                Some(previous) == before
            }
            _ => before.is_none(),
        };
        let mut next: Vec<&'static CatalogueEntry> =
            catalogue().iter().filter(is_of).filter(follows).collect();
        let month = |entry: &CatalogueEntry| (entry.released.is_none(), entry.released.clone());
        // The last is taken first.
        crate::sort_short(&mut next, |a, b| month(a) < month(b));
        next
    };
    let mut open: Vec<(&'static CatalogueEntry, usize)> =
        after(None).into_iter().map(|entry| (entry, 0)).collect();
    let mut lines = Vec::new();
    while let Some((entry, depth)) = open.pop() {
        lines.push((entry, depth));
        open.extend(after(Some(&entry.id)).into_iter().map(|next| (next, depth + 1)));
    }
    lines
}

fn hint(wanted: &str) -> String {
    let known = || FILES.iter().map(|(known, _)| *known);
    let begun: Vec<&str> = known().filter(|known| !wanted.is_empty() && known.starts_with(wanted)).collect();
    if !begun.is_empty() {
        let named = begun[..begun.len().min(NAMED)].join(", ");
        let more = match begun.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more, see `kvscope models`"),
        };
        return format!("; ids that begin with it: {named}{more}");
    }
    match known().min_by_key(|known| distance(known, wanted)) {
        Some(known) if distance(known, wanted) <= wanted.len() => {
            format!("; the nearest id is {known:?}, and any other model is sized by its config.json")
        }
        _ => "; see `kvscope models`, or give its config.json".to_owned(),
    }
}

/// How far two ids are apart, for hints: a wrong number is another model, a missing dash is a slip.
fn distance(known: &str, wanted: &str) -> usize {
    let numbers = |id: &str| -> Vec<String> {
        id.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty()).map(str::to_owned).collect()
    };
    let (of_known, of_wanted) = (numbers(known), numbers(wanted));
    let foreign = of_wanted.iter().filter(|number| !of_known.contains(number)).count();
    2 * edit_distance(known, wanted) + 3 * foreign
}

fn parse(id: &str, text: &str) -> CatalogueEntry {
    let entry: CatalogueEntry = read_record(text).expect("the tests read every catalogue file");
    CatalogueEntry { id: id.to_owned(), ..entry }
}

/// Levenshtein distance, for hints.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_completed_and_another_word_is_corrected() {
        let refused = |id: &str| find_entry(id).unwrap_err().to_string();
        for (typed, id) in [("qwen3.5", "qwen3.5-27b"), ("Google/Gemma-4", "gemma-4-26b-a4b")] {
            let error = refused(typed);
            assert!(error.contains("begin with it") && error.contains(id), "{error}");
            assert!(!error.contains("nearest"), "{error}");
        }
        let many = refused("qwen");
        assert_eq!(many.matches("qwen").count(), 1 + NAMED, "{many}");
        assert!(many.contains(" more, see `kvscope models`"), "{many}");
        for (typed, id) in
            [("qwen3.5-27c", "qwen3.5-27b"), ("llama3-8b", "llama-3.1-8b"), ("deepseek-v-3", "deepseek-v3")]
        {
            let error = refused(typed);
            assert!(error.contains(&format!("the nearest id is {id:?}")), "{error}");
        }
        assert!(refused("").contains("see `kvscope models`"));
        assert!(refused("qwen2.5-7b-instruct-1m").ends_with("or give its config.json"));
    }

    #[test]
    fn a_family_stands_line_by_line_and_is_complete() {
        let glm: Vec<(&str, usize)> =
            lineage("GLM").into_iter().map(|(entry, depth)| (entry.id.as_str(), depth)).collect();
        let line = ["glm-4.5", "glm-4.6", "glm-4.7", "glm-5", "glm-5.1", "glm-5.2", "glm-5.3"];
        let expected: Vec<(&str, usize)> =
            line.into_iter().zip(0..).chain([("glm-4.7-flash", 0), ("glm-5.3-flash", 1)]).collect();
        assert_eq!(glm, expected);
        for entry in catalogue() {
            let of_family = lineage(&entry.family);
            let known = catalogue().iter().filter(|other| other.family == entry.family).count();
            assert_eq!(of_family.len(), known, "{}", entry.family);
            assert!(of_family.iter().any(|(other, _)| other.id == entry.id), "{}", entry.id);
        }
    }
}
