//! Text widths from a table of the embedded font's advance widths: a pure look-up, equal in WASM and natively, so that
//! layout is deterministic. Kerning is ignored, as canvas and SVG text stay within a pixel of it at these sizes.

use crate::scene::Weight;

mod tables {
    include!(concat!(env!("OUT_DIR"), "/font_tables.rs"));
}

/// Text sizes in CSS pixels. No figure uses another.
pub mod size {
    /// The sentence above an exported figure.
    pub const HEADLINE: f64 = 25.0;
    /// A heading inside a figure.
    pub const HEADING: f64 = 15.0;
    /// Controls and running text.
    pub const BODY: f64 = 14.0;
    /// Names and values.
    pub const LABEL: f64 = 12.5;
    /// Axis ticks and notes.
    pub const NOTE: f64 = 11.5;
}

/// Width of `text` in CSS pixels at `size`. Chinese, Japanese and Korean characters and full-width forms count one em;
/// other characters that the embedded font lacks count as an average letter.
pub fn width(text: &str, size: f64, weight: Weight) -> f64 {
    let table = match weight {
        Weight::Regular => tables::REGULAR,
        Weight::Bold => tables::BOLD,
    };
    text.chars().map(|character| advance(table, character)).sum::<f64>() * size / tables::UNITS_PER_EM
}

/// Height of capitals and digits above the baseline, in CSS pixels at `size`.
pub fn cap_height(size: f64) -> f64 {
    size * tables::CAP_HEIGHT / tables::UNITS_PER_EM
}

/// How far the middle of the em box, as canvas computes it, lies above the baseline at `size`.
pub(crate) fn middle_above_baseline(size: f64) -> f64 {
    let em = tables::TYPO_ASCENT + tables::TYPO_DESCENT;
    size * (tables::TYPO_ASCENT - tables::TYPO_DESCENT) / (2.0 * em)
}

/// `text`, cut with `…` where it is wider than `limit` CSS pixels.
pub fn fitted(text: &str, size: f64, weight: Weight, limit: f64) -> String {
    if width(text, size, weight) <= limit {
        return text.to_owned();
    }
    let room = limit - width("…", size, weight);
    let mut used = 0.0;
    let mut kept = String::new();
    for character in text.chars() {
        used += width(character.encode_utf8(&mut [0; 4]), size, weight);
        if used > room {
            break;
        }
        kept.push(character);
    }
    format!("{}…", kept.trim_end())
}

/// `text` in lines no wider than `limit` CSS pixels, broken at spaces but not between a number and its unit. A word that
/// is wider stays whole.
pub fn wrapped(text: &str, size: f64, weight: Weight, limit: f64) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut() {
            Some(number) if is_unit(word) && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let joined = lines.last().map(|line| format!("{line} {word}"));
        match joined {
            Some(joined) if width(&joined, size, weight) <= limit => {
                *lines.last_mut().expect("a line was joined") = joined;
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Whether the embedded font has the character.
#[cfg(feature = "files")]
pub(crate) fn is_covered(character: char) -> bool {
    known(tables::REGULAR, u32::from(character)).is_some()
}

fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches([',', '.', ';']);
    let bytes = word.strip_suffix('B').is_some_and(|prefix| {
        matches!(
            prefix,
            "" | "k" | "K" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"
        )
    });
    bytes || matches!(word, "s" | "ms" | "µs" | "ns" | "%" | "tokens" | "B/token")
}

fn advance(table: &[(u32, &[u16])], character: char) -> f64 {
    let code = u32::from(character);
    match known(table, code) {
        Some(advance) => f64::from(advance),
        None if is_full_width(code) => tables::UNITS_PER_EM,
        None => 0.56 * tables::UNITS_PER_EM,
    }
}

fn known(table: &[(u32, &[u16])], code: u32) -> Option<u16> {
    let run = table.partition_point(|(first, _)| *first <= code);
    let (first, advances) = table[run.checked_sub(1)?];
    advances.get(usize::try_from(code - first).ok()?).copied()
}

/// Whether a character takes one em: CJK, kana, hangul, full-width forms.
fn is_full_width(code: u32) -> bool {
    matches!(code, 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe4f
        | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x2_0000..=0x3_fffd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_all_have_one_width() {
        // Noto Sans: 1171 of 2048 units for every digit, both weights (hmtx table).
        for digit in '0'..='9' {
            for weight in [Weight::Regular, Weight::Bold] {
                assert!((width(&digit.to_string(), 2048.0, weight) - 1171.0).abs() < 1e-9, "{digit}");
            }
        }
    }

    #[test]
    fn chinese_counts_one_em_a_character() {
        assert!((width("上下文长度", 10.0, Weight::Regular) - 50.0).abs() < 1e-9);
        assert!((width("（）", 10.0, Weight::Bold) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn signs_that_figures_use_are_in_the_font() {
        for character in "×→µ≈−·\u{2009}…–≤≥○".chars() {
            assert!(
                tables::REGULAR.iter().any(|(first, advances)| {
                    let code = u32::from(character);
                    code >= *first && code - first < u32::try_from(advances.len()).unwrap()
                }),
                "{character:?}"
            );
        }
    }

    #[test]
    fn lines_break_between_words_but_not_before_units() {
        let sentence = "DeepSeek-V4-Pro keeps 526 MB, 48 times less, the least of 6.";
        for limit in [120.0, 160.0, 200.0, 300.0, 900.0] {
            let lines = wrapped(sentence, size::BODY, Weight::Bold, limit);
            assert_eq!(lines.join(" "), sentence);
            for line in &lines {
                assert!(!line.starts_with("MB"), "{lines:?}");
                assert!(width(line, size::BODY, Weight::Bold) <= limit || !line.contains(' '), "{lines:?}");
            }
        }
    }

    #[test]
    fn fitted_text_is_never_wider_than_its_room() {
        for limit in [20.0, 50.0, 80.0, 200.0] {
            let cut = fitted("Qwen3.5-397B-A17B", size::LABEL, Weight::Bold, limit);
            assert!(width(&cut, size::LABEL, Weight::Bold) <= limit, "{cut} in {limit}");
        }
    }
}
