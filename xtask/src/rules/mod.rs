//! House rules that no compiler checks. Each is a function from the repository to the places that break it.

mod documents;
mod imports;
mod text;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};
use crate::process;
use crate::workspace::Workspace;

/// One rule; it counts as one check.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// Names each offence in a few words: where, and what.
    find: fn(&Workspace) -> Result<Vec<String>>,
}

pub(crate) fn all() -> [Rule; 6] {
    [
        Rule { name: "no source file over 500 lines", find: text::long_files },
        Rule { name: "no paths of one machine and no package registry hosts", find: text::machine_traces },
        Rule { name: "every crate takes the workspace's lints", find: documents::crates_without_lints },
        Rule {
            name: "change log and golden figures are there",
            find: |workspace| Ok(documents::missing_files(workspace)),
        },
        Rule { name: "ARCHITECTURE.md names every crate and module folder", find: documents::unmapped_rooms },
        Rule { name: "imports go one way", find: |workspace| Ok(imports::wrong_ways(workspace)) },
    ]
}

impl Rule {
    pub(crate) fn check(&self, workspace: &Workspace) -> Result<()> {
        let offences = (self.find)(workspace)?;
        if offences.is_empty() {
            return Ok(());
        }
        Err(Error::Rule { rule: self.name, offences })
    }
}

/// Files of the repository, relative to its root: what git tracks or would, or, without git, all but build output.
fn repository_files(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names = match process::capture(&mut git) {
        Ok(list) => list.split_terminator('\0').map(str::to_owned).collect(),
        Err(_) => walk(root)?,
    };
    // A file that was deleted and not yet committed is still listed.
    Ok(names.into_iter().filter(|name| root.join(name).is_file()).collect())
}

fn walk(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::file(&folder))? {
            let path = entry.map_err(Error::file(&folder))?.path();
            let name = path.file_name().unwrap_or_default();
            if path.is_dir() {
                if !["target", ".git", "node_modules"].iter().any(|skipped| name == *skipped) {
                    open.push(path);
                }
                continue;
            }
            let inside = path.strip_prefix(root).expect("it was listed under the root");
            names.push(inside.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(names)
}
