//! From source files to the finished folder: hashed names, references that follow them, brotli twins.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use brotli::enc::BrotliEncoderParams;

use crate::error::{Error, Result};
use crate::site::files::{self, SiteFile, hash};
use crate::site::wasm::{LOADER, MODULE};

/// Writes the site into `folder`, which belongs to it alone: what a former build left there goes.
pub(crate) fn write(folder: &Path, sources: Vec<SiteFile>) -> Result<()> {
    let files = with_hashed_names(sources)?;
    let mut kept = BTreeSet::new();
    for file in &files {
        kept.insert(file.name.clone());
        let path = folder.join(&file.name);
        let unchanged = fs::read(&path).is_ok_and(|bytes| bytes == file.bytes);
        if !unchanged {
            file.write_into(folder)?;
        }
        if !file.is_compressible() {
            continue;
        }
        kept.insert(file.brotli_name());
        if !unchanged || !folder.join(file.brotli_name()).is_file() {
            SiteFile { name: file.brotli_name(), bytes: compress(&file.bytes, &path)? }.write_into(folder)?;
        }
    }
    for file in files::read_folder(folder)? {
        if !kept.contains(&file.name) {
            let path = folder.join(&file.name);
            fs::remove_file(&path).map_err(Error::file(&path))?;
        }
    }
    Ok(())
}

/// Gives each file that may be cached for ever a name with the hash of its content, and mends the names in the
/// files that refer to it. A file comes after all that it refers to, since its own hash depends on their names.
fn with_hashed_names(mut sources: Vec<SiteFile>) -> Result<Vec<SiteFile>> {
    sources.sort_by_cached_key(|file| (depth_of_references(file), file.name.clone()));
    let mut renamed: Vec<(String, String)> = Vec::new();
    let mut finished = Vec::with_capacity(sources.len());
    for mut file in sources {
        if file.names_others() {
            file.bytes = with_new_names(&file.bytes, &renamed);
        }
        if file.is_cached_by_name() {
            let old = file.base_name().to_owned();
            if renamed.iter().any(|(known, _)| *known == old) {
                return Err(Error::SameName { name: old });
            }
            let new = hashed_name(&old, &file.bytes);
            let folder_length = file.name.len() - old.len();
            file.name.replace_range(folder_length.., &new);
            renamed.push((old, new));
        }
        finished.push(file);
    }
    Ok(finished)
}

/// 0 for files that refer to nothing, growing towards the page that refers to everything.
fn depth_of_references(file: &SiteFile) -> u8 {
    match (file.ending(), file.name.as_str()) {
        ("html", _) => 5,
        ("js", LOADER) => 2,
        ("js", name) if name.starts_with("snippets/") => 1,
        ("js", _) => 3,
        ("css", _) => 4,
        (_, MODULE) => 1,
        _ => 0,
    }
}

fn hashed_name(name: &str, bytes: &[u8]) -> String {
    match name.rsplit_once('.') {
        Some((stem, ending)) => format!("{stem}-{}.{ending}", hash(bytes)),
        None => format!("{name}-{}", hash(bytes)),
    }
}

/// Replaces file names where they stand as a whole reference: after a quote, a slash or a bracket, and before
/// a quote, a bracket, a `?` or a `#`.
fn with_new_names(bytes: &[u8], renamed: &[(String, String)]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
    let mut text = text.to_owned();
    for (old, new) in renamed {
        let mut mended = String::with_capacity(text.len() + new.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find(old.as_str()) {
            let (before, from) = rest.split_at(at);
            let after = &from[old.len()..];
            mended.push_str(before);
            let whole = before.ends_with(['"', '\'', '`', '/', '('])
                && after.starts_with(['"', '\'', '`', ')', '?', '#']);
            mended.push_str(if whole { new } else { old });
            rest = after;
        }
        mended.push_str(rest);
        text = mended;
    }
    text.into_bytes()
}

fn compress(bytes: &[u8], path: &Path) -> Result<Vec<u8>> {
    let parameters =
        BrotliEncoderParams { quality: 11, lgwin: 22, size_hint: bytes.len(), ..Default::default() };
    let mut compressed = Vec::new();
    brotli::BrotliCompress(&mut &bytes[..], &mut compressed, &parameters).map_err(Error::file(path))?;
    Ok(compressed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> SiteFile {
        SiteFile { name: name.to_owned(), bytes: text.as_bytes().to_vec() }
    }

    fn text_of<'a>(files: &'a [SiteFile], start: &str) -> &'a str {
        let file = files.iter().find(|file| file.name.starts_with(start)).expect("the file is there");
        std::str::from_utf8(&file.bytes).expect("text")
    }

    #[test]
    fn references_follow_the_hashed_names_through_every_step() {
        let files = with_hashed_names(vec![
            file("index.html", r#"<script src="boot.js"></script><link href="styles.css"> boot.js in prose"#),
            file("styles.css", "@font-face { src: url(fonts/text.ttf) }"),
            file("boot.js", r#"import init from "./kvscope.js"; init("./kvscope_bg.wasm")"#),
            file("kvscope.js", "new URL('kvscope_bg.wasm', import.meta.url)"),
            file("kvscope_bg.wasm", "module"),
            file("fonts/text.ttf", "font"),
            file("icon.svg", "<svg/>"),
        ])
        .expect("names differ");
        let names = files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>();
        assert!(names.contains(&"index.html") && names.contains(&"icon.svg"));

        let module = format!("kvscope_bg-{}.wasm", hash(b"module"));
        assert!(names.contains(&module.as_str()));
        let loader = format!("new URL('{module}', import.meta.url)");
        assert_eq!(text_of(&files, "kvscope-"), loader);
        let loader_name = format!("kvscope-{}.js", hash(loader.as_bytes()));
        let boot = format!(r#"import init from "./{loader_name}"; init("./{module}")"#);
        assert_eq!(text_of(&files, "boot-"), boot);
        let styles = format!("@font-face {{ src: url(fonts/text-{}.ttf) }}", hash(b"font"));
        assert_eq!(text_of(&files, "styles-"), styles);
        let page = format!(
            r#"<script src="boot-{}.js"></script><link href="styles-{}.css"> boot.js in prose"#,
            hash(boot.as_bytes()),
            hash(styles.as_bytes())
        );
        assert_eq!(text_of(&files, "index.html"), page);
    }

    #[test]
    fn one_name_in_two_folders_is_refused() {
        let refused = with_hashed_names(vec![file("a/x.css", "1"), file("b/x.css", "2")]);
        assert!(matches!(refused, Err(Error::SameName { name }) if name == "x.css"));
    }

    #[test]
    fn a_second_build_leaves_nothing_of_the_first_and_brotli_gives_the_file_back() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write(folder.path(), vec![file("index.html", "old"), file("a.js", "one")]).expect("written");
        write(folder.path(), vec![file("index.html", "new"), file("b.js", "two")]).expect("written");
        let mut names = files::read_folder(folder.path())
            .expect("read")
            .into_iter()
            .map(|file| file.name)
            .collect::<Vec<_>>();
        names.sort();
        let script = format!("b-{}.js", hash(b"two"));
        assert_eq!(
            names,
            [script.clone(), format!("{script}.br"), "index.html".into(), "index.html.br".into()]
        );

        let mut plain = Vec::new();
        let compressed = fs::read(folder.path().join("index.html.br")).expect("read");
        brotli::BrotliDecompress(&mut &compressed[..], &mut plain).expect("valid brotli");
        assert_eq!(plain, b"new");
    }
}
