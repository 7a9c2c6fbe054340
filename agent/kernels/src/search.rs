//! Where NVRTC may be.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders in the order in which they are tried: the one that is asked for alone, or the variable's, beside the executable,
/// CUDA's, those of Python's packages.
pub fn places(asked_for: Option<&Path>) -> Vec<PathBuf> {
    if let Some(folder) = asked_for {
        return vec![folder.to_path_buf()];
    }
    if let Some(folder) = env::var_os("KVSCOPE_NVRTC") {
        return vec![folder.into()];
    }
    let mut places = Vec::new();
    places.extend(env::current_exe().ok().and_then(|program| program.parent().map(Path::to_path_buf)));
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(folder) = env::var_os(variable).map(PathBuf::from) {
            places.extend(["lib64", "lib", "bin"].map(|part| folder.join(part)));
        }
    }
    places.push("/usr/local/cuda/lib64".into());
    let mut pythons: Vec<PathBuf> = Vec::new();
    pythons.extend(env::var_os("VIRTUAL_ENV").map(PathBuf::from));
    pythons.extend(env::var_os("CONDA_PREFIX").map(PathBuf::from));
    pythons.extend(env::var_os("HOME").map(|home| PathBuf::from(home).join(".local")));
    pythons.extend(["/usr/local", "/usr"].map(PathBuf::from));
    places.extend(pythons.iter().flat_map(|prefix| packages(prefix)).flat_map(|packages| {
        ["cu13", "cuda_nvrtc"].map(|part| packages.join("nvidia").join(part).join("lib"))
    }));
    places.retain(|folder| folder.is_dir());
    places
}

/// The folders of packages of all Pythons under a prefix.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("python3") {
            folders.extend(["site-packages", "dist-packages"].map(|part| entry.path().join(part)));
        }
    }
    folders.sort();
    folders
}

/// NVRTC's libraries of a folder: what it needs at hand first, then itself, of the newest version.
pub(crate) fn libraries(folder: &Path) -> Option<(Option<PathBuf>, PathBuf)> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    files.sort_by_key(|path| version(path));
    let find = |begins: &[&str], but_not: &str| {
        files.iter().rev().find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            begins.iter().any(|begin| name.starts_with(begin))
                && !name.contains(but_not)
                && (name.contains(".so") || name.ends_with(".dll"))
        })
    };
    let library = find(&["libnvrtc.", "nvrtc64_"], ".alt")?.clone();
    Some((find(&["libnvrtc-builtins.", "nvrtc-builtins64_"], ".alt").cloned(), library))
}

/// The numbers of a file's name, so that 13 comes after 12 and 9.
fn version(path: &Path) -> Vec<u32> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_library_of_a_folder_is_taken_with_what_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(libraries(folder.path()), None);
        for name in ["libnvrtc.so.9", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.alt.so.13", "libother.so"]
        {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(libraries(folder.path()), Some((None, folder.path().join("libnvrtc.so.13"))));
        fs::write(folder.path().join("libnvrtc-builtins.so.13.0"), "").unwrap();
        let builtins = folder.path().join("libnvrtc-builtins.so.13.0");
        assert_eq!(libraries(folder.path()), Some((Some(builtins), folder.path().join("libnvrtc.so.13"))));
    }

    #[test]
    fn a_folder_that_is_asked_for_is_the_only_one() {
        assert_eq!(places(Some(Path::new("here"))), [PathBuf::from("here")]);
    }

    #[test]
    fn packages_of_every_python_are_looked_at() {
        let prefix = tempfile::tempdir().unwrap();
        for version in ["python3.11", "python3.13", "perl"] {
            fs::create_dir_all(prefix.path().join("lib").join(version)).unwrap();
        }
        let found = packages(prefix.path());
        assert_eq!(found.len(), 4);
        assert!(found[0].ends_with("lib/python3.11/dist-packages"));
    }
}
