use std::fmt;

use serde::Serialize;

use crate::error::one_line;

/// An assumption or a doubt that travels with every figure it touches.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize)]
pub struct Warning {
    /// The config field or setting that it is about.
    pub field: String,
    /// What was found and what was assumed, in one sentence.
    pub message: String,
}

crate::record!(Warning { field, message });

impl Warning {
    /// A warning about `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: one_line(field.into()), message: one_line(message.into()) }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
