//! The agent: command line, HTTP server, measurements and their store.

pub mod bench;
pub mod cli;

mod batch;
mod failure;
mod given;
mod gpu;
mod home;
mod input;
mod jobs;
mod model;
mod output;
mod serve;
