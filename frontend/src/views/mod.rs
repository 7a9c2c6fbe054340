//! The rooms of the explorer.

pub(crate) mod claims;
pub(crate) mod growth;
pub(crate) mod log;
pub(crate) mod measure;
