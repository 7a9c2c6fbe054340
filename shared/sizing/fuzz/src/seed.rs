//! Writes the first corpora from the catalogue: one file a version, in `corpus/config` and `corpus/gguf`.

use std::fs;
use std::path::Path;

use kvscope_sizing::catalogue;

#[path = "../../tests/support/converted.rs"]
mod converted;
#[path = "../../tests/support/gguf_file.rs"]
mod gguf_file;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let (configs, files) = (corpus.join("config"), corpus.join("gguf"));
    fs::create_dir_all(&configs)?;
    fs::create_dir_all(&files)?;
    for entry in catalogue() {
        fs::write(configs.join(&entry.id), entry.config.to_string())?;
        if let Some(file) = converted::convert(&entry.config) {
            fs::write(files.join(&entry.id), file.bytes())?;
        }
    }
    Ok(())
}
