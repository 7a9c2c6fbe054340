//! Exports carry every digit, what was asked and where they come from; figures by hand are in `common`.
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

mod common;

use kvscope_charts::export::{Format, Origin};
use kvscope_charts::{Export, Size, Theme};
use kvscope_sizing::UnitSystem;
use serde_json::Value;

use common::{CURSOR, contexts, of, reserved, series};

fn export() -> Export {
    let contexts = contexts();
    let growth = of(&series(&contexts), &contexts, Size::new(900.0, 420.0), UnitSystem::Decimal);
    let cursor = growth.cursor_at(CURSOR);
    Export {
        scene: growth.scene().clone().with(growth.overlay(&cursor)),
        title: "MiniMax-M2.7 keeps 25.4 GB & Kimi-K2.6 7.03 GB, 100 % by hand".to_owned(),
        note: "Resident state of one request · logical bytes".to_owned(),
        inputs: vec![
            ("models".to_owned(), "a_b, c|d".to_owned()),
            ("context".to_owned(), "100,000".to_owned()),
        ],
        assumptions: vec!["Kimi-K2.6: dtype absent: BF16".to_owned()],
        data: growth.data(),
        table: growth.table(Some(&cursor)),
        origin: Origin {
            program: "kvscope 0.1.0".to_owned(),
            day: "2026-11-30".to_owned(),
            link: "?m=kimi-k2.6".to_owned(),
        },
    }
}

fn text(format: Format) -> String {
    let text = export().text(format, &Theme::light()).unwrap();
    assert_eq!(text, export().text(format, &Theme::light()).unwrap(), "equal input gives equal bytes");
    text
}

#[test]
fn files_are_known_by_their_endings() {
    for (name, format) in [
        ("a.svg", Some(Format::Svg)),
        ("a.b.VL.json", Some(Format::VegaLite)),
        ("avl.json", Some(Format::Json)),
        ("a.json", Some(Format::Json)),
        ("json", None),
        ("a.txt", None),
    ] {
        assert_eq!(Format::of_file(name), format, "{name}");
    }
}

/// 61 layers of 576 values in BF16 are 70,272 B a token, 7,027,200,000 B at 100,000 tokens.
#[test]
fn rows_have_every_digit() {
    let csv = text(Format::Csv);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("model,accounting,context_tokens,state_bytes"));
    assert!(csv.lines().any(|line| line == "Kimi-K2.6,logical,100000,7027200000"), "{csv}");
    let document: Value = serde_json::from_str(&text(Format::Json)).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), lines.count(), "as many as in CSV");
    assert!(rows.iter().any(|row| row["model"] == "Kimi-K2.6"
        && row["context_tokens"] == 100_000
        && row["state_bytes"] == 7_027_200_000_u64));
    assert_eq!(document["inputs"]["context"], "100,000");
    assert_eq!((&document["day"], &document["link"]), (&"2026-11-30".into(), &"?m=kimi-k2.6".into()));
    assert_eq!(document["columns"][3]["title"], "state (bytes)");
}

#[test]
fn reserved_rows_stand_apart_from_logical_ones() {
    let contexts = contexts();
    let growth = of(&reserved(&contexts), &contexts, Size::new(900.0, 420.0), UnitSystem::Decimal);
    let csv = Export { data: growth.data(), ..export() }.text(Format::Csv, &Theme::light()).unwrap();
    // 64 blocks of 1,568 tokens hold 100,352 tokens of 70,272 B.
    assert!(csv.contains("Kimi-K2.6,logical,100000,7027200000\n"));
    assert!(csv.contains("Kimi-K2.6,reserved,100000,7051935744\n"), "{csv}");
}

#[test]
fn every_format_says_what_was_asked_and_where_it_comes_from() {
    for (ending, format) in Format::ALL {
        if matches!(format, Format::Png | Format::Pdf | Format::Csv) {
            continue;
        }
        let text = text(format);
        for said in ["MiniMax-M2.7", "100,000", "kvscope 0.1.0", "dtype absent: BF16"] {
            // Typst and LaTeX escape what they would take for themselves.
            let is_said = text.replace('\\', "").contains(said);
            assert!(is_said, "{ending} does not say {said}");
        }
        assert!(text.contains("2026") && text.contains("bytes"), "{ending}");
    }
}

#[test]
fn tables_for_papers_escape_and_line_up() {
    let markdown = text(Format::Markdown);
    let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
    let widths: Vec<usize> = rows.iter().map(|row| row.chars().count()).collect();
    assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{markdown}");
    assert!(rows[1].ends_with("-: |"), "numbers stand to the right: {}", rows[1]);
    assert!(markdown.contains("a\\_b, c\\|d"), "{markdown}");
    assert!(markdown.contains("7,027,200,000"), "{markdown}");

    let latex = text(Format::Latex);
    assert!(latex.contains("25.4 GB \\& Kimi-K2.6 7.03 GB, 100 \\% by hand"), "{latex}");
    assert!(latex.contains("(100000,7027200000)") && latex.contains("\\addlegendentry{Kimi-K2.6}"));
    let count = |part: &str| latex.matches(part).count();
    assert_eq!(count("\\begin{"), count("\\end{"));

    let typst = text(Format::Typst);
    assert!(typst.contains("[7,027,200,000]") && typst.contains("Kimi\\-K2.6"), "{typst}");
}

#[test]
fn a_specification_draws_what_the_figure_draws() {
    let document: Value = serde_json::from_str(&text(Format::VegaLite)).unwrap();
    assert_eq!(document["encoding"]["x"]["scale"]["type"], "log");
    for channel in ["x", "y", "color", "strokeDash"] {
        let field = document["encoding"][channel]["field"].as_str().unwrap();
        assert!(document["data"]["values"][0].get(field).is_some(), "{channel} asks for {field}");
    }
}

#[test]
fn a_drawing_holds_its_inputs_for_programs() {
    let drawing = text(Format::Svg);
    let begin = drawing.find("<metadata>").unwrap() + "<metadata>".len();
    let end = drawing.find("</metadata>").unwrap();
    let inputs: Value =
        serde_json::from_str(&drawing[begin..end].replace("&quot;", "\"").replace("&amp;", "&")).unwrap();
    assert_eq!(inputs["inputs"]["models"], "a_b, c|d");
    assert!(inputs.get("rows").is_none());
}

#[cfg(feature = "files")]
mod files {
    use super::*;

    /// The scene is 900 pixels wide with 24 on each side; a picture has two for each.
    #[test]
    fn a_picture_has_two_pixels_for_each() {
        let png = export().png(&Theme::light()).unwrap();
        assert_eq!(&png[1..4], b"PNG");
        // Width and height are the first two numbers of the header chunk.
        let number = |place: usize| u32::from_be_bytes(png[place..place + 4].try_into().unwrap());
        let height = export().whole_scene().size.height;
        assert_eq!((number(16), f64::from(number(20))), (2 * 948, (2.0 * height).ceil()));
    }

    #[test]
    fn outlines_have_no_text_and_a_page_has_its_fonts() {
        let drawing = export().outlines(&Theme::light()).unwrap();
        let texts = export().whole_scene().texts().len();
        assert!(!drawing.contains("<text") && drawing.matches("<path").count() >= texts, "{texts} texts");
        let pdf = export().pdf(&Theme::light()).unwrap();
        assert!(pdf.starts_with(b"%PDF-"));
        assert_eq!(pdf, export().pdf(&Theme::light()).unwrap(), "equal input gives equal bytes");
        let has = |what: &[u8]| pdf.windows(what.len()).any(|part| part == what);
        assert!(has(b"/Font"), "text stays text");
    }

    #[test]
    fn characters_that_the_font_lacks_are_told() {
        let export = Export { title: "上下文 of Kimi".to_owned(), ..export() };
        assert_eq!(export.missing_characters(), ['上', '下', '文']);
    }
}
