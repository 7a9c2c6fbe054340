//! The only module that prints. Results go to stdout, progress and errors to stderr.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is where a task speaks to its user")]

use crate::error::Error;

pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// What is being done now.
pub(crate) fn progress(text: &str) {
    eprintln!("── {text}");
}

pub(crate) fn error(error: &Error) {
    eprintln!("error: {error}");
}
