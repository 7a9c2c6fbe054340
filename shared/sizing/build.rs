//! Builds the data into the crate: every file of `assets/models/`, `assets/claims/` and `assets/hardware/`, checked and
//! without its white space.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

fn main() {
    embed("models", &|path, value| {
        for field in ["name", "family", "vendor", "source", "confidence", "config"] {
            assert!(value.get(field).is_some(), "{}: {field} is missing", path.display());
        }
    });
    embed("hardware", &|path, value| {
        for field in ["name", "kind", "source", "confidence"] {
            assert!(value.get(field).is_some(), "{}: {field} is missing", path.display());
        }
    });
    embed("claims", &|path, value| {
        for field in ["publication", "short", "claims"] {
            assert!(value.get(field).is_some(), "{}: {field} is missing", path.display());
        }
    });
}

/// Writes the files of one folder of `assets/` as a list of `(stem, text)`, sorted by stem.
fn embed(kind: &str, check: &dyn Fn(&Path, &Value)) {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = Path::new(&root).join("../../assets").join(kind);
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
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("file names are plain text");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut value: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        check(&path, &value);
        if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|target| target == "wasm32") {
            leave_out(kind, &mut value);
        }
        writeln!(code, "    ({stem:?}, {:?}),", value.to_string()).expect("writing to a string");
    }
    code.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join(format!("{kind}.rs"));
    fs::write(out, code).expect("a writable build folder");
}

/// What the page does not show, which would be a good part of its catalogue; the sources of datasheet figures it does.
fn leave_out(kind: &str, value: &mut Value) {
    let Some(entry) = value.as_object_mut() else { return };
    entry.remove("notes");
    if kind != "hardware" {
        entry.remove("source");
    }
    without_plans(value);
}

/// Plans of claims with their models alone: the page leaves these figures to the command line.
fn without_plans(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_plans),
        Value::Object(fields) => {
            for (name, inner) in fields {
                match (name.as_str(), inner) {
                    ("plan", Value::Object(inputs)) => inputs.retain(|name, _| name == "model"),
                    (_, inner) => without_plans(inner),
                }
            }
        }
        _ => {}
    }
}
