//! Figures and verdicts of claims as they are shown, on the command line and on the page alike.

use super::{CheckedClaim, Claim};
use crate::{Ratio, group_digits};

/// Stands where there is no figure.
const NOTHING: &str = "–";

/// What a check found, in a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VerdictKind {
    /// The computed figure has other digits.
    Differs,
    /// It has the published digits if something is assumed.
    Assumed,
    /// It has the published digits.
    Reproduced,
    /// It has the digits that arithmetic by hand gives, which nobody printed.
    ByHand,
    /// Nothing computes it: what it needs is not there, or its recipe fails.
    NotComputed,
}

impl VerdictKind {
    /// All, what is wrong first.
    pub const ALL: [Self; 5] =
        [Self::Differs, Self::Assumed, Self::Reproduced, Self::ByHand, Self::NotComputed];

    /// The word in links.
    pub fn name(self) -> &'static str {
        match self {
            Self::Differs => "differs",
            Self::Assumed => "assumed",
            Self::Reproduced => "reproduced",
            Self::ByHand => "by-hand",
            Self::NotComputed => "not-computed",
        }
    }
}

impl CheckedClaim {
    /// What the check found.
    pub fn kind(&self) -> VerdictKind {
        self.kind
    }

    /// The computed figure with at most three decimals.
    pub fn computed_words(&self) -> String {
        self.computed.map_or_else(|| NOTHING.to_owned(), figure)
    }

    /// Computed less published, with its sign.
    pub fn difference_words(&self) -> String {
        let Some(difference) = self.difference else { return NOTHING.to_owned() };
        match difference.signum() {
            0 => "0".to_owned(),
            1 => format!("+{}", figure(difference)),
            _ => format!("−{}", figure(difference.magnitude())),
        }
    }
}

impl Claim {
    /// The published digits, whole numbers in groups of three.
    pub fn published_words(&self) -> String {
        let text = self.published.to_string();
        text.parse().map_or(text, group_digits)
    }
}

/// What all checks come to, in one sentence, what is wrong first.
pub fn finding(rows: &[CheckedClaim]) -> String {
    let count = |kind: VerdictKind| rows.iter().filter(|row| row.kind() == kind).count();
    let [differ, assumed, hold, by_hand, open] = VerdictKind::ALL.map(count);
    format!(
        "Of {} checks {differ} find another figure than the published one, {assumed} hold under an assumption only, \
         {hold} hold as printed, {by_hand} agree with arithmetic by hand that nobody printed, {open} are not computed here.",
        rows.len()
    )
}

/// At most three decimals; whole numbers without any, in groups of three digits.
pub(super) fn figure(figure: Ratio) -> String {
    if figure.denominator() == 1 {
        return u64::try_from(figure.numerator())
            .map_or_else(|_| figure.numerator().to_string(), group_digits);
    }
    format!("{:.3}", figure.as_f64())
}
