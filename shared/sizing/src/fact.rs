use std::fmt;
use std::hash::{Hash, Hasher};

use serde::Serialize;

/// A number that a figure depends on, and where it came from.
///
/// Two facts are equal when their values are: layers of equal shape are sized once, wherever their numbers stand.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    value: u64,
    source: Source,
}

/// Where a [`Fact`] came from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Source {
    /// A field of the config, by its JSON path.
    Field {
        /// `text_config.num_key_value_heads`
        path: String,
    },
    /// The field is absent; its class or format defines this default.
    Default {
        /// The absent field.
        field: String,
        /// The rule, and who defines it.
        rule: String,
    },
    /// Computed from other fields.
    Derived {
        /// `hidden_size / num_attention_heads`
        rule: String,
    },
    /// A setting of the user, or the default of one.
    Setting {
        /// `kv_dtype`
        name: String,
        /// What it is set to.
        value: String,
    },
    /// Given by the layout of a record or a mixer, not by the config.
    Layout {
        /// What defines it.
        rule: String,
    },
}

impl Fact {
    /// A value and its source.
    pub fn new(value: u64, source: Source) -> Self {
        Self { value, source }
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.value
    }

    /// Where the value came from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// A value computed from others by `rule`.
    pub fn derived(value: u64, rule: impl Into<String>) -> Self {
        Self::new(value, Source::Derived { rule: rule.into() })
    }

    /// A default of an absent field.
    pub fn default(value: u64, field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::new(value, Source::Default { field: field.into(), rule: rule.into() })
    }

    /// A value that the layout of a mixer or record fixes.
    pub fn layout(value: u64, rule: impl Into<String>) -> Self {
        Self::new(value, Source::Layout { rule: rule.into() })
    }
}

impl PartialEq for Fact {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Fact {}

impl Hash for Fact {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { path } => write!(f, "{path}"),
            Self::Default { field, rule } => write!(f, "{field} absent: {rule}"),
            Self::Derived { rule } | Self::Layout { rule } => write!(f, "{rule}"),
            Self::Setting { name, value } => write!(f, "{name} = {value}"),
        }
    }
}
