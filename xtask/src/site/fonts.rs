//! The figures' font for the page, with the rules that load it. Its licence lies in `assets/site`.

use std::fmt::Write as _;

use kvscope_charts::font::{FAMILY, FONT_FILES};

use crate::site::files::SiteFile;

/// `regular.woff2` and its like, and the `fonts.css` that names them.
pub(crate) fn files() -> Vec<SiteFile> {
    let mut rules = String::new();
    let mut files = Vec::new();
    for font in FONT_FILES {
        let name = format!("{}.woff2", font.name);
        let _ = writeln!(
            rules,
            "@font-face {{ font-family: \"{FAMILY}\"; font-weight: {}; font-display: swap; \
             src: url(\"{name}\") format(\"woff2\"); }}",
            font.weight
        );
        files.push(SiteFile { name, bytes: font.woff2.to_vec() });
    }
    files.push(SiteFile { name: "fonts.css".to_owned(), bytes: rules.into_bytes() });
    files
}
