//! The explorer as a static site: WASM module, its loader, page, styles and font, each with its brotli twin.
//!
//! All paths inside are relative, so one build serves the agent, a static host and a folder of it. Scripts, styles,
//! fonts and the module carry a hash of their content in their names, so they can be cached for ever.

mod files;
mod names;
mod order;
mod pack;
mod wasm;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::error::{Error, Result};
use crate::output;
use crate::process;
use crate::workspace::Workspace;

use files::{SiteFile, hash};

/// What the whole site is to weigh in brotli.
const AIM_BYTES: u64 = 400_000;
/// What fails. The site missed its aim when engines, logs, claims, GGUF, jobs and plans came to the page: this holds what was reached
/// since, on a machine without the standard library's source too, and comes down with every gain until it is the aim. Last raised,
/// from 804,000, for the classes that SGLang serves, the plans' groups, remarks and pools, and llama.cpp's lines of DeepSeek-V4.
const BUDGET_BYTES: u64 = 816_000;

/// A finished site.
#[derive(Debug)]
pub(crate) struct Site {
    folder: PathBuf,
    weights: Vec<Weight>,
}

/// One file of the site and what it weighs.
#[derive(Debug)]
struct Weight {
    name: String,
    plain_bytes: u64,
    /// As it is sent to a browser that takes brotli; files that brotli does not shrink are sent as they are.
    sent_bytes: u64,
}

/// Builds the site, or as much of it as changed since the last time.
pub(crate) fn build(workspace: &Workspace) -> Result<Site> {
    output::progress("building the page (wasm32, profile page)");
    let module = wasm::compile(workspace)?;
    let folder = workspace.site();
    let mut sources = files::read_folder(&workspace.root().join("assets").join("site"))?;
    sources.extend(fonts(workspace)?);
    sources.sort_by(|a, b| a.name.cmp(&b.name));

    let fingerprint = fingerprint(&module, &sources)?;
    let fingerprint_file = workspace.own_folder().join("site.fingerprint");
    let known = fs::read_to_string(&fingerprint_file).unwrap_or_default();
    if known == fingerprint && folder.join("index.html").is_file() {
        output::progress("the site is up to date");
        return measured(folder);
    }

    // A run that stops half-way must not leave a fingerprint that vouches for it.
    let _ = fs::remove_file(&fingerprint_file);
    output::progress("binding, hashing and compressing");
    sources.extend(wasm::bind(workspace, &module)?);
    pack::write(&folder, sources)?;
    fs::create_dir_all(workspace.own_folder()).map_err(Error::file(&workspace.own_folder()))?;
    fs::write(&fingerprint_file, fingerprint).map_err(Error::file(&fingerprint_file))?;
    measured(folder)
}

impl Site {
    /// What a first visit costs over the wire.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.weights.iter().map(|weight| weight.sent_bytes).sum()
    }

    pub(crate) fn size_table(&self) -> String {
        let widest =
            self.weights.iter().map(|weight| weight.name.len()).max().unwrap_or(0).max("total".len());
        let mut table = format!("{:widest$}  {:>9}  {:>9}\n", "file", "plain B", "brotli B");
        for weight in &self.weights {
            let _ = writeln!(
                table,
                "{:widest$}  {:>9}  {:>9}",
                weight.name, weight.plain_bytes, weight.sent_bytes
            );
        }
        let plain = self.weights.iter().map(|weight| weight.plain_bytes).sum::<u64>();
        let _ = write!(table, "{:widest$}  {plain:>9}  {:>9}  aim {AIM_BYTES}", "total", self.total_bytes());
        table
    }

    pub(crate) fn check_budget(&self) -> Result<()> {
        let total = self.total_bytes();
        if total > BUDGET_BYTES {
            return Err(Error::OverBudget { total, budget: BUDGET_BYTES });
        }
        Ok(())
    }

    /// Copies the site over what is in `folder`; files there that the site does not have stay.
    pub(crate) fn copy_to(&self, folder: &Path) -> Result<()> {
        for file in files::read_folder(&self.folder)? {
            file.write_into(folder)?;
        }
        Ok(())
    }
}

/// The figures' font, which a program of its own writes.
fn fonts(workspace: &Workspace) -> Result<Vec<SiteFile>> {
    let folder = workspace.own_folder().join("fonts");
    let mut write = workspace.cargo();
    write.args(["run", "--quiet", "--package", "xtask", "--features", "fonts", "--bin", "site-fonts", "--"]);
    process::run(write.arg(&folder))?;
    files::read_folder(&folder)
}

/// Changes when a rebuilt site could differ: the module, a source file, or this program.
fn fingerprint(module: &Path, sources: &[SiteFile]) -> Result<String> {
    let mut text = String::new();
    let bytes = fs::read(module).map_err(Error::file(module))?;
    let _ = writeln!(text, "module {}", hash(&bytes));
    for source in sources {
        let _ = writeln!(text, "{} {}", source.name, hash(&source.bytes));
    }
    if let Ok(facts) = std::env::current_exe().and_then(fs::metadata) {
        let age = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let _ = writeln!(text, "xtask {} {age:?}", facts.len());
    }
    Ok(text)
}

fn measured(folder: PathBuf) -> Result<Site> {
    let mut files = files::read_folder(&folder)?;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let length = |file: &SiteFile| u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
    let weights = files
        .iter()
        .filter(|file| !file.is_brotli())
        .map(|file| {
            let twin = files.iter().find(|other| other.name == file.brotli_name());
            Weight {
                name: file.name.clone(),
                plain_bytes: length(file),
                sent_bytes: length(twin.unwrap_or(file)),
            }
        })
        .collect();
    Ok(Site { folder, weights })
}
