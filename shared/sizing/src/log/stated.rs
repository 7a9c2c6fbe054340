//! What a log states more than once of one launch, and where it contradicts itself.

use super::Contradiction;
use super::known_model;
use crate::catalogue::CatalogueEntry;

/// Settings of which one launch has one value, whoever prints it.
const OF_ONE_LAUNCH: [&str; 5] = ["tp", "pp", "dcp", "dp", MAX_MODEL_LEN];
const MAX_MODEL_LEN: &str = "max_model_len";

/// What a statement is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Of {
    /// The engine's version.
    Version,
    /// The model, as the engine names it or as it was asked for: a name and the path of its files may be the same model.
    Model(By),
    /// A setting by its name.
    Setting(&'static str),
}

/// Who names the model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum By {
    Engine,
    Arguments,
}

#[derive(Clone, Debug)]
struct Statement {
    of: Of,
    value: String,
    line: usize,
}

/// The statements of one launch, and what they contradict.
#[derive(Clone, Debug, Default)]
pub(super) struct Stated {
    statements: Vec<Statement>,
    found: Vec<Contradiction>,
}

impl Of {
    /// The statement of a setting, where a launch has one value of it.
    pub(super) fn setting(name: &'static str) -> Option<Self> {
        OF_ONE_LAUNCH.contains(&name).then_some(Self::Setting(name))
    }

    fn words(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Model(_) => "model",
            Self::Setting(name) => name,
        }
    }

    /// Whether both are of one thing.
    fn is_as(self, other: Self) -> bool {
        matches!((self, other), (Self::Model(_), Self::Model(_))) || self == other
    }
}

impl Stated {
    /// Takes down what a line states. Another value than before is a contradiction, once for each pair of values.
    pub(super) fn state(&mut self, of: Of, value: &str, line: usize) {
        let new = Statement { of, value: value.to_owned(), line };
        let mut known = self.statements.iter().rev().filter(|known| known.of.is_as(of));
        if let Some(known) = known.find(|known| known.contradicts(&new)) {
            let what = format!(
                "line {} says {} {}, line {line} {value}; the later is taken, and what stands before it may be of another \
                 launch",
                known.line,
                of.words(),
                known.value,
            );
            self.found.push(Contradiction { lines: vec![known.line, line], what, explained: false });
        }
        self.statements.retain(|known| known.of != of || known.value != value);
        self.statements.push(new);
    }

    /// A new start: what was stated before it is no part of it.
    pub(super) fn start_again(&mut self) {
        *self = Self::default();
    }

    /// The engine itself says that it changes the longest request.
    pub(super) fn forget_longest(&mut self) {
        self.statements.retain(|known| known.of != Of::Setting(MAX_MODEL_LEN));
    }

    pub(super) fn contradictions(&mut self) -> Vec<Contradiction> {
        std::mem::take(&mut self.found)
    }
}

impl Statement {
    fn contradicts(&self, other: &Self) -> bool {
        if self.value == other.value {
            return false;
        }
        let (Of::Model(own), Of::Model(others)) = (self.of, other.of) else { return true };
        let entry = |name: &str| known_model::find(name).map(|entry: &CatalogueEntry| entry.id.as_str());
        match (entry(&self.value), entry(&other.value)) {
            (Some(one), Some(other)) => one != other,
            _ => own == others,
        }
    }
}
