#![no_main]
//! Any model in any engine with any settings: answered or refused, never a panic.

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/engine_checks.rs"]
mod engine_checks;

fuzz_target!(|data: &[u8]| engine_checks::engine(data));
