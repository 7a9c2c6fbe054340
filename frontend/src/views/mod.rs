//! The rooms of the explorer.

pub(crate) mod growth;
pub(crate) mod measure;
