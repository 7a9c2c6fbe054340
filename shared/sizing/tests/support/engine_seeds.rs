//! First queries for engine profiles, in the bytes that `engine_checks::engine` reads.

use kvscope_sizing::{Settings, catalogue};

use super::engine_checks::{ENGINES, OWN_CONFIG, VALUES};

/// What a usual start sets, so that every figure is answered.
const USUAL: [(&str, &str); 8] = [
    ("context", "131072"),
    ("batch", "4"),
    ("available_kv_bytes", "85899345920"),
    ("max_model_len", "131072"),
    ("max_num_batched_tokens", "8192"),
    ("max_running_requests", "64"),
    ("pool_tokens", "1048576"),
    ("n_ctx", "131072"),
];

/// Every version of the catalogue in every engine, and each version's config as one of the user's own.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (model, entry) in catalogue().iter().enumerate() {
        for engine in 0..ENGINES.len() {
            seeds.push(query(engine, u8::try_from(model).expect("fewer models than a byte holds"), ""));
        }
        let engine = model % ENGINES.len();
        seeds.push(query(engine, OWN_CONFIG, &entry.config.to_string()));
    }
    seeds
}

fn query(engine: usize, model: u8, config: &str) -> Vec<u8> {
    let byte = |index: usize| u8::try_from(index).expect("short lists");
    let mut bytes = vec![byte(engine), model, byte(USUAL.len())];
    for (name, value) in USUAL {
        let name = Settings::NAMES.iter().position(|known| *known == name).expect("a known setting");
        let value = VALUES.iter().position(|known| *known == value).expect("a listed value");
        bytes.extend([byte(name), byte(value)]);
    }
    bytes.extend(config.bytes());
    bytes
}
