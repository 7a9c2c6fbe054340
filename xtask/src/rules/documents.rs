//! Rules about files that must be there and what they must say.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::workspace::Workspace;

pub(crate) fn crates_without_lints(workspace: &Workspace) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for package in workspace.packages() {
        let manifest = workspace.root().join(&package.folder).join("Cargo.toml");
        if !takes_workspace_lints(&read(&manifest)?) {
            offences.push(format!("{}/Cargo.toml needs `[lints] workspace = true`", package.folder));
        }
    }
    Ok(offences)
}

pub(crate) fn missing_files(workspace: &Workspace) -> Vec<String> {
    let mut offences = Vec::new();
    for name in ["CHANGELOG.md", "ARCHITECTURE.md", "README.md"] {
        if !workspace.root().join(name).is_file() {
            offences.push(format!("{name} is missing"));
        }
    }
    let golden = "shared/charts/tests/golden";
    let figures = fs::read_dir(workspace.root().join(golden)).into_iter().flatten().flatten();
    if !figures.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|ending| ending == "svg")) {
        offences.push(format!("{golden} holds no figure"));
    }
    offences
}

pub(crate) fn unmapped_rooms(workspace: &Workspace) -> Result<Vec<String>> {
    let map = read(&workspace.root().join("ARCHITECTURE.md"))?;
    let mut offences = Vec::new();
    for package in workspace.packages() {
        let folder = &package.folder;
        let name = folder.rsplit('/').next().unwrap_or(folder);
        if !names(&map, name) {
            offences.push(format!("{folder} is not named"));
        }
        let source = workspace.root().join(folder).join("src");
        for entry in fs::read_dir(&source).map_err(Error::file(&source))? {
            let path = entry.map_err(Error::file(&source))?.path();
            let module = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !names(&map, &module) {
                offences.push(format!("{folder}/src/{module} is not named"));
            }
        }
    }
    Ok(offences)
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    lines.find(|line| !line.is_empty()).is_some_and(|line| line.replace(' ', "") == "workspace=true")
}

/// Whether a map names a folder: `sizing/` or `` `sizing` `` or `shared/sizing`, but not a word in a sentence.
fn names(map: &str, folder: &str) -> bool {
    map.match_indices(folder).any(|(at, _)| {
        let before = map[..at].chars().next_back();
        let after = map[at + folder.len()..].chars().next();
        let starts = !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
        let marked = before.is_some_and(|c| matches!(c, '/' | '`')) || after == Some('/');
        let ends = !after.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
        starts && ends && marked
    })
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_names_a_folder_by_a_path_and_not_by_a_word() {
        assert!(names("shared/\n  sizing/    units\n", "sizing"));
        assert!(names("see `sizing`.", "sizing"));
        assert!(names("in shared/sizing, ", "sizing"));
        assert!(!names("the sizing core", "sizing"));
        assert!(!names("shared/sizing-extra/", "sizing"));
    }

    #[test]
    fn lints_are_taken_only_from_their_own_table() {
        assert!(takes_workspace_lints("[package]\n\n[lints]\nworkspace = true\n"));
        assert!(!takes_workspace_lints("[package]\nversion.workspace = true\n"));
        assert!(!takes_workspace_lints("[lints]\n[dependencies]\nworkspace = true\n"));
    }
}
