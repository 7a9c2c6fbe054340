//! Figures as SVG, compared byte for byte with files under `tests/golden`. With `KVSCOPE_UPDATE_GOLDEN=1` the files are
//! written instead; look at them before committing.

mod common;

use std::path::PathBuf;
use std::{env, fs};

use common::{CURSOR, DOMAIN, MODELS};
use kvscope_charts::figures::{
    GrowthInput, GrowthScale, LatencyInput, LatencySeries, LayersInput, MeasuredSeconds, Provenance,
    ResidualPoint, ResidualSeries, ResidualsInput, Standing, sample_contexts,
};
use kvscope_charts::headline::{HeadlineInput, headline};
use kvscope_charts::paint::svg::svg;
use kvscope_charts::{Growth, Heading, Latency, Layers, Residuals, Scene, Size, Theme, titled};
use kvscope_sizing::{ByteKind, Bytes, Tokens, UnitSystem};

fn compare(name: &str, scene: &Scene, theme: &Theme) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.svg"));
    let drawn = svg(scene, theme, "");
    assert_eq!(drawn, svg(scene, theme, ""), "equal input gives an equal file");
    if env::var_os("KVSCOPE_UPDATE_GOLDEN").is_some() {
        fs::write(&path, drawn).expect("the golden file can be written");
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept.replace('\r', "") == drawn,
        "{name}.svg differs from tests/golden; if the change is wanted, run with KVSCOPE_UPDATE_GOLDEN=1 and look at it"
    );
}

fn growth(width: f64, height: f64, scale: GrowthScale, units: UnitSystem) -> Scene {
    let growth = common::growth(Size::new(width, height), scale, units);
    let overlay = growth.overlay(&growth.cursor_at(CURSOR));
    growth.scene().clone().with(overlay)
}

fn layers(width: f64) -> Scene {
    let input = LayersInput {
        strips: &common::strips(CURSOR),
        context: CURSOR,
        reach: None,
        units: UnitSystem::Decimal,
        width,
    };
    Layers::layout(&input).expect("a possible figure").scene().clone()
}

fn contexts_measured() -> [Tokens; 4] {
    [4096, 16_384, 65_536, 262_144].map(Tokens::new)
}

fn latency(width: f64) -> Latency {
    let contexts = common::contexts();
    let colours = common::colours();
    // 20 µs to launch, then bytes at 40 GB/s: what a memory-bound step takes.
    let seconds = |n: Tokens, slope: u64| 20e-6 + (n.get() * slope) as f64 / 40e9;
    let line = |index: usize| LatencySeries {
        id: MODELS[index].0.to_lowercase(),
        name: MODELS[index].0.to_owned(),
        colour: colours[index],
        provenance: Provenance::Computed,
        seconds: contexts.iter().map(|n| seconds(*n, MODELS[index].2)).collect(),
    };
    let points = |index: usize, factor: f64| {
        contexts_measured().map(|context| {
            let median = factor * seconds(context, MODELS[index].2);
            MeasuredSeconds {
                name: MODELS[index].0.to_owned(),
                colour: colours[index],
                context,
                median,
                p05: 0.9 * median,
                p95: 1.4 * median,
                standing: standing(context),
            }
        })
    };
    let measured: Vec<_> = points(0, 1.06).into_iter().chain(points(3, 0.97)).collect();
    Latency::layout(&LatencyInput {
        contexts: &contexts,
        series: &[line(0), line(3)],
        measured: &measured,
        domain: DOMAIN,
        size: Size::new(width, 320.0),
    })
    .expect("the test's figure is possible")
}

/// The second point is unsteady.
fn standing(context: Tokens) -> Standing {
    if context == contexts_measured()[1] { Standing::LeftOut } else { Standing::Steady }
}

fn residuals(width: f64, align: Option<(f64, f64)>) -> Scene {
    let colours = common::colours();
    let series =
        [(0, 1.06, "median error -6 %"), (3, 0.97, "median error +3 %")].map(|(index, factor, note)| {
            ResidualSeries {
                id: MODELS[index].0.to_lowercase(),
                name: MODELS[index].0.to_owned(),
                note: note.to_owned(),
                colour: colours[index],
                points: contexts_measured()
                    .map(|context| ResidualPoint {
                        context,
                        ratio: factor,
                        low: 0.96 * factor,
                        high: 1.05 * factor,
                        standing: standing(context),
                    })
                    .to_vec(),
            }
        });
    let input = ResidualsInput { series: &series, domain: DOMAIN, size: Size::new(width, 130.0), align };
    Residuals::layout(&input).expect("a possible figure").scene().clone()
}

#[test]
fn growth_light() {
    compare(
        "growth-900-light",
        &growth(900.0, 420.0, GrowthScale::Log, UnitSystem::Decimal),
        &Theme::light(),
    );
}

#[test]
fn growth_dark() {
    compare("growth-900-dark", &growth(900.0, 420.0, GrowthScale::Log, UnitSystem::Decimal), &Theme::dark());
}

#[test]
fn growth_narrow() {
    compare(
        "growth-360-light",
        &growth(360.0, 300.0, GrowthScale::Log, UnitSystem::Decimal),
        &Theme::light(),
    );
}

#[test]
fn growth_wide() {
    compare(
        "growth-1800-light",
        &growth(1800.0, 620.0, GrowthScale::Log, UnitSystem::Binary),
        &Theme::light(),
    );
}

#[test]
fn growth_linear() {
    compare(
        "growth-linear",
        &growth(900.0, 420.0, GrowthScale::Linear, UnitSystem::Decimal),
        &Theme::light(),
    );
}

#[test]
fn growth_times_first() {
    compare(
        "growth-times-first",
        &growth(900.0, 420.0, GrowthScale::TimesFirst, UnitSystem::Decimal),
        &Theme::light(),
    );
}

#[test]
fn growth_as_an_export() {
    let growth = growth(900.0, 420.0, GrowthScale::Log, UnitSystem::Decimal);
    let values = MODELS.map(|(name, _, numerator, denominator, fixed)| {
        (name, Bytes::new(CURSOR.get() * numerator / denominator + fixed))
    });
    let sentence = headline(&HeadlineInput {
        context: CURSOR,
        batch: 1,
        units: UnitSystem::Decimal,
        bytes: ByteKind::Resident,
        values: &values,
        reserved: None,
    });
    let heading = Heading {
        headline: sentence,
        note: "Resident state of one request · BF16 · logical bytes · line: computed from config.json · \
               ○ measured on this machine"
            .to_owned(),
        footer: "kvscope 0.1.0".to_owned(),
    };
    compare("growth-export", &titled(growth, &heading), &Theme::light());
}

#[test]
fn growth_crowded() {
    let contexts = sample_contexts(DOMAIN, 40, &[CURSOR]);
    let growth = Growth::layout(&GrowthInput {
        contexts: &contexts,
        series: &common::crowd(40, &contexts),
        domain: DOMAIN,
        scale: GrowthScale::Log,
        units: UnitSystem::Decimal,
        bytes: ByteKind::Resident,
        size: Size::new(900.0, 420.0),
        measured: &[],
        limits: &[],
        ranks: None,
    })
    .expect("a possible figure");
    let mut cursor = growth.cursor_at(CURSOR);
    cursor.emphasis = Some(7);
    compare("growth-40-models", &growth.scene().clone().with(growth.overlay(&cursor)), &Theme::light());
}

#[test]
fn growth_reserved() {
    let contexts = common::contexts();
    let series = common::reserved(&contexts);
    let drawn = |width: f64, height: f64| {
        let growth = common::of(&series, &contexts, Size::new(width, height), UnitSystem::Decimal);
        growth.scene().clone().with(growth.overlay(&growth.cursor_at(CURSOR)))
    };
    compare("growth-reserved-900-light", &drawn(900.0, 420.0), &Theme::light());
    compare("growth-reserved-360-dark", &drawn(360.0, 300.0), &Theme::dark());
}

#[test]
fn growth_of_one_family() {
    let contexts = common::contexts();
    let series = common::family(&contexts);
    let drawn = |width: f64| {
        let growth = common::of(&series, &contexts, Size::new(width, 380.0), UnitSystem::Binary);
        growth.scene().clone().with(growth.overlay(&growth.cursor_at(CURSOR)))
    };
    compare("growth-family-900-dark", &drawn(900.0), &Theme::dark());
    compare("growth-family-480-light", &drawn(480.0), &Theme::light());
}

#[test]
fn layers_light() {
    compare("layers-900-light", &layers(900.0), &Theme::light());
}

#[test]
fn layers_dark() {
    compare("layers-900-dark", &layers(900.0), &Theme::dark());
}

#[test]
fn layers_narrow() {
    compare("layers-360-light", &layers(360.0), &Theme::light());
}

#[test]
fn latency_light() {
    let latency = latency(900.0);
    let overlay = latency.overlay(&latency.cursor_at(CURSOR));
    compare("latency-900-light", &latency.scene().clone().with(overlay), &Theme::light());
}

#[test]
fn residuals_dark() {
    let plot = latency(900.0).plot();
    compare("residuals-900-dark", &residuals(900.0, Some((plot.left, plot.right))), &Theme::dark());
}

#[test]
fn residuals_narrow() {
    compare("residuals-360-light", &residuals(360.0, None), &Theme::light());
}
