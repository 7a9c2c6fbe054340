//! Rules about the text of files.

use std::fs;
use std::path::Path;

use crate::error::Result;
use crate::rules::repository_files;
use crate::workspace::Workspace;

const MOST_LINES: usize = 500;

/// Folders where people and build machines keep their files. Joined here, so that this file keeps the rule.
const MACHINE_FOLDERS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/t", "mp/"),
];
/// Parts of host names that package registries and their mirrors have.
const REGISTRY_LABELS: [&str; 8] =
    ["artifactory", "crates-io", "index", "mirror", "mirrors", "nexus", "pypi", "registry"];
/// The name by which every lock file calls the public registry, whatever mirror serves it.
const PUBLIC_INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn long_files(workspace: &Workspace) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for (name, text) in texts(workspace)? {
        let lines = text.lines().count();
        if Path::new(&name).extension().is_some_and(|ending| ending == "rs") && lines > MOST_LINES {
            offences.push(format!("{name} has {lines}"));
        }
    }
    Ok(offences)
}

pub(crate) fn machine_traces(workspace: &Workspace) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for (name, text) in texts(workspace)? {
        for (index, line) in text.lines().enumerate() {
            if let Some(trace) = machine_trace(line) {
                offences.push(format!("{name}:{} {trace}", index + 1));
            }
        }
    }
    Ok(offences)
}

/// The files that hold text, with their text.
fn texts(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    let names = repository_files(workspace.root())?;
    let read = |name: String| fs::read_to_string(workspace.root().join(&name)).ok().map(|text| (name, text));
    Ok(names.into_iter().filter_map(read).collect())
}

fn machine_trace(line: &str) -> Option<&str> {
    machine_path(line).or_else(|| registry_host(line))
}

/// An absolute path into a folder of one machine. Not `a/work/b`, and not the path of a web address.
fn machine_path(line: &str) -> Option<&str> {
    MACHINE_FOLDERS.iter().find_map(|folder| {
        line.match_indices(folder).find_map(|(at, _)| {
            let before = line[..at].chars().next_back();
            let starts_here = !before
                .is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '}' | ')'));
            let named =
                line[at + folder.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '.' || c == '_');
            (starts_here && named).then(|| &line[at..at + folder.len()])
        })
    })
}

fn registry_host(line: &str) -> Option<&str> {
    let line = if line.contains(PUBLIC_INDEX) { "" } else { line };
    line.match_indices("://").find_map(|(at, separator)| {
        let rest = &line[at + separator.len()..];
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))).unwrap_or(rest.len());
        let host = &rest[..end];
        host.split('.').any(|label| REGISTRY_LABELS.contains(&label)).then_some(host)
    })
}

#[cfg(test)]
mod tests {
    use super::machine_trace;

    #[test]
    fn paths_of_a_machine_are_found_and_look_alikes_are_not() {
        let home = concat!("/ho", "me/");
        let shared = concat!("/wo", "rk/");
        assert_eq!(machine_trace(&format!("open({home:?})")), None, "a bare prefix names no machine");
        assert_eq!(machine_trace(&format!("let path = \"{home}anna/x\";")), Some(home));
        assert_eq!(machine_trace(&format!("see {shared}main")), Some(shared));
        assert_eq!(machine_trace(&format!("https://example.org{shared}paper.pdf")), None);
        assert_eq!(machine_trace(&format!("docs{shared}notes")), None);
    }

    #[test]
    fn the_public_index_is_a_name_and_a_mirror_is_a_place() {
        let name = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert_eq!(machine_trace(name), None);
        let mirror = concat!("source = \"sparse+https://mir", "ror.example.net/crates/\"");
        assert_eq!(machine_trace(mirror), Some("mirror.example.net"));
        assert_eq!(machine_trace("https://huggingface.co/google/gemma-3-27b-it"), None);
    }
}
