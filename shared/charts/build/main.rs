//! Writes the advance widths and metrics of the figures' font as Rust tables, and, with `font-bytes`, the subset font
//! files, to the build's output folder.

#![allow(clippy::print_stdout, reason = "cargo reads directives from the build script's output")]

#[cfg(feature = "font-bytes")]
mod subset;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use ttf_parser::Face;

/// The faces that figures and the page use.
const FACES: [(&str, &[u8]); 2] = [("regular", ttf_noto_sans::REGULAR), ("bold", ttf_noto_sans::BOLD)];

fn main() {
    println!("cargo::rerun-if-changed=build");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut tables = String::new();
    for (name, data) in FACES {
        let face = Face::parse(data, 0).expect("the packaged font parses");
        write_metrics(&mut tables, &face, name);
        #[cfg(feature = "font-bytes")]
        subset::write(&out, name, data, &characters());
    }
    fs::write(out.join("font_tables.rs"), tables).expect("the output folder can be written");
}

/// Every character that the embedded font covers: what names, numbers, units and sentences use.
fn characters() -> Vec<char> {
    let mut characters: Vec<char> = (' '..='~').chain('\u{a0}'..='ÿ').collect();
    characters.extend("ŁłŒœŠšŽžŸ".chars());
    characters.extend("αβγδεηθκλμπρστφωΔΣΩ".chars());
    characters.extend("–—‘’“”…•‹›⁄′″".chars());
    characters.extend("⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉".chars());
    characters.extend("←↑→↓−≈≠≤≥√∞○●".chars());
    characters.extend(['\u{2009}', '\u{202f}']);
    characters.sort_unstable();
    characters.dedup();
    characters
}

/// `NAME: &[(first character, advances in font units)]`, one entry a run of neighbouring characters.
fn write_metrics(tables: &mut String, face: &Face, name: &str) {
    let mut runs: Vec<(u32, Vec<u16>)> = Vec::new();
    for character in characters() {
        let Some(advance) = face.glyph_index(character).and_then(|glyph| face.glyph_hor_advance(glyph))
        else {
            continue;
        };
        let code = u32::from(character);
        match runs.last_mut() {
            Some((first, advances)) if *first as usize + advances.len() == code as usize => {
                advances.push(advance);
            }
            _ => runs.push((code, vec![advance])),
        }
    }
    let upper = name.to_uppercase();
    writeln!(tables, "pub(super) const {upper}: &[(u32, &[u16])] = &[").expect("writing to a string");
    for (first, advances) in runs {
        writeln!(tables, "    ({first}, &{advances:?}),").expect("writing to a string");
    }
    writeln!(tables, "];").expect("writing to a string");
    if name == "regular" {
        let typo_ascent = face.typographic_ascender().unwrap_or(face.ascender());
        let typo_descent = -face.typographic_descender().unwrap_or(face.descender());
        let cap_height = face.capital_height().expect("the packaged font states its capital height");
        writeln!(
            tables,
            "pub(super) const UNITS_PER_EM: f64 = {:?};\npub(super) const TYPO_ASCENT: f64 = {:?};\n\
             pub(super) const TYPO_DESCENT: f64 = {:?};\npub(super) const CAP_HEIGHT: f64 = {:?};",
            f64::from(face.units_per_em()),
            f64::from(typo_ascent),
            f64::from(typo_descent),
            f64::from(cap_height),
        )
        .expect("writing to a string");
    }
}
