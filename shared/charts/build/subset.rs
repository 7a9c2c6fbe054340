//! Cuts the packaged font down to the characters in use. `subsetter` keeps outlines, widths and the copyright; what a
//! browser also needs (`cmap`, `OS/2`) is added here.

use std::fs;
use std::path::Path;

use subsetter::GlyphRemapper;
use ttf_parser::{Face, RawFace, Tag};

/// Writes `NAME.ttf` and `NAME.woff2` to `out`.
pub(crate) fn write(out: &Path, name: &str, data: &[u8], characters: &[char]) {
    let face = Face::parse(data, 0).expect("the packaged font parses");
    let mut remapper = GlyphRemapper::new();
    let mapping: Vec<(u16, u16)> = characters
        .iter()
        .filter_map(|&character| {
            let code = u16::try_from(u32::from(character)).ok()?;
            Some((code, remapper.remap(face.glyph_index(character)?.0)))
        })
        .collect();
    let bare = subsetter::subset(data, 0, &remapper).expect("the packaged font can be cut down");
    let bare = RawFace::parse(&bare, 0).expect("the cut font parses");
    let original = RawFace::parse(data, 0).expect("the packaged font parses");
    let mut tables: Vec<(Tag, Vec<u8>)> = bare
        .table_records
        .into_iter()
        .filter_map(|record| Some((record.tag, bare.table(record.tag)?.to_vec())))
        .collect();
    let os2 = original.table(Tag::from_bytes(b"OS/2")).expect("the packaged font has an OS/2 table");
    tables.push((Tag::from_bytes(b"OS/2"), os2.to_vec()));
    tables.push((Tag::from_bytes(b"cmap"), character_map(&mapping)));
    // Hinting is for screens of 1x; the page and exports draw outlines.
    tables.retain(|(tag, _)| ![b"cvt ", b"fpgm", b"prep"].contains(&&tag.to_bytes()));
    let font = assemble(tables);
    Face::parse(&font, 0).expect("the assembled font parses");
    let packed =
        ttf2woff2::encode(&font, ttf2woff2::BrotliQuality::default()).expect("the assembled font packs");
    fs::write(out.join(format!("{name}.ttf")), font).expect("the output folder can be written");
    fs::write(out.join(format!("{name}.woff2")), packed).expect("the output folder can be written");
}

/// A `cmap` with one format 4 subtable, a segment for each run of neighbouring characters with neighbouring glyphs.
fn character_map(mapping: &[(u16, u16)]) -> Vec<u8> {
    let mut segments: Vec<(u16, u16, u16)> = Vec::new();
    for &(code, glyph) in mapping {
        match segments.last_mut() {
            Some((first, last, first_glyph))
                if *last + 1 == code && *first_glyph + (code - *first) == glyph =>
            {
                *last = code;
            }
            _ => segments.push((code, code, glyph)),
        }
    }
    // The format asks for a last segment that maps U+FFFF to no glyph.
    segments.push((0xffff, 0xffff, 0));
    let count = u16::try_from(segments.len()).expect("few segments");
    let length = 16 + 8 * count;
    let (range, selector) = search_parameters(count);
    let mut table = Vec::new();
    let mut put = |value: u16| table.extend(value.to_be_bytes());
    // Header: version, one subtable, Windows platform, Unicode BMP, offset 12.
    for value in [0, 1, 3, 1, 0, 12] {
        put(value);
    }
    for value in [4, length, 0, 2 * count, 2 * range, selector, 2 * (count - range)] {
        put(value);
    }
    let lasts = segments.iter().map(|segment| segment.1);
    let firsts = segments.iter().map(|segment| segment.0);
    let deltas =
        segments.iter().map(|&(first, _, glyph)| if first == 0xffff { 1 } else { glyph.wrapping_sub(first) });
    let no_offsets = segments.iter().map(|_| 0);
    for value in lasts.chain([0]).chain(firsts).chain(deltas).chain(no_offsets) {
        put(value);
    }
    table
}

/// The largest power of two not above `count`, and its exponent.
fn search_parameters(count: u16) -> (u16, u16) {
    let exponent = u16::try_from(count.ilog2()).expect("at most 15");
    (1 << exponent, exponent)
}

/// A font file of `tables`, with checksums.
fn assemble(mut tables: Vec<(Tag, Vec<u8>)>) -> Vec<u8> {
    tables.sort_by_key(|(tag, _)| tag.to_bytes());
    let count = u16::try_from(tables.len()).expect("few tables");
    let (range, selector) = search_parameters(count);
    let mut font: Vec<u8> = 0x0001_0000_u32.to_be_bytes().to_vec();
    for value in [count, 16 * range, selector, 16 * (count - range)] {
        font.extend(value.to_be_bytes());
    }
    let mut offset = 12 + 16 * tables.len();
    let mut head = None;
    for (tag, data) in &mut tables {
        if tag.to_bytes() == *b"head" {
            data[8..12].fill(0);
            head = Some(offset);
        }
        font.extend(tag.to_bytes());
        font.extend(checksum(data).to_be_bytes());
        font.extend(u32::try_from(offset).expect("a small font").to_be_bytes());
        font.extend(u32::try_from(data.len()).expect("a small font").to_be_bytes());
        offset += data.len().next_multiple_of(4);
    }
    for (_, data) in &tables {
        font.extend(data);
        font.resize(font.len().next_multiple_of(4), 0);
    }
    let adjustment = 0xb1b0_afba_u32.wrapping_sub(checksum(&font));
    let head = head.expect("the cut font has a head table");
    font[head + 8..head + 12].copy_from_slice(&adjustment.to_be_bytes());
    font
}

fn checksum(data: &[u8]) -> u32 {
    data.chunks(4).fold(0, |sum: u32, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        sum.wrapping_add(u32::from_be_bytes(word))
    })
}
