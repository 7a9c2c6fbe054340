//! Builds the catalogue into the crate: every file of `assets/models/`, checked and without its white space.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../assets/models");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));
    let mut code = String::from("&[\n");
    for path in files {
        println!("cargo::rerun-if-changed={}", path.display());
        let id = path.file_stem().and_then(|stem| stem.to_str()).expect("ids are plain text");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let value: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for field in ["name", "family", "vendor", "source", "confidence", "config"] {
            assert!(value.get(field).is_some(), "{}: {field} is missing", path.display());
        }
        writeln!(code, "    ({id:?}, {:?}),", value.to_string()).expect("writing to a string");
    }
    code.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("catalogue.rs");
    fs::write(out, code).expect("a writable build folder");
}
