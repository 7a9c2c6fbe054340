//! What a redraw costs without a screen: 40 curves of 500 points, laid out and painted to a backend that counts.

use std::convert::Infallible;

use divan::{Bencher, black_box};
use kvscope_charts::figures::{GrowthInput, GrowthScale, Provenance, Series, sample_contexts};
use kvscope_charts::paint::{drawing, svg};
use kvscope_charts::palette::assign_colours;
use kvscope_charts::{Growth, Size, Theme};
use kvscope_sizing::{ByteKind, Bytes, Tokens, UnitSystem};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

const DOMAIN: (Tokens, Tokens) = (Tokens::new(1 << 10), Tokens::new(1 << 20));

fn main() {
    divan::main();
}

struct Counter {
    coordinates: u64,
}

impl Counter {
    fn count(&mut self, points: impl IntoIterator<Item = BackendCoord>) {
        for (x, y) in points {
            self.coordinates += u64::from(black_box(x).unsigned_abs() + black_box(y).unsigned_abs());
        }
    }
}

impl DrawingBackend for Counter {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (900 * drawing::SUBPIXELS, 420 * drawing::SUBPIXELS)
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, _: BackendColor) -> Result<(), DrawingErrorKind<Infallible>> {
        self.count([at]);
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        _: &S,
        _: bool,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        self.count([from, to]);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        _: &S,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        self.count(path);
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        _: u32,
        _: &S,
        _: bool,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        self.count([centre]);
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        _: &S,
        at: BackendCoord,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        black_box(text);
        self.count([at]);
        Ok(())
    }
}

fn data() -> (Vec<Tokens>, Vec<Series>) {
    let contexts: Vec<Tokens> = sample_contexts(DOMAIN, 600, &[]).into_iter().take(500).collect();
    let families: Vec<String> = (0..40).map(|index| format!("family {}", index % 13)).collect();
    let colours = assign_colours(&families.iter().map(String::as_str).collect::<Vec<_>>());
    let series = (0_u64..40)
        .zip(colours)
        .map(|(index, colour)| Series {
            id: format!("model-{index}"),
            name: format!("Model-{index}"),
            colour,
            provenance: Provenance::Computed,
            values: contexts.iter().map(|n| Bytes::new(n.get() * (4096 + 6000 * index))).collect(),
            ..Series::default()
        })
        .collect();
    (contexts, series)
}

fn layout(contexts: &[Tokens], series: &[Series]) -> Growth {
    Growth::layout(&GrowthInput {
        contexts,
        series,
        domain: DOMAIN,
        scale: GrowthScale::Log,
        units: UnitSystem::Decimal,
        bytes: ByteKind::Resident,
        size: Size::new(900.0, 420.0),
        measured: &[],
        limits: &[],
        ranks: None,
    })
    .expect("the bench's figure is possible")
}

#[divan::bench]
fn redraw(bencher: Bencher) {
    let (contexts, series) = data();
    let theme = Theme::light();
    bencher.bench(|| {
        let growth = layout(&contexts, &series);
        let mut counter = Counter { coordinates: 0 };
        drawing::paint(growth.scene(), &theme, &mut counter).expect("counting cannot fail");
        counter.coordinates
    });
}

#[divan::bench]
fn cursor_move(bencher: Bencher) {
    let (contexts, series) = data();
    let theme = Theme::light();
    let growth = layout(&contexts, &series);
    let cursor = growth.cursor_at(contexts[300]);
    bencher.bench(|| {
        let mut counter = Counter { coordinates: 0 };
        drawing::paint(&growth.overlay(black_box(&cursor)), &theme, &mut counter)
            .expect("counting cannot fail");
        counter.coordinates
    });
}

#[divan::bench]
fn svg_file(bencher: Bencher) {
    let (contexts, series) = data();
    let theme = Theme::light();
    let growth = layout(&contexts, &series);
    bencher.bench(|| svg::svg(black_box(growth.scene()), &theme, ""));
}
