//! The one font of figures, page and exports: Noto Sans, regular and bold, by Google (version 1.04, copyright 2012
//! Google Inc.), under the Apache License 2.0 as its own name table states. It comes from the `ttf-noto-sans` package at
//! build time and is not committed. Its digits all have one width, so columns of numbers line up without font features,
//! which a canvas cannot switch on.
//!
//! With the feature `font-bytes` the files cut down to the characters in use (Latin, Greek, digits, arrows, `× ≈ − µ ·`,
//! thin spaces) are here as bytes. Whoever serves or embeds them ships [`LICENCE`] beside them.

/// The family's name in `@font-face` rules and SVG.
pub const FAMILY: &str = "Noto Sans";

/// What SVG, CSS and canvas ask for: the embedded family, then system faces (Chinese falls back there), then the
/// generic family that survives every sanitiser.
pub const FAMILY_STACK: &str =
    "'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif";

/// One embedded font file.
#[cfg(feature = "font-bytes")]
#[derive(Clone, Copy, Debug)]
pub struct FontFile {
    /// File name without extension: `regular` or `bold`.
    pub name: &'static str,
    /// CSS weight.
    pub weight: u16,
    /// The subset as TrueType.
    pub ttf: &'static [u8],
    /// The same subset, packed for the web.
    pub woff2: &'static [u8],
}

/// Both faces, cut down to the characters in use.
#[cfg(feature = "font-bytes")]
pub const FONT_FILES: [FontFile; 2] = [
    FontFile {
        name: "regular",
        weight: 400,
        ttf: include_bytes!(concat!(env!("OUT_DIR"), "/regular.ttf")),
        woff2: include_bytes!(concat!(env!("OUT_DIR"), "/regular.woff2")),
    },
    FontFile {
        name: "bold",
        weight: 700,
        ttf: include_bytes!(concat!(env!("OUT_DIR"), "/bold.ttf")),
        woff2: include_bytes!(concat!(env!("OUT_DIR"), "/bold.woff2")),
    },
];

/// Both faces as a style sheet that needs no other file; empty without `font-bytes`.
#[cfg(feature = "font-bytes")]
pub(crate) fn style_sheet() -> String {
    use base64::Engine as _;
    let face = |file: &FontFile| {
        let data = base64::engine::general_purpose::STANDARD.encode(file.woff2);
        let FontFile { weight, .. } = file;
        format!(
            "@font-face{{font-family:'{FAMILY}';font-weight:{weight};src:url(data:font/woff2;base64,{data}) format('woff2')}}"
        )
    };
    FONT_FILES.iter().map(face).collect()
}

/// Both faces as a style sheet that needs no other file; empty without `font-bytes`.
#[cfg(not(feature = "font-bytes"))]
pub(crate) const fn style_sheet() -> String {
    String::new()
}

/// The font's copyright line and the text of its licence.
#[cfg(feature = "font-bytes")]
pub const LICENCE: &str = include_str!("../../../assets/site/fonts-licence.txt");

#[cfg(all(test, feature = "font-bytes"))]
mod tests {
    use super::*;

    #[test]
    fn both_faces_stay_within_the_sites_share_for_fonts() {
        let total: usize = FONT_FILES.iter().map(|file| file.woff2.len()).sum();
        assert!(total <= 60_000, "{total} B of fonts; the site has 60 KB for them");
        for file in FONT_FILES {
            assert_eq!(&file.woff2[..4], b"wOF2");
            assert_eq!(&file.ttf[..4], [0, 1, 0, 0]);
        }
    }
}
