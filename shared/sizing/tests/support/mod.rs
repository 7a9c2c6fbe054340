//! What several of these tests share.

pub(crate) mod asked;
pub(crate) mod checks;
pub(crate) mod configs;
pub(crate) mod converted;
pub(crate) mod engine_checks;
pub(crate) mod engine_seeds;
pub(crate) mod generated;
pub(crate) mod gguf_file;
pub(crate) mod hostile;
