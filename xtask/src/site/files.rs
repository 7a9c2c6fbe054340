//! A file of the site: its name, its bytes, and what follows from its ending.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SiteFile {
    /// The path inside the site, with forward slashes.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Sixteen hexadecimal digits that follow from the content alone.
pub(crate) fn hash(bytes: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes))
}

/// Every file under a folder, in no particular order.
pub(crate) fn read_folder(folder: &Path) -> Result<Vec<SiteFile>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(current) = open.pop() {
        for entry in fs::read_dir(&current).map_err(Error::file(&current))? {
            let path = entry.map_err(Error::file(&current))?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let inside = path.strip_prefix(folder).expect("it was listed under the folder");
            let name = inside.to_string_lossy().replace('\\', "/");
            files.push(SiteFile { bytes: fs::read(&path).map_err(Error::file(&path))?, name });
        }
    }
    Ok(files)
}

impl SiteFile {
    pub(crate) fn write_into(&self, folder: &Path) -> Result<()> {
        let path = folder.join(&self.name);
        let parent = path.parent().expect("a file is in a folder");
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
        fs::write(&path, &self.bytes).map_err(Error::file(&path))
    }

    pub(crate) fn base_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    pub(crate) fn ending(&self) -> &str {
        self.base_name().rsplit_once('.').map_or("", |(_, ending)| ending)
    }

    pub(crate) fn brotli_name(&self) -> String {
        format!("{}.br", self.name)
    }

    pub(crate) fn is_brotli(&self) -> bool {
        self.ending() == "br"
    }

    /// Files that name other files.
    pub(crate) fn names_others(&self) -> bool {
        matches!(self.ending(), "html" | "css" | "js")
    }

    /// Files that brotli shrinks; pictures and `woff2` are compressed already.
    pub(crate) fn is_compressible(&self) -> bool {
        matches!(
            self.ending(),
            "css" | "html" | "js" | "json" | "svg" | "ttf" | "txt" | "wasm" | "webmanifest"
        )
    }

    /// Whether the name gets a hash. Snippets of wasm-bindgen have one in their folder's name already.
    pub(crate) fn is_cached_by_name(&self) -> bool {
        matches!(self.ending(), "css" | "js" | "ttf" | "wasm" | "woff2")
            && !self.name.starts_with("snippets/")
    }
}
