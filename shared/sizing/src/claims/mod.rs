//! Published figures beside the computed ones: the files of `assets/claims/`, each claim with a recipe that computes it.
//!
//! A claim's file says what is expected of it: reproduced, reproduced under an assumption, or different and why. Checking
//! computes the figure anew and tells where that no longer holds.

mod evaluate;
mod plans;
mod published;
mod read;
mod recipe;
mod subject;
mod words;
mod working;

use std::fmt;
use std::sync::OnceLock;

use serde::Serialize;
use serde::ser::SerializeStruct;

use crate::{Ratio, Result};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use plans::PublishedFigure;
pub use published::{Published, Rounding};
pub use recipe::{LayersOf, Recipe, StateFigure, StateOf, Unit};
pub use subject::Subject;
pub use words::{VerdictKind, finding};
pub use working::Working;

/// `(id, file text)` of every claims file, sorted by id.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/claims.rs"));

/// Something that was published, with the figures in it that are checked: one file of `assets/claims/`.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The file's name, in kebab-case.
    pub id: String,
    /// Its name, with version or date.
    pub name: String,
    /// Its name in two or three words.
    pub short: String,
    /// Where it can be read; absent where no public address is known.
    pub url: Option<String>,
    /// Whether anyone printed its figures.
    pub origin: Origin,
    /// Its figures, in the order of the file.
    pub claims: Vec<Claim>,
}

/// Where the figures of a file come from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Origin {
    /// Somebody printed them.
    #[default]
    Published,
    /// They were worked by hand from published configs and formulas, and are printed nowhere: a check of this code alone.
    ByHand,
}

impl Origin {
    /// The word in files and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::ByHand => "by_hand",
        }
    }
}

/// One published figure and how to compute it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Unique, in kebab-case.
    pub id: String,
    /// The id of the [`Publication`].
    pub publication: String,
    /// Whether anyone printed the figure.
    pub origin: Origin,
    /// Who published it, and where in the text; or what it was worked from.
    pub source: String,
    /// Name and address of what the publication itself takes the figure from.
    pub cites: Option<(String, String)>,
    /// What it states, in one sentence.
    pub statement: String,
    /// The figure with the digits that were printed.
    pub published: Published,
    /// Whether the source rounded or cut to those digits.
    pub rounding: Rounding,
    /// Percent by which the computed figure may be off, where inputs that the source rounded leave that much open.
    pub within_percent: Option<Published>,
    /// The unit of both figures.
    pub unit: Unit,
    /// How the figure is computed.
    pub recipe: Recipe,
    /// What must be assumed for the recipe to be what the source meant.
    pub assumption: Option<String>,
    /// What the check is expected to find.
    pub expected: Expected,
}

/// What a claim's check is expected to find.
#[derive(Clone, Debug)]
pub enum Expected {
    /// The computed figure has the published digits, under the claim's assumption if there is one.
    Reproduced,
    /// It has not.
    Differs {
        /// The computed figure that `why` speaks of.
        computed: Published,
        /// Where the source is wrong.
        why: String,
    },
    /// The recipe needs what is not there yet.
    NotComputed,
}

/// A claim with the figure computed for it.
#[derive(Clone, Debug)]
pub struct CheckedClaim {
    /// The claim.
    pub claim: &'static Claim,
    /// The computed figure in the claim's unit.
    pub computed: Option<Ratio>,
    /// Computed less published.
    pub difference: Option<Ratio>,
    /// `reproduced`, `reproduced under <assumption>`, `differs: <why>` or `not computed: <what it needs, or
    /// the error of its recipe>`.
    pub verdict: String,
    /// The same in a word.
    kind: VerdictKind,
    /// Whether that is what the claim's file expects.
    pub holds: bool,
}

/// Everything whose figures are checked, sorted by id. Read on first use.
pub fn publications() -> &'static [Publication] {
    static PUBLICATIONS: OnceLock<Vec<Publication>> = OnceLock::new();
    PUBLICATIONS.get_or_init(|| {
        let read = |(id, text): &(&str, &str)| {
            Publication::read(id, text).unwrap_or_else(|error| panic!("assets/claims/{id}.json: {error}"))
        };
        FILES.iter().map(read).collect()
    })
}

/// Every claim, in the order of the files.
pub fn claims() -> impl Iterator<Item = &'static Claim> {
    publications().iter().flat_map(|publication| &publication.claims)
}

/// Every claim, computed.
pub fn check_claims() -> Vec<CheckedClaim> {
    claims().map(Claim::check).collect()
}

impl Claim {
    /// Computes the figure and compares.
    pub fn check(&'static self) -> CheckedClaim {
        let outcome = self.recipe.evaluate().and_then(|exact| self.compare(exact));
        let (computed, difference, (finding, holds)) = match outcome {
            Ok((computed, difference)) => (computed, difference, self.finding(computed)),
            Err(error) => (None, None, (Finding::NotComputed(error.to_string()), false)),
        };
        CheckedClaim {
            claim: self,
            computed,
            difference,
            verdict: finding.to_string(),
            kind: match (finding.kind(), self.origin) {
                (VerdictKind::Assumed | VerdictKind::Reproduced, Origin::ByHand) => VerdictKind::ByHand,
                (kind, _) => kind,
            },
            holds,
        }
    }

    fn compare(&self, exact: Option<Ratio>) -> Result<(Option<Ratio>, Option<Ratio>)> {
        let Some(exact) = exact else { return Ok((None, None)) };
        let computed = self.unit.of(exact)?;
        Ok((Some(computed), Some(computed.minus(self.published.value())?)))
    }

    fn is_within(&self, computed: Ratio) -> bool {
        let Some(percent) = &self.within_percent else { return false };
        let share = Ratio::new(1, 100).and_then(|hundredth| percent.value().times(hundredth));
        let allowed = share.and_then(|share| share.times(self.published.value().magnitude()));
        let off = computed.minus(self.published.value()).map(Ratio::magnitude);
        matches!((off, allowed), (Ok(off), Ok(allowed)) if off <= allowed)
    }

    /// What the computed figure comes to, and whether that is expected.
    fn finding(&self, computed: Option<Ratio>) -> (Finding<'_>, bool) {
        let Some(computed) = computed else {
            let missing = self.recipe.missing();
            let needs = format!("needs {}", missing.unwrap_or("more"));
            // What this build leaves out says nothing of the verdict.
            let is_left_out = missing.is_some() && missing == plans::MISSING;
            return (
                Finding::NotComputed(needs),
                is_left_out || matches!(self.expected, Expected::NotComputed),
            );
        };
        let same = self.published.has_digits_of(computed, self.rounding) || self.is_within(computed);
        let reproduced = Finding::Reproduced { under: self.assumption.as_deref() };
        let differs = |why: &str| Finding::Differs(why.to_owned());
        match (&self.expected, same) {
            (Expected::Reproduced, true) => (reproduced, true),
            (Expected::Differs { computed: explained, why }, false) => {
                if explained.has_digits_of(computed, Rounding::Nearest) {
                    return (differs(why), true);
                }
                (differs(&format!("the computed figure is no longer the {explained} explained")), false)
            }
            (Expected::Reproduced, false) => {
                (differs("the computed figure no longer has the published digits"), false)
            }
            (Expected::Differs { .. } | Expected::NotComputed, true) => (reproduced, false),
            (Expected::NotComputed, false) => {
                (differs("it is computed now, and nothing says why it differs"), false)
            }
        }
    }
}

/// What a check found, before it is put into words.
enum Finding<'c> {
    Reproduced { under: Option<&'c str> },
    Differs(String),
    NotComputed(String),
}

impl Finding<'_> {
    fn kind(&self) -> VerdictKind {
        match self {
            Self::Reproduced { under: Some(_) } => VerdictKind::Assumed,
            Self::Reproduced { under: None } => VerdictKind::Reproduced,
            Self::Differs(_) => VerdictKind::Differs,
            Self::NotComputed(_) => VerdictKind::NotComputed,
        }
    }
}

impl fmt::Display for Finding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reproduced { under: Some(assumption) } => write!(f, "reproduced under {assumption}"),
            Self::Reproduced { under: None } => f.write_str("reproduced"),
            Self::Differs(why) => write!(f, "differs: {why}"),
            Self::NotComputed(why) => write!(f, "not computed: {why}"),
        }
    }
}

/// The row of the command line contract.
impl Serialize for CheckedClaim {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("CheckedClaim", 9)?;
        json.serialize_field("id", &self.claim.id)?;
        json.serialize_field("source", &self.claim.source)?;
        json.serialize_field("published", &self.claim.published.value())?;
        json.serialize_field("unit", self.claim.unit.name())?;
        json.serialize_field("computed", &self.computed)?;
        json.serialize_field("difference", &self.difference)?;
        json.serialize_field("assumption", &self.claim.assumption)?;
        json.serialize_field("verdict", &self.verdict)?;
        json.serialize_field("origin", self.claim.origin.name())?;
        json.end()
    }
}
