//! The rooms, one module each, and what several of them draw.

pub(crate) mod claims;
pub(crate) mod growth;
pub(crate) mod log;
pub(crate) mod measure;
pub(crate) mod models;
pub(crate) mod plans;
mod strips;
pub(crate) mod versions;
