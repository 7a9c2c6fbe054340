//! The longest request by the names that configs give it, of which engines choose differently.

use super::fields::{self, Fields};
use crate::Result;
use crate::fact::{Fact, Source};

/// The longest lengths that a config states, each under its field's name, in the reader's order of preference; the class's default
/// where it states none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StatedLengths(Vec<(&'static str, Fact)>);

impl StatedLengths {
    /// The length under a name.
    pub(crate) fn by(&self, name: &str) -> Option<&Fact> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, length)| length)
    }

    /// The shortest of all but those under `unknown` names, and the first of equal ones.
    pub(crate) fn shortest_but(&self, unknown: &[&str]) -> Option<&Fact> {
        let known = self.0.iter().filter(|(name, _)| !unknown.contains(name));
        known.map(|(_, length)| length).min_by_key(|length| length.get())
    }

    /// The one that the reader prefers, where the config states it: what its class would take limits no one.
    pub(crate) fn own(&self) -> Option<&Fact> {
        self.first().filter(|length| !matches!(length.source(), Source::Default { .. }))
    }

    /// The one that the reader prefers.
    pub(crate) fn first(&self) -> Option<&Fact> {
        self.0.first().map(|(_, length)| length)
    }
}

/// # Errors
///
/// A length that is no whole number.
pub(super) fn read(fields: &Fields<'_>) -> Result<StatedLengths> {
    let mut stated = Vec::new();
    for name in fields::CONTEXTS {
        stated.extend(fields.stated(name)?.map(|length| (name, length)));
    }
    if stated.is_empty() {
        for name in fields::CONTEXTS {
            stated.extend(fields.class_default(name)?.map(|length| (name, length)));
        }
    }
    Ok(StatedLengths(stated))
}
