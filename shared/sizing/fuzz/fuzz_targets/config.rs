#![no_main]
//! Any text as a config: read or refused, never a panic; what is read is sized without one.

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/checks.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::config(data));
