//! What every layout must hold to, at every width: no two texts overlap, none leaves the figure.

mod common;

use common::{CURSOR, DOMAIN};
use kvscope_charts::figures::{
    Cursor, FigureError, GrowthInput, GrowthScale, LayersInput, Limit, Provenance, Series, sample_contexts,
};
use kvscope_charts::palette::SeriesColour;
use kvscope_charts::scene::Node;
use kvscope_charts::{Growth, Layers, Point, Scene, Size};
use kvscope_sizing::{ByteKind, Bytes, Tokens, UnitSystem};

const WIDTHS: [f64; 7] = [320.0, 360.0, 480.0, 600.0, 744.0, 900.0, 1800.0];

fn assert_texts_are_apart(scene: &Scene, what: &str) {
    let texts = scene.texts();
    for (index, first) in texts.iter().enumerate() {
        let bounds = first.bounds();
        assert!(
            bounds.left >= -0.5 && bounds.right <= scene.size.width + 0.5,
            "{what}: {:?} leaves the figure: {bounds:?}",
            first.text
        );
        assert!(
            bounds.top >= -0.5 && bounds.bottom <= scene.size.height + 1.0,
            "{what}: {:?} {bounds:?}",
            first.text
        );
        for second in &texts[..index] {
            assert!(
                !bounds.overlaps(second.bounds()),
                "{what}: {:?} overlaps {:?}: {bounds:?} {:?}",
                first.text,
                second.text,
                second.bounds()
            );
        }
    }
}

fn with_cursor(growth: &Growth, context: Tokens) -> Scene {
    growth.scene().clone().with(growth.overlay(&growth.cursor_at(context)))
}

fn crowded(count: u64, size: Size) -> Growth {
    let contexts = sample_contexts(DOMAIN, 500, &[CURSOR]);
    Growth::layout(&GrowthInput {
        contexts: &contexts,
        series: &common::crowd(count, &contexts),
        domain: DOMAIN,
        scale: GrowthScale::Log,
        units: UnitSystem::Binary,
        bytes: ByteKind::Resident,
        size,
        measured: &[],
        limits: &common::limits(),
        ranks: None,
    })
    .expect("the test's figure is possible")
}

#[test]
fn growth_texts_never_overlap() {
    for width in WIDTHS {
        for scale in [GrowthScale::Log, GrowthScale::Linear, GrowthScale::TimesFirst] {
            for units in [UnitSystem::Decimal, UnitSystem::Binary] {
                let growth = common::growth(Size::new(width, 380.0), scale, units);
                for context in [1024, 1_048_576, 100_000] {
                    let scene = with_cursor(&growth, Tokens::new(context));
                    assert_texts_are_apart(&scene, &format!("{width} {scale:?} {units:?} at {context}"));
                }
            }
        }
    }
}

/// 253,952 B a token of MiniMax-M2.7 fill 60 GB at 236,265 tokens; close to it two more, and one beyond the axis.
#[test]
fn contexts_at_a_level_are_written_apart() {
    let contexts = common::contexts();
    let crossings = [236_265, 236_300, 600_000, 3_000_000];
    let [colour, ..] = common::colours()[..] else { panic!("there are colours") };
    let limit = Limit {
        bytes: Bytes::new(60_000_000_000),
        label: "60 GB".to_owned(),
        colour: None,
        crossings: crossings.map(|n| (colour, Tokens::new(n))).to_vec(),
    };
    for width in WIDTHS {
        let growth = Growth::layout(&GrowthInput {
            contexts: &contexts,
            series: &common::series(&contexts),
            domain: DOMAIN,
            scale: GrowthScale::Log,
            units: UnitSystem::Decimal,
            bytes: ByteKind::Resident,
            size: Size::new(width, 380.0),
            measured: &[],
            limits: std::slice::from_ref(&limit),
            ranks: None,
        })
        .expect("the test's figure is possible");
        assert_texts_are_apart(growth.scene(), &format!("{width}"));
        let texts: Vec<String> = growth.scene().texts().into_iter().map(|text| text.text.clone()).collect();
        let written = |words: &str| texts.iter().any(|text| text == words);
        assert!(written("236,265"), "{width}: {texts:?}");
        assert!(!written("3,000,000"), "{width}: {texts:?}");
        if width >= 900.0 {
            assert!(written("236,300") && written("600,000"), "{width}: {texts:?}");
        }
    }
}

#[test]
fn reserved_values_and_allowed_contexts_have_room() {
    let contexts = common::contexts();
    for width in WIDTHS {
        for units in [UnitSystem::Decimal, UnitSystem::Binary] {
            let growth = common::of(&common::reserved(&contexts), &contexts, Size::new(width, 380.0), units);
            for context in [1024, 1_048_576, 100_000] {
                let scene = with_cursor(&growth, Tokens::new(context));
                assert_texts_are_apart(&scene, &format!("{width} {units:?} at {context}"));
                let said = |word: &str| scene.texts().iter().any(|text| text.text.contains(word));
                assert!(said("reserved") && said("logical") && said("beyond what the config allows"));
            }
        }
    }
}

/// Heads, names, sentences and the table all say that figures are of one rank; a model that the engine refuses says so in
/// both columns.
#[test]
fn figures_of_one_rank_say_so_everywhere() {
    let contexts = common::contexts();
    let mut series = common::reserved(&contexts);
    series[1].reserved.clear();
    series[2].values.clear();
    for width in WIDTHS {
        let growth =
            common::on_ranks(Some(8), &series, &contexts, Size::new(width, 380.0), UnitSystem::Decimal);
        for context in [1024, 1_048_576, 100_000] {
            let scene = with_cursor(&growth, Tokens::new(context));
            assert_texts_are_apart(&scene, &format!("{width} at {context}"));
            let said = |word: &str| scene.texts().iter().any(|text| text.text.contains(word));
            assert!(said("one rank of 8") && said("refused"), "{width}");
        }
        assert!(growth.scene().description.starts_with("State of 6 models on one rank of 8 from"));
    }
    let growth = common::on_ranks(Some(8), &series, &contexts, Size::new(900.0, 380.0), UnitSystem::Decimal);
    let spoken = growth.overlay(&growth.cursor_at(CURSOR)).description;
    assert!(
        spoken.starts_with("At 100,000 tokens on one rank of 8: MiniMax-M2.7 25.4 GB, reserved"),
        "{spoken}"
    );
    assert!(spoken.contains("GLM-5.1 10.0 GB, refused;"), "{spoken}");
    let table = growth.table(None);
    assert_eq!(table.head[1], "MiniMax-M2.7, one rank of 8 (bytes)");
    assert_eq!(table.head[4], "GLM-5.1 reserved, one rank of 8 (bytes)");
    assert_eq!((table.rows[0][5].as_str(), table.rows[0][4].as_str()), ("no equal share", "refused"));
}

/// A model that ranks cannot share and the engine refuses has no line: its name stands in the legend, and no note speaks
/// of its line.
#[test]
fn a_refused_model_keeps_its_name() {
    let contexts = common::contexts();
    let mut series = common::reserved(&contexts);
    let last = series.len() - 1;
    let refused = Series {
        name: "Refused-1".to_owned(),
        values: Vec::new(),
        reserved: Vec::new(),
        allowed: Some(Tokens::new(16_384)),
        ..series[last].clone()
    };
    series[last] = refused;
    for width in WIDTHS {
        let growth =
            common::on_ranks(Some(8), &series, &contexts, Size::new(width, 380.0), UnitSystem::Decimal);
        let scene = with_cursor(&growth, CURSOR);
        assert_texts_are_apart(&scene, &format!("{width}"));
        let said = |word: &str| scene.texts().iter().filter(|text| text.text.contains(word)).count();
        assert_eq!((said("Refused-1"), said("refused"), said("16Ki for")), (1, 1, 0), "{width}");
    }
}

/// Logical and reserved bytes of a model stand together, and the context that is set has a row of its own: 99,991 tokens
/// of MiniMax-M2.7 are 253,952 B each.
#[test]
fn the_table_has_a_row_for_the_context_that_is_set() {
    let contexts = common::contexts();
    let growth =
        common::of(&common::reserved(&contexts), &contexts, Size::new(900.0, 380.0), UnitSystem::Decimal);
    let set = Tokens::new(99_991);
    let bytes = Bytes::new(99_991 * 253_952);
    let cursor = Cursor { context: set, values: vec![Some(bytes)], reserved: Vec::new(), emphasis: None };
    let table = growth.table(Some(&cursor));
    assert_eq!(table.head[1..3], ["MiniMax-M2.7 (bytes)", "MiniMax-M2.7 reserved (bytes)"]);
    let place = table.rows.iter().position(|row| row[0] == "99,991 (set)").expect("a row of its own");
    assert_eq!(table.rows[place][1], "25,392,914,432");
    assert_eq!((table.rows[place - 1][0].as_str(), table.rows[place + 1][0].as_str()), ("65,536", "131,072"));
    let power = growth.cursor_at(Tokens::new(65_536));
    let rows = growth.table(Some(&power)).rows;
    assert_eq!(rows.iter().filter(|row| row[0].starts_with("65,536")).count(), 1);
}

#[test]
fn a_figure_without_values_says_so() {
    let contexts = common::contexts();
    let growth = common::on_ranks(None, &[], &contexts, Size::new(900.0, 380.0), UnitSystem::Decimal);
    let spoken = growth.overlay(&growth.cursor_at(CURSOR)).description;
    assert_eq!(spoken, "At 100,000 tokens no model has a figure.");
    assert_texts_are_apart(&with_cursor(&growth, CURSOR), "no model");
}

#[test]
fn heads_stand_clear_of_the_first_row_of_many_names() {
    let contexts = common::contexts();
    let series: Vec<Series> = common::crowd(12, &contexts)
        .into_iter()
        .map(|series| Series { reserved: series.values.clone(), ..series })
        .collect();
    let growth = common::of(&series, &contexts, Size::new(900.0, 460.0), UnitSystem::Decimal);
    let scene = with_cursor(&growth, CURSOR);
    let texts = scene.texts();
    let head = texts.iter().find(|text| text.text == "reserved").expect("there are heads").bounds();
    let names = texts.iter().filter(|text| text.text.starts_with("Model-"));
    let first = names.map(|text| text.bounds().top).fold(f64::INFINITY, f64::min);
    assert!(first - head.bottom >= 4.0, "{first} under {head:?}");
}

/// At 1024 tokens one block of 1568 is reserved: 1568 × 253,952 B.
#[test]
fn the_pointer_and_the_table_read_reserved_bytes() {
    let contexts = common::contexts();
    let growth =
        common::of(&common::reserved(&contexts), &contexts, Size::new(900.0, 380.0), UnitSystem::Decimal);
    let cursor = growth.cursor_at(Tokens::new(1024));
    assert_eq!(cursor.reserved[0], Some(Bytes::new(1568 * 253_952)));
    let sentence = growth.overlay(&cursor).description;
    assert!(sentence.contains("MiniMax-M2.7 260 MB, reserved 398 MB"), "{sentence}");
    let table = growth.table(None);
    assert_eq!(table.head[2], "MiniMax-M2.7 reserved (bytes)");
    assert_eq!(table.rows[0][2], "398,196,736");
    let plot = growth.plot();
    let hit = growth.hit(Point::new(plot.left, plot.top + 60.0)).unwrap();
    assert_eq!(hit.readings[0].reserved, Some(Bytes::new(1568 * 253_952)));
}

/// Up to 204,800 tokens the line is whole, beyond it is thin.
#[test]
fn a_line_is_thin_beyond_what_its_config_allows() {
    let contexts = sample_contexts(DOMAIN, 100, &[Tokens::new(204_800)]);
    let series = Series { reserved: Vec::new(), ..common::reserved(&contexts).swap_remove(0) };
    let growth = common::of(&[series], &contexts, Size::new(900.0, 380.0), UnitSystem::Decimal);
    let Some(Node::Group(group)) = growth
        .scene()
        .nodes
        .iter()
        .find(|node| matches!(node, Node::Group(group) if group.id == "series-minimax-m2.7"))
    else {
        panic!("the line has a group")
    };
    let lines: Vec<(f64, f64, f64)> = group
        .nodes
        .iter()
        .filter_map(|node| match node {
            Node::Polyline { points, stroke } => {
                Some((points[0].x, points[points.len() - 1].x, stroke.width))
            }
            _ => None,
        })
        .collect();
    let plot = growth.plot();
    let end = plot.left + plot.width() * (204_800_f64 / 1024.0).log2() / 10.0;
    assert_eq!(lines.len(), 2);
    assert!((lines[0].1 - end).abs() < 0.1 && (lines[1].0 - end).abs() < 0.1, "{lines:?}, {end}");
    assert!(lines[1].1 > plot.right - 0.1 && lines[1].2 < 0.5 * lines[0].2, "{lines:?}");
}

#[test]
fn crowded_growth_drops_labels_instead_of_piling_them_up() {
    for width in WIDTHS {
        for count in [1, 2, 12, 24, 40, 60] {
            let scene = with_cursor(&crowded(count, Size::new(width, 420.0)), CURSOR);
            assert_texts_are_apart(&scene, &format!("{width}, {count} models"));
        }
    }
    let scene = crowded(60, Size::new(900.0, 420.0)).scene().clone();
    let named = scene.texts().iter().filter(|text| text.text.starts_with("Model-")).count();
    let more = format!("and {} more", 60 - named);
    assert!(scene.texts().iter().any(|text| text.text == more), "{named} named, no {more:?}");
}

#[test]
fn narrow_zooms_keep_their_ticks() {
    for (low, high) in [(100_000, 101_000), (1, 2), (1000, 1_000_000), (1 << 20, 1 << 21), (1, 1 << 40)] {
        let domain = (Tokens::new(low), Tokens::new(high));
        let contexts = sample_contexts(domain, 100, &[]);
        for width in WIDTHS {
            let growth = Growth::layout(&GrowthInput {
                contexts: &contexts,
                series: &common::series(&contexts),
                domain,
                scale: GrowthScale::Log,
                units: UnitSystem::Decimal,
                bytes: ByteKind::Resident,
                size: Size::new(width, 300.0),
                measured: &[],
                limits: &[],
                ranks: None,
            })
            .unwrap();
            assert_texts_are_apart(
                &with_cursor(&growth, Tokens::new(high)),
                &format!("{low} to {high} at {width}"),
            );
        }
    }
}

#[test]
fn layers_fit_126_layers_at_360_pixels() {
    for width in WIDTHS {
        let mut strips = common::strips(CURSOR);
        let layer = strips[0].layers[0].clone();
        strips[0].layers = vec![layer; 126];
        let input =
            LayersInput { strips: &strips, context: CURSOR, reach: None, units: UnitSystem::Binary, width };
        let layers = Layers::layout(&input).unwrap();
        assert_texts_are_apart(layers.scene(), &format!("layers at {width}"));
        let hits = (0..10_000).filter_map(|step| {
            let x = f64::from(step) * width / 10_000.0;
            (0..200).find_map(|row| layers.hit(Point::new(x, f64::from(row)))).filter(|hit| hit.strip == 0)
        });
        let mut found: Vec<usize> = hits.map(|hit| hit.layer).collect();
        found.dedup();
        assert_eq!(found, (0..126).collect::<Vec<_>>(), "every layer can be pointed at, at {width}");
    }
}

#[test]
fn a_hit_reads_every_curve_largest_first() {
    let growth = common::growth(Size::new(900.0, 420.0), GrowthScale::Log, UnitSystem::Decimal);
    let plot = growth.plot();
    // 100,000 lies log2(100,000 / 1,024) / 10 = 0.66096 of the way.
    let x = plot.left + 0.660_96 * plot.width();
    let hit = growth.hit(Point::new(x, plot.top + 5.0)).unwrap();
    assert_eq!(hit.context, CURSOR);
    let bytes: Vec<u64> = hit.readings.iter().map(|reading| reading.bytes.get()).collect();
    // The project's checked totals; DeepSeek-V4-Pro: 100,000 × 80,503 / 16 + 23,270,400.
    assert_eq!(
        bytes,
        [25_395_200_000, 10_015_200_000, 7_832_400_000, 7_027_200_000, 3_264_061_440, 526_414_150]
    );
    assert_eq!(growth.hit(Point::new(plot.left - 2.0, plot.top + 5.0)), None);
    assert_eq!(growth.context_at(plot.left - 50.0), DOMAIN.0);
    assert_eq!(growth.context_at(plot.right + 50.0), DOMAIN.1);
}

#[test]
fn a_series_that_ends_early_has_no_value_beyond_its_end() {
    let contexts: Vec<Tokens> = [1024, 2048, 4096].map(Tokens::new).to_vec();
    let short = |values: Vec<u64>| Series {
        id: "short".into(),
        name: "Short".into(),
        colour: SeriesColour::default(),
        provenance: Provenance::Computed,
        values: values.into_iter().map(Bytes::new).collect(),
        ..Series::default()
    };
    let layout = |series: Series| {
        Growth::layout(&GrowthInput {
            contexts: &contexts,
            series: &[series],
            domain: (Tokens::new(1024), Tokens::new(4096)),
            scale: GrowthScale::Log,
            units: UnitSystem::Decimal,
            bytes: ByteKind::Resident,
            size: Size::new(900.0, 300.0),
            measured: &[],
            limits: &[],
            ranks: None,
        })
    };
    let growth = layout(short(vec![1000, 2000])).unwrap();
    assert_eq!(growth.cursor_at(Tokens::new(2048)).values, [Some(Bytes::new(2000))]);
    assert_eq!(growth.cursor_at(Tokens::new(4096)).values, [None]);
    assert_eq!(growth.cursor_at(Tokens::new(3000)).values, [None], "no guess between samples");
    assert_eq!(growth.table(None).rows[2], ["4,096", ""]);
    // Nothing at all on a logarithmic axis: no line, no panic.
    assert!(layout(short(vec![0, 0, 0])).is_ok());
    let error = layout(short(vec![1, 2, 3, 4])).unwrap_err();
    assert_eq!(error.to_string(), "series \"Short\" has 4 values for 3 contexts");
}

#[test]
fn impossible_figures_are_refused() {
    let contexts = [Tokens::new(5), Tokens::new(5)];
    let layout = |contexts: &[Tokens], domain: (u64, u64), width: f64| {
        Growth::layout(&GrowthInput {
            contexts,
            series: &[],
            domain: (Tokens::new(domain.0), Tokens::new(domain.1)),
            scale: GrowthScale::Log,
            units: UnitSystem::Decimal,
            bytes: ByteKind::Resident,
            size: Size::new(width, 300.0),
            measured: &[],
            limits: &[],
            ranks: None,
        })
        .map(|_| ())
    };
    assert_eq!(layout(&[], (1, 100), 900.0), Ok(()));
    assert_eq!(layout(&contexts, (1, 100), 900.0), Err(FigureError::Contexts(1)));
    assert_eq!(layout(&[], (0, 100), 900.0), Err(FigureError::Domain(Tokens::new(0), Tokens::new(100))));
    assert_eq!(layout(&[], (100, 100), 900.0), Err(FigureError::Domain(Tokens::new(100), Tokens::new(100))));
    assert!(matches!(layout(&[], (1, 100), 100.0), Err(FigureError::Size { .. })));
    assert!(matches!(layout(&[], (1, 100), f64::NAN), Err(FigureError::Size { .. })));
}
