//! What can stop a task. Each message is one line: what, where and what to do.

use std::io;
use std::path::{Path, PathBuf};

pub(crate) type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{path}: {source}", path = .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("could not start `{command}`: {source}")]
    Start { command: String, source: io::Error },
    #[error("`{command}` failed ({status})")]
    Failed { command: String, status: String },
    #[error("`{command}` printed what was not expected: {detail}")]
    Unexpected { command: String, detail: String },
    #[error("wasm-bindgen could not turn {path} into a page: {detail}", path = .path.display())]
    Bindgen { path: PathBuf, detail: String },
    #[error("two files of the site are called {name}; names must differ, whatever their folder")]
    SameName { name: String },
    #[error(
        "the site is {total} B in brotli, over the budget of {budget} B; see the table above for what grew"
    )]
    OverBudget { total: u64, budget: u64 },
    #[error("{rule}: {offences}", offences = .offences.join("; "))]
    Rule { rule: &'static str, offences: Vec<String> },
    #[error("the wasm32 target is missing and could not be installed; run `{remedy}`")]
    NoWasmTarget { remedy: String },
    #[error(transparent)]
    Kernels(#[from] kvscope_kernels::Error),
    #[error("registers go to memory in {spilled}; make the tile smaller")]
    Spills { spilled: String },
    #[error("two builds of {kernels} for {target} differ; an image must depend on the text alone")]
    Unequal { kernels: String, target: &'static str },
    #[error("NVRTC is missing and could not be installed; run `{remedy}`")]
    NoNvrtc { remedy: String },
    #[error("Chromium and its driver are missing and could not be installed; run `{remedy}`")]
    NoBrowser { remedy: &'static str },
}

impl Error {
    /// For `map_err` on file operations.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { path, source }
    }
}
