//! What tests that cross crates share: the built command line, a running agent, a static host, and a browser.
//!
//! `cargo xtask test` builds what these need and says where it is; run alone, they look in the usual places.

pub mod agent;
pub mod browser;
pub mod command_line;
pub mod downloads;
pub mod gguf;
pub mod page;
pub mod picture;
pub mod selectors;
pub mod static_host;

mod child;
