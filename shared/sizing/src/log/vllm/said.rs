//! What vLLM says of its choices beside the arguments: formats of the cache, blocks, lengths, back ends, refusals.
//!
//! Line shapes: vLLM 0.9 to 0.33 (`config/cache.py`, `config/vllm.py`, `model_executor/models/config.py`,
//! `model_executor/layers/attention/mla_attention.py`, `platforms`, `v1/core/kv_cache_planning.py`).

use super::state_format;
use crate::log::Reading;
use crate::log::launch::kv_format;
use crate::log::line::Line;

/// Lines after which layers with windows keep every token.
const WITHOUT_WINDOWS: [&str; 4] = [
    "Hybrid KV cache manager is disabled for this hybrid model",
    "Turning off hybrid kv cache manager because",
    "treating sliding-window layers as full attention for cache allocation",
    "chunked local attention with the hybrid KV cache manager. Disabling it",
];

/// Lines of a start that is refused because nothing is left for the cache, which name no figure.
const REFUSALS: [&str; 2] =
    ["No available memory for the cache blocks", "Cannot auto-fit max_model_len: not enough"];

/// Lines of a plan that the profiles do not make, and why.
const UNPLANNED: [(&str, &str); 3] = [
    ("HiSparse HMA:", IN_HOST_MEMORY),
    (" + host KV cache size:", IN_HOST_MEMORY),
    (
        "so the quantized primary KV page covers",
        "some layers keep another format than the rest, and the log does not say which",
    ),
];
const IN_HOST_MEMORY: &str = "part of the cache is in host memory, which no rule here plans";

/// What stands behind a format of the cache: `Using fp8 data type to store kv cache.`, `Using DeepSeek's fp8_ds_mla KV cache
/// format.`, `Using bfloat16 kv-cache for DeepSeekV3.2`.
const BEHIND_FORMATS: [&str; 4] =
    ["data type to store kv cache", "KV cache format", "KV cache for ", "kv-cache for "];

/// What names a length that the engine takes in place of what was asked for, and what stands in front of the length.
const LENGTHS: [(&str, &str); 2] = [
    ("Auto-fit max_model_len: reduced from", " to "),
    ("the V2 model runner can't skip speculation", "reducing max_model_len to "),
];

/// Reads one line.
pub(super) fn read(line: &Line, reading: &mut Reading) {
    let number = line.number;
    if REFUSALS.iter().any(|words| line.has(words)) {
        reading.refused.get_or_insert(number);
    }
    let launch = &mut reading.launch;
    if let Some((_, why)) = UNPLANNED.iter().find(|(words, _)| line.has(words)) {
        launch.unplanned = Some(why);
    }
    if let Some(format) = cache_format(line) {
        launch.set("kv_dtype", format, number);
    }
    if line.has("paged MXFP4 sparse indexer K cache by default") {
        launch.set("index_dtype", "fp4", number);
    }
    if WITHOUT_WINDOWS.iter().any(|words| line.has(words)) {
        launch.set("hybrid_manager", "false", number);
    }
    if line.has("Auto-fit max_model_len") {
        launch.stated.forget_longest();
    }
    if let Some(length) = length(line) {
        launch.stated.forget_longest();
        launch.set("max_model_len", &length.to_string(), number);
    }
    for (words, setting) in [
        ("etting kv cache block size to", "block_size"),
        ("Forcing kv cache block size to", "block_size"),
        ("tokens to ensure multiple of", "kernel_block_size"),
    ] {
        if let Some(tokens) = line.after(words).and_then(|mut scan| scan.number()?.whole()) {
            launch.set(setting, &tokens.to_string(), number);
        }
    }
    for (words, setting, value) in [
        ("Using FlashInfer GDN prefill kernel", "gdn_prefill_backend", "flashinfer"),
        ("Using Triton/FLA GDN prefill kernel", "gdn_prefill_backend", "triton"),
        ("Asynchronous scheduling is enabled", "async_scheduling", "true"),
        ("Asynchronous scheduling is disabled", "async_scheduling", "false"),
    ] {
        if line.has(words) {
            launch.set(setting, value, number);
        }
    }
    let word = |words: &str| line.unquoted(&line.text[line.after(words)?.at()..]);
    if let Some(mode) = word("Mamba cache mode is set to ") {
        launch.set("mamba_cache_mode", mode, number);
    }
    if let Some(format) = word("Updating mamba_ssm_cache_dtype to ").and_then(state_format) {
        launch.set("state_dtype", format, number);
    }
}

/// The format that the line says the cache has. `custom fp8` is the scaled record (up to 0.18), `standard fp8` a byte a value.
fn cache_format(line: &Line) -> Option<&str> {
    let said = &line.text[line.after("Using ")?.at()..];
    if said.starts_with("custom fp8 kv-cache format") {
        return Some("fp8_ds_mla");
    }
    let said = ["standard ", "DeepSeek's "].iter().find_map(|word| said.strip_prefix(word)).unwrap_or(said);
    let (format, behind) = said.split_once(' ')?;
    BEHIND_FORMATS.iter().any(|words| behind.starts_with(words)).then(|| kv_format(format))?
}

fn length(line: &Line) -> Option<u64> {
    LENGTHS.iter().find_map(|(words, before)| {
        let mut scan = line.after(words)?;
        scan.seek(before)?;
        scan.number()?.whole()
    })
}
