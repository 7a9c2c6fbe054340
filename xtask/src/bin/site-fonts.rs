//! Writes the figures' font for the page into a folder: `regular.woff2` and its like, and the `fonts.css` that loads
//! them. Its licence lies in `assets/site`.
//!
//! A program of its own, so that xtask depends on no crate that it checks: a change that breaks one of them is then
//! a failed check, not a task that cannot start.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

use kvscope_charts::font::{FAMILY, FONT_FILES};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from).ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(&folder)?;
    let mut rules = String::new();
    for font in FONT_FILES {
        let name = format!("{}.woff2", font.name);
        let _ = writeln!(
            rules,
            "@font-face {{ font-family: \"{FAMILY}\"; font-weight: {}; font-display: swap; \
             src: url(\"{name}\") format(\"woff2\"); }}",
            font.weight
        );
        fs::write(folder.join(name), font.woff2)?;
    }
    fs::write(folder.join("fonts.css"), rules)
}
