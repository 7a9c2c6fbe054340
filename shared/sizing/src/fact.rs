use std::fmt;
use std::hash::{Hash, Hasher};

use serde::Serialize;
use smol_str::SmolStr;

/// A number that a figure depends on, and where it came from.
///
/// Two facts are equal when their values are: layers of equal shape are sized once, wherever their numbers stand.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    value: u64,
    source: Source,
}

/// Where a [`Fact`] came from. Its texts are shared: every derivation that uses the fact holds them too.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Source {
    /// A field of the config, by its JSON path.
    Field {
        /// `text_config.num_key_value_heads`
        path: SmolStr,
    },
    /// The field is absent; its class or format defines this default.
    Default {
        /// The absent field.
        field: SmolStr,
        /// The rule, and who defines it.
        rule: SmolStr,
    },
    /// Computed from other fields.
    Derived {
        /// `hidden_size / num_attention_heads`
        rule: SmolStr,
    },
    /// A setting of the user, or the default of one.
    Setting {
        /// `kv_dtype`
        name: SmolStr,
        /// What it is set to.
        value: SmolStr,
    },
    /// Given by the layout of a record or a mixer, not by the config.
    Layout {
        /// What defines it.
        rule: SmolStr,
    },
}

impl Source {
    /// A field of the config, by its JSON path.
    pub fn field(path: impl Into<SmolStr>) -> Self {
        Self::Field { path: path.into() }
    }

    /// The field that a message about the number is about; the rule where no one field says it.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Default { field, .. } => field.to_string(),
            other => other.to_string(),
        }
    }

    /// A default of an absent field.
    pub fn default(field: impl Into<SmolStr>, rule: impl Into<SmolStr>) -> Self {
        Self::Default { field: field.into(), rule: rule.into() }
    }
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
    pub fn derived(value: u64, rule: impl Into<SmolStr>) -> Self {
        Self::new(value, Source::Derived { rule: rule.into() })
    }

    /// A default of an absent field.
    pub fn default(value: u64, field: impl Into<SmolStr>, rule: impl Into<SmolStr>) -> Self {
        Self::new(value, Source::default(field, rule))
    }

    /// A value that the layout of a mixer or record fixes.
    pub fn layout(value: u64, rule: impl Into<SmolStr>) -> Self {
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
