//! Which setting that a log does not state would make its figures agree.

use super::{Decoder, Reading};
use crate::architecture::Architecture;
use crate::engine::{Engine, has_setting};
use crate::warning::Warning;

/// Settings that users forget to name, the most frequent first.
const CANDIDATES: [(&str, &str); 15] = [
    ("kv_dtype", "fp8"),
    ("kv_dtype", "bf16"),
    ("tp", "2"),
    ("tp", "4"),
    ("tp", "8"),
    ("pp", "2"),
    ("prefix_caching", "false"),
    ("gpu", "B200"),
    ("gpu", "A100"),
    ("max_num_batched_tokens", "2048"),
    ("max_num_batched_tokens", "4096"),
    ("max_num_batched_tokens", "16384"),
    ("async_scheduling", "false"),
    ("kv_dtype", "q8_0"),
    ("kv_dtype", "q4_0"),
];

/// A setting with which no figure differs, where some do without it. `before` is what was read, nothing of it recomputed yet.
pub(super) fn of_differences(
    decoder: &Decoder,
    engine: &Engine,
    architecture: &Architecture,
    before: &Reading,
    after: &Reading,
) -> Option<Warning> {
    let differ =
        |reading: &Reading| reading.figures.all.iter().filter(|figure| figure.difference().is_some()).count();
    let known =
        |reading: &Reading| reading.figures.all.iter().filter(|figure| figure.recomputed.is_some()).count();
    if differ(after) == 0 {
        return None;
    }
    let explains = |(name, value): &&(&str, &str)| {
        // Where arguments are printed, one that is not among them has its default; `auto` leaves K/V to the checkpoint.
        let is_default = before.launch.lists_arguments && *name != "kv_dtype" && *name != "gpu";
        if is_default || before.launch.states(name) || !has_setting(engine.kind(), name) {
            return false;
        }
        let mut tried = before.clone();
        tried.launch.settings.set(name, value).is_ok()
            && (decoder.recompute)(engine, architecture, &mut tried).is_ok()
            && differ(&tried) == 0
            && known(&tried) >= known(after)
    };
    let (name, value) = CANDIDATES.iter().find(explains)?;
    let what = match *name {
        "kv_dtype" => format!(
            "no line says more than auto; with {value} all figures agree, as a checkpoint or a setting may have it"
        ),
        _ => format!(
            "no line says it; with {value} all figures agree, so the launch may have it, or what comes to the same"
        ),
    };
    Some(Warning::new(*name, what))
}
