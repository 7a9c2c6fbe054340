//! Writes the first corpora: the catalogue's versions in `corpus/config`, `corpus/gguf` and `corpus/engine`, hostile ones in
//! `corpus/config`, the logs of the tests in `corpus/log`.

use std::fs;
use std::path::{Path, PathBuf};

use kvscope_sizing::catalogue;

#[path = "../../tests/support/converted.rs"]
mod converted;
#[allow(dead_code, reason = "only its tables are needed here")]
#[path = "../../tests/support/engine_checks.rs"]
mod engine_checks;
#[path = "../../tests/support/engine_seeds.rs"]
mod engine_seeds;
#[path = "../../tests/support/gguf_file.rs"]
mod gguf_file;
#[path = "../../tests/support/hostile.rs"]
mod hostile;

fn main() -> std::io::Result<()> {
    for entry in catalogue() {
        fs::write(corpus("config")?.join(&entry.id), entry.config.to_string())?;
        if let Some(file) = converted::convert(&entry.config) {
            fs::write(corpus("gguf")?.join(&entry.id), file.bytes())?;
        }
    }
    // One of each kind: the fuzzer mixes them with the rest.
    let first = &catalogue()[0].config;
    for (index, seed) in hostile::variants(first).into_iter().chain(hostile::quantised(first)).enumerate() {
        fs::write(corpus("config")?.join(format!("hostile-{index:04}")), seed)?;
    }
    for (index, seed) in engine_seeds::seeds().into_iter().enumerate() {
        fs::write(corpus("engine")?.join(format!("{index:04}")), seed)?;
    }
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/logs");
    for file in fs::read_dir(logs)? {
        let file = file?;
        fs::copy(file.path(), corpus("log")?.join(file.file_name()))?;
    }
    Ok(())
}

/// The folder of one target's corpus, made where it is missing.
fn corpus(target: &str) -> std::io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
