#![no_main]
//! Any text as a start-up log: decoded or refused, never a panic.

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/engine_checks.rs"]
mod engine_checks;

fuzz_target!(|data: &[u8]| engine_checks::log(data));
