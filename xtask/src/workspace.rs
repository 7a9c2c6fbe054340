//! Where things are: the repository, cargo's build folder, and the places that tasks write to.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::process;

/// The repository and its packages, as cargo sees them.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
    packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The folder, relative to the repository, with forward slashes.
    pub(crate) folder: String,
    /// The members that it depends on, for whatever purpose.
    pub(crate) depends_on: Vec<String>,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&manifest).parent().expect("xtask is a folder of the repository").to_path_buf();
        let mut command = process::cargo();
        command.current_dir(&root).args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
        let text = process::capture(&mut command)?;
        let unexpected =
            |detail: &str| Error::Unexpected { command: process::shown(&command), detail: detail.to_owned() };
        let metadata: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| unexpected(&error.to_string()))?;
        let target =
            metadata["target_directory"].as_str().ok_or_else(|| unexpected("no target_directory"))?;
        let packages = metadata["packages"].as_array().ok_or_else(|| unexpected("no packages"))?;
        let packages = packages
            .iter()
            .map(|package| {
                read_package(package, &root).ok_or_else(|| unexpected("a package without a name or path"))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { target: PathBuf::from(target), root, packages })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's build folder, which `CARGO_TARGET_DIR` may move.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The finished site. The agent embeds it by this path, so it stays here whatever cargo's build folder is.
    pub(crate) fn site(&self) -> PathBuf {
        self.root.join("target").join("site")
    }

    /// What tasks keep for themselves between runs.
    pub(crate) fn own_folder(&self) -> PathBuf {
        self.target.join("xtask")
    }

    pub(crate) fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The built `kvscope` of a profile's folder (`debug`, `release`).
    pub(crate) fn agent(&self, profile_folder: &str) -> PathBuf {
        self.target.join(profile_folder).join(format!("kvscope{}", env::consts::EXE_SUFFIX))
    }

    /// Cargo, to be run in the repository.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = process::cargo();
        cargo.current_dir(&self.root);
        cargo
    }
}

fn read_package(package: &serde_json::Value, root: &Path) -> Option<Package> {
    let manifest = Path::new(package["manifest_path"].as_str()?);
    let folder = manifest.parent()?.strip_prefix(root).ok()?;
    let depends_on = package["dependencies"]
        .as_array()?
        .iter()
        .filter(|dependency| dependency["path"].is_string())
        .filter_map(|dependency| Some(dependency["name"].as_str()?.to_owned()))
        .collect();
    Some(Package {
        name: package["name"].as_str()?.to_owned(),
        folder: folder.to_string_lossy().replace('\\', "/"),
        depends_on,
    })
}
