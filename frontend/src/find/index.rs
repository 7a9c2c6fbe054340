//! What can be found, made once: reading every config takes longer than a key press may.

use std::sync::OnceLock;

use kvscope_protocol::Room;
use kvscope_sizing::{catalogue, sort_short};

use super::Door;
use crate::views::models::{fields, forms};

/// More than a list can be read at a glance.
const MOST: usize = 12;

/// Something that can be found, and where it leads.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: String,
    /// What it is, in a few words, where the name says too little.
    pub(super) about: &'static str,
    pub(super) kind: &'static str,
    pub(super) aim: Aim,
    /// What it is looked for by, in lower case.
    words: String,
}

/// Where an item leads.
#[derive(Debug)]
pub(super) enum Aim {
    View(Room),
    /// A version of the catalogue, by its id.
    Version(&'static str),
    /// The versions with all of these words.
    Listed(String),
}

/// The first that were found, and how many more there are.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) shown: Vec<&'static Item>,
    pub(super) more: usize,
}

/// What has every word: views first, then versions, forms and fields, and among each those whose name begins with what was
/// typed. Nothing typed lists the views.
pub(super) fn found(sought: &str, doors: &'static [Door]) -> Found {
    let sought = sought.trim().to_ascii_lowercase();
    let is_meant = |item: &&'static Item| {
        if sought.is_empty() {
            return matches!(item.aim, Aim::View(_));
        }
        sought.split_whitespace().all(|word| item.words.contains(word))
    };
    let mut shown: Vec<&'static Item> = items(doors).iter().filter(is_meant).collect();
    let rank = |item: &Item| {
        let place = KINDS.iter().position(|kind| *kind == item.kind);
        (place, !item.words.starts_with(&sought))
    };
    sort_short(&mut shown, |a, b| rank(a) > rank(b));
    let more = shown.len().saturating_sub(MOST);
    shown.truncate(MOST);
    Found { shown, more }
}

/// In the order in which they are listed.
const KINDS: [&str; 4] = ["view", "version", "form", "config field"];

fn items(doors: &'static [Door]) -> &'static [Item] {
    static ITEMS: OnceLock<Vec<Item>> = OnceLock::new();
    ITEMS.get_or_init(|| {
        let mut items: Vec<Item> = Vec::new();
        for (room, name, about) in doors {
            items.push(item(name, about, KINDS[0], Aim::View(*room), about));
        }
        for entry in catalogue() {
            let words = format!("{} {} {}", entry.id, entry.family, entry.vendor);
            items.push(item(&entry.name, "", KINDS[1], Aim::Version(&entry.id), &words));
        }
        let of_each = |all: fn(&'static kvscope_sizing::CatalogueEntry) -> Vec<String>| {
            let mut names: Vec<String> = catalogue().iter().flat_map(all).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        for (kind, names) in [(KINDS[2], of_each(forms)), (KINDS[3], of_each(fields))] {
            items.extend(names.iter().map(|name| item(name, "", kind, Aim::Listed(name.clone()), "")));
        }
        items
    })
}

fn item(name: &str, about: &'static str, kind: &'static str, aim: Aim, words: &str) -> Item {
    let words = format!("{name} {words}").to_ascii_lowercase();
    Item { name: name.to_owned(), about, kind, aim, words }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOORS: &[Door] =
        &[(Room::Growth, "Growth", "curves"), (Room::Claims, "Claims", "published figures, verdicts")];

    #[test]
    fn views_versions_forms_and_fields_are_found_by_their_words() {
        let first = |sought: &str| {
            let found = found(sought, DOORS);
            found.shown.first().map(|item| (item.name.as_str(), item.kind))
        };
        assert_eq!(found("", DOORS).shown.len(), DOORS.len());
        assert_eq!(first("moonshot k2.6"), Some(("Kimi-K2.6", "version")));
        assert_eq!(first("gated delta"), Some(("gated DeltaNet", "form")));
        assert_eq!(first("kv_lora_rank"), Some(("kv_lora_rank", "config field")));
        assert_eq!(first("published figures"), Some(("Claims", "view")));
        assert!(found("zzzz", DOORS).shown.is_empty());
        let many = found("e", DOORS);
        assert!(many.shown.len() == MOST && many.more > 0, "{}", many.more);
    }
}
